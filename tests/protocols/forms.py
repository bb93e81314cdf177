"""Forms of links and encapsulations beside those of test_tunnels.py: each a link type and a packet with UDP inside."""

from __future__ import annotations

import struct

from tests.support.packets import checksum, eth, ip4, ip6, udp

INNER = ip4(udp(1111, 2222, b"inner"), 17)
INNER6 = ip6(udp(1111, 2222, b"inner"), 17)
FRAME = eth(INNER)
LLC = b"\xaa\xaa\x03\0\0\0\x08\x00" + INNER
BRIDGED = b"\xaa\xaa\x03\0\x80\xc2\0\x07"
WLAN = b"\x08\x01" + bytes(22) + LLC
ADDRESSES = FRAME[:12]
JUNIPER = b"MGC\x01"


def tagged(ethertype: int, rest: bytes) -> bytes:
    """An Ethernet frame with another EtherType and what follows it."""
    return ADDRESSES + struct.pack(">H", ethertype) + rest


def in_ip(protocol: int, payload: bytes) -> bytes:
    return eth(ip4(payload, protocol))


def in_udp(port: int, payload: bytes, source: int = 40000) -> bytes:
    return eth(ip4(udp(source, port, payload), 17))


def in_gre(protocol: int, payload: bytes) -> bytes:
    return in_ip(47, struct.pack(">HH", 0, protocol) + payload)


def little(*attributes: tuple[int, bytes]) -> bytes:
    """Attributes of NFLOG."""
    return b"".join(
        struct.pack("<HH", 4 + len(value), kind) + value + bytes(-len(value) % 4) for kind, value in attributes
    )


def ppi(link_type: int, packet: bytes, fields: bytes = b"") -> bytes:
    return struct.pack("<BBHI", 0, 0, 8 + len(fields), link_type) + fields + packet


def pktap(link_type: int, packet: bytes) -> bytes:
    return struct.pack("<III", 108, 1, link_type) + bytes(96) + packet


def capwap(packet: bytes, flags: int = 0, binding: int = 1, native: bool = True, number: int = 0, at: int = 0) -> bytes:
    head = 2 << 19 | binding << 9 | native << 8 | flags
    return bytes(1) + head.to_bytes(3, "big") + struct.pack(">HH", number, at) + packet


def pim() -> bytes:
    head = b"\x21\0\0\0"
    return head[:2] + struct.pack(">H", checksum(head + bytes(4))) + bytes(4) + INNER


def gtp_session(packet: bytes) -> bytes:
    return b"\x34\xff" + struct.pack(">HI", 8 + len(packet), 9) + b"\0\0\0\x85\x01\x10\x05\0" + packet


ETHERTYPES = {
    "vntag": (1, tagged(0x8926, b"\0\1\0\2\x08\0" + INNER)),
    "vntag: VLAN": (1, tagged(0x8926, b"\0\1\0\2\x81\0\0\5\x08\0" + INNER)),
    "ttag": (1, tagged(0x8988, bytes(6) + b"\x08\0" + INNER)),
    "hsr": (1, tagged(0x892F, struct.pack(">HHH", len(INNER) + 6, 7, 0x0800) + INNER)),
    "cmd": (1, tagged(0x8909, b"\x01\x01\0\x01\0\x64\x08\0" + INNER)),
    "macsec: channel": (1, tagged(0x88E5, b"\x20\0\0\0\0\x07" + bytes(8) + b"\x08\0" + INNER + bytes(16))),
    "macsec": (1, tagged(0x88E5, b"\0\0\0\0\0\x07\x08\0" + INNER + bytes(16))),
    "macsec: short": (1, tagged(0x88E5, bytes([0, 2 + len(INNER), 0, 0, 0, 7]) + b"\x08\0" + INNER + bytes(26))),
    "pbb": (1, tagged(0x88E7, b"\0\0\x12\x34" + FRAME)),
    "pbb: backbone tag": (1, tagged(0x88A8, b"\0\x05\x88\xe7\0\0\x12\x34" + FRAME)),
    "fabricpath": (1, b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + b"\x89\x03\x04\x20" + FRAME),
    "nsh: Ethernet": (1, tagged(0x894F, b"\x0f\xc2\x02\x03\0\0\x01\xff" + FRAME)),
    "nsh: metadata, IPv4": (1, tagged(0x894F, b"\x0f\xc6\x01\x01\0\0\x01\xff" + bytes(16) + INNER)),
    "nsh: IPv6": (1, tagged(0x894F, b"\x0f\xc2\x02\x02\0\0\x01\xff" + INNER6)),
    "mpls: Ethernet without control word": (1, tagged(0x8847, b"\0\x06\x41\x40" + FRAME)),
    "mpls: an address that begins like IPv4": (1, tagged(0x8847, b"\0\x06\x41\x40\x45\xf4\xf0\0\0\1" + FRAME[6:])),
    "mpls: an address that begins like IPv6": (1, tagged(0x8847, b"\0\x06\x41\x40\x64\0\0\1\xf0\0" + FRAME[6:])),
}

