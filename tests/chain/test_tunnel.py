"""The tunnel between hosts: messages arrive once and in order over a network that loses, repeats and reorders
datagrams.
"""

from __future__ import annotations

import random
import select
import threading
from collections.abc import Generator

import pytest

from sluice.chain.hosts.tunnel import AGENT, MESSAGE_MOST, RELAY, Tunnel, opened
from tests.support.bounded import joined

KEY = bytes(range(32))


class Network(threading.Thread):
    """Forwards datagrams between an agent and a relay by chance: lost, twice, or after the next ones."""

    def __init__(self, relay: tuple[str, int], seed: int) -> None:
        super().__init__(daemon=True)
        self._socket, self._relay, self._agent = opened("127.0.0.1"), relay, ("", 0)
        self.address: tuple[str, int] = self._socket.getsockname()
        self._choose, self._held, self.ending = random.Random(seed), list[tuple[bytes, tuple[str, int]]](), False

    def run(self) -> None:
        while not self.ending:
            if not select.select([self._socket], [], [], 0.01)[0]:
                continue
            data, sender = self._socket.recvfrom(1 << 16)
            if sender != self._relay:
                self._agent = sender
            self._held.append((data, self._agent if sender == self._relay else self._relay))
            chance = self._choose.random()
            if chance < 0.2:
                self._held.pop()
            elif chance < 0.3:
                self._held.append(self._held[-1])
            elif chance < 0.5 and len(self._held) < 8:
                continue
            self._choose.shuffle(self._held)
            for one, to in self._held:
                self._socket.sendto(one, to)
            self._held.clear()

    def close(self) -> None:
        self.ending = True
        joined(self)
        self._socket.close()


@pytest.fixture
def ends() -> Generator[tuple[Tunnel, Tunnel, Network]]:
    relay = Tunnel(opened("127.0.0.1"), KEY, RELAY)
    network = Network(relay.socket.getsockname(), 3)
    agent = Tunnel(opened("127.0.0.1"), KEY, AGENT, network.address)
    network.start()
    yield relay, agent, network
    network.close()
    relay.socket.close()
    agent.socket.close()


def test_messages_arrive_once_and_in_order(ends: tuple[Tunnel, Tunnel, Network]) -> None:
    relay, agent, _ = ends
    choose = random.Random(1)
    there = [number.to_bytes(4, "big") + bytes(choose.randrange(MESSAGE_MOST - 4)) for number in range(600)]
    back = [b"answer %d" % number for number in range(300)]
    for message in there:
        agent.send(message)
    for message in back:
        relay.send(message)
    to_relay, to_agent = list[bytes](), list[bytes]()
    for _ in range(20_000):
        to_relay += relay.exchange(0.001)
        to_agent += agent.exchange(0.001)
        if len(to_relay) >= len(there) and len(to_agent) >= len(back):
            break
    assert to_relay == there
    assert to_agent == back
    assert agent.figures["repeated"] > 0 and agent.figures["refused"] == 0


def test_datagrams_of_others_are_refused() -> None:
    """Without the key, from the own end, cut, or changed."""
    relay, other = Tunnel(opened("127.0.0.1"), KEY, RELAY), opened("127.0.0.1")
    stranger = Tunnel(opened("127.0.0.1"), bytes(32), AGENT, relay.socket.getsockname())
    reflected = Tunnel(opened("127.0.0.1"), KEY, RELAY, relay.socket.getsockname())
    agent = Tunnel(opened("127.0.0.1"), KEY, AGENT, other.getsockname())
    for one in (stranger, reflected, agent):
        one.send(b"message")
        one.exchange(0)
    data = other.recv(1 << 16)
    for wrong in (data[:20], data[:-1], data[:-1] + b"\x01", b""):
        other.sendto(wrong, relay.socket.getsockname())
    found = [message for _ in range(20) for message in relay.exchange(0.01)]
    assert found == [] and relay.figures["refused"] == 6 and relay.other is None
    other.sendto(data, relay.socket.getsockname())
    other.sendto(data, relay.socket.getsockname())
    assert [message for _ in range(20) for message in relay.exchange(0.01)] == [b"message"]
    for one in (relay.socket, other, stranger.socket, reflected.socket, agent.socket):
        one.close()


def test_repeated_datagrams_do_not_redirect_the_tunnel() -> None:
    """Someone who reads datagrams sends them again from another address."""
    relay, other, stranger = Tunnel(opened("127.0.0.1"), KEY, RELAY), opened("127.0.0.1"), opened("127.0.0.1")
    agent = Tunnel(opened("127.0.0.1"), KEY, AGENT, other.getsockname())
    agent.send(b"message")
    agent.exchange(0)
    data = other.recv(1 << 16)
    for sender in (other, stranger):
        sender.sendto(data, relay.socket.getsockname())
        found = [message for _ in range(20) for message in relay.exchange(0.01)]
        assert found == ([b"message"] if sender is other else [])
        assert relay.other == other.getsockname()
    for one in (relay.socket, agent.socket, other, stranger):
        one.close()


def test_a_tunnel_lasts() -> None:
    """More datagrams than 32 bits number."""
    relay = Tunnel(opened("127.0.0.1"), KEY, RELAY)
    agent = Tunnel(opened("127.0.0.1"), KEY, AGENT, relay.socket.getsockname())
    agent._number = (1 << 32) - 2  # pyright: ignore[reportPrivateUsage]
    relay._expected = (1 << 32) - 1  # pyright: ignore[reportPrivateUsage]
    found = list[bytes]()
    for number in range(4):
        agent.send(b"%d" % number)
        agent.exchange(0)
        found += relay.exchange(1)
    assert found == [b"0", b"1", b"2", b"3"]
    for _ in range(200):
        agent.exchange(0.01)
        if not agent.pending:
            break
    assert not agent.pending
    relay.socket.close()
    agent.socket.close()
