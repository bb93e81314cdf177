"""Every form in which a link or a tunnel brings a packet: what is optional in its header is there, or is not."""

from __future__ import annotations

import struct

import pytest

from sluice.engine.box import CompiledStack, Settings
from sluice.stacks.everything import DEPTH
from tests.protocols import forms
from tests.support.packets import A4, B4, eth, ip4, ip6, udp
from tests.support.run import run
from tests.support.stacks import all_protocols

INNER = ip4(udp(1111, 2222, b"inner"), 17)
INNER6 = ip6(udp(1111, 2222, b"inner"), 17)
FRAME = eth(INNER)
GRE, MPLS = 47, 137


@pytest.fixture(scope="module")
def stack() -> CompiledStack:
    return all_protocols()


def in_gre(flags: int, protocol: int, rest: bytes) -> bytes:
    return eth(ip4(struct.pack(">HH", flags, protocol) + rest, GRE))


def in_udp(port: int, payload: bytes, source: int = 40000) -> bytes:
    return eth(ip4(udp(source, port, payload), 17))


def label(number: int, bottom: bool) -> bytes:
    return struct.pack(">I", number << 12 | bottom << 8 | 64)


PPP = {
    "whole": b"\xff\x03\x00\x21",
    "address and control compressed": b"\x00\x21",
    "protocol compressed": b"\xff\x03\x21",
    "both compressed": b"\x21",
}
LLC = b"\xaa\xaa\x03\0\0\0\x08\x00" + INNER
DATA, QOS = b"\x08\x01" + bytes(22), b"\x88\x01" + bytes(24)
AGGREGATE = b"\x88\x01" + bytes(22) + b"\x80\0"
MSDU = bytes(12) + struct.pack(">H", len(LLC)) + LLC


def radiotap(flags: int, frame: bytes, present: tuple[int, ...] = (2,), before: bytes = b"") -> bytes:
    """A frame after radiotap with these flags; `before` lies between the bit maps and the flags."""
    maps = b"".join(struct.pack("<I", bits) for bits in present)
    head = maps + before + bytes([flags]) + b"rest of the header"
    return struct.pack("<BBH", 0, 0, 4 + len(head)) + head + frame


GENEVE_OPTIONS = b"\x01\x02\x03\x01abcd"
TEREDO_AUTHENTICATION = b"\x00\x01\x02\x03" + b"id" + b"mac" + bytes(8) + b"\x00"
TEREDO_ORIGIN = b"\x00\x00" + bytes(6)
ERSPAN2 = bytes([0x10, 0, 0, 7]) + bytes(4)
ERSPAN3 = bytes([0x20, 0, 0, 7]) + bytes(8)


def in_gtp(*extensions: tuple[int, bytes]) -> bytes:
    """Behind extension headers, each a type and a content of two bytes and some times four."""
    chain, following = b"", 0
    for kind, content in reversed(extensions):
        chain, following = bytes([len(content) + 2 >> 2]) + content + bytes([following]) + chain, kind
    rest = struct.pack(">HBB", 7, 5, following) + chain + INNER
    return in_udp(2152, struct.pack(">BBHI", 0x34, 255, len(rest), 0x1234) + rest)


