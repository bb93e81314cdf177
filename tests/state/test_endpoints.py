"""Inside endpoints of the NAT whose connections several instances have: they share a port, and its end."""

from __future__ import annotations

import random
from pathlib import Path
from socket import inet_ntoa

import pytest

from sluice.chain.description import Function, function
from sluice.chain.processes.controller import Controller
from sluice.state.location import Location
from tests.state import instances
from tests.state.boxes import missing
from tests.state.instances import Action, Ran, compiled, kill, plan_of, run_ideal, run_instances
from tests.state.traffic import INSIDE, OUTSIDE, address, hosts
from tests.support.connection import Host
from tests.support.packets import eth, ip4, udp
from tests.support.unoptimised import unoptimised

EXTERNAL = bytes([192, 0, 2, 1])
FIRST, LAST = 2000, 2027
PACKETS, STEP = 640, 700 * 10**6

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def datagram(src: bytes, sport: int, dst: bytes, dport: int) -> bytes:
    return eth(ip4(udp(sport, dport, b"x"), 17, src, dst))


def traffic(seed: int) -> list[bytes]:
    """Datagrams and segments of a few endpoints to many hosts, so slow that connections end; answers, and strangers, to
    external ports; from the inside to external ports; control connections of FTP, and what answers their announcements.
    """
    choose = random.Random(seed)
    out: list[bytes] = []
    controls: dict[tuple[bytes, int, bytes], Host] = {}
    for _ in range(PACKETS):
        inside, port = address(INSIDE, 1 + choose.randrange(8)), 5000 + choose.randrange(4)
        outside, mapped = address(OUTSIDE, 1 + choose.randrange(6)), choose.randrange(FIRST, LAST + 1)
        match choose.randrange(12):
            case 0 | 1 | 2:
                out.append(datagram(inside, port, outside, 53))
            case 3 | 4:
                out.append(hosts(inside, outside, port)[0].send(choose.choice(["S", "S", "RA"])))
            case 5 | 6:
                out.append(datagram(outside, choose.choice([53, 53, 99]), EXTERNAL, mapped))
            case 7:
                out.append(datagram(inside, port, EXTERNAL, mapped))
            case 8 | 9:
                client = controls.get((inside, port, outside))
                if client is None or not choose.randrange(8):
                    client = controls[inside, port, outside] = hosts(inside, outside, port, 21, choose.getrandbits(32))[
                        0
                    ]
                    out.append(client.send("S"))
                else:
                    line = b"EPRT |1|%s|%d|\r\n" % (inet_ntoa(inside).encode(), 5000 + choose.randrange(8))
                    out.append(client.send("A", line))
            case 10:
                out.append(hosts(inside, outside, 5000 + choose.randrange(8), 20)[0].send("SA"))
            case _:
                server = hosts(outside, EXTERNAL, choose.choice([20, 21]), mapped)[0]
                out.append(server.send("S") if server.port == 20 else server.send("A", ack=choose.getrandbits(32)))
    return out


def nat(kind: str) -> Function:
    return function("nat", inside="10.1.0.0/16", first_port=FIRST, last_port=LAST, filter=kind)


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "MILLISECOND", STEP)


def move(to: int) -> Action:
    return lambda controller: _moved(controller, to)


def _moved(controller: Controller, to: int) -> None:
    controller.instances.assign("nat", dict.fromkeys(range(1024), to))


@pytest.mark.parametrize("kind", ["none", "port"])
def test_connections_of_an_endpoint_at_several_instances(tmp_path: Path, store: Location, kind: str) -> None:
    """Three instances, of which each is killed once, and whose connections move: as one instance does it."""
    packets = traffic(5)
    with unoptimised():
        ideal = run_ideal(plan_of(nat(kind)), packets, tmp_path / "ideal")
    for counter in ("no_port", "unmapped", "filtered" if kind == "port" else "hairpinned"):
        assert ideal.reports[f"nat.{counter}"] > 2, ideal.reports
    assert ideal.reports["nat.ftp_announced"] > 2
    assert ideal.reports["nat.translated"] > LAST - FIRST + 1  # ports were released, and given out again
    actions = {2: kill("nat"), 4: kill("nat#1"), 6: move(1), 7: kill("nat#2"), 8: move(0)}
    found: Ran = run_instances(compiled(plan_of(nat(kind)), {"nat": 3}), packets, tmp_path, store, actions)
    assert found.failure is None
    assert found.left == ideal.left
    assert found.state == ideal.state
