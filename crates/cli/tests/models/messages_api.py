"""The Anthropic Messages API: what it refuses, and how it writes an answer, whole and as a stream.

It opens no socket: a request is a table of headers and a body, an answer is JSON or a list of events. The
texts of errors are those of the API where they are publicly known.
"""

import itertools
import json
import re

from problems import Refused, arguments, is_int, is_number, pieces, tokens

NAME = "anthropic"
PATH = "/v1/messages"
REQUEST_ID = "request-id"

# The newer version removed the parameters of sampling.
SAMPLING = {"temperature", "top_p", "top_k"}
VERSIONS = {"2023-06-01": SAMPLING, "2026-10-21": set()}
MEMBERS = {
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "tools",
    "tool_choice",
    "thinking",
    "stop_sequences",
    "metadata",
    "service_tier",
    "output_config",
    "cache_control",
    "container",
    "diagnostics",
    "inference_geo",
    "speed",
    "user_profile_id",
}
STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    **{
        name: name
        for name in (
            "end_turn",
            "max_tokens",
            "stop_sequence",
            "tool_use",
            "pause_turn",
            "refusal",
            "model_context_window_exceeded",
        )
    },
}
# Models that still continue an assistant message which ends the request.
PREFILL = re.compile(
    r"claude-(2|3|instant|(opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?$|(opus|sonnet|haiku)-4-20\d{6})"
)
# Models that know no system message within the conversation.
NO_SYSTEM_TURN = re.compile(
    r"claude-(2|3|instant|(sonnet|haiku)-4|opus-4(-[0-7])?(-\d{8})?$|sonnet-5(-\d{8})?$)"
)

ERRORS = {
    "bad_request": (400, "invalid_request_error", "Invalid request"),
    "context_length": (400, "invalid_request_error", "prompt is too long: 203456 tokens > 200000 maximum"),
    "insufficient_quota": (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & "
        "Billing to upgrade or purchase credits.",
    ),
    "invalid_key": (401, "authentication_error", "invalid x-api-key"),
    "billing": (402, "billing_error", "There is an issue with your billing or payment information."),
    "permission": (
        403,
        "permission_error",
        "Your API key does not have permission to use the specified resource.",
    ),
    "not_found": (404, "not_found_error", "model: no-such-model"),
    "too_large": (413, "request_too_large", "Request exceeds the maximum size"),
    "rate_limit": (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50 requests per minute.",
    ),
    "server_error": (500, "api_error", "Internal server error"),
    "timeout": (504, "timeout_error", "The request timed out while processing."),
    "overloaded": (529, "overloaded_error", "Overloaded"),
}
BY_STATUS = {
    400: "bad_request",
    401: "invalid_key",
    402: "billing",
    403: "permission",
    404: "not_found",
    413: "too_large",
    429: "rate_limit",
    500: "server_error",
    504: "timeout",
    529: "overloaded",
}


def refuse(message, status=400):
    raise Refused(status, message, type=ERRORS[BY_STATUS[status]][1])


def error_body(fields, message, number):
    error = {"type": fields.get("type", "api_error"), "message": message}
    return {"type": "error", "error": error, "request_id": request_id(number)}


def request_id(number):
    return f"req_{number:024d}"


# ---- what the API refuses ------------------------------------------------------------------------------


def authenticate(headers, keys):
    """The key of a request: `x-api-key`, which wins, or a bearer token, as newer libraries send it."""
    bearer = headers.get("authorization", "")
    if "x-api-key" in headers:
        key, problem = headers["x-api-key"], "invalid x-api-key"
    elif bearer.startswith("Bearer "):
        key, problem = bearer.removeprefix("Bearer "), "Invalid bearer token"
    else:
        refuse("x-api-key header is required", 401)
    if not key or (keys is not None and key not in keys):
        refuse(problem, 401)


def validate(headers, body, settings):
    version = headers.get("anthropic-version")
    if version is None:
        refuse("anthropic-version: header is required")
    if version not in VERSIONS:
        refuse(f'anthropic-version: "{version}" is not a valid version')
    if not isinstance(body, dict):
        refuse("Input should be a valid dictionary or object to extract fields from")
    for member in body:
        if member not in MEMBERS | VERSIONS[version]:
            refuse(f"{member}: Extra inputs are not permitted")
    for member in ("max_tokens", "messages", "model"):
        if member not in body:
            refuse(f"{member}: Field required")
    check_scalars(body)
    names = check_tools(body)
    check_tool_choice(body, names)
    check_thinking(body)
    check_output(body)
    check_system(body.get("system"))
    check_messages(body, version, names)
    if settings["models"] is not None and body["model"] not in settings["models"]:
        refuse(f"model: {body['model']}", 404)
    used, limit = prompt_tokens(body), settings["context"]
    if limit is not None and used > limit:
        refuse(f"prompt is too long: {used} tokens > {limit} maximum")


