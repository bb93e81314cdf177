"""The ready grammars: messages that no function changes come out byte for byte, whatever the cuts of their bytes; any
bytes end in the same fault, compiled and interpreted.
"""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from sluice.service.grammar.scan import vint_bytes
from sluice.service.load import Service, load_source
from tests.service.programs import command
from tests.service.trial import Compiled, interpreted

FIELDS = {
    "http request": ("method", "uri", "host"),
    "http response": ("status", "reason"),
    "memcached_binary cmd": ("key", "value"),
    "memcached_text cmd": ("name", "key"),
    "memcached_text answer": ("line",),
    "redis command": ("name", "key"),
    "redis reply": (),
    "ifile kv": ("key", "value"),
    "ifile pair": ("key", "value"),
    "dns_tcp dns": ("id", "rest"),
    "records record4": ("data",),
    "shuffle shuffle_header": ("map_id", "part_length"),
}
INTEGERS = ("id", "part_length")


def service_of(name: str) -> Service:
    """A program that forwards the messages of a unit."""
    grammar, unit = name.split()
    integers = (*INTEGERS, "value") if name == "ifile kv" else INTEGERS
    fields = [f"  {each} : {'integer' if each in integers else 'string'}" for each in FIELDS[name]] or [
        "  message : string"
    ]
    lines = [f"type {unit}: record", *fields, f"process P: ({unit}/- from, -/{unit} to)", "  from => to"]
    return load_source("\n".join(lines) + "\n", [grammar])


WORDS = st.text("abcxyz0123456789-_", min_size=1, max_size=8).map(str.encode)
DATA = st.binary(max_size=40)


def chunked(parts: list[bytes]) -> bytes:
    body = b"".join(b"%x;x=1\r\n%b\r\n" % (len(each), each) for each in parts if each)
    return body + b"0\r\nTrailer: 1\r\n\r\n"


def http(first: bytes, fields: list[tuple[bytes, bytes]], body: bytes, chunks: list[bytes] | None) -> bytes:
    framing = b"Content-Length: %d\r\n" % len(body) if chunks is None else b"Transfer-Encoding: chunked\r\n"
    lines = b"".join(b"X-%b: %b\r\n" % each for each in fields)
    return first + b"\r\n" + lines + framing + b"\r\n" + (body if chunks is None else chunked(chunks))


FIELD_LISTS = st.lists(st.tuples(WORDS, WORDS), max_size=3)
CHUNKS = st.none() | st.lists(DATA, max_size=3)
REQUESTS = st.builds(
    lambda m, u, *rest: http(b"%b /%b HTTP/1.1" % (m, u), *rest), WORDS, WORDS, FIELD_LISTS, DATA, CHUNKS
)
RESPONSES = st.builds(lambda *rest: http(b"HTTP/1.1 200 All is well", *rest), FIELD_LISTS, DATA, CHUNKS)
TEXT = st.one_of(
    st.builds(lambda k: b"get %b\r\n" % k, WORDS),
    st.builds(lambda k, d: b"set %b 0 0 %d\r\n%b\r\n" % (k, len(d), d), WORDS, DATA),
    st.builds(lambda k, d: b"ms %b %d T0\r\n%b\r\n" % (k, len(d), d), WORDS, DATA),
)
VALUE = st.builds(lambda k, d: b"VALUE %b 0 %d\r\n%b\r\n" % (k, len(d), d), WORDS, DATA)
ANSWERS = st.one_of(
    st.just(b"STORED\r\n"), st.lists(VALUE, max_size=3).map(lambda each: b"".join(each) + b"END\r\n"),
    st.builds(lambda d: b"VA %d s1\r\n%b\r\n" % (len(d), d), DATA),
)  # fmt: skip
BULK = DATA.map(lambda data: b"$%d\r\n%b\r\n" % (len(data), data))
COMMANDS = st.sampled_from([b"PING\r\n", b" \r\n", b"*0\r\n", b"*-1\r\n", b"*1\r\n$0\r\n\r\n"]) | st.lists(
    BULK, min_size=1, max_size=4
).map(lambda each: b"*%d\r\n" % len(each) + b"".join(each))
REPLIES = st.recursive(
    st.sampled_from([b"+OK\r\n", b"-ERR no\r\n", b":12\r\n", b"$-1\r\n", b"*-1\r\n", b"_\r\n"]) | BULK,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: b"*%d\r\n" % len(each) + b"".join(each))
        | st.lists(st.tuples(inner, inner), max_size=2).map(
            lambda each: b"%%%d\r\n" % len(each) + b"".join(a + b for a, b in each)
        )
    ),
    max_leaves=6,
)


