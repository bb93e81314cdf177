"""`--dispatch kernel`: the kernel divides packets among workers as NAME_worker does, and rows are those of one box."""

from __future__ import annotations

import ctypes
import os
import random
import socket
import struct
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest

from sluice.codegen.bpf.fanout import UNDECIDED, Fanout
from sluice.engine.box import CompiledStack, compile_stack
from sluice.engine.dispatch import Dispatch
from sluice.engine.fanout import WorkerSources, secret_of
from sluice.engine.functions import find_functions
from sluice.engine.inputs import Frame, Inputs
from sluice.stacks.find import find_stack
from tests.live.divided import rows, run_alone, send_by_turns, tunnelled
from tests.live.veth import PATIENCE, Veth, Watch, add_pair, ip, why_not
from tests.support.bounded import until
from tests.support.packets import FRAGMENT, TCP, UDP, cuts, eth, fragment_header, ip4, ip6, tcp, udp

WORKERS = 3
FROM_TESTS = "ether src 02:00:00:00:00:02 or (vlan and ether src 02:00:00:00:00:02)"
FROM = bytes.fromhex("020000000002")
ETH_P_ALL = socket.htons(3)
ROWS = "rows.jsonl"
STACK = """
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from sluice.protocols.vlan import vlan_parser

s = Stack("divided")
s.eth, s.vlan, s.ipv4, s.ipv6 = ethernet_parser(), vlan_parser(), ipv4_parser(), ipv6_parser()
s.udp, s.tcp = udp_parser(), tcp_parser()
typed, ip = s.eth | s.vlan, s.ipv4 | s.ipv6
s += (typed >> s.ipv4) + Pred(typed.offers.ethertype == 0x0800)
s += (typed >> s.ipv6) + Pred(typed.offers.ethertype == 0x86DD)
s += (typed >> s.vlan) + Pred(typed.offers.ethertype == 0x8100)
s += (ip >> s.tcp) + Pred(ip.offers.protocol == 6)
s += (ip >> s.udp) + Pred(ip.offers.protocol == 17)
"""
_LOAD, _TEST_RUN = 5, 10
_SOCKET_FILTER = 1
_BPF = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine, 0)
_libc = ctypes.CDLL(None, use_errno=True)

pytestmark = pytest.mark.skipif(bool(why_not()) or not _BPF, reason=why_not() or "no number of bpf(2) for this machine")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("fanout") / "stack.py"
    made.write_text(STACK)
    return made


@cache
def compiled(path: Path) -> CompiledStack:
    return compile_stack(find_stack(str(path)), tuple(find_functions(["flow_log"]).c))


def bpf(command: int, request: bytes) -> tuple[int, bytes]:
    memory = ctypes.create_string_buffer(request, 128)
    result = _libc.syscall(_BPF, command, memory, len(memory))
    return result, memory.raw


