#!/usr/bin/env python3
"""A loopback server that speaks the protocols of two model APIs and answers as a script says.

    model_server.py RULES LOG

prints its address as the first line of stdout, and ends when its stdin does. README.md has the format of
rules.
"""

import sys

sys.dont_write_bytecode = True

import http.server
import itertools
import json
import os
import socket
import threading

import chat_api
import messages_api
import rules
import wire
from problems import Refused, compact

APIS = {api.PATH: api for api in (messages_api, chat_api)}
SETTINGS = {"keys": None, "models": None, "context": None, "max_bytes": 32 * 1024 * 1024}
ANSWER = {
    "text",
    "fill",
    "piece",
    "thinking",
    "signature",
    "tools",
    "interleave",
    "refusal",
    "refusal_category",
    "stop",
    "stop_sequence",
    "usage",
    "model",
    "headers",
    "error",
    "stream_error",
    "endless",
    "raw",
    "content_type",
    "wire",
}
TABLES = {
    "tools": {"name", "input", "arguments", "id", "unknown"},
    "usage": {"input", "output", "cache_read", "cache_write", "reasoning"},
    "error": {"name", "status", "type", "message", "param", "code"},
    "stream_error": {"after", "error"},
    "wire": {"chunk", "newline", "comments", "framing", "gate", "cut", "malformed", "malformed_at"},
    "gate": {"file", "after", "head"},
    "cut": {"after_bytes", "after_events", "how"},
}
CHOICES = {
    "newline": set(wire.NEWLINES),
    "framing": {"chunked", "length", "close"},
    "how": {"close", "reset"},
    "malformed": {"json", "sse", "utf8", "end", "shape", "empty", "html", "not_stream"},
}


def check_answer(answer, where):
    """Refuses an answer with a member that has no meaning, before any request comes."""
    for name, value in answer.items():
        at = f"{where}.{name}"
        if name == "tools":
            for index, tool in enumerate(value):
                rules.known(tool, TABLES["tools"], f"{at}[{index}]")
                if "name" not in tool:
                    raise rules.ScriptError(f"{at}[{index}] has no `name`")
        elif name in TABLES and isinstance(value, dict):
            rules.known(value, TABLES[name], at)
            check_answer(value, at)
        elif name in CHOICES and value not in CHOICES[name]:
            raise rules.ScriptError(f"{at}: unknown `{value}`; known: {', '.join(sorted(CHOICES[name]))}")
    if where.endswith(".answer"):
        stops = {**messages_api.STOPS, **chat_api.STOPS}
        if answer.get("stop", "stop") not in stops:
            raise rules.ScriptError(
                f"{where}.stop: unknown `{answer['stop']}`; known: {', '.join(sorted(stops))}"
            )
        for error in (answer.get("error"), answer.get("stream_error", {}).get("error")):
            name = error.get("name") if isinstance(error, dict) else error
            if isinstance(name, str) and name not in {**messages_api.ERRORS, **chat_api.ERRORS}:
                raise rules.ScriptError(
                    f"{where}: unknown error `{name}`; known: {', '.join(messages_api.ERRORS)}"
                )
        if not set(answer) & {"text", "fill", "thinking", "tools", "refusal", "error", "raw", "stop"}:
            raise rules.ScriptError(
                f"{where} says nothing: give it `text`, `tools`, `error` or another answer"
            )


def named_error(api, wanted):
    """The status, the message and the fields of a scripted error, with what the API says about it."""
    wanted = (
        {"status": wanted}
        if isinstance(wanted, int)
        else {"name": wanted} if isinstance(wanted, str) else wanted
    )
    name = wanted.get("name") or api.BY_STATUS.get(wanted.get("status"), "server_error")
    if name not in api.ERRORS:
        raise Refused(
            500, f"the script wants the error `{name}`, which this API does not have", type="api_error"
        )
    status, kind, message, *rest = api.ERRORS[name]
    fields = {"type": kind, **dict(zip(("param", "code"), rest))}
    fields.update({key: wanted[key] for key in ("type", "param", "code") if key in wanted})
    return wanted.get("status", status), wanted.get("message", message), fields


