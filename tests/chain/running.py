"""Chains in tests: a small stack, its packets, and what a chain comes to over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path

from sluice.chain.check import check_chain
from sluice.chain.description import Arrangement, Chain
from sluice.chain.plan import Plan, read_chain
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.program import IsolatedChain, isolate
from sluice.engine.box import Box, Outcome, Settings, compile_stack
from sluice.lang import Stack
from tests.support.capture import pcap_packets
from tests.support.connection import goodbye, handshake, pair
from tests.support.small_stacks import small_stack

SECOND = 10**9


@cache
def talk() -> tuple[bytes, ...]:
    """Three connections in turns: a segment out of order, one twice, ports used again; the third stays open."""
    hosts = [pair(port=port, isn=1000 + port) for port in (40000, 40001, 40002)]
    sides: list[list[bytes]] = []
    for number, (client, server) in enumerate(hosts):
        packets = handshake(client, server)
        data = [client.data(bytes([65 + number]) * size) for size in (10, 400, 30, 7)]
        packets += [data[0], data[2], data[1], data[1], data[3], server.data(b"answer" * 20)]
        packets += goodbye(client, server) if number < 2 else []
        sides.append(packets + (handshake(*pair(port=40000, isn=90000)) if number == 0 else []))
    turns = zip_longest(*sides, fillvalue=b"")
    return tuple(packet for turn in turns for packet in turn if packet)


def checked(arrangement: Arrangement, stack: Stack | None = None) -> Plan:
    """A chain that was read and checked."""
    of = stack or small_stack()
    plan = read_chain(Chain(arrangement, stack=of))
    check_chain(plan, of)
    return plan


@dataclass
class Came:
    """What a run came to: figures by FUNCTION.NAME, and the packets that left."""

    reports: dict[str, int]
    left: list[bytes]
    counters: dict[str, dict[str, int]]


def run(plan: Plan, output: Path, packets: tuple[bytes, ...] | None = None) -> Came:
    """Run a chain over packets, one second apart."""
    wanted = plan.wanted()
    assert isinstance(plan.chain.stack, Stack)
    compiled = compile_stack(
        plan.chain.stack, tuple(wanted.c), wanted.python_hooks(), demanded=wanted.python_demanded()
    )
    settings = Settings(max_instances=1 << 8, memory=1 << 24, seed=1)
    inline = any(function.inline for function in wanted.c)
    with Box(compiled, settings, wanted.python, wanted.options, output if inline else None) as box:
        box.burst([(packet, n * SECOND, 1, None) for n, packet in enumerate(packets or talk(), 1)])
        box.finish()
        assert box.failure() is None
        reports, counters = box.reports(), box.counters()
    return Came(reports, pcap_packets(output) if inline else list(packets or talk()), counters)


SETTINGS = Settings(max_instances=1 << 8, memory=1 << 24, seed=1)


def compiled_chain(plan: Plan) -> IsolatedChain:
    """A chain that was compiled to run in processes."""
    assert isinstance(plan.chain.stack, Stack)
    chain = isolate(plan)
    chain.compile(compile_stack(plan.chain.stack, (chain.sender(),)))
    return chain


def run_isolated(
    plan: Plan,
    output: Path,
    packets: tuple[bytes, ...] | None = None,
    chain: IsolatedChain | None = None,
    controller: Callable[[Controller], None] = lambda _: None,
    between: Callable[[int], None] = lambda _: None,
) -> Came:
    """The same in processes. controller: called with the controller first. between: called after each burst, in the
    process of the stack."""
    chain = chain or compiled_chain(plan)
    inline = any(function.inline for function in plan.c())
    given = packets or talk()

    def run_stack(kind: type[Box]) -> Outcome:
        assert chain.stack is not None
        with kind(chain.stack, SETTINGS, [], [{}], output if inline else None) as box:
            for first in range(0, len(given), BURST):
                burst = enumerate(given[first : first + BURST], first + 1)
                box.burst([(packet, n * SECOND, 1, None) for n, packet in burst])
                between(first)
            box.finish()
            return Outcome(len(given), box.counters(), box.reports(), failure=box.failure())

    running = Controller(chain, SETTINGS, inline)
    controller(running)
    outcome = running.run(run_stack)
    assert outcome.failure is None
    return Came(outcome.reports, pcap_packets(output) if inline else list(given), outcome.counters)


BURST = 20
"""Packets: several batches, and connections that go on in the next one."""
