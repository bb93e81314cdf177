"""State of connections that functions declare (SLUICE_STORED): it moves with them, and outlives the process that had
it.

The rows of each function are those of one instance that nothing happens to.
"""

from __future__ import annotations

import os
import random
import struct
from functools import cache
from pathlib import Path

import pytest

from sluice.chain.description import Arrangement, function
from sluice.engine.functions import FunctionError, find_functions
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.icmp import icmp_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.sctp import sctp_layers
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from sluice.state.location import Location
from tests.functions.boxes.test_synflood import acknowledgement, flags, number
from tests.functions.security import icmp4, wrong_checksums
from tests.state.boxes import missing
from tests.state.instances import BURST, Action, Ran, compiled, each, kill, move, plan_of, run_ideal, run_instances
from tests.state.traffic import address
from tests.support.connection import Host, goodbye, handshake
from tests.support.packets import A4, B4, eth, ip4, udp
from tests.support.unoptimised import unoptimised

INSIDE, OUTSIDE = bytes([10, 1, 0, 0]), bytes([198, 51, 100, 0])
LOGS = ("abacus", "fakereset", "icmplog", "dnslog", "gtplog", "sctplog", "smtplog", "sshlog")
FILLER = eth(ip4(udp(1, 2, b"x"), 17, A4, A4))

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@cache
def stack() -> Stack:
    """With the layers that the functions subscribe to."""
    made = Stack("stored")
    made.eth, made.ipv4, made.tcp, made.udp = ethernet_parser(), ipv4_parser(), tcp_parser(), udp_parser()
    made.icmp = icmp_parser()
    made += sctp_layers()
    made += (made.eth >> made.ipv4) + Pred(made.eth.header.type == 0x0800)
    for layer, protocol in ((made.tcp, 6), (made.udp, 17), (made.icmp, 1), (made.sctp_packet, 132)):
        made += (made.ipv4 >> layer) + Pred(made.ipv4.header.protocol == protocol)
    return made


# --- traffic: each stream is what one connection sends; all are under way at the same time ---


def reordered(client: bytes, port: int) -> list[bytes]:
    """Segments that are repeated, and that come late; then resets that a third party sends."""
    a, b = Host(client, port, 1000), Host(address(OUTSIDE, 1), 80, 9000)
    a.peer, b.peer = b, a
    sent = [a.data(bytes([n]) * 50) for n in range(8)]
    late = [sent[1], sent[0], sent[0], sent[3], sent[2], sent[4], sent[4], sent[6], sent[5], sent[7]]
    forged = [a.send("R", number=a.next - 5000), a.send("R", number=a.next + 100), a.send("A", b"goes on")]
    return [*handshake(a, b), *late, b.send("A"), *forged, *goodbye(a, b)]


def echoes(client: bytes, count: int) -> list[bytes]:
    """Requests, then their replies."""
    bodies = [struct.pack(">HH", 7, n) + b"ping" for n in range(count)]
    there = [icmp4(8, 0, body, client, address(OUTSIDE, 2)) for body in bodies]
    return there + [icmp4(0, 0, body, address(OUTSIDE, 2), client) for body in bodies[:-1]]


def _question(id: int, response: bool) -> bytes:
    name = b"\3www\7example\0"
    head = struct.pack(">HHHHHH", id, 0x8180 if response else 0x0100, 1, int(response), 0, 0)
    answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + bytes(4) if response else b""
    return head + name + struct.pack(">HH", 1, 1) + answer


def queries(client: bytes, port: int, count: int) -> list[bytes]:
    """Queries over UDP, then their responses, in another order."""
    server = address(OUTSIDE, 3)
    there = [eth(ip4(udp(port, 53, _question(n, False)), 17, client, server)) for n in range(count)]
    back = [eth(ip4(udp(53, port, _question(n, True)), 17, server, client)) for n in reversed(range(1, count))]
    return there + back


def pieces(client: bytes, port: int) -> list[bytes]:
    """A query and its response over TCP, some bytes at once."""
    a, b = Host(client, port, 1000), Host(address(OUTSIDE, 4), 53, 9000)
    a.peer, b.peer = b, a
    out = handshake(a, b)
    for host, message in ((a, _question(5, False)), (b, _question(5, True))):
        whole = struct.pack(">H", len(message)) + message
        out += [host.data(whole[at : at + 6]) for at in range(0, len(whole), 6)]
    return out + goodbye(a, b)


