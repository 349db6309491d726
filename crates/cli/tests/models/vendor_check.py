#!/usr/bin/env python3
"""Drives the stand-ins with the vendors' own client libraries, and compares what the libraries understood.

    vendor_check.py

runs with the Python of an environment that has `requirements.txt` installed. It prints a table of checks and
exits with 1 if one differs.
"""

import sys

sys.dont_write_bytecode = True

import asyncio
import json
import os
import subprocess
import tempfile
import time

import anthropic
import claude_agent_sdk
import openai
import pydantic

HERE = os.path.dirname(os.path.realpath(__file__))
# Seconds after which an answer that does not end is a difference.
PATIENCE = 120.0
CLAUDE_MODEL = "claude-opus-5"
OPENAI_MODEL = "gpt-4o"
THREAD = "Ein Fädchen 🧵 führt — ja — zum Ziel."
ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
CALLS = [{"name": "add", "input": {"a": 1, "b": 2}}, {"name": "add", "input": {"a": 30, "b": 4}}]


class Checks:
    """What was compared: rows of a subject, a name and whether it agreed."""

    def __init__(self):
        self.rows = []

    def same(self, subject, name, got, wanted):
        self.rows.append((subject, name, got == wanted, got, wanted))

    def raises(self, subject, name, kind, action):
        """The error that an action raises, which must be of a class and nothing nearer to its base."""
        try:
            value = action()
        except Exception as error:  # every class is compared
            self.same(subject, f"{name}: {kind.__name__}", type(error).__name__, kind.__name__)
            return error
        self.same(subject, f"{name}: {kind.__name__}", f"no error, but {value!r}"[:200], kind.__name__)
        return None

    def report(self):
        """Prints the table and what differs. True if all agreed."""
        subjects = list(dict.fromkeys(row[0] for row in self.rows))
        print(f"{'subject':44} checks  differ")
        for subject in subjects:
            rows = [row for row in self.rows if row[0] == subject]
            print(f"{subject:44} {len(rows):6}  {sum(not row[2] for row in rows):6}")
        for subject, name, agreed, got, wanted in self.rows:
            if not agreed:
                print(f"\nDIFFERS  {subject}: {name}\n    got     {got!r}\n    wanted  {wanted!r}")
        wrong = sum(not row[2] for row in self.rows)
        print(f"\n{len(self.rows)} checks, {wrong} differ")
        return wrong == 0