GTP_EXTENSIONS = {
    "service class": (0x20, b"\x07\0"),
    "UDP port": (0x40, b"\x08\x68"),
    "RAN container": (0x81, b"abcdef"),
    "long PDCP number": (0x82, b"\x02\x34\x56\0\0\0"),
    "long PDCP number that may be ignored": (0x03, b"\x03\xff\xff\0\0\0"),
    "Xw RAN container": (0x83, b"ghijkl"),
    "NR RAN container": (0x84, b"\x01\x05\0\0\x07\0"),
    "to the user": (0x85, b"\x00\x49"),
    "to the user, paging policy": (0x85, b"\x00\x89\xa0\0\0\0"),
    "from the user": (0x85, b"\x10\x09"),
    "from the user, measured": (0x85, b"\x18\x09" + bytes(range(24))),
    "PDCP number": (0xC0, b"\x01\x02"),
    "unknown, for every node": (0xCF, b"\x01\x02"),
    "unknown, for the receiver": (0x8F, b"\x01\x02\x03\x04\x05\x06"),
    "unknown, may be ignored": (0x0F, b"\x01\x02"),
}
FORMS: dict[str, tuple[int, bytes]] = {
    **{f"ppp: {name}": (9, head + INNER) for name, head in PPP.items()},
    "ppp: IPv6": (9, b"\xff\x03\x00\x57" + INNER6),
    "pppoe: padded": (
        1,
        FRAME[:12] + struct.pack(">HBBHH", 0x8864, 0x11, 0, 5, 2 + len(INNER)) + b"\0\x21" + INNER + b"pad",
    ),
    "cisco hdlc": (104, b"\x0f\x00\x08\x00" + INNER),
    "frame relay: RFC 2427": (107, b"\x18\x41\x03\xcc" + INNER),
    "frame relay: SNAP": (107, b"\x18\x41\x03\x80\x00\x00\x00\x08\x00" + INNER),
    "frame relay: Cisco": (107, b"\x18\x41\x08\x00" + INNER),
    "frame relay: three bytes": (107, b"\x18\x40\x01\x03\xcc" + INNER),
    "frame relay: four bytes": (107, b"\x18\x40\x02\x01\x08\x00" + INNER),
    "radiotap: flags": (127, radiotap(0, DATA + LLC)),
    "radiotap: check sequence": (127, radiotap(0x10, DATA + LLC + b"fcs!")),
    "radiotap: padding": (127, radiotap(0x20, QOS + b"\xff\xff" + LLC)),
    "radiotap: padding, check sequence": (127, radiotap(0x30, QOS + b"\xff\xff" + LLC + b"fcs!")),
    "radiotap: no padding needed": (127, radiotap(0x20, DATA + LLC)),
    "radiotap: time": (127, radiotap(0x20, QOS + bytes(2) + LLC, (3,), bytes(8))),
    "radiotap: time after an alignment": (
        127,
        radiotap(0x20, QOS + bytes(2) + LLC, (1 << 31 | 3, 0), b"\xff" * 4 + bytes(8)),
    ),
    "radiotap: three bit maps": (127, radiotap(0x20, QOS + bytes(2) + LLC, (1 << 31 | 3, 1 << 31, 0), bytes(8))),
    "802.11: aggregate": (105, AGGREGATE + MSDU),
    "802.11: data": (105, b"\x08\x01" + bytes(22) + b"\xaa\xaa\x03\0\0\0\x08\x00" + INNER),
    "802.11: QoS, four addresses": (105, b"\x88\x03" + bytes(30) + b"\xaa\xaa\x03\0\0\0\x08\x00" + INNER),
    "radiotap": (127, b"\0\0\x09\0" + bytes(5) + b"\x08\x01" + bytes(22) + b"\xaa\xaa\x03\0\0\0\x08\x00" + INNER),
    "gre": (1, in_gre(0, 0x0800, INNER)),
    "gre: checksum": (1, in_gre(0x8000, 0x0800, bytes(4) + INNER)),
    "gre: key": (1, in_gre(0x2000, 0x0800, bytes(4) + INNER)),
    "gre: checksum, key, number": (1, in_gre(0xB000, 0x0800, bytes(12) + INNER)),
    "gre: empty source route": (1, in_gre(0x4000, 0x0800, bytes(8) + INNER)),
    "gre: checksum, key, number, source route": (
        1,
        in_gre(0xF000, 0x0800, bytes(12) + b"\x08\0\0\x04\x0a\0\0\x01" + b"\0\1\0\x02ab" + bytes(4) + INNER),
    ),
    "gre: Ethernet": (1, in_gre(0, 0x6558, FRAME)),
    "gre: PPTP": (1, in_gre(0x3001, 0x880B, struct.pack(">HHI", 1 + len(INNER), 9, 1) + b"\x21" + INNER)),
    "gre: PPTP, acknowledging": (
        1,
        in_gre(0x3081, 0x880B, struct.pack(">HHII", 1 + len(INNER), 9, 1, 0) + b"\x21" + INNER + b"junk"),
    ),
    "erspan I": (1, in_gre(0, 0x88BE, FRAME)),
    "erspan II": (1, in_gre(0x1000, 0x88BE, bytes(4) + ERSPAN2 + FRAME)),
    "erspan III": (1, in_gre(0x1000, 0x22EB, bytes(4) + ERSPAN3 + FRAME)),
    "erspan III: platform": (1, in_gre(0x1000, 0x22EB, bytes(4) + ERSPAN3[:11] + b"\x01" + bytes(8) + FRAME)),
    "erspan III: IP": (1, in_gre(0x1000, 0x22EB, bytes(4) + ERSPAN3[:10] + b"\x08\x00" + INNER)),
    "mpls in IP": (1, eth(ip4(label(16, True) + INNER, MPLS))),
    "mpls: labels over labels": (1, eth(ip4(label(16, False) + label(17, False) + label(18, True) + INNER6, MPLS))),
    "mpls: pseudo-wire with control word": (1, eth(ip4(label(16, True) + bytes(4) + b"\x02" + FRAME[1:], MPLS))),
    "mpls in UDP": (1, in_udp(6635, label(16, True) + INNER)),
    **{f"gtp: {name}": (1, in_gtp(extension)) for name, extension in GTP_EXTENSIONS.items()},
    "gtp: no extension header": (1, in_gtp()),
    "gtp: several extension headers": (1, in_gtp((0x85, b"\0\x09"), (0xC0, b"\x01\x02"), (0x40, b"\x08\x68"))),
    "vxlan": (1, in_udp(4789, b"\x08\0\0\0\0\0\x01\0" + FRAME)),
    "vxlan-gpe: IPv4": (1, in_udp(4790, b"\x0c\0\0\x01\0\0\x01\0" + INNER)),
    "vxlan-gpe: Ethernet": (1, in_udp(4790, b"\x0c\0\0\x03\0\0\x01\0" + FRAME)),
    "geneve": (1, in_udp(6081, b"\0\0\x08\0\0\0\x01\0" + INNER)),
    "geneve: several options": (1, in_udp(6081, b"\x04\0\x08\0\0\0\x01\0" + GENEVE_OPTIONS * 2 + INNER)),
    "geneve: an option that is too long": (1, in_udp(6081, b"\x01\0\x08\0\0\0\x01\0" + b"\0\0\0\x1f" + INNER)),
    "geneve: options, Ethernet": (1, in_udp(6081, b"\x02\0\x65\x58\0\0\x01\0" + GENEVE_OPTIONS + FRAME)),
    "l2tp": (1, in_udp(1701, b"\x00\x02\0\x01\0\x02" + b"\x21" + INNER)),
    "l2tp: length, numbers, offset": (
        1,
        in_udp(
            1701,
            struct.pack(">HHHH", 0x4A02, 21 + len(INNER), 1, 2)
            + bytes(4)
            + b"\0\x03pad"
            + b"\xff\x03\x00\x21"
            + INNER
            + b"behind the length",
        ),
    ),
    "teredo": (1, in_udp(3544, INNER6)),
    "teredo: origin": (1, in_udp(3544, TEREDO_ORIGIN + INNER6)),
    "teredo: authentication and origin": (1, in_udp(3544, TEREDO_AUTHENTICATION + TEREDO_ORIGIN + INNER6)),
}
FORMS |= forms.FORMS