def kv(key: bytes, value: int) -> bytes:
    text = vint_bytes(len(key)) + key
    return vint_bytes(len(text)) + b"\x04" + text + struct.pack(">i", value)


def segment(pairs: list[bytes]) -> bytes:
    body = b"".join(pairs) + b"\xff\xff"
    return body + struct.pack(">I", zlib.crc32(body))


def raw_pair(key: bytes, value: bytes) -> bytes:
    return vint_bytes(len(key)) + vint_bytes(len(value)) + key + value


STREAMS = {
    "http request": st.lists(REQUESTS, max_size=4).map(b"".join),
    "http response": st.lists(RESPONSES, max_size=4).map(b"".join),
    "memcached_binary cmd": st.lists(st.builds(command, DATA, DATA), max_size=4).map(b"".join),
    "memcached_text cmd": st.lists(TEXT, max_size=4).map(b"".join),
    "memcached_text answer": st.lists(ANSWERS, max_size=4).map(b"".join),
    "redis command": st.lists(COMMANDS, max_size=4).map(b"".join),
    "redis reply": st.lists(REPLIES, max_size=4).map(b"".join),
    "ifile kv": st.lists(st.builds(kv, st.binary(max_size=200), st.integers(-(1 << 31), (1 << 31) - 1))).map(segment),
    "ifile pair": st.lists(st.builds(raw_pair, st.binary(max_size=200), DATA), max_size=5).map(segment),
    "dns_tcp dns": st.lists(
        st.builds(lambda h, d: struct.pack(">H", 12 + len(d)) + h + d, st.binary(min_size=12, max_size=12), DATA)
    ).map(b"".join),
    "records record4": st.lists(DATA.map(lambda d: struct.pack(">I", len(d)) + d), max_size=5).map(b"".join),
    "shuffle shuffle_header": st.lists(
        st.builds(
            lambda n, *sizes: vint_bytes(len(n)) + n + b"".join(map(vint_bytes, sizes)),
            WORDS, st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 1 << 40), st.integers(0, 9),
        )
    ).map(b"".join),
}  # fmt: skip

_COMPILED: dict[str, Compiled] = {}


def compiled(name: str) -> Compiled:
    if name not in _COMPILED:
        _COMPILED[name] = Compiled(service_of(name), ("-O0",))
    return _COMPILED[name]


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=12)
@for_all(data=st.data())
def test_messages_come_out_as_they_were(name: str, data: st.DataObject) -> None:
    stream, budget = data.draw(STREAMS[name]), data.draw(st.integers(1, 40))
    program = compiled(name)
    once = program.run({("from", 0): stream})
    assert once.sent["to", 0] == stream and once.ended
    assert program.run({("from", 0): stream}, budget=budget) == once
    assert interpreted(program.service, {("from", 0): stream}) == once


def test_the_line_of_an_answer_has_no_end_of_line() -> None:
    source = """\
type answer: record
  line : string
process P: (answer/- from, -/answer to)
  let got = ? from
  if got.line = "SERVER_ERROR out of memory" or got.line = "VALUE a 0 1" or got.line = "": got => to
"""
    service = load_source(source, ["memcached_text"])
    good = b"SERVER_ERROR out of memory\r\nVALUE a 0 1\r\n1\r\nEND\r\n\r\n"
    given = {("from", 0): b"SERVER_ERROR\r\nEND\r\n" + good + b"STORED\r\n"}
    once = Compiled(service).run(given)
    assert once.sent["to", 0] == good and once == interpreted(service, given)


def test_interim_responses_are_bounded() -> None:
    program = compiled("http response")
    interim, final = b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    for count, fault in ((16, ""), (17, "INTERIM")):
        given = {("from", 0): (count * interim + final) * 2}
        once = program.run(given)
        assert once.fault == fault and once == interpreted(program.service, given)


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=12)
@for_all(data=st.data())
def test_any_bytes_end_in_the_same_fault(name: str, data: st.DataObject) -> None:
    stream = bytearray(data.draw(STREAMS[name]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stream)))
        stream[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    given = {("from", 0): bytes(stream)}
    program = compiled(name)
    once, wanted = program.run(given), interpreted(program.service, given)
    assert bool(once.fault) == bool(wanted.fault)
    assert once.fault or once == wanted
