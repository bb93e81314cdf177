"""Protocols in text, as in text.h, headers.h and parts.h of the runtime: functions of expressions, and how the end of a
message is found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE = 4096
"""Bytes of a line with the length of a part."""
TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
NO_TAIL, CHUNKS, TO_THE_END, RESP, VALUES, COMMAND, BULKS = range(7)


class MalformedError(Exception):
    """Bytes that are no message; the reason."""


class EndError(Exception):
    """There are too few bytes."""


@dataclass
class Tail:
    """The missing rest of a message."""

    kind: int
    allowed: int
    state: int = 0
    left: int = 1


def decimal(text: bytes) -> int:
    """A decimal number of at most 18 digits. Raises MalformedError."""
    if not 1 <= len(text) <= 18 or any(not 48 <= each <= 57 for each in text):
        raise MalformedError("number")
    return int(text)


def plain(text: bytes, tab: bool = False) -> bool:
    """Whether bytes are text without control characters; a tab is none where `tab` is set."""
    return not any((each < 32 and not (tab and each == 9)) or each == 127 for each in text)


def word(text: bytes, number: int) -> bytes:
    """Word `number`, from 0, between spaces; empty if there are fewer."""
    words = [each for each in text.split(b" ") if each]
    return words[number] if 0 <= number < len(words) else b""


def line(text: bytes) -> bytes:
    """The first line, without the CR LF that ends it; all of a text that has none."""
    return text.partition(b"\r\n")[0]


def headers(data: bytes) -> bytes | None:
    """The header fields that the bytes begin with; None if their end is not there. Raises MalformedError."""
    at = 0
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        line = data[at:end]
        if not line:
            return data[:at]
        name, colon, value = line.partition(b":")
        if not colon or not name or not TOKEN.issuperset(name):
            raise MalformedError("header")
        if not plain(value, tab=True):
            raise MalformedError("header")
        at = end + 2


def _rests(block: bytes, name: bytes) -> list[bytes]:
    """The values of fields of a name."""
    fields = (line.partition(b":") for line in block.split(b"\r\n") if line)
    return [value for each, _, value in fields if each.lower() == name.lower()]


def _values(block: bytes, name: bytes) -> list[bytes]:
    return [value.strip(b" \t") for value in _rests(block, name)]


def header(block: bytes, name: bytes) -> bytes:
    """The first value of a name; empty if there is none."""
    return next(iter(_values(block, name)), b"")


def has(block: bytes, name: bytes, token: bytes) -> int:
    """Whether a list of a name contains a token."""
    items = [item.strip(b" \t").lower() for value in _values(block, name) for item in value.split(b",") if value]
    return int(token.lower() in items)


def mute(line: bytes) -> bytes:
    """A line of Memcached in which `noreply` at the end, or, of a meta command, the words `q` after the first two,
    are spaces.
    """
    if len(word(line, 0)) != 2 and line.rstrip(b" ").endswith(b" noreply"):
        return line.rstrip(b" ").removesuffix(b"noreply").ljust(len(line))
    parts, words = re.split(rb"( +)", line), 0
    for number, each in enumerate(parts):
        words += bool(each.strip(b" "))
        if each == b"q" and words > 2:
            parts[number] = b" "
    return b"".join(parts)


HOPS = (b"keep-alive", b"proxy-connection", b"te", b"upgrade")
"""Fields of a connection, besides those that Connection names (RFC 9110, section 7.6.1)."""
STAY = (b"close", b"keep-alive", b"connection", b"content-length", b"transfer-encoding", b"host")
"""Fields that are not removed although Connection names them."""
OPTIONS = 16
"""Fields that Connection may name."""


def hops(block: bytes, fill: bytes) -> bytes:
    """A block whose fields of the connection are blanked: a line becomes spaces at the end of the value before it, and
    the first line an empty field. Connection has the value `fill` then, or `keep-alive` if it had that. Raises
    MalformedError.
    """
    lines = [[*line.partition(b":")[::2]] for line in block.split(b"\r\n")[:-1]]
    tokens = [_tokens(rest) for name, rest in lines if name.lower() == b"connection"]
    named = [each.lower() for every in tokens for each in every if each.lower() not in STAY]
    if len(named) > OPTIONS:
        raise MalformedError("connection")
    kept: list[list[bytes]] = []
    for name, rest in lines:
        size = len(name) + 1 + len(rest)
        if name.lower() not in (*HOPS, *named):
            kept.append([name, rest])
        elif kept:
            kept[-1][1] += b" " * (size + 2)
        else:
            empty = next((each for each in (b"Connection", b"TE") if len(each) < size), None)
            kept.append([name, rest] if empty is None else [empty, b" " * (size - 1 - len(empty))])
    filled = False
    for field in kept:
        if field[0].lower() == b"connection":
            field[1], filled = _options(field[1], fill, filled)
    return b"".join(name + b":" + rest + b"\r\n" for name, rest in kept)


def _tokens(rest: bytes) -> list[bytes]:
    return [each.strip(b" \t") for each in rest.split(b",") if each.strip(b" \t")]


def _options(rest: bytes, fill: bytes, filled: bool) -> tuple[bytes, bool]:
    """The value of Connection, and whether one has a value now."""
    size, at = len(rest), 0
    if not fill and not filled:
        for part in rest.split(b","):
            token = part.strip(b" \t")
            if token.lower() == b"keep-alive":
                return (b" " * (at + part.index(token)) + token).ljust(size), True
            at += len(part) + 1
    if not fill or filled or len(fill) > size:
        return b" " * size, filled
    return (b" " * (len(fill) < size) + fill).ljust(size), True


def framing(block: bytes, answer: bool, empty: bool) -> tuple[int, int]:
    """How a body is framed: its kind, and its size. Raises MalformedError."""
    lengths = {decimal(each.strip(b" ")) for each in _rests(block, b"content-length")}
    codings = [each.strip(b" ") for each in _rests(block, b"transfer-encoding")]
    if not answer and len(_rests(block, b"host")) > 1:
        raise MalformedError("host")
    if len(lengths) > 1 or len(codings) > 1 or (codings and (lengths or codings[0].lower() != b"chunked")):
        raise MalformedError("framing")
    if empty:
        return NO_TAIL, 0
    if codings:
        return CHUNKS, 0
    if lengths:
        return NO_TAIL, lengths.pop()
    return (TO_THE_END if answer else NO_TAIL), 0


def part(tail: Tail, data: bytes) -> int:
    """The bytes of the next part. Raises EndError and MalformedError."""
    if tail.kind == TO_THE_END:
        raise EndError
    if tail.state == 1:
        if len(data) < 2:
            raise EndError
        if data[:2] != b"\r\n":
            raise MalformedError("line end")
        tail.state = 0
        if tail.kind != CHUNKS and tail.left == 0:
            tail.kind = NO_TAIL
        return 2
    found = data.find(b"\r\n", 0, LINE)
    if found < 0:
        if len(data) >= LINE:
            raise MalformedError("line")
        raise EndError
    line = found + 2
    if b"\n" in data[:found]:
        raise MalformedError("line")
    take = {CHUNKS: _chunk, RESP: _resp, VALUES: _value, COMMAND: _command, BULKS: _command}[tail.kind](
        tail, data[:line]
    )
    if take > tail.allowed:
        raise MalformedError("too long")
    tail.allowed -= take
    return take


def _chunk(tail: Tail, line: bytes) -> int:
    if not plain(line[:-2], tab=True):
        raise MalformedError("chunk")
    if tail.state == 2:
        name, colon, _ = line.partition(b":")
        if len(line) == 2:
            tail.kind = NO_TAIL
        elif not colon or not name or not TOKEN.issuperset(name):
            raise MalformedError("trailer")
        return len(line)
    digits = 0
    while line[digits] in b"0123456789abcdefABCDEF":
        digits += 1
    if not 1 <= digits <= 8 or line[digits] not in b"\r;":
        raise MalformedError("chunk")
    size = int(line[:digits], 16)
    tail.state = 1 if size else 2
    return len(line) + size


def _resp(tail: Tail, line: bytes) -> int:
    tail.left -= 1
    kind, count = line[:1], 0
    if kind in (b"$", b"=", b"!", b"*", b"~", b">", b"%", b"|") and line[1:-2] != b"-1":
        count = decimal(line[1:-2])
        if count > 512 << 20:
            raise MalformedError("size")
        if kind in (b"$", b"=", b"!"):
            tail.state = 1
            return len(line) + count
        count = count * 2 + (kind == b"|") if kind in (b"%", b"|") else count
        if count + tail.left > 1 << 20:
            raise MalformedError("count")
        tail.left += count
    if tail.left == 0:
        tail.kind = NO_TAIL
    return len(line)


def _command(tail: Tail, line: bytes) -> int:
    first, size = tail.kind == COMMAND, len(line)
    if first and line[:1] != b"*":
        tail.kind = NO_TAIL
        if not plain(line[:-2]) or b'"' in line or b"'" in line:
            raise MalformedError("quotes or control characters")
        return size
    count = 0 if first and line[1:-2] == b"-1" else decimal(line[1:-2])
    if count > (1 << 20 if first else 512 << 20) or (not first and line[:1] != b"$"):
        raise MalformedError("item")
    if first:
        tail.kind, tail.left = (BULKS if count else NO_TAIL), count
        return size
    tail.left -= 1
    tail.state = 1
    return size + count


def _value(tail: Tail, line: bytes) -> int:
    for prefix, place in ((b"VALUE ", 3), (b"VA ", 1)):
        if line.startswith(prefix) and len(line) > len(prefix):
            tail.state, tail.left = 1, int(place == 3)
            return len(line) + decimal(word(line[:-2], place))
    if not line.startswith((b"STAT ", b"ITEM ")):
        tail.kind = NO_TAIL
    return len(line)


def parts(tail: Tail, data: bytes, at: int) -> int:
    """Where the parts of a message end. Raises EndError and MalformedError."""
    while tail.kind:
        if at > len(data):
            raise EndError
        at += part(tail, data[at:])
    return at


def item(text: bytes, number: int) -> bytes:
    """Item `number` of an array of bulk strings; of an inline command, word `number`. Raises EndError."""
    line = text.find(b"\r\n") + 2
    if line == 1:
        raise EndError
    if text[:1] != b"*":
        return word(text[: line - 2], number)
    try:
        if not 0 <= number < decimal(text[1 : line - 2]):
            return b""
        at = line
        for i in range(number + 1):
            end = text.find(b"\r\n", at)
            if end < 0:
                raise EndError
            if text[at : at + 1] != b"$":
                return b""
            size = decimal(text[at + 1 : end])
            at = end + 2
            if i < number:
                at += size + 2
        if at + size > len(text):  # pyright: ignore[reportPossiblyUnboundVariable]
            raise EndError
        return text[at : at + size]  # pyright: ignore[reportPossiblyUnboundVariable]
    except MalformedError:
        return b""


def vint(data: bytes, at: int) -> tuple[int, int]:
    """An integer of variable size, and where it ends. Raises EndError."""
    if at >= len(data):
        raise EndError
    first = data[at] - 256 if data[at] > 127 else data[at]
    if first >= -112:
        return first, at + 1
    size = -120 - first if first < -120 else -112 - first
    if at + 1 + size > len(data):
        raise EndError
    value = int.from_bytes(data[at + 1 : at + 1 + size], "big")
    value = ~value if first < -120 else value
    return (value + (1 << 63)) % (1 << 64) - (1 << 63), at + 1 + size


def vint_bytes(value: int) -> bytes:
    """The bytes of one."""
    if -112 <= value <= 127:
        return bytes([value % 256])
    left = ~value if value < 0 else value
    size = (left.bit_length() + 7) // 8
    return bytes([((-120 if value < 0 else -112) - size) % 256]) + left.to_bytes(size, "big")