@pytest.mark.parametrize("form", FORMS)
def test_what_is_inside_is_seen(stack: CompiledStack, form: str) -> None:
    link_type, data = FORMS[form]
    result = run(stack, [data], link_type=link_type)
    found = [row for row in result.rows if (row["proto"], row["sport"], row["dport"]) == ("udp", 1111, 2222)]
    assert [row["src_payload"] for row in found] == [5], result.counters
    assert not any(
        value for counters in result.counters.values() for key, value in counters.items() if "malformed" in key
    )


NOTHING_INSIDE = {
    "pppoe: discovery": (1, FRAME[:12] + b"\x88\x63\x11\x09\0\0\0\0"),
    "pppoe: discovery with tags": (1, FRAME[:12] + b"\x88\x63\x11\x09\0\0\0\x0a\1\1\0\0\1\3\0\2ab"),
    "gre: source route without an end": (1, in_gre(0x4000, 0x0800, bytes(4) + b"\x08\0\0\x04" + INNER)),
    "802.11: fragment": (105, b"\x08\x01" + bytes(20) + b"\x01\0" + LLC),
    "802.11: first fragment": (105, b"\x08\x05" + bytes(22) + LLC),
    "radiotap: longer than the packet": (127, b"\0\0\xff\xff" + bytes(4) + DATA + LLC),
    "radiotap: shorter than its fields": (127, b"\0\0\x08\0\x02\0\0\0" + DATA + LLC),
    "l2tp: length of nothing": (1, in_udp(1701, b"\x40\x02\0\0\0\x01\0\x02" + b"\x21" + INNER)),
    "gre: PPTP acknowledgement": (1, in_gre(0x2081, 0x880B, struct.pack(">HHI", 0, 9, 1))),
    "gre: version 2": (1, in_gre(2, 0x0800, INNER)),
    "vxlan: no VNI": (1, in_udp(4789, bytes(8) + FRAME)),
    "geneve: version 1": (1, in_udp(6081, b"\x40\0\x08\0\0\0\x01\0" + INNER)),
    "l2tp: control": (1, in_udp(1701, b"\xc8\x02\0\x14" + bytes(8) + b"\x80\x08\0\0\0\0\0\x06")),
    "l2tp: acknowledgement": (1, in_udp(1701, b"\xc8\x02\0\x0c" + bytes(8))),
    "802.11: protected": (105, b"\x08\x41" + bytes(22) + b"\xaa\xaa\x03\0\0\0\x08\x00" + INNER),
    "802.11: acknowledgement": (105, b"\xd4\x00" + bytes(8)),
}
NOTHING_INSIDE |= forms.NOTHING_INSIDE