class ModelServer:
    """A server with a script, for the length of a `with`."""

    def __init__(self, rules, **settings):
        self.script = {"rules": rules, **settings}

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.log = os.path.join(self.folder.name, "log")
        script = os.path.join(self.folder.name, "rules.json")
        with open(script, "w", encoding="utf-8") as file:
            json.dump(self.script, file)
        command = [sys.executable, os.path.join(HERE, "model_server.py"), script, self.log]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def requests(self):
        with open(self.log, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def claude(self, retries=0, **options):
        options = {"api_key": "sk-ant-test", "timeout": PATIENCE, **options}
        return anthropic.Anthropic(
            base_url=self.address, max_retries=retries, _strict_response_validation=True, **options
        )

    def chat(self, retries=0, **options):
        options = {"api_key": "sk-test", "timeout": PATIENCE, **options}
        return openai.OpenAI(
            base_url=f"{self.address}/v1", max_retries=retries, _strict_response_validation=True, **options
        )


def ask(text):
    return [{"role": "user", "content": text}]


def claude_message(client, text="hello", **options):
    options = {"model": CLAUDE_MODEL, "max_tokens": 1000, "messages": ask(text), **options}
    return client.messages.create(**options)


def claude_stream(client, text="hello", **options):
    options = {"model": CLAUDE_MODEL, "max_tokens": 1000, "messages": ask(text), **options}
    with client.messages.stream(**options) as stream:
        written = "".join(stream.text_stream)
        return written, stream.get_final_message()


def chat_completion(client, text="hello", **options):
    return client.chat.completions.create(**{"model": OPENAI_MODEL, "messages": ask(text), **options})


def chat_stream(client, text="hello", **options):
    options = {
        "model": OPENAI_MODEL,
        "messages": ask(text),
        "stream_options": {"include_usage": True},
        **options,
    }
    written = ""
    with client.chat.completions.stream(**options) as stream:
        for event in stream:
            if event.type == "content.delta":
                written += event.delta
        return written, stream.get_final_completion()


class Verdict(pydantic.BaseModel):
    """A typed answer, as both libraries parse it."""

    score: int
    tags: list[str]


VERDICT = '{"score":7,"tags":["a","ä"]}'

# ---- Anthropic -----------------------------------------------------------------------------------------


def anthropic_answers(checks):
    subject = "anthropic: answers"
    usage = {"input": 11, "output": 7, "cache_read": 5, "cache_write": 3}
    with ModelServer([{"answer": {"text": THREAD, "usage": usage}}]) as server:
        client = server.claude()
        message = claude_message(client, system="Be brief.")
        written, streamed = claude_stream(client, system=[{"type": "text", "text": "Be brief."}])
        checks.same(subject, "plain text", message.content[0].text, THREAD)
        checks.same(subject, "stop reason", message.stop_reason, "end_turn")
        checks.same(subject, "request id", message._request_id, "req_" + "1".zfill(24))
        checks.same(subject, "streamed text", written, THREAD)
        checks.same(subject, "accumulated text", streamed.content[0].text, THREAD)
        for name, found in (("plain", message), ("streamed", streamed)):
            counts = (
                found.usage.input_tokens,
                found.usage.output_tokens,
                found.usage.cache_read_input_tokens,
                found.usage.cache_creation_input_tokens,
            )
            checks.same(subject, f"{name} usage", counts, (11, 7, 5, 3))
        raw = list(claude_message(client, stream=True))
        checks.same(
            subject,
            "raw events",
            sorted({event.type for event in raw}),
            [
                "content_block_delta",
                "content_block_start",
                "content_block_stop",
                "message_delta",
                "message_start",
                "message_stop",
            ],
        )
        checks.same(subject, "model is that of the request", streamed.model, CLAUDE_MODEL)
        checks.same(
            subject,
            "key as the library sends it",
            server.requests()[0]["headers"]["authorization"],
            "Bearer sk-ant-test",
        )
    thinking = {
        "thinking": "Let me see: 1 + 2.",
        "text": "3",
        "signature": "c2ln",
        "usage": {"reasoning": 4, "output": 9},
    }
    with ModelServer([{"answer": thinking}]) as server:
        client = server.claude()
        for name, message in (
            ("plain", claude_message(client, thinking={"type": "adaptive"})),
            ("streamed", claude_stream(client, thinking={"type": "adaptive"})[1]),
        ):
            checks.same(
                subject, f"{name} thinking", [block.type for block in message.content], ["thinking", "text"]
            )
            checks.same(
                subject,
                f"{name} thinking text",
                (message.content[0].thinking, message.content[0].signature),
                ("Let me see: 1 + 2.", "c2ln"),
            )
            checks.same(
                subject, f"{name} thinking tokens", message.usage.output_tokens_details.thinking_tokens, 4
            )


def anthropic_stops(checks):
    subject = "anthropic: stop reasons and refusals"
    for stop, answer in (
        ("max_tokens", {"text": "cut o", "stop": "max_tokens"}),
        ("stop_sequence", {"text": "a", "stop_sequence": "END"}),
        ("refusal", {"text": "I can", "refusal": "Not this.", "refusal_category": "cyber"}),
        ("pause_turn", {"text": "a", "stop": "pause_turn"}),
        ("refusal", {"refusal": "Nothing was said."}),
    ):
        with ModelServer([{"answer": answer}]) as server:
            client = server.claude()
            for name, message in (("plain", claude_message(client)), ("streamed", claude_stream(client)[1])):
                checks.same(subject, f"{name} {stop}", message.stop_reason, stop)
                checks.same(
                    subject,
                    f"{name} {stop} text",
                    "".join(block.text for block in message.content),
                    answer.get("text", ""),
                )
                checks.same(
                    subject, f"{name} stop sequence", message.stop_sequence, answer.get("stop_sequence")
                )
                details = message.stop_details
                checks.same(
                    subject,
                    f"{name} details",
                    details and (details.category, details.explanation),
                    (answer.get("refusal_category"), answer["refusal"]) if "refusal" in answer else None,
                )


def anthropic_tools(checks):
    subject = "anthropic: parallel tool calls"
    rules = [
        {"when": {"tool_result": "3"}, "answer": {"text": "Sums: 3 and 34."}},
        {"answer": {"text": "I add.", "tools": CALLS, "piece": 3}},
    ]
    tools = [{"name": "add", "description": "Adds.", "input_schema": ADD}]
    with ModelServer(rules) as server:
        client = server.claude()
        for name, first in (
            ("plain", claude_message(client, tools=tools)),
            ("streamed", claude_stream(client, tools=tools)[1]),
        ):
            uses = [block for block in first.content if block.type == "tool_use"]
            checks.same(
                subject,
                f"{name} blocks",
                [block.type for block in first.content],
                ["text", "tool_use", "tool_use"],
            )
            checks.same(
                subject, f"{name} inputs", [use.input for use in uses], [call["input"] for call in CALLS]
            )
            checks.same(subject, f"{name} stop reason", first.stop_reason, "tool_use")
            checks.same(subject, f"{name} ids differ", len({use.id for use in uses}), 2)
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": use.id,
                    "content": str(use.input["a"] + use.input["b"]),
                }
                for use in uses
            ]
            messages = [*ask("hello"), first.to_param(), {"role": "user", "content": results}]
            second = claude_message(client, tools=tools, messages=messages)
            checks.same(subject, f"{name} second turn", second.content[0].text, "Sums: 3 and 34.")
            short = [*messages[:2], {"role": "user", "content": results[:1]}]
            error = checks.raises(
                subject,
                f"{name} missing result",
                anthropic.BadRequestError,
                lambda: claude_message(client, tools=tools, messages=short),
            )
            checks.same(subject, f"{name} names the call without a result", uses[1].id in str(error), True)


