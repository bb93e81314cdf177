"""Captures of Ethernet: their frames, and the TCP segments over IPv4 in these."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

ETHERNET = 1
TAGS = (b"\x81\x00", b"\x88\xa8")
IPV4 = b"\x08\x00"
TCP = 6

PCAP_BYTE_ORDERS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1e6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e9),
    b"\xa1\xb2\xc3\xd4": (">", 1e6),
    b"\xa1\xb2\x3c\x4d": (">", 1e9),
}
"""By the first bytes of a pcap file: the order of its bytes, and how many of its fractions make a second."""
SECTION_HEADER = b"\x0a\x0d\x0d\x0a"
INTERFACE, SIMPLE_PACKET, ENHANCED_PACKET = 1, 3, 6
TIME_RESOLUTION = 9

Endpoint = tuple[bytes, int]
"""An IPv4 address in network order, and a port."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as captured; frames are numbered from 1, and may have been longer on the wire."""

    number: int
    time: float
    data: bytes
    wire_length: int


def read_frames(path: Path) -> Iterator[Frame]:
    """The frames of a pcap or pcapng file, up to where it is cut off; ValueError where it is not of Ethernet."""
    content = path.read_bytes()
    if content[:4] in PCAP_BYTE_ORDERS:
        records = _pcap_records(content)
    elif content[:4] == SECTION_HEADER:
        records = _pcapng_records(content)
    else:
        raise ValueError(f"{path}: neither pcap nor pcapng")
    for number, (link_type, time, data, wire_length) in enumerate(records, 1):
        if link_type != ETHERNET:
            raise ValueError(f"{path}: link type {link_type}, not Ethernet")
        yield Frame(number, time, data, wire_length)


def _pcap_records(content: bytes) -> Iterator[tuple[int, float, bytes, int]]:
    order, fractions = PCAP_BYTE_ORDERS[content[:4]]
    (link_type,) = struct.unpack_from(f"{order}I", content, 20)
    position = 24
    while position + 16 <= len(content):
        seconds, fraction, length, wire_length = struct.unpack_from(f"{order}IIII", content, position)
        position += 16
        if position + length > len(content):
            return
        data = content[position : position + length]
        yield link_type & 0xFFFF, seconds + fraction / fractions, data, wire_length
        position += length


def _pcapng_records(content: bytes) -> Iterator[tuple[int, float, bytes, int]]:
    position, order = 0, "<"
    interfaces: list[tuple[int, float]] = []
    while position + 12 <= len(content):
        if content[position : position + 4] == SECTION_HEADER:
            order = "<" if content[position + 8 : position + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
        kind, length = struct.unpack_from(f"{order}II", content, position)
        if length < 12 or position + length > len(content):
            return
        block = content[position + 8 : position + length - 4]
        if kind == INTERFACE:
            (link_type,) = struct.unpack_from(f"{order}H", block)
            interfaces.append((link_type, _seconds_per_tick(block, order)))
        elif kind == ENHANCED_PACKET:
            interface, high, low, captured, wire_length = struct.unpack_from(f"{order}IIIII", block)
            link_type, tick = interfaces[interface]
            yield link_type, (high << 32 | low) * tick, block[20 : 20 + captured], wire_length
        elif kind == SIMPLE_PACKET:
            (wire_length,) = struct.unpack_from(f"{order}I", block)
            yield interfaces[0][0], 0.0, block[4 : 4 + wire_length], wire_length
        position += length


def _seconds_per_tick(interface: bytes, order: str) -> float:
    position = 8
    while position + 4 <= len(interface):
        option, length = struct.unpack_from(f"{order}HH", interface, position)
        if option == 0:
            break
        if option == TIME_RESOLUTION and length >= 1:
            exponent = interface[position + 4]
            return 2.0 ** -(exponent & 127) if exponent & 128 else 10.0**-exponent
        position += 4 + (length + 3) // 4 * 4
    return 1e-6


def write_frames(path: Path, frames: Iterable[Frame]) -> None:
    """A pcap file of the frames, with times in microseconds."""
    content = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, ETHERNET))
    for frame in frames:
        seconds, fraction = divmod(round(frame.time * 1e6), 1_000_000)
        content += struct.pack("<IIII", seconds, fraction, len(frame.data), frame.wire_length) + frame.data
    path.write_bytes(content)


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """A TCP segment in one IPv4 packet; `network`, `transport` and `end` are positions in its frame.

    The packet ends after the frame where the capture is `cut`, and before it where there is padding.
    """

    frame: Frame
    network: int
    transport: int
    end: int
    source: Endpoint
    destination: Endpoint
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes

    @property
    def number(self) -> int:
        """The number of its frame."""
        return self.frame.number

    @property
    def cut(self) -> bool:
        """Whether the capture lacks bytes of the packet."""
        return self.end > len(self.frame.data)

    @property
    def pure_syn(self) -> bool:
        """Whether it has SYN and no ACK."""
        return self.flags & (SYN | ACK) == SYN

    @property
    def tagged(self) -> bool:
        """Whether the frame has VLAN tags."""
        return self.frame.data[12:14] in TAGS

    @property
    def addresses(self) -> tuple[Endpoint, Endpoint]:
        """Source and destination."""
        return self.source, self.destination

    def network_checksum_right(self) -> bool:
        """Whether the checksum of the IPv4 header is right."""
        return sum_of_words(self.frame.data[self.network : self.transport]) == 0xFFFF

    def transport_checksum_right(self) -> bool:
        """Whether the checksum of the TCP segment is right."""
        segment = self.frame.data[self.transport : self.end]
        return sum_of_words(pseudo_header(self.source[0] + self.destination[0], len(segment)) + segment) == 0xFFFF


def parse_segment(frame: Frame) -> Segment | None:
    """The TCP segment of a frame; None of fragments, and of what is not whole up to the options of TCP."""
    data, network = frame.data, 12
    while data[network : network + 2] in TAGS:
        network += 4
    if data[network : network + 2] != IPV4:
        return None
    network += 2
    if len(data) < network + 20 or data[network] >> 4 != 4:
        return None
    transport = network + (data[network] & 15) * 4
    length, fragment = struct.unpack_from("!H2xH", data, network + 2)
    end = network + length if length else len(data)  # no length: it was left to the network card
    if data[network + 9] != TCP or fragment & 0x3FFF or transport < network + 20 or len(data) < transport + 20:
        return None
    header = (data[transport + 12] >> 4) * 4
    if header < 20 or transport + header > end:
        return None
    source_port, destination_port, sequence, acknowledgment = struct.unpack_from("!HHII", data, transport)
    return Segment(
        frame=frame,
        network=network,
        transport=transport,
        end=end,
        source=(data[network + 12 : network + 16], source_port),
        destination=(data[network + 16 : network + 20], destination_port),
        sequence=sequence,
        acknowledgment=acknowledgment,
        flags=data[transport + 13],
        payload=data[transport + header : end],
    )


def pseudo_header(addresses: bytes, length: int) -> bytes:
    """What the checksum of a TCP segment of that length covers besides."""
    return addresses + struct.pack("!HH", TCP, length)


def sum_of_words(data: bytes | bytearray) -> int:
    """The sum in one's complement of the words of 16 bits; 0xFFFF where the data hold their right checksum."""
    padded = data + bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total
