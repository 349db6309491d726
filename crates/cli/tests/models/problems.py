"""What a protocol says about a bad request, and what both protocols do alike."""

import json


class Refused(Exception):
    """A request that the API answers with an error: its HTTP status and the fields of the error."""

    def __init__(self, status, message, **fields):
        super().__init__(message)
        self.status = status
        self.message = message
        self.fields = fields


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def pieces(text, size):
    """A text in parts of `size` characters; an empty text has no part."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def tokens(text):
    """A count of tokens that is the same on every run: one for each four characters, rounded up."""
    return -(-len(text) // 4)


def compact(value):
    """JSON as the APIs write it: without spaces, and with every character as itself."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments(tool):
    """The arguments of a scripted call as text: exactly what the rule says, or its input as JSON."""
    return tool["arguments"] if "arguments" in tool else compact(tool.get("input", {}))
