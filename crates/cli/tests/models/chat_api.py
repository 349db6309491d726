"""The OpenAI chat completions API: what it refuses, and how it writes an answer, whole and as a stream.

It opens no socket: a request is a table of headers and a body, an answer is JSON or a list of events. The
texts of errors are those of the API where they are publicly known.
"""

import itertools
import re

from problems import Refused, arguments, is_int, is_number, pieces, tokens

NAME = "openai"
PATH = "/v1/chat/completions"
REQUEST_ID = "x-request-id"

CREATED = 1700000000
MEMBERS = {
    "messages",
    "model",
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "modalities",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
}
STOPS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    **{name: name for name in ("stop", "length", "tool_calls", "content_filter")},
}
# Models that think first: they count the thinking in `max_completion_tokens` and fix how they sample.
REASONING = re.compile(r"o\d|gpt-[5-9]")

ERRORS = {
    "bad_request": (400, "invalid_request_error", "Invalid request.", None, None),
    "context_length": (
        400,
        "invalid_request_error",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "204308 tokens. Please reduce the length of the messages.",
        "messages",
        "context_length_exceeded",
    ),
    "invalid_key": (
        401,
        "invalid_request_error",
        "Incorrect API key provided: sk-x. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
        None,
        "invalid_api_key",
    ),
    "permission": (403, "invalid_request_error", "You are not allowed to sample from this model", None, None),
    "not_found": (
        404,
        "invalid_request_error",
        "The model `no-such-model` does not exist or you do not have access to it.",
        None,
        "model_not_found",
    ),
    "too_large": (413, "invalid_request_error", "Request entity too large", None, None),
    "rate_limit": (
        429,
        "requests",
        "Rate limit reached for this model in organization org-x on requests per min (RPM): Limit 3, "
        "Used 3, Requested 1. Please try again in 20s.",
        None,
        "rate_limit_exceeded",
    ),
    "insufficient_quota": (
        429,
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
        None,
        "insufficient_quota",
    ),
    "server_error": (
        500,
        "server_error",
        "The server had an error while processing your request. Sorry about that!",
        None,
        None,
    ),
    "overloaded": (
        503,
        "service_unavailable_error",
        "The engine is currently overloaded, please try again later",
        None,
        None,
    ),
}
BY_STATUS = {
    400: "bad_request",
    401: "invalid_key",
    403: "permission",
    404: "not_found",
    413: "too_large",
    429: "rate_limit",
    500: "server_error",
    503: "overloaded",
}


def refuse(message, param=None, code=None, status=400):
    raise Refused(status, message, type="invalid_request_error", param=param, code=code)


def error_body(fields, message, _number):
    error = {
        "message": message,
        "type": fields.get("type", "server_error"),
        "param": fields.get("param"),
        "code": fields.get("code"),
    }
    return {"error": error}


def request_id(number):
    return f"req_{number:032x}"


# ---- what the API refuses ------------------------------------------------------------------------------


def authenticate(headers, keys):
    bearer = headers.get("authorization", "")
    key = bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else ""
    if not key:
        refuse(
            "You didn't provide an API key. You need to provide your API key in an Authorization header "
            "using "
            "Bearer auth (i.e. Authorization: Bearer YOUR_KEY), or as the password field (with blank "
            "username) "
            "if you're accessing the API from your browser and are prompted for a username and password. "
            "You can "
            "obtain an API key from https://platform.openai.com/account/api-keys.",
            status=401,
        )
    if keys is not None and key not in keys:
        shown = key[:8] + "*" * max(len(key) - 12, 0) + key[-4:] if len(key) > 12 else "*" * len(key)
        refuse(
            f"Incorrect API key provided: {shown}. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            code="invalid_api_key",
            status=401,
        )