class Server(http.server.ThreadingHTTPServer):
    """The state that all connections share: the script and the log."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, script, log):
        self.settings, self.rules = rules.load(script, SETTINGS, ANSWER)
        for rule in self.rules.rules:
            check_answer(rule.answer, f"{rule.where}.answer")
        self.script, self.log_path = script, log
        self.folder = os.path.dirname(os.path.abspath(script))
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        super().__init__(("127.0.0.1", 0), Handler)

    def record(self, path, line):
        with self.lock, open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def serve(self):
        number = next(self.server.numbers)
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        api = APIS.get(path)
        line = {
            "n": number,
            "api": api and api.NAME,
            "method": self.command,
            "path": self.path,
            "headers": headers,
        }
        spoken = api or (chat_api if "x-api-key" not in headers else messages_api)
        index = None
        try:
            raw = self.read_body(headers, spoken)
            body, line["body"] = decode(raw)
            self.route(api, path, headers, raw, spoken)
            if body is None:
                refuse_json(api)
            api.validate(headers, body, self.server.settings)
            index, reply = self.answer(api, body, number)
        except Refused as refused:
            reply = self.error_reply(spoken, refused.status, refused.message, refused.fields, number)
            reply["headers"].update(refused.fields.get("headers", {}))
            line["problem"] = refused.message
        self.server.record(self.server.log_path, {**line, "rule": index, "status": reply["status"]})
        self.deliver(number, reply)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = serve

    def read_body(self, headers, api):
        limit = self.server.settings["max_bytes"]
        if headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            raw = b"".join(parts)
        else:
            raw = self.rfile.read(int(headers.get("content-length", 0)))
        if len(raw) > limit:
            _, kind, message, *_ = api.ERRORS["too_large"]
            raise Refused(413, message, type=kind)
        return raw

    def route(self, api, path, headers, raw, spoken):
        """What the API decides before it looks at the request: the address, the key, the type of the body."""
        spoken.authenticate(headers, self.server.settings["keys"])
        if api is None:
            if spoken is messages_api:
                raise Refused(404, "Not Found", type="not_found_error")
            raise Refused(404, f"Invalid URL ({self.command} {path})", type="invalid_request_error")
        if self.command != "POST":
            if api is messages_api:
                raise Refused(405, "Method Not Allowed", type="invalid_request_error")
            raise Refused(
                405,
                f"Not allowed to {self.command} on {path}. (HINT: Perhaps you meant to use a different "
                "HTTP method?)",
                type="invalid_request_error",
                code="method_not_supported",
            )
        kind = headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/json":
            raise Refused(
                400,
                f"Unsupported content type: '{kind}'. This API method only accepts 'application/json' "
                f"requests, but you specified the header 'Content-Type: {kind}'. Please try again with "
                "a supported content type.",
                type="invalid_request_error",
                code="unsupported_content_type",
            )

    def answer(self, api, body, number):
        """The reply that the first matching rule gives."""
        call = api.facts(body)
        index, rule = self.server.rules.choose(call)
        if rule is None:
            raise Refused(
                500,
                f"no rule of {self.server.script} matches this request: last user message "
                f"{call['user'][:200]!r}",
                type="api_error",
                headers={"x-should-retry": "false"},
            )
        answer = self.complete(rule, call, api)
        plan = answer.get("wire", {})
        if plan.get("gate"):
            plan = {
                **plan,
                "gate": {**plan["gate"], "file": os.path.join(self.server.folder, plan["gate"]["file"])},
            }
        if "error" in answer:
            status, message, fields = named_error(api, answer["error"])
            reply = self.error_reply(api, status, message, fields, number)
            if plan.get("malformed"):
                reply["body"], reply["type"] = wire.spoil_body(reply["body"], plan["malformed"])
            reply.update(wire=plan, body=gated([reply["body"]], plan), framing=plan.get("framing", "length"))
        elif "raw" in answer:
            kind = answer.get("content_type", "text/event-stream" if call["stream"] else "application/json")
            reply = self.reply(api, 200, kind, gated([answer["raw"].encode()], plan), number, plan)
        elif call["stream"] and plan.get("malformed") != "not_stream":
            error = answer.get("stream_error")
            if error:
                _, message, fields = named_error(api, error["error"])
                error = api.error_event(fields, message, number), error.get("after", 0)
            stream = wire.stream(api.events(body, answer, number), plan, api.END, error)
            if plan.get("malformed") in ("html", "empty", "shape"):
                spoilt, kind = wire.spoil_body(b"", plan["malformed"])
                reply = self.reply(api, 200, kind, [spoilt], number, plan)
            else:
                kind = "text/event-stream; charset=utf-8"
                reply = self.reply(api, 200, kind, stream, number, plan, framing="chunked")
        else:
            reply = self.whole_reply(api, body, answer, number, plan)
        reply["headers"].update(answer.get("headers", {}))
        return index, reply

    def whole_reply(self, api, body, answer, number, plan):
        if answer.get("endless"):
            endless = itertools.chain([b'{"padding":"'], itertools.repeat(b"x" * 65536))
            return self.reply(api, 200, "application/json", endless, number, plan, framing="chunked")
        written, kind = compact(api.whole(body, answer, number)).encode(), "application/json"
        if plan.get("malformed") in ("json", "utf8", "shape", "empty", "html"):
            written, kind = wire.spoil_body(written, plan["malformed"])
        return self.reply(api, 200, kind, gated([written], plan), number, plan)

    def complete(self, rule, call, api):
        """The answer of a rule with its defaults. What the API could not answer is an error of the script."""
        answer = dict(rule.answer)
        if "fill" in answer:
            text = answer.get("text") or "threadline "
            answer["text"] = (
                (text * (answer["fill"] // len(text.encode()) + 1))
                .encode()[: answer["fill"]]
                .decode(errors="ignore")
            )
        answer.setdefault("piece", 4096 if "fill" in answer else 12)
        for tool in answer.get("tools", []):
            if tool["name"] not in call["tools"] and not tool.get("unknown"):
                raise Refused(
                    500,
                    f"{rule.where} calls the tool `{tool['name']}`, which the request does not offer",
                    type="api_error",
                    headers={"x-should-retry": "false"},
                )
        if answer.get("thinking") and api is chat_api:
            raise Refused(
                500,
                f"{rule.where} has `thinking`, which chat completions do not have",
                type="api_error",
                headers={"x-should-retry": "false"},
            )
        return answer

    def error_reply(self, api, status, message, fields, number):
        body = compact(api.error_body(fields, message, number)).encode()
        reply = self.reply(api, status, "application/json", None, number, {})
        return {**reply, "body": body}

    def reply(self, api, status, kind, body, number, plan, framing="length"):
        headers = {api.REQUEST_ID: api.request_id(number)}
        return {
            "status": status,
            "type": kind,
            "headers": headers,
            "body": body,
            "wire": plan,
            "framing": plan.get("framing", framing),
        }

    def deliver(self, number, reply):
        """Sends a reply, and notes how it ended."""
        framing, body = reply["framing"], reply["body"]
        body = [body] if isinstance(body, bytes) else body
        headers = {"content-type": reply["type"], **reply["headers"]}
        if framing == "length":
            body = list(body)
            headers["content-length"] = str(sum(len(part) for part in body if isinstance(part, bytes)))
        elif framing == "chunked":
            headers["transfer-encoding"] = "chunked"
        else:
            headers["connection"] = "close"
            self.close_connection = True
        reason = http.server.BaseHTTPRequestHandler.responses.get(reply["status"], ("Overloaded",))[0]
        lines = [
            f"HTTP/1.1 {reply['status']} {reason}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        head = ("\r\n".join([*lines, "", ""])).encode()
        ended = "whole"
        try:
            wire.send(self.connection, head, body, framing, reply["wire"])
        except wire.Cut:
            ended = "cut"
        except wire.ClientGone:
            ended = "client gone"
        if ended != "whole":
            self.close_connection = True
        self.server.record(f"{self.server.log_path}.ended", {"n": number, "how": ended})


def gated(body, plan):
    """A body that is no stream, behind the gate of its rule."""
    gate = plan.get("gate")
    return [wire.Gate(gate["file"]), *body] if gate and not gate.get("head") else body


def decode(raw):
    """The value of a body, and the same for the log: text where it is not JSON."""
    try:
        value = json.loads(raw)
    except ValueError:
        return None, raw.decode(errors="replace")
    return value, value


def refuse_json(api):
    if api is messages_api:
        raise Refused(
            400, "The request body is not valid JSON: Expecting value", type="invalid_request_error"
        )
    raise Refused(
        400,
        "We could not parse the JSON body of your request. (HINT: This likely means you aren't using "
        "your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not "
        "valid JSON. If you have trouble figuring out how to fix this, please contact us through our "
        "help center at help.openai.com.)",
        type="invalid_request_error",
    )


def end_with_stdin():
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: model_server.py RULES LOG")
    try:
        server = Server(sys.argv[1], sys.argv[2])
    except rules.ScriptError as error:
        sys.exit(f"model_server: {error}")
    threading.Thread(target=end_with_stdin, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
