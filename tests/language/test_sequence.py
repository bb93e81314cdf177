"""Settings of Sequence that decide which bytes are delivered."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from sluice.engine.box import CompiledStack
from sluice.lang import Assemble, Connectionless, Sequence, Stack, UInt, layout
from tests.support.run import Result, run, watch_all


class piece(layout):
    key = UInt(8)
    at = UInt(8)


@cache
def compiled(**settings: Any) -> CompiledStack:
    p: Any = Connectionless("p")
    p.header = piece
    p.selector = [p.header.key]
    if "window" in settings:
        settings["window"] = (0, 8)
    p.seq = Sequence(meta=p.header.at, data=p.payload, **settings)
    p.event.all = Assemble()
    stack = Stack("pieces")
    stack.p = p
    return watch_all(stack)


def pieces(stack: CompiledStack, *parts: tuple[int, bytes]) -> Result:
    return run(stack, [bytes([7, at]) + data for at, data in parts])


def delivered(result: Result) -> bytes:
    return b"".join(event.bytes for event in result.named("data"))


@pytest.mark.parametrize("settings, middle", [({}, b"cdef"), ({"overwrite_rexmit": True}, b"CDEF")])
def test_which_copy_of_held_bytes_is_delivered(settings: dict[str, Any], middle: bytes) -> None:
    """`cdef` is held until `ab` comes; by then it came again with other bytes."""
    result = pieces(compiled(**settings), (2, b"cdef"), (2, b"CDEF"), (0, b"ab"))
    assert delivered(result) == b"ab" + middle
    (again,) = result.named("rexmit")
    assert (again.offset, again.length, again.old, again.new) == (2, 4, b"cdef", b"CDEF")


@pytest.mark.parametrize("settings", [{}, {"overwrite_rexmit": True}])
def test_bytes_that_were_delivered_stay(settings: dict[str, Any]) -> None:
    assert delivered(pieces(compiled(**settings), (0, b"abcd"), (2, b"CDEF"))) == b"abcdEF"


@pytest.mark.parametrize(
    "settings, stream", [({}, b"abcdefgh"), ({"enforce": True}, b"abcdefgh"), ({"enforce": False}, b"abcdefghijkl")]
)
def test_what_lies_outside_the_window_is_inserted_unless_enforced(settings: dict[str, Any], stream: bytes) -> None:
    """The window ends at 8. What is not inserted is not there later either, when all before it has come."""
    result = pieces(compiled(window=True, **settings), (8, b"ijkl"), (0, b"abcd"), (4, b"efgh"))
    assert len(result.named("out_of_wnd")) == 1
    assert delivered(result) == stream