def validate(_headers, body, settings):
    if not isinstance(body, dict):
        refuse(
            "We could not parse the JSON body of your request. The OpenAI API expects a JSON payload, but "
            "what was "
            "sent was not valid JSON."
        )
    if "model" not in body:
        refuse("you must provide a model parameter")
    if "messages" not in body:
        refuse("Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    for member in body:
        if member not in MEMBERS:
            refuse(f"Unrecognized request argument supplied: {member}")
    check_scalars(body)
    check_tools(body)
    check_messages(body)
    check_format(body)
    if settings["models"] is not None and body["model"] not in settings["models"]:
        refuse(
            f"The model `{body['model']}` does not exist or you do not have access to it.",
            None,
            "model_not_found",
            404,
        )
    used, limit = prompt_tokens(body), settings["context"]
    if limit is not None and used > limit:
        refuse(
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in "
            f"{used} "
            "tokens. Please reduce the length of the messages.",
            "messages",
            "context_length_exceeded",
        )


def expect(value, kind, param):
    """Refuses a value of another JSON type."""
    fits = {
        "a string": lambda: isinstance(value, str),
        "an object": lambda: isinstance(value, dict),
        "an array": lambda: isinstance(value, list),
        "an integer": lambda: is_int(value),
        "a decimal": lambda: is_number(value),
        "a boolean": lambda: isinstance(value, bool),
    }
    if not fits[kind]():
        refuse(
            f"Invalid type for '{param}': expected {kind}, but got {described(value)} instead.",
            param,
            "invalid_type",
        )


def described(value):
    names = {
        str: "a string",
        dict: "an object",
        list: "an array",
        bool: "a boolean",
        int: "an integer",
        float: "a decimal number",
        type(None): "null",
    }
    return names[type(value)]


def check_scalars(body):
    expect(body["model"], "a string", "model")
    reasons = REASONING.match(body["model"])
    for member in ("stream", "parallel_tool_calls", "store", "logprobs"):
        if body.get(member) is not None:
            expect(body[member], "a boolean", member)
    for member, least, most in (
        ("temperature", 0, 2),
        ("top_p", 0, 1),
        ("presence_penalty", -2, 2),
        ("frequency_penalty", -2, 2),
    ):
        value = body.get(member)
        if value is None:
            continue
        expect(value, "a decimal", member)
        if value < least:
            refuse(
                f"Invalid '{member}': decimal below minimum value. Expected a value >= {least}, but got "
                f"{value} "
                "instead.",
                member,
                "decimal_below_min_value",
            )
        if value > most:
            refuse(
                f"Invalid '{member}': decimal above maximum value. Expected a value <= {most}, but got "
                f"{value} "
                "instead.",
                member,
                "decimal_above_max_value",
            )
        if (
            reasons
            and member in ("temperature", "top_p")
            and value != 1
            and body.get("reasoning_effort") != "none"
        ):
            refuse(
                f"Unsupported value: '{member}' does not support {value} with this model. Only the default "
                "(1) "
                "value is supported.",
                member,
                "unsupported_value",
            )
    for member in ("max_tokens", "max_completion_tokens"):
        value = body.get(member)
        if value is None:
            continue
        expect(value, "an integer", member)
        if value < 1:
            refuse(
                f"Invalid '{member}': integer below minimum value. Expected a value >= 1, but got {value} "
                "instead.",
                member,
                "integer_below_min_value",
            )
    if reasons and body.get("max_tokens") is not None:
        refuse(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' "
            "instead.",
            "max_tokens",
            "unsupported_parameter",
        )
    if body.get("stream_options") is not None:
        if not body.get("stream"):
            refuse(
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options"
            )
        expect(body["stream_options"], "an object", "stream_options")
    stops = body.get("stop")
    if isinstance(stops, list) and len(stops) > 4:
        refuse(
            f"Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with "
            f"length {len(stops)} instead.",
            "stop",
            "array_above_max_length",
        )


def check_tools(body):
    tools = body.get("tools")
    if tools is None:
        for member in ("tool_choice", "parallel_tool_calls"):
            if body.get(member) is not None:
                refuse(
                    f"Invalid value for '{member}': '{member}' is only allowed when 'tools' are specified.",
                    member,
                )
        return
    expect(tools, "an array", "tools")
    if not tools:
        refuse(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array "
            "instead.",
            "tools",
            "empty_array",
        )
    names = [check_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    choice = body.get("tool_choice")
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        refuse(
            f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'.",
            "tool_choice",
            "invalid_value",
        )
    if isinstance(choice, dict) and choice.get("type") == "function":
        name = (choice.get("function") or {}).get("name")
        if name not in names:
            refuse(f"Invalid value for 'tool_choice': the tool '{name}' is not in 'tools'.", "tool_choice")


def check_tool(tool, where):
    expect(tool, "an object", where)
    if "type" not in tool:
        refuse(f"Missing required parameter: '{where}.type'.", f"{where}.type", "missing_required_parameter")
    if tool["type"] != "function":
        refuse(
            f"Invalid value: '{tool['type']}'. Supported values are: 'function' and 'custom'.",
            f"{where}.type",
            "invalid_value",
        )
    function = tool.get("function")
    if function is None:
        refuse(
            f"Missing required parameter: '{where}.function'.",
            f"{where}.function",
            "missing_required_parameter",
        )
    expect(function, "an object", f"{where}.function")
    for member in function:
        if member not in ("name", "description", "parameters", "strict"):
            refuse(
                f"Unknown parameter: '{where}.function.{member}'.",
                f"{where}.function.{member}",
                "unknown_parameter",
            )
    if "name" not in function:
        refuse(
            f"Missing required parameter: '{where}.function.name'.",
            f"{where}.function.name",
            "missing_required_parameter",
        )
    check_name(function["name"], f"{where}.function.name")
    parameters = function.get("parameters")
    if parameters is not None:
        param = f"{where}.function.parameters"
        expect(parameters, "an object", param)
        if parameters and parameters.get("type") != "object":
            refuse(
                f"Invalid schema for function '{function['name']}': schema must be a JSON Schema of 'type: "
                f"\"object\"', got 'type: \"{parameters.get('type')}\"'.",
                param,
                "invalid_function_parameters",
            )
        if function.get("strict"):
            check_strict(parameters, f"function '{function['name']}'", param, "invalid_function_parameters")
    return function["name"]


def check_name(name, where):
    expect(name, "a string", where)
    if len(name) > 64:
        refuse(
            f"Invalid '{where}': string too long. Expected a string with maximum length 64, but got a "
            "string with "
            f"length {len(name)} instead.",
            where,
            "string_above_max_length",
        )
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", name):
        refuse(
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            where,
            "invalid_value",
        )


def check_strict(schema, owner, param, code, context=()):
    """A strict schema lists every property as required, and allows no other."""
    shown = "(" + ", ".join(f"'{part}'" for part in context) + ("," if len(context) == 1 else "") + ")"
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            refuse(
                f"Invalid schema for {owner}: In context={shown}, 'additionalProperties' is required to be "
                "supplied "
                "and to be false.",
                param,
                code,
            )
        for name in schema.get("properties", {}):
            if name not in schema.get("required", []):
                refuse(
                    f"Invalid schema for {owner}: In context={shown}, 'required' is required to be supplied "
                    "and to "
                    f"be an array including every key in properties. Missing '{name}'.",
                    param,
                    code,
                )
    for name, below in (schema.get("properties") or {}).items():
        check_strict(below, owner, param, code, (*context, "properties", name))
    for name, below in (schema.get("$defs") or {}).items():
        check_strict(below, owner, param, code, (*context, "$defs", name))
    if isinstance(schema.get("items"), dict):
        check_strict(schema["items"], owner, param, code, (*context, "items"))


def check_format(body):
    form = body.get("response_format")
    if form is None:
        return
    expect(form, "an object", "response_format")
    if form.get("type") not in ("text", "json_object", "json_schema"):
        refuse(
            f"Invalid value: '{form.get('type')}'. Supported values are: 'json_object', 'json_schema', and "
            "'text'.",
            "response_format.type",
            "invalid_value",
        )
    if form["type"] == "json_object":
        said = "".join(content_text(message.get("content") or "") for message in body["messages"])
        if "json" not in said.lower():
            refuse(
                "'messages' must contain the word 'json' in some form, to use 'response_format' of type "
                "'json_object'.",
                "messages",
            )
    if form["type"] == "json_schema":
        schema = form.get("json_schema")
        if schema is None:
            refuse(
                "Missing required parameter: 'response_format.json_schema'.",
                "response_format.json_schema",
                "missing_required_parameter",
            )
        expect(schema, "an object", "response_format.json_schema")
        for member in ("name", "schema"):
            if member not in schema:
                refuse(
                    f"Missing required parameter: 'response_format.json_schema.{member}'.",
                    f"response_format.json_schema.{member}",
                    "missing_required_parameter",
                )
        check_name(schema["name"], "response_format.json_schema.name")
        if schema.get("strict"):
            check_strict(schema["schema"], f"response_format '{schema['name']}'", "response_format", None)


ROLES = ("system", "assistant", "user", "function", "tool", "developer")


def check_messages(body):
    messages = body["messages"]
    expect(messages, "an array", "messages")
    if not messages:
        refuse(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty "
            "array "
            "instead.",
            "messages",
            "empty_array",
        )
    for index, message in enumerate(messages):
        check_message(message, f"messages[{index}]", index)
    check_pairs(messages)


def check_message(message, where, index):
    expect(message, "an object", where)
    if "role" not in message:
        refuse(f"Missing required parameter: '{where}.role'.", f"{where}.role", "missing_required_parameter")
    role = message["role"]
    if role not in ROLES:
        refuse(
            f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', "
            "'tool', and "
            "'developer'.",
            f"{where}.role",
            "invalid_value",
        )
    content = message.get("content")
    spoken = role == "assistant" and (
        message.get("tool_calls") is not None or message.get("refusal") is not None
    )
    if content is None and not spoken:
        refuse("Invalid value for 'content': expected a string, got null.", f"messages.[{index}].content")
    if content is not None and not isinstance(content, (str, list)):
        refuse(
            f"Invalid type for '{where}.content': expected one of a string or array of objects, but got "
            f"{described(content)} instead.",
            f"{where}.content",
            "invalid_type",
        )
    for position, part in enumerate(content if isinstance(content, list) else []):
        expect(part, "an object", f"{where}.content[{position}]")
        if part.get("type") not in ("text", "image_url", "input_audio", "file", "refusal"):
            refuse(
                f"Invalid value: '{part.get('type')}'. Supported values are: 'text', 'image_url', "
                "'input_audio', "
                "'refusal', and 'file'.",
                f"{where}.content[{position}].type",
                "invalid_value",
            )
    if role == "tool" and "tool_call_id" not in message:
        refuse(
            f"Missing required parameter: '{where}.tool_call_id'.",
            f"{where}.tool_call_id",
            "missing_required_parameter",
        )
    if message.get("tool_calls") is not None:
        check_calls(message["tool_calls"], f"{where}.tool_calls")


def check_calls(calls, where):
    expect(calls, "an array", where)
    if not calls:
        refuse(
            f"Invalid '{where}': empty array. Expected an array with minimum length 1, but got an empty "
            "array "
            "instead.",
            where,
            "empty_array",
        )
    for index, call in enumerate(calls):
        at = f"{where}[{index}]"
        expect(call, "an object", at)
        for member in ("id", "type", "function"):
            if member not in call:
                refuse(
                    f"Missing required parameter: '{at}.{member}'.",
                    f"{at}.{member}",
                    "missing_required_parameter",
                )
        expect(call["id"], "a string", f"{at}.id")
        if len(call["id"]) > 40:
            refuse(
                f"Invalid '{at}.id': string too long. Expected a string with maximum length 40, but got a "
                "string "
                f"with length {len(call['id'])} instead.",
                f"{at}.id",
                "string_above_max_length",
            )
        expect(call["function"], "an object", f"{at}.function")
        for member in ("name", "arguments"):
            if member not in call["function"]:
                refuse(
                    f"Missing required parameter: '{at}.function.{member}'.",
                    f"{at}.function.{member}",
                    "missing_required_parameter",
                )
            expect(call["function"][member], "a string", f"{at}.function.{member}")


def check_pairs(messages):
    """Results follow the message with their calls at once, each call has one, and each result has a call."""
    waiting, calls = [], False
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if not calls:
                refuse(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
                    "message with "
                    "'tool_calls'.",
                    f"messages.[{index}].role",
                )
            if message["tool_call_id"] not in waiting:
                refuse(
                    f"Invalid parameter: 'tool_call_id' of '{message['tool_call_id']}' not found in "
                    "'tool_calls' of "
                    "previous message.",
                    f"messages.[{index}].tool_call_id",
                )
            waiting.remove(message["tool_call_id"])
            continue
        refuse_waiting(waiting, index)
        waiting = [call["id"] for call in message.get("tool_calls") or []]
        calls = bool(waiting)
    refuse_waiting(waiting, len(messages))


def refuse_waiting(waiting, index):
    if waiting:
        refuse(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(waiting)}",
            f"messages.[{index}].role",
        )


# ---- what rules look at --------------------------------------------------------------------------------


def facts(body):
    messages = body["messages"]
    system = [
        content_text(message["content"]) for message in messages if message["role"] in ("system", "developer")
    ]
    users = [content_text(message["content"]) for message in messages if message["role"] == "user"]
    last = itertools.takewhile(lambda message: message["role"] == "tool", reversed(messages))
    results = [content_text(message["content"]) for message in last][::-1]
    return {
        "api": NAME,
        "model": body["model"],
        "stream": body.get("stream") or False,
        "resume": None,
        "system": "\n".join(system),
        "user": users[-1] if users else "",
        "tool_results": results,
        "tools": [tool["function"]["name"] for tool in body.get("tools") or []],
    }


def content_text(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def prompt_tokens(body):
    said = ""
    for message in body["messages"]:
        said += content_text(message.get("content") or "")
        said += "".join(call["function"]["arguments"] for call in message.get("tool_calls") or [])
    return tokens(said)


# ---- answers -------------------------------------------------------------------------------------------


def tool_calls(answer, number):
    return [
        {
            "id": tool.get("id", f"call_{number:06d}_{index}"),
            "type": "function",
            "function": {"name": tool["name"], "arguments": arguments(tool)},
        }
        for index, tool in enumerate(answer.get("tools", []))
    ]


def finish_reason(answer):
    return STOPS[answer.get("stop", "tool_calls" if answer.get("tools") else "stop")]


def usage(body, answer):
    given = answer.get("usage", {})
    if given is None:
        return None
    cached, written = given.get("cache_read", 0), given.get("cache_write", 0)
    prompt = given.get("input", prompt_tokens(body)) + cached + written
    said = answer.get("text", "") + answer.get("refusal", "") + str(answer.get("tools", ""))
    completion = given.get("output", max(tokens(said), 1))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": given.get("reasoning", 0),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def head(body, answer, number, kind):
    return {
        "id": f"chatcmpl-{number:024d}",
        "object": kind,
        "created": CREATED,
        "model": answer.get("model", body["model"]),
        "service_tier": "default",
        "system_fingerprint": None,
    }


def whole(body, answer, number):
    message = {
        "role": "assistant",
        "content": answer.get("text") or None,
        "refusal": answer.get("refusal"),
        "annotations": [],
    }
    if answer.get("tools"):
        message["tool_calls"] = tool_calls(answer, number)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(answer)}
    completion = {**head(body, answer, number, "chat.completion"), "choices": [choice]}
    counts = usage(body, answer)
    return {**completion, "usage": counts} if counts is not None else completion


def events(body, answer, number):
    """The chunks of a stream. An endless answer never leaves its text."""
    wants_usage = (body.get("stream_options") or {}).get("include_usage", False)
    frame = head(body, answer, number, "chat.completion.chunk")
    counts = usage(body, answer)

    def chunk(delta, reason=None):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return None, {**frame, "choices": [choice], **({"usage": None} if wants_usage else {})}

    yield chunk({"role": "assistant", "content": "" if "text" in answer else None, "refusal": None})
    parts = pieces(answer.get("text", ""), answer["piece"])
    for part in itertools.cycle(parts) if answer.get("endless") and parts else parts:
        yield chunk({"content": part})
    for part in pieces(answer.get("refusal", ""), answer["piece"]):
        yield chunk({"refusal": part})
    for delta in call_deltas(answer, number):
        yield chunk({"tool_calls": [delta]})
    yield chunk({}, finish_reason(answer))
    if wants_usage and counts is not None:
        yield None, {**frame, "choices": [], "usage": counts}


def call_deltas(answer, number):
    """The parts of calls, one call after another, or in turn where the rule says so."""
    calls = tool_calls(answer, number)
    rows = []
    for index, call in enumerate(calls):
        first = {"index": index, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
        rest = [
            {"index": index, "function": {"arguments": part}}
            for part in pieces(call["function"]["arguments"], answer["piece"])
        ]
        rows.append([first, *rest])
    if not answer.get("interleave"):
        return [delta for row in rows for delta in row]
    return [delta for column in itertools.zip_longest(*rows) for delta in column if delta is not None]


def error_event(fields, message, number):
    return None, error_body(fields, message, number)


# The last line of a stream, which is not JSON.
END = "[DONE]"