def anthropic_typed(checks):
    subject = "anthropic: structured output"
    with ModelServer([{"answer": {"text": VERDICT}}]) as server:
        client = server.claude()
        message = client.messages.parse(
            model=CLAUDE_MODEL, max_tokens=1000, messages=ask("judge"), output_format=Verdict
        )
        checks.same(subject, "parsed", message.parsed_output, Verdict(score=7, tags=["a", "ä"]))
        sent = server.requests()[0]["body"]["output_config"]["format"]
        checks.same(
            subject,
            "schema sent",
            (sent["type"], sent["schema"]["additionalProperties"]),
            ("json_schema", False),
        )
        with client.messages.stream(
            model=CLAUDE_MODEL, max_tokens=1000, messages=ask("judge"), output_format=Verdict
        ) as stream:
            checks.same(
                subject,
                "parsed stream",
                stream.get_final_message().parsed_output,
                Verdict(score=7, tags=["a", "ä"]),
            )


def anthropic_errors(checks):
    subject = "anthropic: errors"
    classes = {
        400: anthropic.BadRequestError,
        401: anthropic.AuthenticationError,
        403: anthropic.PermissionDeniedError,
        404: anthropic.NotFoundError,
        413: anthropic.RequestTooLargeError,
        429: anthropic.RateLimitError,
        500: anthropic.InternalServerError,
    }
    types = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        500: "api_error",
        529: "overloaded_error",
    }
    for status, kind in types.items():
        with ModelServer([{"answer": {"error": status}}]) as server:
            client = server.claude()
            expected = classes.get(status, anthropic._exceptions.OverloadedError)
            for name, action in (
                (f"{status}", lambda: claude_message(client)),
                (f"{status} of a stream", lambda: claude_stream(client)),
            ):
                error = checks.raises(subject, name, expected, action)
                checks.same(subject, f"{name} type", error.type, kind)
                checks.same(subject, f"{name} request id", error.request_id, error.body["request_id"])
    with ModelServer([{"answer": {"error": "context_length"}}]) as server:
        error = checks.raises(
            subject, "context too long", anthropic.BadRequestError, lambda: claude_message(server.claude())
        )
        checks.same(
            subject,
            "context too long, text",
            error.api_message,
            "prompt is too long: 203456 tokens > 200000 maximum",
        )
    with ModelServer([{"answer": {"text": "a"}}], keys=["right"], context=5, models=[CLAUDE_MODEL]) as server:
        client = server.claude(api_key="right")
        checks.raises(
            subject, "wrong key", anthropic.AuthenticationError, lambda: claude_message(server.claude())
        )
        checks.raises(
            subject,
            "prompt over the limit",
            anthropic.BadRequestError,
            lambda: claude_message(client, "x" * 100),
        )
        checks.raises(
            subject,
            "unknown model",
            anthropic.NotFoundError,
            lambda: claude_message(client, model="claude-nine"),
        )
        old = claude_message(
            client,
            extra_headers={"anthropic-version": "2023-06-01", "x-api-key": "right"},
            extra_body={"temperature": 0.5},
        )
        checks.same(subject, "temperature with the older version", old.content[0].text, "a")
        refused = {
            "temperature with the newer version": {"extra_body": {"temperature": 1}},
            "unknown member": {"extra_body": {"nope": 1}},
            "no messages": {"messages": []},
            "unknown role": {"messages": [{"role": "robot", "content": "x"}]},
            "empty content": {"messages": ask("")},
            "first is assistant": {"messages": [{"role": "assistant", "content": "x"}, *ask("y")]},
            "prefill": {"messages": [*ask("x"), {"role": "assistant", "content": "y"}]},
            "schema without type": {"tools": [{"name": "t", "input_schema": {}}]},
            "bad tool name": {"tools": [{"name": "a.b", "input_schema": ADD}]},
            "tool choice without tools": {"tool_choice": {"type": "any"}},
        }
        for name, options in refused.items():
            checks.raises(subject, name, anthropic.BadRequestError, lambda: claude_message(client, **options))
        checks.raises(
            subject,
            "no version",
            anthropic.BadRequestError,
            lambda: claude_message(client, extra_headers={"anthropic-version": ""}),
        )
    rule = {"answer": {"text": THREAD, "stream_error": {"after": 4, "error": "overloaded"}}}
    with ModelServer([rule]) as server:
        error = checks.raises(
            subject, "error within a stream", anthropic.APIStatusError, lambda: claude_stream(server.claude())
        )
        checks.same(subject, "error within a stream, type", error.type, "overloaded_error")