def tunnel(client: bytes) -> list[bytes]:
    """Packets of two tunnels of GTP-U."""
    out: list[bytes] = []
    for n in range(14):
        inner = ip4(udp(1000, 2000, b"x" * n), 17, address(INSIDE, 40 + n % 3), address(OUTSIDE, 5))
        body = struct.pack(">BBHI", 0x30, 255, len(inner), 100 + n % 2) + inner
        out.append(eth(ip4(udp(2152, 2152, body), 17, client, address(OUTSIDE, 6))))
    return out


def association(client: bytes, port: int) -> list[bytes]:
    """Chunks of SCTP: INIT, its acknowledgement, data in several streams, a shutdown."""
    server = address(OUTSIDE, 7)

    def packet(there: bool, kind: int, value: bytes, bits: int = 0) -> bytes:
        chunk = struct.pack(">BBH", kind, bits, 4 + len(value)) + value + bytes(-len(value) % 4)
        tag = 0 if kind == 1 else 9 if there else 8
        head = struct.pack(">HHII", *((port, 5000) if there else (5000, port)), tag, 0)
        ends = (client, server) if there else (server, client)
        return eth(ip4(head + chunk, 132, *ends))

    begin = [
        packet(there, kind, struct.pack(">IIHHI", 7 + kind, 65536, 9, 9, 1)) for there, kind in ((True, 1), (False, 2))
    ]
    data = [packet(True, 0, struct.pack(">IHHI", 1 + n, n * 37 % 9, n // 9, n % 4) + b"data", 3) for n in range(12)]
    data += [packet(False, 0, struct.pack(">IHHI", 1 + n, n, 0, 7) + b"answer", 3) for n in range(4)]
    return [*begin, *data, packet(True, 7, bytes(4))]


def dialogue(client: bytes, port: int, service: int, *spoken: tuple[bool, bytes]) -> list[bytes]:
    """What the client (True) and the server say, in pieces."""
    a, b = Host(client, port, 1000), Host(address(OUTSIDE, 8), service, 9000)
    a.peer, b.peer = b, a
    out = handshake(a, b)
    for by_client, text in spoken:
        size = max(9, len(text) // 3)
        out += [(a if by_client else b).data(text[at : at + size]) for at in range(0, len(text), size)]
    return out + goodbye(a, b)


MAIL = (
    (False, b"220 there\r\n"),
    (True, b"EHLO here\r\n"),
    (False, b"250-there\r\n250 SIZE\r\n"),
    (True, b"MAIL FROM:<a@b>\r\n"),
    (False, b"250 ok\r\n"),
    (True, b"RCPT TO:<c@d>\r\n"),
    (False, b"250 ok\r\n"),
    (True, b"DATA\r\n"),
    (False, b"354 go on\r\n"),
    (True, b"Subject: a long\r\n subject\r\nFrom: a@b\r\n\r\ntext\r\n.\r\n"),
    (False, b"250 stored\r\n"),
    (True, b"QUIT\r\n"),
    (False, b"221 bye\r\n"),
)


def _offer(*names: bytes) -> bytes:
    """A packet of SSH with a KEXINIT (RFC 4253, 7.1)."""
    lists = b"".join(struct.pack(">I", len(one)) + one for one in [*names, *[b"none"] * (10 - len(names))])
    payload = bytes([20]) + bytes(16) + lists + bytes(5)
    padding = 8 - (len(payload) + 5) % 8 + 8
    return struct.pack(">IB", 1 + len(payload) + padding, padding) + payload + bytes(padding)


SHELL = (
    (False, b"SSH-2.0-there\r\n"),
    (True, b"SSH-2.0-here\r\n"),
    (True, _offer(b"curve25519-sha256,ecdh", b"ssh-ed25519", b"aes128-ctr,aes256-ctr")),
    (False, _offer(b"ecdh", b"ssh-ed25519", b"aes256-ctr")),
)


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    choose = random.Random(11)
    streams: list[list[bytes]] = []
    for host in range(1, 15):
        client = address(INSIDE, host)
        streams += [reordered(client, 2000 + host), echoes(client, 9), queries(client, 4000 + host, 8)]
        streams += [pieces(client, 5000 + host), tunnel(client), association(client, 6000 + host)]
        streams += [dialogue(client, 7000 + host, 25, *MAIL), dialogue(client, 8000 + host, 22, *SHELL)]
    out: list[bytes] = []
    while streams:
        stream = choose.choice(streams)
        out.append(stream.pop(0))
        streams = [each for each in streams if each]
    return out


def logs(folder: Path) -> Arrangement:
    """All of them, each with a file of its rows."""
    folder.mkdir(exist_ok=True)
    found: Arrangement = function(LOGS[0], out=str(folder / LOGS[0]))
    for name in LOGS[1:]:
        found = found | function(name, out=str(folder / name))
    return found


def rows(folder: Path) -> dict[str, list[str]]:
    return {name: sorted((folder / name).read_text().splitlines()) for name in LOGS}


@pytest.fixture(scope="module")
def ideal(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("ideal")
    with unoptimised():
        run_ideal(plan_of(logs(folder / "rows"), stack()), packets, folder)
    return rows(folder / "rows")


def ran(packets: list[bytes], folder: Path, store: Location, actions: dict[int, Action]) -> Ran:
    chain = compiled(plan_of(logs(folder / "rows"), stack()), dict.fromkeys(LOGS, 2))
    return run_instances(chain, packets, folder, store, actions)


def move_all(to: int) -> Action:
    return each(LOGS, lambda name: move(name, to))


def kill_all(*instances: str) -> Action:
    return each([name + instance for instance in instances for name in LOGS], kill)


def test_state_moves_with_connections(
    packets: list[bytes], ideal: dict[str, list[str]], tmp_path: Path, store: Location
) -> None:
    found = ran(packets, tmp_path, store, {3: move_all(1), 6: move_all(0), 9: move_all(1)})
    assert found.failure is None and found.state == []
    assert all(len(each) >= 14 for each in ideal.values()), {name: len(each) for name, each in ideal.items()}
    assert rows(tmp_path / "rows") == ideal


def test_state_outlives_its_process(
    packets: list[bytes], ideal: dict[str, list[str]], tmp_path: Path, store: Location
) -> None:
    actions = {2: kill_all(""), 5: kill_all("#1"), 8: kill_all(""), 10: kill_all("#1")}
    found = ran(packets, tmp_path, store, actions)
    assert found.failure is None
    assert {name: found.reports[f"{name}.crashes"] >= 1 for name in LOGS} == dict.fromkeys(LOGS, True)
    assert rows(tmp_path / "rows") == ideal


def test_a_long_field_of_a_mail_outlives_its_process(tmp_path: Path, store: Location) -> None:
    """With the end of its line, it has a byte more than its bound."""
    ends = address(INSIDE, 1), 7001, 25
    before = [*MAIL[:9], (True, b"Subject: "), *(8 * [(True, b"x" * 1200)]), (True, b"\r\n")]
    frames = dialogue(*ends, *before, *MAIL[9:])
    begun = 3 + len(dialogue(*ends, *before)) - len(dialogue(*ends))
    packets = [*frames[:begun], *[FILLER] * (-begun % BURST), *frames[begun:]]

    with unoptimised():
        run_ideal(plan_of(logs(tmp_path / "ideal"), stack()), packets, tmp_path / "one")
    (tmp_path / "found").mkdir()
    found = ran(packets, tmp_path / "found", store, {-(-begun // BURST): kill_all("", "#1")})
    assert found.failure is None and found.reports["smtplog.crashes"] and not found.reports.get("state_refused")
    assert rows(tmp_path / "found" / "rows") == rows(tmp_path / "ideal")


def test_many_tunnels_of_one_flow_outlive_their_process(tmp_path: Path, store: Location) -> None:
    """Those that each have a pair of ends take no room for further ones."""
    inner = ip4(b"what is in a tunnel", 17, A4, B4)
    heads = [struct.pack(">BBHI", 0x30, 255, len(inner), number) for number in range(480)]
    packets = [eth(ip4(udp(2152, 2152, head + inner), 17, A4, B4)) for head in 2 * heads]
    with unoptimised():
        run_ideal(plan_of(function("gtplog", out=str(tmp_path / "ideal")), stack()), packets, tmp_path / "one")
    chain = compiled(plan_of(function("gtplog", out=str(tmp_path / "found")), stack()), {"gtplog": 1})
    found = run_instances(chain, packets, tmp_path / "two", store, {-(-len(heads) // BURST): kill("gtplog")})
    assert found.failure is None and found.reports["gtplog.crashes"] and not found.reports.get("state_refused")
    ideal = sorted((tmp_path / "ideal").read_text().splitlines())
    assert len(ideal) == len(heads) and sorted((tmp_path / "found").read_text().splitlines()) == ideal


# --- connections that are spliced ---


def test_spliced_connections_outlive_their_process(tmp_path: Path, store: Location) -> None:
    """The process is killed after each step of a connection: the answer to its SYN, its request, the join, data of both
    sides. What leaves is what leaves without that.
    """
    client = Host(A4, 40000, 0xFFFFFFF0, checksums=True)
    server = Host(bytes([10, 9, 0, 1]), 80, 700_000, checksums=True, peer=client)
    service = client.peer = Host(bytes([192, 0, 2, 10]), 80, 0, peer=client)
    plan = plan_of(function("splice", servers="10.9.0.1"), stack())
    frames: list[bytes] = []

    def left(frame: bytes) -> Ran:
        """What leaves for a further packet, and for those before; each is the first of a burst."""
        frames.extend([frame, *[FILLER] * (BURST - 1)])
        with unoptimised():
            return run_ideal(plan, frames, tmp_path / "ideal")

    def last(ran: Ran) -> bytes:
        return [frame for frame in ran.left if frame != FILLER][-1]

    service.next = number(last(left(client.send("S")))) + 1
    syn = last(left(client.send("A", b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n")))
    assert flags(syn) == 2
    request = last(left(server.send("SA", ack=0xFFFFFFF1)))
    assert request.endswith(b"\r\n\r\n") and acknowledgement(request) == 700_001
    ideal = Ran([], [], {})
    for n in range(3):
        answer = last(left(server.send("A", b"answer %d" % n)))
        service.next += len(b"answer 0")
        assert answer.endswith(b"answer %d" % n) and not wrong_checksums(answer)
        ideal = left(client.send("A", b"more %d" % n))
    with unoptimised():
        chain = compiled(plan, {"splice": 1})
    found = run_instances(chain, frames, tmp_path, store, {burst: kill("splice") for burst in range(1, 9)})
    assert found.failure is None and found.reports["splice.crashes"] >= 4
    assert found.left == ideal.left


# --- declarations ---


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('SLUICE_STORED(recover, "x") { }', "there is no state to store"),
        (
            'struct s { int a; };\nSLUICE_STATE(struct s)\nSLUICE_STORED(never, "x") { }',
            "the loss is one of recover, zero",
        ),
    ],
)
def test_declarations_that_make_no_sense(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.c"
    path.write_text(f'#include "sluice.h"\n{text}\nSLUICE_ON(tcp, end) {{ }}\n')
    with pytest.raises(FunctionError, match=why):
        find_functions([str(path)])


def test_state_that_is_too_large_is_refused(tmp_path: Path, store: Location, packets: list[bytes]) -> None:
    """A loss of `recover` ends the run with an error; it is never silent."""
    path = tmp_path / "large.c"
    path.write_text(
        '#include "sluice.h"\n'
        "struct large { uint64_t packets; };\nSLUICE_STATE(struct large)\n"
        'SLUICE_STORED(recover, "too much") {\n'
        "    for (uint32_t n = 0; n <= SL_STORED_MOST / sizeof *state; n++)\n        SL_STORED(stored, *state);\n}\n"
        "SLUICE_ON(tcp, packet) { if (event->instance) SLUICE_STATE_OF(event)->packets++; }\n"
    )
    chain = compiled(plan_of(function(str(path)), stack()), {"large": 1})
    found = run_instances(chain, packets[:200], tmp_path, store)
    assert "too large to be stored" in (found.failure or "") and found.reports["state_refused"] > 0
    assert os.path.exists(path)


def test_state_without_room_is_counted(tmp_path: Path, store: Location) -> None:
    """Two instances have the beginnings of 24 messages within their bounds, and then one of them gets all: where its
    bound is reached, a loss of `zero` is counted, and it has the state of the others.
    """
    frames: list[bytes] = []
    clients: list[Host] = []
    for n in range(24):
        a, b = Host(address(INSIDE, 50 + n), 3000 + n, 1000), Host(address(OUTSIDE, 9), 53, 9000)
        a.peer, b.peer = b, a
        frames += [*handshake(a, b), a.data(struct.pack(">H", 1000) + bytes(398))]
        clients.append(a)
    frames += [eth(ip4(udp(1, 2, b"x"), 17, A4, A4))] * (4 * BURST - len(frames))
    frames += [client.data(bytes(10)) for client in clients]
    plan = plan_of(function("dnslog", memory=20 * 512, out=str(tmp_path / "rows")), stack())
    with unoptimised():
        chain = compiled(plan, {"dnslog": 2})
    found = run_instances(chain, frames, tmp_path, store, {3: move("dnslog", 1)})
    assert found.failure is None and 0 < found.reports["state_refused"] < 12
