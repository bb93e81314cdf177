"""QUIC packets in the clear: what a capture of them would have been before they were sealed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aioquic._buffer import Buffer
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicPacketType, pull_quic_header
from aioquic.tls import CipherSuite

from tests.quic.traffic import CLIENT, VERSIONS
from tests.support.packets import eth, ip4, udp

IPV4, UDP_HEADER = 34, 8
LABELS = {QuicPacketType.HANDSHAKE: "HANDSHAKE_TRAFFIC_SECRET", QuicPacketType.ONE_RTT: "TRAFFIC_SECRET_0"}


@dataclass
class Opened:
    """A packet that was opened. plain: its header, without protection; pair: what opened it."""

    kind: QuicPacketType
    from_client: bool
    pair: CryptoPair
    plain: bytes
    payload: bytes
    number: int


@dataclass
class Decipherer:
    """Opens the packets of a connection with aioquic, and writes them as they were before they were sealed."""

    keylog: str
    version: int
    client: bytes = CLIENT[0]
    """The client's address."""
    keys: dict[Any, Any] = field(default_factory=lambda: {})
    highest: dict[Any, int] = field(default_factory=lambda: {})

    def datagram(self, frame: bytes) -> bytes:
        """An Ethernet frame, with the packets in it deciphered."""
        return self.rewritten(frame, self._written)

    def rewritten(self, frame: bytes, write: Callable[[Opened], bytes]) -> bytes:
        """An Ethernet frame, with what `write` makes of each packet in it."""
        source, target = frame[26:30], frame[30:34]
        ports = int.from_bytes(frame[34:36], "big"), int.from_bytes(frame[36:38], "big")
        data, out = frame[IPV4 + UDP_HEADER :], b""
        from_client = source == self.client
        while data and data[0]:
            header = pull_quic_header(Buffer(data=data), host_cid_length=8)
            space = (from_client, header.packet_type)
            pair = self._keys(header, from_client)
            size = header.packet_length
            plain, payload, number = pair.decrypt_packet(
                data[:size], self._number_at(data), self.highest.get(space, -1) + 1
            )
            self.highest[space] = max(number, self.highest.get(space, -1))
            out += write(Opened(header.packet_type, from_client, pair, plain, payload, number))
            data = data[size:]
        return eth(ip4(udp(ports[0], ports[1], out), 17, source, target))

    def secret(self, kind: QuicPacketType, from_client: bool) -> bytes:
        """The secret of packets other than Initial ones, from the key log."""
        label = f"{'CLIENT' if from_client else 'SERVER'}_{LABELS[kind]} "
        (line,) = [line for line in self.keylog.splitlines() if line.startswith(label)]
        return bytes.fromhex(line.split()[2])

    def _keys(self, header: Any, from_client: bool) -> CryptoPair:
        name = (from_client, header.packet_type)
        if name not in self.keys:
            pair = CryptoPair()
            if header.packet_type == QuicPacketType.INITIAL:
                self.first = header.destination_cid if from_client else self.first
                pair.setup_initial(self.first, is_client=not from_client, version=VERSIONS[self.version])
            else:
                pair.recv.setup(
                    cipher_suite=CipherSuite.AES_128_GCM_SHA256,
                    secret=self.secret(header.packet_type, from_client),
                    version=VERSIONS[self.version],
                )
            self.keys[name] = pair
        return self.keys[name]

    @staticmethod
    def _number_at(data: bytes) -> int:
        if not data[0] & 0x80:
            return 9
        buffer = Buffer(data=data)
        header = pull_quic_header(buffer)
        return buffer.tell() if header.packet_type != QuicPacketType.RETRY else len(data)

    @staticmethod
    def _written(packet: Opened) -> bytes:
        """The header as it was, with the length of the packet without its tag (in two bytes, as aioquic has it)."""
        plain, payload = packet.plain, packet.payload
        if not plain[0] & 0x80:
            return plain + payload
        number_length = (plain[0] & 3) + 1
        length = (0x4000 | number_length + len(payload)).to_bytes(2, "big")
        return plain[: -number_length - 2] + length + plain[-number_length:] + payload
