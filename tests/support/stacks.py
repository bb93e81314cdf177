"""Stacks that several tests use, each optimised or compiled once per process."""

from __future__ import annotations

from functools import cache
from typing import Any

from sluice.engine.box import CompiledStack
from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.lower.build import build
from sluice.passes.pipeline import run
from sluice.stacks.everything import everything
from sluice.stacks.find import find_stack
from sluice.stacks.tcp_ip import tcp_ip
from tests.support.run import watch_all
from tests.support.small_stacks import small_ip as small_ip
from tests.support.small_stacks import small_tcp


@cache
def optimised(stack: str, hooks: frozenset[Hook] = frozenset()) -> Program:
    """The program of a ready stack after all passes; not to be changed."""
    return run(build(find_stack(stack), hooks))


@cache
def whole(passes: str = "all") -> CompiledStack:
    """Stack tcp_ip."""
    return watch_all(tcp_ip(), passes=passes)


@cache
def checking() -> CompiledStack:
    """Stack tcp_ip with checksums verified."""
    return watch_all(tcp_ip(), options=["checksums"])


MESSAGES = (
    *(("dns", "message"), ("dns_question", "asked"), ("dns_record", "answered"), ("dns_stream", "lost")),
    *(("igmp", "membership"), ("igmp_record", "membership"), ("msdu", "lost"), ("sctp_message", "message")),
)
"""The events of the stack `all_protocols` that are not built in."""


@cache
def all_protocols(*options: str) -> CompiledStack:
    """Stack everything, of which `run` gets all events. Its compilation takes long, so test files share it."""
    return watch_all(everything(), *MESSAGES, options=options)


@cache
def plain_tcp(**settings: Any) -> CompiledStack:
    """The stack small_tcp, of which `run` gets all events."""
    return watch_all(small_tcp(**settings))
