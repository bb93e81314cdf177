"""Chains with several instances of functions in tests: runs over packets, with actions of the controller."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from sluice.chain.check import check_chain
from sluice.chain.description import Arrangement, Chain
from sluice.chain.hosts.relay import Hosts
from sluice.chain.plan import Plan, read_chain
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.instances import planned
from sluice.chain.processes.process import Process
from sluice.chain.processes.program import IsolatedChain, isolate
from sluice.chain.processes.root import Root
from sluice.engine.box import Box, Outcome, Settings, compile_stack
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from sluice.state.chain_store import chain_store
from sluice.state.location import Location
from sluice.state.session import session
from tests.support.bounded import PATIENCE
from tests.support.capture import pcap_packets

Action = Callable[[Controller], None]
SETTINGS = Settings(max_instances=1 << 14, memory=1 << 26, seed=7)
MILLISECOND = 10**6


@dataclass
class Ran:
    """A run: the packets that left, the final state, the figures, and what went wrong."""

    left: list[bytes]
    state: list[str]
    reports: dict[str, int]
    failure: str | None = None


class NotYetError(Exception):
    """What an action needs is not so yet: it is called again, after the controller has done other work."""


@dataclass
class Trigger:
    """Lets the process of the stack request actions of the controller. An action is called with it."""

    actions: dict[int, Action]
    files_: tuple[int, int] = field(default_factory=os.pipe)
    answers: tuple[int, int] = field(default_factory=os.pipe)
    served: set[int] = field(default_factory=lambda: set())
    path: None = None
    """Requests come by a pipe."""

    def fileno(self) -> int:
        return self.files_[0]

    def files(self) -> list[int]:
        return [*self.files_, *self.answers]

    def between(self, burst: int) -> None:
        """In the process of the stack, before a burst: waits until the action is done."""
        if burst in self.actions and burst not in self.served:
            while select.select([self.answers[0]], [], [], 0)[0]:  # to a process that was killed meanwhile
                os.read(self.answers[0], 1)
            os.write(self.files_[1], bytes([burst]))
            assert select.select([self.answers[0]], [], [], PATIENCE)[0], f"the action before burst {burst} is not done"
            os.read(self.answers[0], 1)

    def serve(self, controller: Controller) -> None:
        (burst,) = os.read(self.files_[0], 1)
        try:
            self.actions[burst](controller)
        except NotYetError:
            time.sleep(0.002)
            os.write(self.files_[1], bytes([burst]))
            return
        self.served.add(burst)
        os.write(self.answers[1], b".")

    def close(self) -> None:
        for file in (*self.files_, *self.answers):
            os.close(file)


@cache
def stack() -> Stack:
    """Ethernet, IPv4, TCP and UDP: small, as it is compiled for each set of functions."""
    made = Stack("small")
    made.eth, made.ipv4, made.tcp, made.udp = ethernet_parser(), ipv4_parser(), tcp_parser(), udp_parser()
    made += (made.eth >> made.ipv4) + Pred(made.eth.header.type == 0x0800)
    made += (made.ipv4 >> made.tcp) + Pred(made.ipv4.header.protocol == 6)
    made += (made.ipv4 >> made.udp) + Pred(made.ipv4.header.protocol == 17)
    return made


def plan_of(arrangement: Arrangement, of: Stack | None = None) -> Plan:
    """A chain that was read and checked. of: its stack, if that is not `stack`."""
    plan = read_chain(Chain(arrangement, stack=of or stack()))
    check_chain(plan, of or stack())
    return plan


def _stack_of(plan: Plan) -> Stack:
    assert isinstance(plan.chain.stack, Stack)
    return plan.chain.stack


def compiled(plan: Plan, instances: dict[str, int]) -> IsolatedChain:
    """A chain that was compiled to run in processes."""
    chain = isolate(plan, instances, stores=True)
    chain.compile(compile_stack(_stack_of(plan), (chain.sender(),)))
    chain.set_options(plan.wanted())
    return chain


def scope(chain: IsolatedChain, name: str, scope: str) -> None:
    """Divide the traffic of a function by a scope."""
    tried = [(name, one) for one in chain.candidates(name) if one.name == scope]
    planned(chain, [[1] * 1024], tried)


def run_ideal(plan: Plan, packets: Sequence[bytes], folder: Path) -> Ran:
    """One instance of each function, with local state, in one process."""
    wanted = plan.wanted()
    wanted.as_in_processes()
    folder.mkdir(exist_ok=True)
    output = folder / "ideal.pcap"
    ready = compile_stack(_stack_of(plan), tuple(wanted.c))
    with session(Location("local"), wanted.c, dumps=True) as held:
        settings = Settings(max_instances=1 << 14, memory=1 << 26, seed=7, state_file=held.state_file)
        with Box(ready, settings, [], wanted.options, output) as box:
            for first in range(0, len(packets), BURST):
                box.burst(_frames(packets, first))
            box.finish()
            reports, failure = box.reports(), box.failure()
        assert held.text is not None
        return Ran(pcap_packets(output), held.text().splitlines(), reports, failure)


def run_instances(
    chain: IsolatedChain,
    packets: Sequence[bytes],
    folder: Path,
    location: Location,
    actions: dict[int, Action] | None = None,
    off: frozenset[str] = frozenset(),
    strict: bool = True,
    hosts: Hosts | None = None,
) -> Ran:
    """The same chain in processes, over a store. actions: of the controller, before bursts; see Trigger. hosts:
    where the processes of instances run.
    """
    assert chain.stack is not None
    stack_program, output = chain.stack, folder / "out.pcap"
    inline = any(function.inline for part in chain.leaders for function in part.functions.c)
    trigger = Trigger(actions or {})

    def run(kind: type[Box]) -> Outcome:
        with kind(stack_program, SETTINGS, [], [{}], output if inline else None) as box:
            for number, first in enumerate(range(0, len(packets), BURST)):
                trigger.between(number)
                box.burst(_frames(packets, first))
            box.finish()
            return Outcome(len(packets), box.counters(), box.reports(), failure=box.failure())

    try:
        root = Root(restarts=True, replays=True, output=str(output) if inline else None)
        with chain_store(location, chain, off, strict, seed=1) as store:
            controller = Controller(chain, SETTINGS, inline, requests=trigger, stores=store, root=root, hosts=hosts)
            outcome = controller.run(run)
            state = store.text().splitlines() if store else []
            moved = {f"{name}.parts_moved": count for name, count in controller.instances.moves.items()}
        left = pcap_packets(output) if inline else list(packets)
        return Ran(left, state, outcome.reports | moved, outcome.failure)
    finally:
        trigger.close()


BURST = 64
"""Packets that the stack processes at once."""


def _frames(packets: Sequence[bytes], first: int) -> list[tuple[bytes, int, int, None]]:
    burst = enumerate(packets[first : first + BURST], first + 1)
    return [(packet, number * MILLISECOND, 1, None) for number, packet in burst]


def kill_root(controller: Controller) -> None:
    """An action that kills the process of the stack."""
    controller.kill_root()


def process_of(controller: Controller, label: str) -> Process:
    """The process of an instance."""
    return next(one for one in controller.processes if one.part.label == label)


def given_all(controller: Controller, process: Process) -> None:
    """Wait until the process has handled what it was given."""
    side, queue = controller.memory.functions[process.part.number], controller.memory.stack.queue[process.part.number]
    end = time.monotonic() + PATIENCE
    while side.done != queue.count and time.monotonic() < end:
        time.sleep(0.005)


def each(names: Iterable[str], act: Callable[[str], Action]) -> Action:
    """The same action for each of some functions or instances."""
    actions = [act(name) for name in names]

    def done(controller: Controller) -> None:
        for action in actions:
            action(controller)

    return done


def kill(label: str) -> Action:
    """An action that kills the process of an instance, as a crash at any place does."""

    def act(controller: Controller) -> None:
        process = process_of(controller, label)
        if process.pid:
            os.kill(process.pid, 9)

    return act


def kill_running(*labels: str) -> Action:
    """An action that kills processes of instances once all of them have opened, and waits for their ends. Thus each
    kill is a crash: a process that was killed before has ended by then, and another one has its place.
    """

    def act(controller: Controller) -> None:
        found = [process_of(controller, label) for label in labels]
        if not all(one.pid and controller.memory.functions[one.part.number].running for one in found):
            raise NotYetError
        if select.select([one.pidfd for one in found], [], [], 0)[0]:
            raise NotYetError
        for one in found:
            os.kill(one.pid, 9)
        for one in found:
            assert select.select([one.pidfd], [], [], PATIENCE)[0], f"{one.part.label} does not end"

    return act


def move(function: str, to: int) -> Action:
    """An action that assigns all the traffic of a function to one of its instances; some was another one's."""

    def act(controller: Controller) -> None:
        assert controller.instances.assign(function, dict.fromkeys(range(1024), to)) > 0

    return act
