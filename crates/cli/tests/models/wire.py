"""How the bytes of an answer go out: framing, sizes of writes, gates, and the faults of a connection.

It knows no protocol. A body is a sequence of bytes and of marks between them; everything that a fault does to
the bytes happens here.
"""

import os
import select
import socket
import struct
import time

from problems import compact

NEWLINES = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}


class ClientGone(Exception):
    """The client closed the connection before the answer was whole."""


class Cut(Exception):
    """The rule wants the connection closed here."""


class Gate:
    """A mark in a body: what follows waits until a file exists."""

    def __init__(self, path):
        self.path = path

    def wait(self, connection):
        """Says in `PATH.reached` that it waits, then waits for the file, or until the client leaves."""
        with open(f"{self.path}.reached", "a", encoding="utf-8") as file:
            file.write("reached\n")
        while not os.path.exists(self.path):
            readable, _, _ = select.select([connection], [], [], 0)
            if readable and not connection.recv(1, socket.MSG_PEEK):
                raise ClientGone
            time.sleep(0.005)


def sse_event(name, data, newline):
    """The bytes of an event. Data that is text goes out as it is."""
    end = NEWLINES[newline]
    text = data if isinstance(data, str) else compact(data)
    lines = [f"event: {name}"] if name else []
    return (end.join([*lines, f"data: {text}", "", ""])).encode()


def stream(events, wire, last, error):
    """The body of a stream: events as bytes, with the faults and marks of a rule.

    `last` closes a stream that is not cut off, `error` is an event and how many come before it.
    """
    newline = wire.get("newline", "lf")
    gate, cut = wire.get("gate"), wire.get("cut") or {}
    gate = None if gate and gate.get("head") else gate
    broken, position = wire.get("malformed"), wire.get("malformed_at", 1)
    held, count = [], 0
    for index, (name, data) in enumerate(events):
        if gate and index == gate.get("after", 0):
            yield Gate(gate["file"])
        if index == cut.get("after_events"):
            yield Cut
        if error and index == error[1]:
            yield sse_event(*error[0], newline)
            return
        if wire.get("comments"):
            yield f": comment {index}{NEWLINES[newline] * 2}".encode()
        written = sse_event(name, data, newline)
        if broken == "end":
            held.append(written)
            if len(held) > 2:
                yield held.pop(0)
            continue
        yield spoil(written, broken, newline) if broken and index == position else written
        count = index + 1
    if gate and count <= gate.get("after", 0):
        yield Gate(gate["file"])
    if count <= cut.get("after_events", -1):
        yield Cut
    if last is not None and broken != "end":
        yield sse_event(None, last, newline)


def spoil(written, how, newline="lf"):
    """The bytes of an event or a body after a fault that is in the text itself."""
    if how == "json":
        at = written.index(b"{")
        return written[: at + (len(written) - at) // 2] + (NEWLINES[newline] * 2).encode()
    if how == "sse":
        return written.replace(b"data: ", b"data ", 1)
    if how == "utf8":
        at = written.index(b"{")
        return written[: at + 2] + b"\xff\xfe" + written[at + 2 :]
    raise AssertionError(how)


def spoil_body(body, how):
    """A body that is no stream, after a fault, with its content type."""
    if how == "json":
        return body[: len(body) // 2], "application/json"
    if how == "utf8":
        return spoil(body, how), "application/json"
    if how == "shape":
        return b'["not","an","answer"]', "application/json"
    if how == "empty":
        return b"", "application/json"
    return b"<html><head><title>502 Bad Gateway</title></head><body>Bad Gateway</body></html>", "text/html"


def sized(body, sizes):
    """A body in writes of given sizes, which repeat; a mark writes what is left before it."""
    if not sizes:
        yield from body
        return
    sizes = [sizes] if isinstance(sizes, int) else sizes
    buffer, turn = b"", 0
    for part in body:
        if not isinstance(part, bytes):
            if buffer:
                yield buffer
            buffer = b""
            yield part
            continue
        buffer += part
        start = 0
        while len(buffer) - start >= sizes[turn % len(sizes)]:
            size = sizes[turn % len(sizes)]
            yield buffer[start : start + size]
            start += size
            turn += 1
        buffer = buffer[start:]
    if buffer:
        yield buffer


def send(connection, head, body, framing, wire):
    """Sends an answer. Raises what says why it is not whole."""
    cut = wire.get("cut") or {}
    left = cut.get("after_bytes")
    gate = wire.get("gate") or {}
    try:
        if gate.get("head"):
            Gate(gate["file"]).wait(connection)
        connection.sendall(head)
        for part in sized(body, wire.get("chunk")):
            if part is Cut:
                raise Cut
            if isinstance(part, Gate):
                part.wait(connection)
                continue
            if left is not None and len(part) >= left:
                part = part[:left]
            if part:
                connection.sendall(b"%x\r\n%s\r\n" % (len(part), part) if framing == "chunked" else part)
            if left is not None:
                left -= len(part)
                if left == 0:
                    raise Cut
        if framing == "chunked":
            connection.sendall(b"0\r\n\r\n")
    except Cut:
        if cut.get("how") == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise
    except (BrokenPipeError, ConnectionResetError) as error:
        raise ClientGone from error