OVER_IP = {
    "etherip": (1, in_ip(97, b"\x30\0" + FRAME)),
    "pim register": (1, in_ip(103, pim())),
    "l2tp3 in IP": (1, in_ip(115, b"\0\0\0\x4d" + FRAME)),
    "l2tp3 in IP: cookie": (1, in_ip(115, b"\0\0\0\x4d" + b"cook" + FRAME)),
    "l2tp3 in IP: long cookie and sublayer": (1, in_ip(115, b"\0\0\0\x4d" + b"cookies!" + bytes(4) + FRAME)),
    "SRv6: Ethernet": (1, eth(ip6(b"\x8f\x02\x04\0\0\0\0\0" + bytes(15) + b"\x09" + FRAME, 43))),
    "gre: Aruba": (1, in_gre(0x8210, WLAN)),
    "gre: Aruba, tunnel 0": (1, in_gre(0, WLAN)),
    "gre: WCCP": (1, in_gre(0x883E, INNER)),
    "gre: WCCP, version 2": (1, in_gre(0x883E, bytes(4) + INNER)),
    "gre: NSH": (1, in_gre(0x894F, b"\x0f\xc2\x02\x01\0\0\x01\xff" + INNER)),
}

OVER_UDP = {
    "gre in UDP": (1, in_udp(4754, b"\0\0\x08\0" + INNER)),
    "gtp: Ethernet session": (1, in_udp(2152, gtp_session(FRAME))),
    "gtp: Ethernet without a session header": (
        1,
        in_udp(2152, b"\x30\xff" + struct.pack(">HI", len(FRAME), 1) + FRAME),
    ),
    "gtp: IP session": (1, in_udp(2152, gtp_session(INNER))),
    "gtp0": (1, in_udp(3386, b"\x1e\xff" + struct.pack(">HHH", len(INNER), 1, 2) + b"\xff" * 4 + bytes(8) + INNER)),
    "l2tp3 in UDP": (1, in_udp(1701, b"\0\x03\0\0\0\0\0\x4d" + FRAME, 1701)),
    "capwap: 802.11": (1, in_udp(5247, capwap(WLAN))),
    "capwap: 802.11, swapped": (1, in_udp(5247, capwap(b"\x01\x08" + WLAN[2:]))),
    "capwap: 802.11 without T": (1, in_udp(5247, capwap(WLAN, native=False))),
    "capwap: 802.3": (1, in_udp(5247, capwap(FRAME, native=False))),
    "vxlan-gpe: NSH": (1, in_udp(4790, b"\x0c\0\0\x04\0\0\x01\0" + b"\x0f\xc2\x02\x01\0\0\x01\xff" + INNER)),
    "gue": (1, in_udp(6080, b"\0\x04\0\0" + INNER)),
    "gue: extension": (1, in_udp(6080, b"\x01\x04\0\0" + bytes(4) + INNER)),
    "gue: IP at once": (1, in_udp(6080, INNER)),
    "lisp": (1, in_udp(4341, b"\x08\0\0\0\0\0\x07\0" + INNER)),
    "tzsp": (1, in_udp(37008, b"\x01\0\0\x01" + b"\x0a\x01\x80" + b"\0\x01" + FRAME)),
    "tzsp: 802.11": (1, in_udp(37008, b"\x01\0\0\x12\x01" + WLAN)),
    "ayiya": (1, in_udp(5072, b"\x41\x52\x11\x29" + bytes(4) + bytes(16) + bytes(20) + INNER6)),
}

