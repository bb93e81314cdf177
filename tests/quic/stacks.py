"""Stacks that several tests share, each built once per process: the interpreter's program of one takes long."""

from __future__ import annotations

from functools import cache

from sluice.engine.box import CompiledStack
from sluice.stacks.find import find_stack
from tests.differential.both import Compared, compiled
from tests.support.run import watch_all


@cache
def quic() -> CompiledStack:
    """Stack quic, of which `run` gets all events."""
    return watch_all(find_stack("quic"))


@cache
def compared_quic() -> Compared:
    """Stack quic, held against its program in the interpreter."""
    return compiled(find_stack("quic"))


@cache
def deciphered() -> CompiledStack:
    """Stack quic_deciphered, of which `run` gets all events, also of streams that were given up."""
    return watch_all(find_stack("quic_deciphered"), ("quic_stream", "reset"))


@cache
def compared_deciphered() -> Compared:
    """Stack quic_deciphered, held against its program in the interpreter."""
    return compiled(find_stack("quic_deciphered"))