def retries(checks, subject, server, call):
    """A library that retries by itself: what it waits for is recorded and not waited for."""
    waits, sleep = [], time.sleep
    time.sleep = waits.append
    try:
        text = call()
    finally:
        time.sleep = sleep
    checks.same(subject, "answer after two failures", text, "at last")
    checks.same(subject, "calls", [line["status"] for line in server.requests()], [429, 429, 200])
    checks.same(subject, "waits as the header says", waits, [3.0, 3.0])
    counts = [line["headers"]["x-stainless-retry-count"] for line in server.requests()]
    checks.same(subject, "retry count", counts, ["0", "1", "2"])


def anthropic_retries(checks):
    rules = [
        {"times": 2, "answer": {"error": 429, "headers": {"retry-after": "3"}}},
        {"answer": {"text": "at last"}},
    ]
    for name, call in (
        ("plain", lambda client: claude_message(client).content[0].text),
        ("stream", lambda client: claude_stream(client)[0]),
    ):
        with ModelServer(rules) as server:
            retries(checks, f"anthropic: retries ({name})", server, lambda: call(server.claude(retries=2)))


WIRES = {
    "one byte at a time": {"chunk": 1},
    "sizes 1, 2, 3": {"chunk": [1, 2, 3]},
    "seven bytes, CRLF": {"chunk": 7, "newline": "crlf"},
    "CR": {"newline": "cr"},
    "comments": {"comments": True},
    "ends with the connection": {"framing": "close"},
    "comments, CRLF, one byte": {"chunk": 1, "newline": "crlf", "comments": True},
}


def anthropic_wires(checks):
    subject = "anthropic: cut bytes"
    tools = [{"name": "add", "input_schema": ADD}]
    for name, plan in WIRES.items():
        with ModelServer([{"answer": {"text": THREAD, "tools": CALLS, "wire": plan}}]) as server:
            client = server.claude()
            written, message = claude_stream(client, tools=tools)
            checks.same(subject, f"{name}: text", written, THREAD)
            checks.same(
                subject,
                f"{name}: inputs",
                [block.input for block in message.content[1:]],
                [call["input"] for call in CALLS],
            )
            checks.same(
                subject, f"{name}: plain", claude_message(client, tools=tools).content[0].text, THREAD
            )
    with ModelServer([{"answer": {"text": "ab", "fill": 10_000_000}}]) as server:
        checks.same(subject, "10 MB", len(claude_stream(server.claude())[0]), 10_000_000)


def anthropic_faults(checks):
    subject = "anthropic: broken connections"
    for name, plan in (
        ("closed after an event", {"cut": {"after_events": 4}}),
        ("reset after bytes", {"cut": {"after_bytes": 700, "how": "reset"}}),
        ("malformed JSON", {"malformed": "json", "malformed_at": 4}),
    ):
        with ModelServer([{"answer": {"text": THREAD, "wire": plan}}]) as server:
            failed = False
            try:
                claude_stream(server.claude())
            except Exception:  # the classes are those of the libraries below
                failed = True
            checks.same(subject, f"{name} fails", failed, True)
    with ModelServer([{"answer": {"text": THREAD, "wire": {"malformed": "html"}}}]) as server:
        checks.raises(
            subject,
            "a page instead of JSON",
            anthropic.APIResponseValidationError,
            lambda: claude_message(server.claude()),
        )
    with ModelServer([]) as server:
        error = checks.raises(
            subject,
            "no rule",
            anthropic.InternalServerError,
            lambda: claude_message(server.claude(retries=2)),
        )
        checks.same(subject, "no rule says so", "no rule of" in str(error), True)
        checks.same(subject, "no rule is not retried", len(server.requests()), 1)


# ---- OpenAI --------------------------------------------------------------------------------------------