@pytest.mark.parametrize("form", NOTHING_INSIDE)
def test_what_carries_nothing_leads_nowhere(stack: CompiledStack, form: str) -> None:
    link_type, data = NOTHING_INSIDE[form]
    rows = run(stack, [data], link_type=link_type).rows
    assert not [row for row in rows if row["sport"] == 1111]


@pytest.mark.parametrize("form", FORMS)
def test_cut_at_every_byte(stack: CompiledStack, form: str) -> None:
    """None is read beyond its end; each ends in a counted way (the law of conservation is asserted on every run)."""
    link_type, data = FORMS[form]
    frames = [(data[:size], length) for size in range(len(data)) for length in (size, len(data))]
    result = run(stack, frames, link_type=link_type)
    assert result.counters["box"]["packets"] == len(frames)


def test_a_frame_in_fragments_of_capwap(stack: CompiledStack) -> None:
    for order in (forms.FRAGMENTED, forms.FRAGMENTED[::-1]):
        rows = run(stack, order).rows
        assert [row["src_payload"] for row in rows if row["sport"] == 1111] == [5]


def test_fragments_of_multilink_are_counted(stack: CompiledStack) -> None:
    heads = [b"\xff\x03\0\x3d" + flags + b"\0\0\x07\x21" for flags in (b"\x80", b"\0", b"\x40", b"\xc0")]
    counters = run(stack, [head + INNER for head in heads], link_type=9).counters
    assert counters["multilink"]["passed"] == 4 and counters["multilink_fragment"]["packets"] == 3


def test_tunnels_within_tunnels(stack: CompiledStack) -> None:
    """To the bound of the stack, and no further."""
    packet = INNER
    for depth in range(DEPTH - 3):  # Ethernet, and IP and UDP of INNER
        packet = ip4(packet, 4, bytes([10, 0, depth, 1]), bytes([10, 0, depth, 2]))
        rows = run(stack, [eth(packet)]).rows
        assert len(rows) == 1, depth
    for _ in range(130):
        packet = ip4(packet, 4, A4, B4)
        result = run(stack, [eth(packet)])
        assert result.rows == [] and result.counters["box"]["too deep"] == 1
    assert len(run(stack, [eth(packet)], settings=Settings(seed=1, depth=255)).rows) == 1