LINKS = {
    "frame relay: padded NLPID": (107, b"\x18\x41\x03\0\xcc" + INNER),
    "frame relay: padded SNAP": (107, b"\x18\x41\x03\0\x80\0\0\0\x08\0" + INNER),
    "frame relay: bridged Ethernet": (107, b"\x18\x41\x03\0\x80\0\x80\xc2\0\x07" + FRAME),
    "frame relay: PPP": (107, b"\x18\x41\x03\xcf\0\x21" + INNER),
    "frame relay with direction": (206, b"\0\x18\x41\x08\0" + INNER),
    "ppp: Cisco HDLC": (9, b"\x0f\0\x08\0" + INNER),
    "ppp: Cisco HDLC, multicast": (50, b"\x8f\0\x08\0" + INNER),
    "ppp: multilink": (9, b"\xff\x03\0\x3d\xc0\0\0\x07\x21" + INNER),
    "ppp with direction": (204, b"\0\xff\x03\0\x21" + INNER),
    "cisco hdlc with direction": (205, b"\0\x0f\0\x08\0" + INNER),
    "nflog": (239, b"\x02\0\0\0" + little((1, b"\x08\0\0\0"), (10, b"prefix\0"), (9, INNER))),
    "nflog: IPv6": (239, b"\x0a\0\0\0" + little((9, INNER6))),
    "pflog": (117, b"\x3d\x02\0\0" + bytes(60) + INNER),
    "pflog: IPv6": (117, b"\x3d\x18\0\0" + bytes(60) + INNER6),
    "enc": (109, struct.pack("<I", 2) + bytes(8) + INNER),
    "enc: big-endian, IPv6": (109, struct.pack(">I", 24) + bytes(8) + INNER6),
    "ppi": (192, ppi(1, FRAME)),
    "ppi: 802.11, fields": (192, ppi(105, WLAN, struct.pack("<HH", 2, 20) + bytes(20))),
    "ppi: raw IP": (192, ppi(101, INNER)),
    "pktap": (258, pktap(1, FRAME)),
    "pktap: raw IP, the older link type": (149, pktap(12, INNER)),
    "ipnet": (226, b"\x01\x02" + bytes(2) + struct.pack(">I", len(INNER)) + bytes(16) + INNER),
    "ipnet: IPv6": (226, b"\x01\x1a" + bytes(2) + struct.pack(">I", len(INNER6)) + bytes(16) + INNER6),
    "prism": (119, struct.pack("<II", 0x44, 144) + bytes(136) + WLAN),
    "avs": (163, struct.pack(">II", 0x80211001, 64) + bytes(56) + WLAN),
    "avs on the link type of prism": (119, struct.pack(">II", 0x80211001, 64) + bytes(56) + WLAN),
    "ipoib": (242, bytes(40) + b"\x08\0\0\0" + INNER),
    "slip": (8, b"\0" + b"\x45" + bytes(14) + INNER),
    "fddi": (10, b"\x50" + ADDRESSES + LLC),
    "atm": (100, LLC),
    "atm, the BSD number": (11, LLC),
    "classical IP over ATM": (106, LLC),
    "sunatm": (123, b"\x02\0\0\x20" + LLC),
    "dsa": (284, ADDRESSES + b"\xc0\0\0\x01\x08\0" + INNER),
    "dsa with an EtherType": (285, ADDRESSES + b"\xda\xda\0\0\xc0\0\0\x01\x08\0" + INNER),
    "broadcom's tag": (281, ADDRESSES + bytes(4) + b"\x08\0" + INNER),
    "broadcom's tag in front": (282, bytes(4) + FRAME),
    "juniper: Ethernet": (178, JUNIPER + FRAME),
    "juniper: Ethernet, extension": (178, b"MGC\x81\0\x06\x01\x01\x02\x03\x02\x01" + FRAME),
    **{
        f"juniper: no link header, {number}": (number, b"MGC\x03\x02\0\0\0" + INNER)
        for number in (178, 179, 180, 181, 168, 137, 135, 130, 133, 183, 136)
    },
    "juniper: no link header, extension": (180, b"MGC\x83\0\x06\x01\x01\x02\x03\x02\x01\x06\0\0\0" + INNER6),
    "juniper: PPPoE over ATM": (
        168,
        JUNIPER + b"\x88\x64\x11\0\0\x01" + struct.pack(">H", 2 + len(INNER)) + b"\0\x21" + INNER,
    ),
    "juniper: ATM 1, LLC": (137, JUNIPER + b"\0\0\0\x05" + LLC),
    "juniper: ATM 1, IP": (137, JUNIPER + b"\0\0\0\x05" + INNER),
    "juniper: ATM 2, LLC": (135, JUNIPER + bytes(8) + LLC),
    "juniper: ATM 2, bridged": (135, JUNIPER + bytes(8) + BRIDGED + bytes(2) + FRAME),
    "juniper: ATM 2, Ethernet": (135, b"MGC\0\0\0\0\x20\0\0\0\0" + FRAME),
    "juniper: ATM 2, PPP": (135, JUNIPER + bytes(8) + b"\0\x21" + INNER),
    "juniper: ATM 2, IP": (135, JUNIPER + bytes(8) + INNER6),
    "juniper: multilink, IP": (130, b"MGC\0\x47\0\0\0\0\0\0\0" + INNER),
    "juniper: multilink, IPv6": (130, JUNIPER + b"\x40\0\0\0\0\x10\0\0" + INNER6),
    "juniper: multilink, cookie of 4 bytes": (130, JUNIPER + b"\x54\0\0\x01\0\x21" + INNER),
    "juniper: multilink, link of a bundle": (130, JUNIPER + b"\xff\x03\0\x21" + INNER),
    "juniper: multilink, bundle": (130, JUNIPER + b"\0\x07\0\x21" + INNER),
    "juniper: GGSN": (133, JUNIPER + b"\x02\0\x05\0" + INNER),
    "juniper: voice": (183, JUNIPER + bytes(18) + INNER),
    "juniper: services, incoming": (136, JUNIPER + bytes(16) + INNER),
    "juniper: services, outgoing": (136, b"MGC\0" + bytes(12) + INNER),
    "juniper: PPPoE": (
        167,
        JUNIPER + ADDRESSES + b"\x88\x64\x11\0\0\x01" + struct.pack(">H", 2 + len(INNER)) + b"\0\x21" + INNER,
    ),
    "juniper: PPP": (179, JUNIPER + b"\xff\x03\0\x21" + INNER),
    "juniper: frame relay": (180, JUNIPER + b"\x18\x41\x08\0" + INNER),
    "juniper: Cisco HDLC": (181, JUNIPER + b"\x0f\0\x08\0" + INNER),
    "classical IP over ATM, without LLC": (106, INNER),
    "snap: bridged Ethernet": (10, b"\x50" + ADDRESSES + BRIDGED + FRAME),
    "snap: bridged Ethernet over ATM": (11, BRIDGED + bytes(2) + FRAME),
}