def openai_answers(checks):
    subject = "openai: answers"
    usage = {"input": 11, "output": 7, "cache_read": 5, "reasoning": 2}
    with ModelServer([{"answer": {"text": THREAD, "usage": usage}}]) as server:
        client = server.chat()
        plain = chat_completion(client)
        written, streamed = chat_stream(client)
        checks.same(subject, "streamed text", written, THREAD)
        for name, found in (("plain", plain), ("streamed", streamed)):
            choice = found.choices[0]
            checks.same(subject, f"{name} text", choice.message.content, THREAD)
            checks.same(subject, f"{name} finish reason", choice.finish_reason, "stop")
            counts = (
                found.usage.prompt_tokens,
                found.usage.completion_tokens,
                found.usage.total_tokens,
                found.usage.prompt_tokens_details.cached_tokens,
                found.usage.completion_tokens_details.reasoning_tokens,
            )
            checks.same(subject, f"{name} usage", counts, (16, 7, 23, 5, 2))
        checks.same(subject, "request id", plain._request_id, "req_" + "1".zfill(32))
        chunks = list(chat_completion(client, stream=True))
        checks.same(
            subject,
            "no usage unless it is asked for",
            [chunk.usage for chunk in chunks],
            [None] * len(chunks),
        )
        checks.same(
            subject, "raw text", "".join(chunk.choices[0].delta.content or "" for chunk in chunks), THREAD
        )
        chunks = list(chat_completion(client, stream=True, stream_options={"include_usage": True}))
        checks.same(
            subject,
            "the last chunk has usage and no choice",
            (chunks[-1].choices, chunks[-1].usage.total_tokens),
            ([], 23),
        )


def openai_stops(checks):
    subject = "openai: finish reasons and refusals"
    for wanted, answer in (
        ("length", {"text": "cut o", "stop": "length"}),
        ("content_filter", {"text": "a", "stop": "content_filter"}),
        ("stop", {"refusal": "Not this."}),
    ):
        with ModelServer([{"answer": answer}]) as server:
            client = server.chat()
            plain = chat_completion(client).choices[0]
            chunks = list(chat_completion(client, stream=True))
            checks.same(subject, f"plain {wanted}", plain.finish_reason, wanted)
            checks.same(subject, f"streamed {wanted}", chunks[-1].choices[0].finish_reason, wanted)
            checks.same(subject, f"plain {wanted} refusal", plain.message.refusal, answer.get("refusal"))
            refusal = "".join(chunk.choices[0].delta.refusal or "" for chunk in chunks)
            checks.same(subject, f"streamed {wanted} refusal", refusal, answer.get("refusal", ""))
            if "refusal" in answer:
                checks.same(subject, "refusal has no content", plain.message.content, None)
                final = chat_stream(client)[1]
                checks.same(subject, "accumulated refusal", final.choices[0].message.refusal, "Not this.")
    with ModelServer([{"answer": {"text": '{"score":', "stop": "length"}}]) as server:
        checks.raises(
            subject,
            "typed answer cut off",
            openai.LengthFinishReasonError,
            lambda: server.chat().chat.completions.parse(
                model=OPENAI_MODEL, messages=ask("x"), response_format=Verdict
            ),
        )
    with ModelServer([{"answer": {"text": "", "stop": "content_filter"}}]) as server:
        checks.raises(
            subject,
            "typed answer filtered",
            openai.ContentFilterFinishReasonError,
            lambda: server.chat().chat.completions.parse(
                model=OPENAI_MODEL, messages=ask("x"), response_format=Verdict
            ),
        )


