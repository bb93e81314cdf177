"""A grammar as a layer of a stack, and a layer as a grammar: one description serves a monitor and a router."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from sluice.lang import Assemble, Assign, Bit, Callback, Connectionless, Length, Pred, Sequence, Stack, layout
from sluice.service.grammar.codec import MalformedError, parse
from sluice.service.grammar.layer import layer_of, unit_of
from sluice.service.grammar.plan import plan
from sluice.service.grammar.ready import find_grammars
from sluice.service.lang.errors import ServiceError
from sluice.service.load import load_source
from tests.differential.both import Compared, assert_same, compiled, run_compiled
from tests.messages.test_messages import SETTINGS, segments, stream_hdr
from tests.service.programs import command
from tests.service.trial import Compiled


class seen(layout):
    opcode = Bit(8)
    key = Bit(999)
    body = Bit(999)


class record_hdr(layout):
    kind = Bit(8)
    size = Bit(16, order="little")


def monitor(message: Any, event: Any) -> Compared:
    """A stack in which a byte stream has the messages of a layer."""
    stream: Any = Connectionless("stream")
    stream.header = stream_hdr
    stream.selector = [stream.header.key]
    stream.seq = Sequence(meta=stream.header.number, data=stream.payload, zero_based=False, limit=1 << 16)
    stream.event.asm = Assemble()
    message.event.whole = event
    stack = Stack("messages")
    stack.stream, stack.message = stream, message
    stack += (stack.stream >> stack.message) + Pred(1)
    return compiled(stack)


def whole(made: Compared, stream: bytes, cuts: list[int]) -> list[list[Any]]:
    packets = segments(stream, cuts)
    assert_same(made, packets, SETTINGS)
    return [list(values) for _, name, _, _, values in run_compiled(made, packets, SETTINGS)[0] if name == "whole"]


def test_the_grammar_of_the_router_is_a_layer_of_a_monitor() -> None:
    m = layer_of("memcached_binary")
    event = Assign(seen.opcode, m.header.opcode) + Assign(seen.key, m.header.key) + Assign(seen.body, m.payload)
    made = monitor(m, event + Callback(seen))
    messages = [(b"key-%d" % number, b"v" * (number * 40), number) for number in range(12)]
    stream = b"".join(command(key, value, b"e" * (number % 5), number) for key, value, number in messages)
    for cuts in ([1] * 60, [23, 1, 1, 300], []):
        assert whole(made, stream, cuts) == [[number, key, value] for key, value, number in messages]


def test_records_and_dns_are_layers() -> None:
    m = layer_of("records")
    made = monitor(m, Assign(seen.body, m.payload) + Callback(seen))
    stream = b"".join(struct.pack(">I", size) + b"r" * size for size in (0, 3, 200))
    assert [values[-1] for values in whole(made, stream, [5, 9])] == [b"", b"rrr", b"r" * 200]
    assert layer_of("dns_tcp").message is not None


@pytest.mark.parametrize(
    ("grammar", "unit", "message"),
    [
        ("http", "request", "of unit 'request' has no place that a header could give"),
        ("memcached_text", "", "which unit: cmd, answer, part?"),
        ("http", "reqest", "did you mean 'request'?"),
        ("nothing", "", "there is no grammar 'nothing'"),
    ],
)
def test_what_is_no_layer(grammar: str, unit: str, message: str) -> None:
    with pytest.raises(ServiceError, match=message.replace("?", r"\?")):
        layer_of(grammar, unit)


PROGRAM = """
type item: record
  kind : integer

process P: (item/- from, [-/item] to)
  from => route(to)

fun route: ([-/item] to, r: item) -> ()
  r => to[r.kind mod len(to)]
"""


def record_layer() -> Any:
    p: Any = Connectionless("item")
    p.header = record_hdr
    p.message = Length(p.header.size + 3, limit=1 << 16)
    return p


def test_the_layer_of_a_monitor_is_the_grammar_of_a_router(tmp_path: Path) -> None:
    m = record_layer()
    path = tmp_path / "item.grammar"
    path.write_text(unit_of(m))
    messages = [
        bytes([number]) + len(body).to_bytes(2, "little") + body
        for number, body in enumerate((b"", b"abc", b"d" * 300))
    ]
    made = monitor(m, Assign(seen.opcode, m.header.kind) + Assign(seen.body, m.payload) + Callback(seen))
    assert [[values[0], values[-1]] for values in whole(made, b"".join(messages), [4])] == [
        [0, b""],
        [1, b"abc"],
        [2, b"d" * 300],
    ]
    program = Compiled(load_source(PROGRAM, [str(path)]))
    got = program.run({("from", 0): b"".join(messages)}, {"to": 2}, buffer_size=64, budget=7)
    assert got.sent["to", 0] == messages[0] + messages[2] and got.sent["to", 1] == messages[1]


class marked_hdr(layout):
    mark = Bit(16, const=0xBEEF)
    size = Bit(8)
    wide = Bit(64, const=(1 << 64) - 2)


def test_constants_and_the_limit_of_a_layer_are_those_of_its_unit(tmp_path: Path) -> None:
    p: Any = Connectionless("item")
    p.header = marked_hdr
    p.message = Length(p.header.size + 11, limit=100)
    path = tmp_path / "item.grammar"
    path.write_text(unit_of(p))
    unit = plan(find_grammars(str(path))[0])
    good = b"\xbe\xef\x02" + b"\xff" * 7 + b"\xfe" + b"ab"
    assert parse(unit, good) is not None
    for bad in (b"\xbe\xee" + good[2:], good[:10] + b"\xff" + good[11:], good[:2] + b"\x5a" + good[3:] + bytes(200)):
        with pytest.raises(MalformedError):
            parse(unit, bad)


def test_what_is_no_grammar() -> None:
    p: Any = Connectionless("item")
    p.header = record_hdr
    with pytest.raises(ServiceError, match="has no messages"):
        unit_of(p)
    with pytest.raises(ServiceError, match="a field of layer 'cmd' has not 8, 16, 32 or 64 bits"):
        unit_of(layer_of("memcached_binary"))
