"""Generated captures for the functions that have shared state."""

from __future__ import annotations

import random
from pathlib import Path

from tests.support.capture import pcap
from tests.support.connection import Host, goodbye, handshake
from tests.support.packets import eth, ip4, udp

INSIDE, OUTSIDE, VIRTUAL = bytes([10, 1, 0, 0]), bytes([198, 51, 100, 0]), bytes([192, 0, 2, 10])


def address(network: bytes, host: int) -> bytes:
    return network[:2] + host.to_bytes(2, "big") if network == INSIDE else network[:3] + bytes([host])


def hosts(
    client: bytes, server: bytes, port: int, service: int = 80, isn: int = 1000, checksums: bool = True
) -> tuple[Host, Host]:
    a, b = Host(client, port, isn, checksums=checksums), Host(server, service, 9000, checksums=checksums)
    a.peer, b.peer = b, a
    return a, b


def write(path: Path, packets: list[bytes], step: float = 0.001) -> Path:
    path.write_bytes(pcap(packets, [1000 + step * number for number in range(len(packets))]))
    return path


def connection(
    client: bytes, server: bytes, port: int, service: int = 80, body: bytes = b"GET / HTTP/1.0\r\n\r\n"
) -> list[bytes]:
    """A whole connection, from its handshake to its close."""
    a, b = hosts(client, server, port, service)
    return [*handshake(a, b), a.data(body), b.data(body * 3), *goodbye(a, b)]


def lines(client: bytes, server: bytes, port: int, service: int, *spoken: bytes) -> list[bytes]:
    """A connection whose client sends lines."""
    a, b = hosts(client, server, port, service)
    out = handshake(a, b)
    for line in spoken:
        out += [a.data(line + b"\r\n"), b.send("A")]
    return out + goodbye(a, b)


def refused(client: bytes, server: bytes, port: int, service: int = 80) -> list[bytes]:
    """A connection attempt that is answered by a reset."""
    a, b = hosts(client, server, port, service)
    return [a.send("S"), b.send("RA")]


def trojan(client: bytes, port: int = 5000) -> list[list[bytes]]:
    """The three connections of the signature, in order."""
    files = [b"USER me", b"RETR a.html", b"RETR dir/b.ZIP", b"RETR c.exe"]
    return [
        lines(client, address(OUTSIDE, 1), port, 22, b"SSH-2.0-OpenSSH_9.2"),
        lines(client, address(OUTSIDE, 2), port + 1, 21, *files),
        lines(client, address(OUTSIDE, 3), port + 2, 6667, b"NICK me", b"USER a b c d", b"JOIN #x"),
    ]


def mixed(seed: int, count: int) -> list[bytes]:
    """Interleaved connections of many hosts: whole, refused and unanswered ones, datagrams, the Trojan's sequence."""
    choose = random.Random(seed)
    streams: list[list[bytes]] = []
    for number in range(count):
        client = address(INSIDE, choose.randrange(1, 60))
        server = choose.choice([address(OUTSIDE, choose.randrange(1, 200)), VIRTUAL, VIRTUAL])
        port = 2000 + number
        match choose.randrange(8):
            case 0:
                streams.append(refused(client, server, port))
            case 1:
                streams.append([hosts(client, server, port)[0].send("S")])
            case 2:
                there, back = udp(port, 53, b"question"), udp(53, port, b"answer")
                streams.append([eth(ip4(there, 17, client, server)), eth(ip4(back, 17, server, client))])
            case 3 if number % 5 == 0:
                streams.append([packet for each in trojan(client, port + 20000) for packet in each])
            case _:
                streams.append(connection(client, server, port))
    out: list[bytes] = []
    while streams:
        stream = choose.choice(streams[:20])
        out.append(stream.pop(0))
        streams = [each for each in streams if each]
    return out