def openai_tools(checks):
    subject = "openai: parallel tool calls"
    tools = [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": ADD}}]
    for style in (False, True):
        answer = {"text": "I add.", "tools": CALLS, "piece": 3, "interleave": style}
        rules = [{"when": {"tool_result": "3"}, "answer": {"text": "Sums: 3 and 34."}}, {"answer": answer}]
        with ModelServer(rules) as server:
            client = server.chat()
            found = [
                ("plain", chat_completion(client, tools=tools)),
                ("streamed", chat_stream(client, tools=tools)[1]),
            ]
            for name, first in found:
                name = f"{name}{' in turn' if style else ''}"
                choice = first.choices[0]
                calls = choice.message.tool_calls
                checks.same(subject, f"{name} names", [call.function.name for call in calls], ["add", "add"])
                checks.same(
                    subject,
                    f"{name} arguments",
                    [json.loads(call.function.arguments) for call in calls],
                    [call["input"] for call in CALLS],
                )
                checks.same(subject, f"{name} finish reason", choice.finish_reason, "tool_calls")
                spoken = {
                    "role": "assistant",
                    "content": choice.message.content,
                    "tool_calls": [
                        {
                            "id": call.id,
                            "type": "function",
                            "function": {"name": call.function.name, "arguments": call.function.arguments},
                        }
                        for call in calls
                    ],
                }
                results = [
                    {"role": "tool", "tool_call_id": call.id, "content": text}
                    for call, text in zip(calls, ("3", "34"))
                ]
                second = chat_completion(client, tools=tools, messages=[*ask("hello"), spoken, *results])
                checks.same(
                    subject, f"{name} second turn", second.choices[0].message.content, "Sums: 3 and 34."
                )
                error = checks.raises(
                    subject,
                    f"{name} missing result",
                    openai.BadRequestError,
                    lambda: (
                        chat_completion(client, tools=tools, messages=[*ask("hello"), spoken, results[0]])
                    ),
                )
                checks.same(
                    subject, f"{name} names the call without a result", calls[1].id in error.message, True
                )
                checks.raises(
                    subject,
                    f"{name} result without a call",
                    openai.BadRequestError,
                    lambda: (chat_completion(client, tools=tools, messages=[*ask("hello"), results[0]])),
                )

    class Add(pydantic.BaseModel):
        a: int
        b: int

    with ModelServer([{"answer": {"tools": [{"name": "Add", "input": {"a": 1, "b": 2}}]}}]) as server:
        parsed = server.chat().chat.completions.parse(
            model=OPENAI_MODEL, messages=ask("x"), tools=[openai.pydantic_function_tool(Add)]
        )
        call = parsed.choices[0].message.tool_calls[0]
        checks.same(subject, "the library's own parser", call.function.parsed_arguments, Add(a=1, b=2))


def openai_typed(checks):
    subject = "openai: structured output"
    wanted = Verdict(score=7, tags=["a", "ä"])
    with ModelServer([{"answer": {"text": VERDICT}}]) as server:
        client = server.chat()
        parsed = client.chat.completions.parse(
            model=OPENAI_MODEL, messages=ask("judge"), response_format=Verdict
        )
        checks.same(subject, "parsed", parsed.choices[0].message.parsed, wanted)
        sent = server.requests()[0]["body"]["response_format"]
        checks.same(
            subject, "schema sent", (sent["type"], sent["json_schema"]["strict"]), ("json_schema", True)
        )
        checks.same(
            subject,
            "parsed stream",
            chat_stream(client, response_format=Verdict)[1].choices[0].message.parsed,
            wanted,
        )
        loose = {
            "type": "json_schema",
            "json_schema": {
                "name": "v",
                "strict": True,
                "schema": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
        }
        checks.raises(
            subject,
            "open schema",
            openai.BadRequestError,
            lambda: chat_completion(client, response_format=loose),
        )
        checks.raises(
            subject,
            "json_object without the word",
            openai.BadRequestError,
            lambda: chat_completion(client, response_format={"type": "json_object"}),
        )
    with ModelServer([{"answer": {"refusal": "No."}}]) as server:
        parsed = server.chat().chat.completions.parse(
            model=OPENAI_MODEL, messages=ask("x"), response_format=Verdict
        )
        message = parsed.choices[0].message
        checks.same(subject, "refused", (message.parsed, message.refusal), (None, "No."))


def openai_errors(checks):
    subject = "openai: errors"
    rows = (
        (400, openai.BadRequestError, "invalid_request_error", None),
        ("context_length", openai.BadRequestError, "invalid_request_error", "context_length_exceeded"),
        (401, openai.AuthenticationError, "invalid_request_error", "invalid_api_key"),
        (403, openai.PermissionDeniedError, "invalid_request_error", None),
        (404, openai.NotFoundError, "invalid_request_error", "model_not_found"),
        (429, openai.RateLimitError, "requests", "rate_limit_exceeded"),
        ("insufficient_quota", openai.RateLimitError, "insufficient_quota", "insufficient_quota"),
        (500, openai.InternalServerError, "server_error", None),
        (503, openai.InternalServerError, "service_unavailable_error", None),
    )
    for wanted, kind, error_type, code in rows:
        with ModelServer([{"answer": {"error": wanted}}]) as server:
            client = server.chat()
            for name, action in (
                (f"{wanted}", lambda: chat_completion(client)),
                (f"{wanted} of a stream", lambda: chat_stream(client)),
            ):
                error = checks.raises(subject, name, kind, action)
                checks.same(subject, f"{name} type and code", (error.type, error.code), (error_type, code))
    with ModelServer([{"answer": {"text": "a"}}], keys=["right"], context=5) as server:
        client = server.chat(api_key="right")
        error = checks.raises(
            subject, "wrong key", openai.AuthenticationError, lambda: chat_completion(server.chat())
        )
        checks.same(subject, "wrong key, code", error.code, "invalid_api_key")
        error = checks.raises(
            subject,
            "prompt over the limit",
            openai.BadRequestError,
            lambda: chat_completion(client, "x" * 100),
        )
        checks.same(
            subject,
            "prompt over the limit, code",
            (error.code, error.param),
            ("context_length_exceeded", "messages"),
        )
        refused = {
            "no messages": {"messages": []},
            "unknown role": {"messages": [{"role": "robot", "content": "x"}]},
            "unknown member": {"extra_body": {"nope": 1}},
            "tool choice without tools": {"tool_choice": "auto"},
            "no tools in the list": {"tools": []},
            "stream options without a stream": {"stream_options": {"include_usage": True}},
            "max_tokens of a reasoning model": {"model": "o3", "max_tokens": 5},
            "temperature": {"temperature": 3},
            "bad function name": {"tools": [{"type": "function", "function": {"name": "a.b"}}]},
        }
        for name, options in refused.items():
            checks.raises(subject, name, openai.BadRequestError, lambda: chat_completion(client, **options))
        checks.raises(subject, "unknown address", openai.NotFoundError, lambda: client.models.list())
    rule = {"answer": {"text": THREAD, "stream_error": {"after": 2, "error": "server_error"}}}
    with ModelServer([rule]) as server:
        error = checks.raises(
            subject, "error within a stream", openai.APIError, lambda: chat_stream(server.chat())
        )
        checks.same(subject, "error within a stream, type", error.type, "server_error")


def openai_retries(checks):
    rules = [
        {"times": 2, "answer": {"error": 429, "headers": {"retry-after": "3"}}},
        {"answer": {"text": "at last"}},
    ]
    for name, call in (
        ("plain", lambda client: chat_completion(client).choices[0].message.content),
        ("stream", lambda client: chat_stream(client)[0]),
    ):
        with ModelServer(rules) as server:
            retries(checks, f"openai: retries ({name})", server, lambda: call(server.chat(retries=2)))


def openai_wires(checks):
    subject = "openai: cut bytes"
    tools = [{"type": "function", "function": {"name": "add", "parameters": ADD}}]
    for name, plan in WIRES.items():
        with ModelServer([{"answer": {"text": THREAD, "tools": CALLS, "wire": plan}}]) as server:
            client = server.chat()
            written, final = chat_stream(client, tools=tools)
            calls = final.choices[0].message.tool_calls
            checks.same(subject, f"{name}: text", written, THREAD)
            checks.same(
                subject,
                f"{name}: arguments",
                [json.loads(call.function.arguments) for call in calls],
                [call["input"] for call in CALLS],
            )
            checks.same(
                subject,
                f"{name}: plain",
                chat_completion(client, tools=tools).choices[0].message.content,
                THREAD,
            )
    with ModelServer([{"answer": {"text": "ab", "fill": 10_000_000, "piece": 65536}}]) as server:
        chunks = chat_completion(server.chat(), stream=True)
        checks.same(
            subject, "10 MB", sum(len(chunk.choices[0].delta.content or "") for chunk in chunks), 10_000_000
        )


def openai_faults(checks):
    subject = "openai: broken connections"
    for name, plan in (
        ("closed after an event", {"cut": {"after_events": 2}}),
        ("reset after bytes", {"cut": {"after_bytes": 700, "how": "reset"}}),
    ):
        with ModelServer([{"answer": {"text": THREAD, "wire": plan}}]) as server:
            checks.raises(subject, name, openai.APIConnectionError, lambda: chat_stream(server.chat()))
    with ModelServer([{"answer": {"text": THREAD, "wire": {"malformed": "json"}}}]) as server:
        checks.raises(subject, "malformed JSON", json.JSONDecodeError, lambda: chat_stream(server.chat()))
    with ModelServer([]) as server:
        error = checks.raises(
            subject, "no rule", openai.InternalServerError, lambda: chat_completion(server.chat(retries=2))
        )
        checks.same(subject, "no rule says so", "no rule of" in str(error), True)
        checks.same(subject, "no rule is not retried", len(server.requests()), 1)


# ---- Claude Code ---------------------------------------------------------------------------------------


def claude_code(checks):
    """The stand-in `claude`, driven by the vendor's library for the program."""
    subject = "claude code: stand-in"
    rules = [
        {"when": {"resume": True}, "answer": {"text": "Welcome back.", "cost": 0.5}},
        {
            "when": {"user": "endless"},
            "answer": {"text": "still at it", "result": "error_max_turns", "turns": 9},
        },
        {"when": {"user": "overloaded"}, "answer": {"api_error": 529}},
        {"when": {"user": "judge"}, "answer": {"text": VERDICT, "structured_output": json.loads(VERDICT)}},
        {
            "answer": {
                "steps": [
                    {"thinking": "Where is it?", "text": "I look."},
                    {"tool": "Read", "input": {"file_path": "a.txt"}, "output": "line 1"},
                    {"tool": "Bash", "input": {"command": "false"}, "output": "exit 1", "is_error": True},
                ],
                "text": THREAD,
                "cost": 0.25,
                "usage": {"input": 11, "output": 7, "cache_read": 5},
            }
        },
    ]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "rules.json"), "w", encoding="utf-8") as file:
            json.dump(rules, file)

        def run(prompt, **options):
            options = claude_agent_sdk.ClaudeAgentOptions(
                cli_path=os.path.join(HERE, "claude"), env={"CLAUDE_STAND_IN": folder}, **options
            )

            async def collect():
                return [message async for message in claude_agent_sdk.query(prompt=prompt, options=options)]

            return asyncio.run(collect())

        messages = run(
            "fix it",
            model="claude-opus-5",
            system_prompt="Be brief.",
            allowed_tools=["Read", "Bash"],
            max_turns=5,
        )
        kinds = [type(message).__name__ for message in messages]
        checks.same(
            subject,
            "messages",
            kinds,
            [
                "SystemMessage",
                "AssistantMessage",
                "AssistantMessage",
                "AssistantMessage",
                "UserMessage",
                "AssistantMessage",
                "UserMessage",
                "AssistantMessage",
                "ResultMessage",
            ],
        )
        init, result = messages[0], messages[-1]
        checks.same(
            subject,
            "init",
            (init.subtype, init.data["model"], "Read" in init.data["tools"]),
            ("init", "claude-opus-5", True),
        )
        blocks = [block for message in messages if hasattr(message, "content") for block in message.content]
        checks.same(
            subject,
            "blocks",
            [type(block).__name__ for block in blocks],
            [
                "ThinkingBlock",
                "TextBlock",
                "ToolUseBlock",
                "ToolResultBlock",
                "ToolUseBlock",
                "ToolResultBlock",
                "TextBlock",
            ],
        )
        checks.same(
            subject,
            "calls and results are pairs",
            [blocks[2].id, blocks[4].id],
            [blocks[3].tool_use_id, blocks[5].tool_use_id],
        )
        checks.same(
            subject,
            "result",
            (result.subtype, result.is_error, result.result, result.total_cost_usd, result.num_turns),
            ("success", False, THREAD, 0.25, 4),
        )
        checks.same(
            subject,
            "usage",
            (
                result.usage["input_tokens"],
                result.usage["output_tokens"],
                result.usage["cache_read_input_tokens"],
            ),
            (11, 7, 5),
        )
        checks.same(subject, "usage of models", list(result.model_usage), ["claude-opus-5"])
        checks.same(
            subject,
            "one session",
            {message.session_id for message in messages if getattr(message, "session_id", None)},
            {init.data["session_id"]},
        )
        session = init.data["session_id"]
        again = run("more", resume=session)
        checks.same(subject, "resumed", (again[-1].result, again[-1].session_id), ("Welcome back.", session))
        forked = run("more", resume=session, fork_session=True)
        checks.same(subject, "forked", forked[-1].session_id == session, False)
        for prompt, wanted in (
            ("endless", ("error_max_turns", True, None)),
            ("overloaded", ("success", True, 529)),
        ):
            caught = None
            try:
                last = run(prompt)[-1]
                caught = (last.subtype, last.is_error, last.api_error_status)
            except Exception as error:  # the library raises for some of these results
                caught = type(error).__name__
                with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
                    ended = json.loads(file.readlines()[-1])["result"]
                checks.same(
                    subject,
                    f"{prompt}: printed",
                    (ended["subtype"], ended["is_error"], ended.get("api_error_status")),
                    wanted,
                )
                continue
            checks.same(subject, f"{prompt}: result", caught, wanted)
        typed = run("judge", output_format={"type": "json_schema", "schema": Verdict.model_json_schema()})
        checks.same(subject, "structured output", typed[-1].structured_output, json.loads(VERDICT))
        partial = run("fix it", include_partial_messages=True)
        streamed = "".join(
            message.event["delta"]["text"]
            for message in partial
            if type(message).__name__ == "StreamEvent"
            and message.event.get("delta", {}).get("type") == "text_delta"
        )
        checks.same(subject, "partial messages", streamed, "I look." + THREAD)
        checks.raises(
            subject, "unknown session", claude_agent_sdk.ProcessError, lambda: run("x", resume="nowhere")
        )


def main():
    checks = Checks()
    for check in (
        anthropic_answers,
        anthropic_stops,
        anthropic_tools,
        anthropic_typed,
        anthropic_errors,
        anthropic_retries,
        anthropic_wires,
        anthropic_faults,
        openai_answers,
        openai_stops,
        openai_tools,
        openai_typed,
        openai_errors,
        openai_retries,
        openai_wires,
        openai_faults,
        claude_code,
    ):
        try:
            check(checks)
        except Exception as error:  # one broken scenario must not hide the others
            checks.same(check.__name__, "runs to its end", f"{type(error).__name__}: {error}", "no error")
    print(
        f"anthropic {anthropic.__version__}, openai {openai.__version__}, "
        f"claude-agent-sdk {claude_agent_sdk.__version__}\n"
    )
    return 0 if checks.report() else 1


if __name__ == "__main__":
    sys.exit(main())
