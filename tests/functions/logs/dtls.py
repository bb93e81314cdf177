"""Handshakes of DTLS: by OpenSSL, and byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from OpenSSL import SSL

from tests.functions.logs.hellos import RANDOM, extension, message, vector
from tests.quic.traffic import certificate
from tests.support.packets import A4, B4, eth, ip4, udp

Records = Sequence[tuple[str, bytes]]
"""Records in the order in which they were sent: ">" by the client, "<" by the server."""

HANDSHAKE, HEAD = 22, 13
PORTS = (40000, 4433)


def record(content: bytes, number: int = 0, kind: int = HANDSHAKE, epoch: int = 0, version: int = 0xFEFD) -> bytes:
    """A record with its number."""
    return struct.pack(">BHHHI", kind, version, epoch, 0, number) + vector(content)


def fragments(whole: bytes, number: int, size: int = 1 << 14) -> list[bytes]:
    """A handshake message in fragments of at most `size` bytes, each in its record."""
    kind, body = whole[:1], whole[4:]
    parts = [(at, body[at : at + size]) for at in range(0, len(body), size)]
    heads = [
        kind + struct.pack(">IH", len(body), number)[1:] + struct.pack(">I", at)[1:] + vector(part, 3)
        for at, part in parts
    ]
    return [record(head, count) for count, head in enumerate(heads)]


def hello_of(server: bool = False, versions: bytes = b"", cookie: bytes = b"", random: bytes = RANDOM) -> bytes:
    """A hello of DTLS 1.2 with a name; with `versions`, of DTLS 1.3."""
    more = extension(43, versions) if versions else b""
    if server:
        return message(2, b"\xfe\xfd" + random + b"\0" + struct.pack(">HB", 0x1301, 0) + vector(more))
    extensions = extension(0, vector(b"\0" + vector(b"a.example"))) + extension(14, b"\0\x02\0\x07\0") + more
    suites = vector(struct.pack(">2H", 0xC02B, 0x1301))
    return message(1, b"\xfe\xfd" + random + b"\0" + vector(cookie, 1) + suites + b"\x01\x00" + vector(extensions))


def records_of(chunk: bytes) -> Iterator[bytes]:
    """Each of some records."""
    while chunk:
        size = HEAD + int.from_bytes(chunk[11:13], "big")
        yield chunk[:size]
        chunk = chunk[size:]


def handshake(mtu: int = 1200, cookie: bool = True) -> list[tuple[str, bytes]]:
    """The records of a connection of OpenSSL with itself, and a message of each end."""
    ends: dict[str, SSL.Connection] = {}
    for who in "><":
        context = SSL.Context(SSL.DTLS_METHOD)
        if who == "<":
            chain, key = certificate()
            context.use_certificate(chain)
            context.use_privatekey(key)
            context.set_cookie_generate_callback(lambda _: b"a cookie")
            context.set_cookie_verify_callback(lambda _, given: given == b"a cookie")
            context.set_alpn_select_callback(lambda _, offered: offered[0])
        else:
            context.set_alpn_protos([b"webrtc", b"c-webrtc"])
        ends[who] = SSL.Connection(context, None)
        ends[who].set_ciphertext_mtu(mtu)
    client, server = ends[">"], ends["<"]
    client.set_tlsext_host_name(b"a.example")
    client.set_connect_state()
    server.set_accept_state()
    sent: list[tuple[str, bytes]] = []
    done = {"listen": not cookie, ">": False, "<": False, "said": False}

    def step(who: str) -> None:
        try:
            if who == "<" and not done["listen"]:
                ends[who].DTLSv1_listen()
                done["listen"] = True
                ends[who].set_ciphertext_mtu(mtu)  # OpenSSL forgets it
            if not done[who]:
                ends[who].do_handshake()
                done[who] = True
        except SSL.WantReadError:
            pass

    for _ in range(20):
        for who in "><":
            step(who)
            if done[">"] and done["<"] and not done["said"]:
                client.send(b"hello")
                server.send(b"there")
                done["said"] = True
            try:
                chunk = ends[who].bio_read(1 << 16)
            except SSL.WantReadError:
                continue
            sent += [(who, one) for one in records_of(chunk)]
            ends["<" if who == ">" else ">"].bio_write(chunk)
    assert done["said"]
    return sent


def datagrams(records: Records, together: bool = False, ports: tuple[int, int] = PORTS) -> list[bytes]:
    """Frames with a record each, or, `together`, all that a side sends at once."""
    joined: list[tuple[str, bytes]] = []
    for who, one in records:
        if together and joined and joined[-1][0] == who:
            joined[-1] = (who, joined[-1][1] + one)
        else:
            joined.append((who, one))
    sport, dport = ports
    return [
        eth(ip4(udp(sport, dport, data), 17, A4, B4) if who == ">" else ip4(udp(dport, sport, data), 17, B4, A4))
        for who, data in joined
    ]
