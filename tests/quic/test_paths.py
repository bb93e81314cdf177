"""New ends of a connection (RFC 9000, 9), told by packets that carry no connection id: who may name them, and who not.

Short headers towards a side with a zero-length id carry none (5.1). Such packets are found by ends from which, or to
which, a packet of the connection came: one that was opened, or, where there are no keys, one with an id that it has.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import CompiledStack, Settings
from tests.differential.both import Packet, assert_same
from tests.quic import stacks
from tests.quic.stacks import compared_quic
from tests.quic.test_hostile import datagram, dropped
from tests.quic.test_traffic import check_all_opened, moving, seen, streams
from tests.quic.traffic import CLIENT, MOVED, SERVER, Link, Traffic, make
from tests.support.run import Result, run

NO_IDS = (0, 8)
"""Bytes of ids: the client, as a browser's, has none."""
FORGER = bytes([10, 66, 6, 6]), 6666
AT_UDP, AT_PAYLOAD = 34, 42


@pytest.fixture(scope="module")
def quic() -> CompiledStack:
    return stacks.quic()


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return moving("kept", NO_IDS)


def moves(*addresses: tuple[bytes, int]) -> list[Any]:
    """The client goes from one address to the next; at each of them both sides send."""
    steps: list[Any] = []
    for number, address in enumerate(addresses):
        stream = 200 + 4 * number
        steps += [
            lambda run, address=address: setattr(run, "client_address", address),
            lambda run, stream=stream: run.send(stream, b"to the server" * 300),
            lambda run, stream=stream: run.send(stream, b"to the client" * 300, from_server=True),
        ]
    return steps


def short(packet: bytes, source: tuple[bytes, int]) -> bool:
    """Whether a frame's datagram begins with a short header and has this source."""
    return packet[26:30] == source[0] and packet[AT_PAYLOAD] & 0x80 == 0


def server_id(traffic: Traffic) -> bytes:
    return next(packet for packet in traffic.packets if packet[26:30] == SERVER[0])[AT_PAYLOAD + 7 :][:8]


def forged(traffic: Traffic, source: tuple[bytes, int] = FORGER, seed: int = 1) -> bytes:
    """What anyone who saw the connection may send: a short header with the server's id, and noise."""
    return datagram(b"\x40" + server_id(traffic) + random.Random(seed).randbytes(40), source)


def back(target: tuple[bytes, int] = FORGER) -> bytes:
    """A packet with a short header and no id, towards a client."""
    return datagram(b"\x40" + random.Random(2).randbytes(40), SERVER, target)


def beginning(traffic: Traffic, client: tuple[bytes, int]) -> list[bytes]:
    """The packets of a connection from before it moved, with its client at another address."""
    kept = [packet for packet in traffic.packets if MOVED[0] not in (packet[26:30], packet[30:34])]
    return [
        datagram(packet[AT_PAYLOAD:], client, SERVER)
        if packet[26:30] == CLIENT[0]
        else datagram(packet[AT_PAYLOAD:], SERVER, client)
        for packet in kept
    ]


def owners(result: Result) -> list[int]:
    """Of each packet with a short or long header the number of its connection; 0 where it has none."""
    return [event.instance for event in result.named("packet") if event.layer.startswith("quic_over")]


# --- with keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_client_that_moves_often_over_a_bad_link(seed: int, quic: CompiledStack, tmp_path: Path) -> None:
    """There and back, to another port of the same address, and far away."""
    addresses = MOVED, CLIENT, (MOVED[0], 4000), (bytes([192, 0, 2, 9]), 1), MOVED
    made = make(*moves(*addresses), id_lengths=NO_IDS, link=Link(loss=0.05, late=0.2, seed=seed))
    result = seen(quic, made, tmp_path)
    assert streams(result) == made.sent
    check_all_opened(result)
    assert result.count("quic", "instances") == 1


def test_interpreter_and_compiled_code_agree(tmp_path: Path) -> None:
    made = make(*moves(MOVED), id_lengths=NO_IDS)
    path = tmp_path / "keys"
    path.write_text(made.keylog)
    packets = [Packet(data, number) for number, data in enumerate(made.packets)]
    for most in (1 << 12, 2):
        assert_same(
            compared_quic(),
            packets,
            Settings(seed=1, max_instances=most, natives={"keylog": str(path)}),
        )


def test_a_server_without_an_id_is_found_once_it_answers(quic: CompiledStack, tmp_path: Path) -> None:
    """What the client sends from new ends before carries nothing that would tell whose it is."""

    made = make(*moves(MOVED, MOVED), id_lengths=(8, 0))
    result = seen(quic, made, tmp_path)
    delivered = streams(result)
    assert dropped(result, "no connection") > 0 == dropped(result, "not authentic")
    assert delivered[200, 1] == made.sent[200, 1]
    assert [delivered[204, side] for side in (0, 1)] == [made.sent[204, side] for side in (0, 1)]