def check_scalars(body):
    if not isinstance(body["model"], str):
        refuse("model: Input should be a valid string")
    if body["model"] == "":
        refuse("model: String should have at least 1 character")
    if not is_int(body["max_tokens"]):
        refuse("max_tokens: Input should be a valid integer")
    if body["max_tokens"] < 0:
        refuse("max_tokens: must be greater than or equal to 0")
    if not isinstance(body.get("stream", False), bool):
        refuse("stream: Input should be a valid boolean")
    for member, most in (("temperature", 1), ("top_p", 1)):
        value = body.get(member)
        if value is not None and not (is_number(value) and 0 <= value <= most):
            refuse(f"{member}: range: 0..{most}")
    stops = body.get("stop_sequences", [])
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        refuse("stop_sequences: Input should be a valid list")
    for index, stop in enumerate(stops):
        if not stop.strip():
            refuse(f"stop_sequences.{index}: each stop sequence must contain non-whitespace")


def check_tools(body):
    tools = body.get("tools", [])
    if not isinstance(tools, list):
        refuse("tools: Input should be a valid list")
    names = []
    for index, tool in enumerate(tools):
        where = f"tools.{index}.custom"
        if not isinstance(tool, dict):
            refuse(f"tools.{index}: Input should be a valid dictionary or object to extract fields from")
        if tool.get("type", "custom") not in ("custom", None):
            refuse(f"tools.{index}: this stand-in has no tools of the vendor: {tool['type']}")
        allowed = {
            "type",
            "name",
            "description",
            "input_schema",
            "cache_control",
            "strict",
            "input_examples",
            "defer_loading",
            "allowed_callers",
            "eager_input_streaming",
        }
        for member in tool:
            if member not in allowed:
                refuse(f"{where}.{member}: Extra inputs are not permitted")
        for member in ("name", "input_schema"):
            if member not in tool:
                refuse(f"{where}.{member}: Field required")
        if not isinstance(tool["name"], str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]):
            refuse(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if "description" in tool and not isinstance(tool["description"], str):
            refuse(f"{where}.description: Input should be a valid string")
        check_input_schema(tool["input_schema"], f"{where}.input_schema")
        names.append(tool["name"])
    if len(set(names)) < len(names):
        refuse("tools: Tool names must be unique.")
    return names


def check_input_schema(schema, where):
    if not isinstance(schema, dict):
        refuse(f"{where}: Input should be a valid dictionary")
    if "type" not in schema:
        refuse(f"{where}.type: Field required")
    if schema["type"] != "object":
        refuse(f"{where}.type: Input should be 'object'")
    if any(word in schema for word in ("oneOf", "allOf", "anyOf")):
        refuse(f"{where}: input_schema does not support oneOf, allOf, or anyOf at the top level")
    if not isinstance(schema.get("properties") or {}, dict):
        refuse(f"{where}.properties: Input should be a valid dictionary")
    required = schema.get("required") or []
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        refuse(f"{where}.required: Input should be a valid list")


def check_tool_choice(body, names):
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not isinstance(choice, dict) or choice.get("type") not in ("auto", "any", "tool", "none"):
        refuse(
            "tool_choice: Input tag found using 'type' does not match any of the expected tags: "
            "'any', 'auto', 'none', 'tool'"
        )
    if not names:
        refuse("tool_choice: tool_choice may only be specified while providing tools.")
    if choice["type"] == "tool" and choice.get("name") not in names:
        refuse(f"Tool '{choice.get('name')}' not found in provided tools")


def check_thinking(body):
    thinking = body.get("thinking")
    if thinking is None:
        return
    kinds = ("enabled", "disabled", "adaptive", "between_tools")
    if not isinstance(thinking, dict) or thinking.get("type") not in kinds:
        refuse(f"thinking: Input tag does not match any of the expected tags: {', '.join(kinds)}")
    if thinking["type"] == "enabled":
        budget = thinking.get("budget_tokens")
        if budget is None:
            refuse("thinking.enabled.budget_tokens: Field required")
        if not is_int(budget) or budget < 1024:
            refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= body["max_tokens"]:
            refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
    forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    if thinking["type"] != "disabled" and forced:
        refuse("Thinking may not be enabled when tool_choice forces tool use.")


def check_output(body):
    config = body.get("output_config")
    if config is None:
        return
    if not isinstance(config, dict) or not set(config) <= {"effort", "format"}:
        refuse("output_config: Extra inputs are not permitted")
    form = config.get("format")
    if form is None:
        return
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        refuse("output_config.format.type: Input should be 'json_schema'")
    if not isinstance(form.get("schema"), dict):
        refuse("output_config.format.schema: Field required")
    check_closed(form["schema"])


def check_closed(schema):
    """Every object of a schema for structured output says that it has no further members."""
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        refuse(
            "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set "
            "to "
            "false"
        )
    for below in (
        *(schema.get("properties") or {}).values(),
        *(schema.get("$defs") or {}).values(),
        schema.get("items"),
        *(schema.get("anyOf") or []),
    ):
        if isinstance(below, dict):
            check_closed(below)


def check_system(system):
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        refuse("system: Input should be a valid list")
    for index, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            refuse(f"system.{index}.type: Input should be 'text'")
        if not block.get("text"):
            refuse("system: text content blocks must be non-empty")


def check_messages(body, version, names):
    messages = body["messages"]
    if not isinstance(messages, list):
        refuse("messages: Input should be a valid list")
    if not messages:
        refuse("messages: at least one message is required")
    if sum(count_breakpoints(part) for part in (messages, body.get("system"), body.get("tools"))) > 4:
        refuse("A maximum of 4 blocks with cache_control may be provided.")
    for index, message in enumerate(messages):
        check_message(message, index, body, version)
    if messages[0]["role"] != "user":
        refuse('messages: first message must use the "user" role')
    check_pairs(merge(messages))
    uses = any(
        block.get("type") in ("tool_use", "tool_result") for message in messages for block in blocks(message)
    )
    if uses and not names:
        refuse("Requests which include `tool_use` or `tool_result` blocks must define tools")
    if messages[-1]["role"] == "assistant":
        if not PREFILL.match(body["model"]):
            refuse(
                "This model does not support assistant message prefill. The conversation must end with a "
                "user "
                "message."
            )
        last = blocks(messages[-1])
        if last and last[-1].get("text", "").rstrip() != last[-1].get("text", ""):
            refuse("messages: final assistant content cannot end with trailing whitespace")


def count_breakpoints(part):
    if isinstance(part, dict):
        return ("cache_control" in part) + sum(count_breakpoints(value) for value in part.values())
    return sum(count_breakpoints(value) for value in part) if isinstance(part, list) else 0


def check_message(message, index, body, version):
    where = f"messages.{index}"
    if not isinstance(message, dict):
        refuse(f"{where}: Input should be a valid dictionary or object to extract fields from")
    for member in message:
        if member not in ("role", "content"):
            refuse(f"{where}.{member}: Extra inputs are not permitted")
    for member in ("role", "content"):
        if member not in message:
            refuse(f"{where}.{member}: Field required")
    role = message["role"]
    if role == "system":
        if NO_SYSTEM_TURN.match(body["model"]):
            refuse(
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
                "parameter, not "
                '"system" as an input message role.'
            )
        if index == 0 or body["messages"][index - 1].get("role") != "user":
            refuse(f"{where}: a system message must follow a user message")
    elif role not in ("user", "assistant"):
        refuse(f"{where}.role: Input should be 'user' or 'assistant'")
    content = message["content"]
    if not isinstance(content, (str, list)):
        refuse(f"{where}.content: Input should be a valid string or list")
    final = index == len(body["messages"]) - 1
    if not content and not (final and role == "assistant"):
        refuse(
            f"{where}: all messages must have non-empty content except for the optional final assistant "
            "message"
        )
    for position, block in enumerate(blocks(message)):
        check_block(block, f"{where}.content.{position}", role, version)


BLOCKS = {
    "user": ("text", "image", "document", "search_result", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
    "system": ("text",),
}
REQUIRED = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "search_result": ("source", "title", "content"),
    "tool_result": ("tool_use_id",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
}


def check_block(block, where, role, version):
    if not isinstance(block, dict):
        refuse(f"{where}: Input should be a valid dictionary or object to extract fields from")
    kind = block.get("type")
    if kind not in REQUIRED:
        expected = ", ".join(f"'{name}'" for name in sorted(REQUIRED))
        refuse(
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
            f"{expected}"
        )
    for member in REQUIRED[kind]:
        if member not in block:
            refuse(f"{where}.{kind}.{member}: Field required")
    older_document = kind == "document" and role == "assistant" and version == "2023-06-01"
    if kind not in BLOCKS[role] and not older_document:
        holder = {"tool_result": "user", "tool_use": "assistant"}.get(kind)
        if holder:
            refuse(f"{where}: `{kind}` blocks can only be in `{holder}` messages")
        refuse(f"{where}: `{kind}` blocks are not permitted in `{role}` messages")
    if kind == "text":
        if not isinstance(block["text"], str):
            refuse(f"{where}.text.text: Input should be a valid string")
        if block["text"] == "":
            refuse("messages: text content blocks must be non-empty")
        if not block["text"].strip():
            refuse("messages: text content blocks must contain non-whitespace text")
        if role == "user" and block.get("citations") and version != "2023-06-01":
            refuse(f"{where}.text.citations: citations are not permitted in user messages")
    if kind == "tool_use":
        if not isinstance(block["id"], str) or not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
            refuse(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not isinstance(block["input"], dict):
            refuse(f"{where}.tool_use.input: Input should be a valid dictionary")
    if kind == "tool_result":
        content = block.get("content", "")
        if not isinstance(content, (str, list)):
            refuse(f"{where}.tool_result.content: Input should be a valid string or list")
        for position, part in enumerate(content if isinstance(content, list) else []):
            check_block(part, f"{where}.tool_result.content.{position}", "user", version)
        if not isinstance(block.get("is_error", False), bool):
            refuse(f"{where}.tool_result.is_error: Input should be a valid boolean")


def blocks(message):
    """The blocks of a message; text is one block, without the rule that a block is not empty."""
    content = message["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return content


def merge(messages):
    """Turns: messages of one role after another are one turn, which keeps the index of its first message."""
    turns = []
    for index, message in enumerate(messages):
        if message["role"] == "system":
            continue
        found = [
            (f"messages.{index}.content.{position}", block) for position, block in enumerate(blocks(message))
        ]
        if turns and turns[-1]["role"] == message["role"]:
            turns[-1]["blocks"].extend(found)
        else:
            turns.append({"role": message["role"], "index": index, "blocks": found})
    return turns


def check_pairs(turns):
    """Each call of a tool has one result at the start of the next turn, and each result has a call."""
    asked, seen = [], set()
    for position, turn in enumerate(turns):
        answered = []
        for where, block in turn["blocks"]:
            if block["type"] == "tool_result":
                name = block["tool_use_id"]
                if name not in asked:
                    refuse(
                        f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each "
                        "`tool_result` block must have a corresponding `tool_use` block in the previous "
                        "message."
                    )
                if name in answered:
                    refuse(
                        f"{where}: each tool_use must have a single result. Found multiple `tool_result` "
                        "blocks "
                        f"with id: {name}"
                    )
                answered.append(name)
            elif len(answered) < len(asked) and turn["role"] == "user":
                break
        missing = [name for name in asked if name not in answered]
        if missing:
            refuse(
                f"messages.{turns[position - 1]['index']}: `tool_use` ids were found without `tool_result` "
                "blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a corresponding "
                "`tool_result` block in the next message."
            )
        asked = []
        for where, block in turn["blocks"]:
            if block["type"] == "tool_use":
                if block["id"] in seen:
                    refuse(f"{where}: `tool_use` ids must be unique")
                seen.add(block["id"])
                asked.append(block["id"])
    if asked:
        refuse(
            f"messages.{turns[-1]['index']}: `tool_use` ids were found without `tool_result` blocks "
            "immediately "
            f"after: {', '.join(asked)}. Each `tool_use` block must have a corresponding `tool_result` "
            "block in "
            "the next message."
        )


# ---- what rules look at --------------------------------------------------------------------------------


def facts(body):
    users = [message for message in body["messages"] if message["role"] == "user"]
    said = [text for text in ("".join(texts(blocks(message))) for message in users) if text]
    last = [block for _, block in merge(body["messages"])[-1]["blocks"]]
    results = [content_text(block.get("content", "")) for block in last if block["type"] == "tool_result"]
    return {
        "api": NAME,
        "model": body["model"],
        "stream": body.get("stream", False),
        "resume": None,
        "system": content_text(body.get("system") or ""),
        "user": said[-1] if said else "",
        "tool_results": results,
        "tools": [tool["name"] for tool in body.get("tools", [])],
    }


def texts(content):
    return [block["text"] for block in content if block["type"] == "text"]


def content_text(content):
    return content if isinstance(content, str) else "".join(texts(content))


def prompt_tokens(body):
    said = content_text(body.get("system") or "")
    for message in body["messages"]:
        for block in blocks(message):
            said += (
                block.get("text", "") or content_text(block.get("content", "")) or str(block.get("input", ""))
            )
    return tokens(said)


# ---- answers -------------------------------------------------------------------------------------------


def content_blocks(answer, number):
    content = []
    if answer.get("thinking"):
        signature = answer.get("signature", f"sig{number:06d}==")
        content.append({"type": "thinking", "thinking": answer["thinking"], "signature": signature})
    if answer.get("text"):
        content.append({"type": "text", "text": answer["text"]})
    for index, tool in enumerate(answer.get("tools", [])):
        name = tool.get("id", f"toolu_{number:06d}_{index}")
        content.append({"type": "tool_use", "id": name, "name": tool["name"], "input": tool_input(tool)})
    return content


def tool_input(tool):
    """The input of a call as an object. Only a stream can carry arguments that are none."""
    if "arguments" not in tool:
        return tool.get("input", {})
    try:
        value = json.loads(tool["arguments"])
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def stop(answer):
    """The stop reason, the stop sequence and the details of the end of an answer."""
    default = "refusal" if "refusal" in answer else "tool_use" if answer.get("tools") else "end_turn"
    reason = STOPS[answer.get("stop", "stop_sequence" if "stop_sequence" in answer else default)]
    details = None
    if reason == "refusal":
        details = {
            "type": "refusal",
            "category": answer.get("refusal_category"),
            "explanation": answer.get("refusal"),
        }
    return {"stop_reason": reason, "stop_sequence": answer.get("stop_sequence"), "stop_details": details}


def usage(body, answer):
    given = answer.get("usage", {})
    if given is None:
        return None
    written = given.get("cache_write", 0)
    said = answer.get("thinking", "") + answer.get("text", "") + str(answer.get("tools", ""))
    counts = {
        "input_tokens": given.get("input", prompt_tokens(body)),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": given.get("cache_read", 0),
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": given.get("output", max(tokens(said), 1)),
        "service_tier": "standard",
    }
    if "reasoning" in given:
        counts["output_tokens_details"] = {"thinking_tokens": given["reasoning"]}
    return counts


def whole(body, answer, number):
    message = {
        "id": f"msg_{number:024d}",
        "type": "message",
        "role": "assistant",
        "model": answer.get("model", body["model"]),
        "content": content_blocks(answer, number),
        **stop(answer),
    }
    counts = usage(body, answer)
    return {**message, "usage": counts} if counts is not None else message


def events(body, answer, number):
    """The events of a stream: names with data. An endless answer never leaves its text."""
    message = whole(body, answer, number)
    content = message["content"]
    counts = message.get("usage")
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    if counts is not None:
        start["usage"] = {**counts, "output_tokens": 1}
        start["usage"].pop("output_tokens_details", None)
    yield event({"type": "message_start", "message": start})
    before = len(content) - len(answer.get("tools", []))
    for index, block in enumerate(content):
        yield event({"type": "content_block_start", "index": index, "content_block": opened(block)})
        if index == 0:
            yield event({"type": "ping"})
        tool = answer["tools"][index - before] if index >= before else None
        for delta in deltas(block, tool, answer):
            yield event({"type": "content_block_delta", "index": index, "delta": delta})
        yield event({"type": "content_block_stop", "index": index})
    end = {
        "type": "message_delta",
        "delta": {name: message[name] for name in ("stop_reason", "stop_sequence", "stop_details")},
    }
    if counts is not None:
        told = (
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "output_tokens",
            "output_tokens_details",
        )
        end["usage"] = {name: counts[name] for name in told if name in counts}
    yield event(end)
    yield event({"type": "message_stop"})


def event(data):
    return data["type"], data


def opened(block):
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}
    return {**block, **empty[block["type"]]}


def deltas(block, tool, answer):
    size = answer["piece"]
    if block["type"] == "text":
        parts = pieces(block["text"], size)
        for part in itertools.cycle(parts) if answer.get("endless") else parts:
            yield {"type": "text_delta", "text": part}
    elif block["type"] == "thinking":
        for part in pieces(block["thinking"], size):
            yield {"type": "thinking_delta", "thinking": part}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        yield {"type": "input_json_delta", "partial_json": ""}
        for part in pieces(arguments(tool), size):
            yield {"type": "input_json_delta", "partial_json": part}


def error_event(fields, message, number):
    return "error", error_body(fields, message, number)


END = None