FORMS = {**ETHERTYPES, **OVER_IP, **OVER_UDP, **LINKS}

NOTHING_INSIDE = {
    "macsec: encrypted": (1, tagged(0x88E5, b"\x0c\0\0\0\0\x07" + INNER)),
    "mpls: associated channel": (1, tagged(0x8847, b"\0\x06\x41\x40\x10\0\0\x07" + INNER)),
    "nsh: version 1": (1, tagged(0x894F, b"\x4f\xc2\x02\x01\0\0\x01\xff" + INNER)),
    "nsh: shorter than its header": (1, tagged(0x894F, b"\x0f\xc1\x02\x01\0\0\x01\xff" + INNER)),
    "nflog: no packet": (239, b"\x02\0\0\0" + little((1, b"abcd"))),
    "nflog: length of nothing": (239, b"\x02\0\0\0\0\0\x09\0" + INNER),
    "pktap: no packet": (258, struct.pack("<III", 108, 2, 1) + bytes(96) + FRAME),
    "ppi: shorter than its header": (192, struct.pack("<BBHI", 0, 0, 7, 1) + FRAME),
    "ppi: a link type that is none": (192, ppi(65000, FRAME)),
    "capwap: DTLS": (1, in_udp(5247, b"\x01\0\0\0" + FRAME)),
    "capwap: keep-alive": (1, in_udp(5247, capwap(WLAN, flags=8))),
    "l2tp3: session 0": (1, in_ip(115, bytes(4) + FRAME)),
    "pim: hello": (1, in_ip(103, b"\x20\0\0\0" + INNER)),
    "gtp0: echo": (1, in_udp(3386, b"\x1e\x01" + bytes(18) + INNER)),
    "tzsp: keep-alive": (1, in_udp(37008, b"\x01\x04\0\x01\x01" + FRAME)),
    "ppp: part of a multilink packet": (9, b"\xff\x03\0\x3d\x80\0\0\x07\x21" + INNER),
    "ipcomp": (1, in_ip(108, b"\x11\0\0\x02" + INNER)),
    "juniper: another magic": (178, b"MGX\x01" + FRAME),
}

FRAGMENTED = [
    in_udp(5247, capwap(WLAN[:40], flags=0x80, number=7)),
    in_udp(5247, capwap(WLAN[40:], flags=0xC0, number=7, at=40)),
]
"""A frame in two fragments of CAPWAP."""
