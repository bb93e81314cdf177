"""Captures with every form of links and tunnels, SLARP, I-DATA in SCTP, a jumbogram: what the corpus may not have."""

from __future__ import annotations

from pathlib import Path

from tests.protocols.test_packets import JUMBO_ENDS, jumbogram
from tests.protocols.test_sctp_interleaved import PACKETS as INTERLEAVED
from tests.protocols.test_slarp import HDLC
from tests.protocols.test_slarp import PACKETS as SLARP
from tests.protocols.test_tunnels import FORMS
from tests.support.capture import pcap

ETHERNET, RAW = 1, 101

OTHERWISE = {
    "802.11: aggregate": "tshark shows the frames of an aggregate in a tree of their own",
    "frame relay: SNAP": "tshark shows SNAP as a part of frame relay's header",
    "erspan III: IP": "tshark takes for Ethernet what is mirrored, whatever it is said to be",
    "frame relay: padded SNAP": "tshark shows SNAP as a part of frame relay's header",
    "frame relay: bridged Ethernet": "tshark shows SNAP as a part of frame relay's header",
    **dict.fromkeys(
        (
            "mpls: Ethernet without control word",
            "mpls: an address that begins like IPv4",
            "mpls: an address that begins like IPv6",
        ),
        "tshark goes by the first four bits",
    ),
    **dict.fromkeys(
        (
            *("l2tp3 in IP", "l2tp3 in IP: cookie", "l2tp3 in IP: long cookie and sublayer", "l2tp3 in UDP"),
            *("gre: Aruba, tunnel 0", "capwap: 802.11", "capwap: 802.11 without T"),
            *("frame relay with direction", "cisco hdlc with direction"),
            *("dsa with an EtherType", "broadcom's tag", "broadcom's tag in front"),
            *("gue", "gue: extension", "gue: IP at once", "slip", "dsa"),
            *("snap: bridged Ethernet", "classical IP over ATM"),
        ),
        "tshark has to be told, or has no such dissector",
    ),
    **dict.fromkeys(
        ("pbb", "pbb: backbone tag", "fabricpath"), "tshark shows both frames' headers as parts of the tag"
    ),
    **dict.fromkeys(("ppp: Cisco HDLC", "ppp: Cisco HDLC, multicast"), "tshark shows no PPP there"),
    **dict.fromkeys(
        (name for name in FORMS if name.startswith("juniper")), "tshark gives no raw values of this header"
    ),
    "ayiya": "tshark goes by the ports of a conversation that it saw before",
    "mpls: pseudo-wire with control word": "tshark tells a control word by the addresses after it, which are made up",
}
"""Forms that tshark takes otherwise, and are left out."""


def write(folder: Path) -> list[Path]:
    """A capture for each link type, a packet for each form but those that tshark takes otherwise."""
    by_link: dict[int, list[bytes]] = {}
    for name, (link_type, data) in FORMS.items():
        if name not in OTHERWISE:
            by_link.setdefault(link_type, []).append(data)
    by_link[ETHERNET] += [packet.data for packet in INTERLEAVED]
    by_link.setdefault(RAW, []).append(jumbogram(JUMBO_ENDS))
    by_link.setdefault(HDLC, []).extend(packet for packet, _ in SLARP.values())
    return [_write(folder / f"forms_{link_type}.pcap", link_type, those) for link_type, those in by_link.items()]


def _write(path: Path, link_type: int, packets: list[bytes]) -> Path:
    path.write_bytes(pcap(packets, range(len(packets)), link_type))
    return path