class Program:
    """A program in the kernel, which is run on packets as if they were received."""

    def __init__(self, code: bytes) -> None:
        held, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
        places = ctypes.addressof(held), ctypes.addressof(licence)
        self.descriptor, _ = bpf(_LOAD, struct.pack("=IIQQ", _SOCKET_FILTER, len(code) // 8, *places))
        assert self.descriptor >= 0, os.strerror(ctypes.get_errno())

    def worker(self, frame: bytes) -> int:
        held = ctypes.create_string_buffer(frame, len(frame))
        request = struct.pack("=IIIIQQII", self.descriptor, 0, len(frame), 0, ctypes.addressof(held), 0, 1, 0)
        result, answer = bpf(_TEST_RUN, request)
        assert result == 0, os.strerror(ctypes.get_errno())
        return struct.unpack_from("=I", answer, 4)[0]

    def close(self) -> None:
        os.close(self.descriptor)


def connection(number: int) -> list[bytes]:
    """Packets of one connection in both directions: of TCP or UDP, in IPv4 or IPv6, tagged or not, some in fragments,
    some with options on which the program does not decide.
    """
    chosen = random.Random(number)
    six, tags, kind = number % 3 == 2, (5,) * (number % 5 == 4), chosen.choice((TCP, UDP))
    src, dst = (bytes([0x20 if six else 10, *chosen.randbytes(15 if six else 3)]) for _ in range(2))
    port = 1024 + number
    found: list[bytes] = []
    for turn in range(6):
        ends, ports = ((src, dst), (port, 80)) if turn % 2 == 0 else ((dst, src), (80, port))
        text = bytes(8 * chosen.randrange(1, 20))
        flags = "S" if turn == 0 else "SA" if turn == 1 else "A"
        body = udp(*ports, text) if kind == UDP else tcp(*ports, 1, flags, b"" if turn < 2 else text)
        options = bytes([7, 3, 4, 0]) if number % 7 == 3 and not six else b""
        if kind == UDP and turn == 2 and not options and not six:
            parts = [ip4(part, kind, *ends, id=number, offset=at, more=more) for at, part, more in cuts(body, 8)]
        elif six:
            parts = [ip6(body, kind, *ends)]
        else:
            parts = [ip4(body, kind, *ends, options=options)]
        found += [eth(part, *tags) for part in parts]
    return found


def frames(connections: int) -> list[bytes]:
    """Their packets alternate."""
    waiting = [connection(number) for number in range(connections)]
    return [each.pop(0) for _ in range(max(map(len, waiting))) for each in waiting if each]


def test_the_program_decides_as_the_function(path: Path) -> None:
    fanout = compiled(path).generated.fanout
    assert isinstance(fanout, Fanout)
    chosen, dealt = random.Random(1), Dispatch(compiled(path), 16, seed=99)
    program = Program(fanout.program(secret_of(99), 16))
    try:
        found: set[int] = set()
        undecided = 0
        given = frames(200)
        ends = chosen.randbytes(16), chosen.randbytes(16)
        given += [eth(ip6(fragment_header(bytes(24), UDP, 1, 0, True), FRAGMENT, *ends))]
        # the kernel itself refuses to run a program on less than a network header
        given += [frame[:size] for frame in given for size in [chosen.randrange(54, len(frame) + 99)]]
        given += [frame[:14] + chosen.randbytes(chosen.randrange(60, 90)) for frame in given]
        for frame in given:
            kernel, own = program.worker(frame), dealt.worker(frame)
            assert kernel in (own, UNDECIDED), frame.hex()
            undecided += kernel != own
            found.add(kernel)
        assert len(found) == 16
        plain = [eth(ip4(tcp(n, 80, 1, "A"), TCP, chosen.randbytes(4), chosen.randbytes(4))) for n in range(200)]
        assert [program.worker(frame) for frame in plain] == [dealt.worker(frame) for frame in plain]
        assert 0 < undecided < len(given) // 3
    finally:
        program.close()


@pytest.fixture
def wire() -> Generator[Veth]:
    with Veth("fanout") as made:
        yield made


def live(wire: Veth, folder: Path, *words: str) -> Watch:
    """`sluice flows` at the server's end of a wire."""
    return Watch(wire, wire.server, folder, "flows", "-i", "s0", "--json", "-o", str(folder / ROWS), *words)


def send(wire: Veth, given: list[bytes]) -> None:
    """Each has arrived at the server's end, where the kernel passes it to all sockets, before the next is sent."""
    watch = wire.socket(wire.server, socket.AF_PACKET, socket.SOCK_RAW, ETH_P_ALL)
    with watch, wire.socket(wire.client, socket.AF_PACKET, socket.SOCK_RAW) as end:
        end.bind(("c0", 0))
        watch.bind(("s0", 0))
        watch.settimeout(PATIENCE)
        for frame in given:
            end.send(frame)
            while watch.recv(65536)[6:12] != FROM:
                pass


def make_again(wire: Veth) -> None:
    """Both ends of the wire; the client's is up as the last one, so that it can send at once."""
    add_pair(wire.client, "c0", wire.server, "s0")
    for space, device in ((wire.server, "s0"), (wire.client, "c0")):
        ip("-n", space, "link", "set", device, "up")


def test_rows_and_totals_are_those_of_one_box(wire: Veth, path: Path, tmp_path: Path) -> None:
    """Also with a filter, which the kernel evaluates for each socket; a tag that it takes off is restored."""
    given = frames(150)
    one = run_alone(path, given, tmp_path / "alone")
    words = ("--stack", str(path), "--workers", str(WORKERS), "--dispatch", "kernel", "--filter", FROM_TESTS)
    with live(wire, tmp_path, *words) as running:
        send(wire, given)
        summary = running.stop()
    assert rows(tmp_path / ROWS) == rows(tmp_path / "alone")
    assert (summary["packets"], summary["layers"]) == (one["packets"], one["layers"])
    assert summary["dispatch"]["by"] == "kernel" and summary["dispatch"]["handed_over"] > 0
    assert min(summary["packets_by_worker"]) > len(given) // 10
    assert sum(summary["packets_by_worker"]) == len(given) and summary["received"]["dropped_workers"] == 0
    assert summary["received"]["vlan_restored"] > 0


def test_after_a_removal_each_worker_has_its_connections(wire: Veth, path: Path, tmp_path: Path) -> None:
    """Each third of their packets comes by another group of sockets, in which each has the place that it had."""
    given = frames(150)
    third = len(given) // 3
    one = run_alone(path, given, tmp_path / "alone")
    words = ("--stack", str(path), "--workers", str(WORKERS), "--dispatch", "kernel", "--filter", FROM_TESTS)
    with live(wire, tmp_path, *words) as running:
        for at in range(3):
            if at:
                ip("-n", wire.server, "link", "del", "s0")
                running.wait_for("was removed", times=at)
                make_again(wire)
                running.wait_for("was made again", times=at)
            send(wire, given[at * third :] if at == 2 else given[at * third : (at + 1) * third])
        summary = running.stop()
    assert rows(tmp_path / ROWS) == rows(tmp_path / "alone")
    assert (summary["packets"], summary["layers"]) == (one["packets"], one["layers"])
    assert summary["received"]["returns"] == 2 and summary["dispatch"]["handed_over"] < len(given) // 5


def test_an_interface_is_back_once_the_last_worker_has_joined(wire: Veth, path: Path) -> None:
    """The members join one after the other, here as slowly as we want. A packet that comes before the last is lost."""
    library, fanout = ctypes.CDLL(str(compiled(path).compiled.path)), compiled(path).generated.fanout
    assert isinstance(fanout, Fanout)
    inputs = Inputs(("af_packet:s0",), ring_bytes=1 << 20, filter=FROM_TESTS, awaits_removed=True)
    space = (Frame * 64)()

    def opened() -> WorkerSources:
        return WorkerSources.of_fanout(library, inputs, fanout, WORKERS, 99)

    def receive(worker: int) -> int:
        got = ctypes.c_int32(library.sl_source_receive(all_of.each[worker].handle, space, ctypes.c_uint32(64)))
        library.sl_source_release(all_of.each[worker].handle)
        assert got.value >= 0, all_of.fault()
        return got.value

    def join(worker: int) -> None:
        def has_joined() -> bool:
            assert receive(worker) == 0
            return all_of.each[worker].statistics()["returns"] == 1

        wire.within(wire.server, lambda: until(has_joined))

    def counted() -> tuple[dict[str, int], dict[str, int]]:
        return all_of.statistics(), all_of.statistics_of(0)

    all_of = wire.within(wire.server, opened)
    try:
        ip("-n", wire.server, "link", "del", "s0")
        make_again(wire)
        for worker in range(WORKERS):
            assert all((one["removals"], one["returns"]) == (worker > 0, 0) for one in counted())
            join(worker)
            send(wire, [connection(1)[0]])
        assert all((one["removals"], one["returns"]) == (1, 1) for one in counted())
        until(lambda: sum(map(receive, range(WORKERS))) == 1)  # the one that was sent after the last has joined
        assert all_of.statistics()["packets"] == 1
    finally:
        all_of.close()


TUNNELS = STACK + "s += (s.ipv4 >> s.ipv4) + Pred(s.ipv4.header.protocol == 4)\n"


def test_workers_hand_over_packets_of_tunnels(wire: Veth, tmp_path: Path) -> None:
    """The kernel divides them by a hash of its own, as no program finds all keys of a packet."""
    tunnels, turns = tmp_path / "tunnels.py", tunnelled(60)
    given = [frame for turn in turns for frame in turn]
    tunnels.write_text(TUNNELS)
    one = run_alone(tunnels, given, tmp_path / "alone")
    words = ("--stack", str(tunnels), "--workers", "2", "--dispatch", "kernel")
    with live(wire, tmp_path, *words, "--filter", "ether src 02:00:00:00:00:02") as running:
        with wire.socket(wire.client, socket.AF_PACKET, socket.SOCK_RAW) as end:
            end.bind(("c0", 0))
            send_by_turns(end, turns)
        summary = running.stop()
    assert rows(tmp_path / ROWS) == rows(tmp_path / "alone")
    assert (summary["packets"], summary["layers"]) == (len(given), one["layers"])
    assert summary["dispatch"]["by"] == "kernel" and "keys of several workers" in summary["dispatch"]["reason"]
    assert summary["dispatch"]["handed_over"] > 0 and summary["received"]["dropped_workers"] == 0


def test_workers_process_what_they_get_where_no_packet_has_an_instance(wire: Veth, tmp_path: Path) -> None:
    """The kernel divides packets by its own hash, and no worker computes another one."""
    stateless, given = tmp_path / "stateless.py", frames(60)
    stateless.write_text(
        "from sluice.lang import Stack\nfrom sluice.protocols.ethernet import ethernet_parser\n\n"
        "stack = Stack('stateless')\nstack.eth = ethernet_parser()\n"
    )
    words = ("run", str(stateless), "-f", "none", "-i", "s0", "--json", "--workers", "2", "--dispatch", "auto")
    with Watch(wire, wire.server, tmp_path, *words, "--filter", "ether src 02:00:00:00:00:02") as running:
        send(wire, given)
        summary = running.stop()
    assert summary["dispatch"]["by"] == "kernel" and "no layer has instances" in summary["dispatch"]["reason"]
    assert summary["dispatch"]["handed_over"] == 0 and min(summary["packets_by_worker"]) > 0
    assert sum(summary["packets_by_worker"]) == summary["layers"]["eth"]["packets"] == len(given)


def test_the_box_divides_packets_where_no_program_can(wire: Veth, tmp_path: Path) -> None:
    """In a stack with tunnels, of IP in IP."""
    tunnels = tmp_path / "tunnels.py"
    tunnels.write_text(TUNNELS)
    with live(wire, tmp_path, "--stack", str(tunnels), "--workers", "2", "--dispatch", "auto") as running:
        summary = running.stop()
    assert summary["dispatch"]["by"] == "box" and "keys of several workers" in summary["dispatch"]["reason"]