def test_a_forged_packet_names_no_ends(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """It has the right id, but the keys do not open it: what is sent to its source is nobody's."""
    at = next(n for n, packet in enumerate(traffic.packets) if short(packet, MOVED))
    extra = [forged(traffic), back(), forged(traffic, MOVED), back()]
    made = Traffic([*traffic.packets[:at], *extra, *traffic.packets[at:]], [], traffic.keylog, traffic.sent)
    made.times = [*traffic.times[:at], *[traffic.times[at]] * len(extra), *traffic.times[at:]]
    result = seen(quic, made, tmp_path)
    assert streams(result) == traffic.sent
    assert dropped(result, "not authentic") == 2
    assert dropped(result, "no connection") == 2


def test_a_copy_from_elsewhere_names_ends_and_changes_nothing(
    traffic: Traffic, quic: CompiledStack, tmp_path: Path
) -> None:
    """Of a packet that somebody passed on from another address (9.3.3): what is sent back there must be opened, too."""
    at = next(n for n, packet in enumerate(traffic.packets) if short(packet, MOVED))
    extra = [datagram(traffic.packets[at][AT_PAYLOAD:], FORGER), back()]
    made = Traffic([*traffic.packets[: at + 1], *extra, *traffic.packets[at + 1 :]], [], traffic.keylog, traffic.sent)
    made.times = [*traffic.times[: at + 1], *[traffic.times[at]] * len(extra), *traffic.times[at + 1 :]]
    result = seen(quic, made, tmp_path)
    assert streams(result) == traffic.sent
    assert (dropped(result, "not authentic"), dropped(result, "no connection")) == (1, 0)


# --- without keys -------------------------------------------------------------------------------------------------


def test_a_known_id_names_the_ends(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """All packets of both directions are of the one connection, though nothing can be opened."""
    result = seen(quic, traffic, tmp_path, keylog=False)
    moved = sum(short(packet, MOVED) or packet[30:34] == MOVED[0] for packet in traffic.packets)
    assert moved > 6
    assert dropped(result, "no connection") == 0
    assert len(set(owners(result))) == 1
    assert dropped(result, "no key") >= moved


def test_a_packet_towards_it_alone_names_nothing(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """Without one that carries an id its ends are nobody's."""
    kept = [n for n, packet in enumerate(traffic.packets) if not short(packet, MOVED)]
    made = Traffic([traffic.packets[n] for n in kept], [traffic.times[n] for n in kept])
    result = seen(quic, made, tmp_path, keylog=False)
    towards = sum(packet[30:34] == MOVED[0] for packet in made.packets)
    assert dropped(result, "no connection") == towards > 3


def test_a_forged_packet_names_ends_and_takes_none_away(traffic: Traffic, quic: CompiledStack) -> None:
    """It claims the ends to which another connection moved: the next packet of that one with an id has them again."""
    first, other = beginning(traffic, (bytes([172, 16, 0, 1]), 1234)), make(*moves(MOVED), id_lengths=NO_IDS)
    at = next(n for n, packet in enumerate(other.packets) if short(packet, MOVED)) + 1
    packets = [*first, *other.packets[:at], back(MOVED), forged(traffic, MOVED), back(MOVED), *other.packets[at:]]
    again = next(n for n, packet in enumerate(other.packets[at:]) if short(packet, MOVED))
    towards = sum(packet[30:34] == MOVED[0] for packet in other.packets[at:][:again])
    found = owners(run(quic, packets))
    attacked, victim = found[0], found[-1]
    assert attacked != victim
    begun = found.index(victim)
    wrong = [number for number in found[begun:] if number != victim]
    assert wrong == [attacked] * (2 + towards), "the forged packet and what is sent there, until the other one sends"
    assert 0 not in found


def test_a_connection_that_begins_at_such_ends_is_its_own(traffic: Traffic, quic: CompiledStack) -> None:
    """A long header is not looked for by an alias, and what a selector finds needs none."""
    first, second = traffic.packets[:20], beginning(moving("kept", NO_IDS), FORGER)
    found = owners(run(quic, [*first, forged(traffic), back(), *second, forged(traffic), back()]))
    attacked, victim = found[0], found[-1]
    begun = found.index(victim)
    assert attacked != victim
    assert set(found[:begun]) == {attacked}
    assert set(found[begun:]) == {victim}


def test_forged_ends_have_a_bound_and_push_out_no_id(traffic: Traffic, quic: CompiledStack) -> None:
    """The oldest goes, counted; a packet with an id is still found, and names its own ends once more."""
    at = next(n for n, packet in enumerate(traffic.packets) if short(packet, MOVED))
    flood = [forged(traffic, (bytes([10, 7, n >> 8, n & 255]), 1 + n)) for n in range(100)]
    for most in (1 << 12, 16):
        packets = [*traffic.packets[: at + 1], *flood, *traffic.packets[at:]]
        result = run(quic, packets, settings=Settings(seed=1, max_instances=most))
        assert dropped(result, "no connection") == 0
        assert len(set(owners(result))) == 1
        assert result.count("quic", "aliases:evicted") == (0 if most > 100 else 2 * 102 - most)
