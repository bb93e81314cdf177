"""The path of a packet, as the truth names it, from the headers that a stack tells.

A path is the names of the layers; what follows the last one and has no layer of its own is named by its number. Where
the truth tells kinds of malformed headers apart, here all are `malformed`: the layer that refuses one says nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.headers import Header, headers_of

MALFORMED = re.compile(r"(ext:)?(short|bad\w*)$")

NAMES = {
    "ipv4": "ip",
    "ipv6": "ip6",
    "ah6": "ah",
    "vxlan_gpe": "vxlangpe",
    "wlan_padded": "wlan",
    "sctp_packet": "sctp",
    **{
        name: name
        for name in (
            *("eth", "vlan", "llc", "snap", "arp", "sll", "sll2", "null", "chdlc", "fr", "ppp", "radiotap"),
            *("wlan", "mpls", "frag", "ah", "icmp", "icmp6", "udp", "tcp", "igmp", "esp", "erspan", "erspan3"),
            *("gtp", "vxlan", "geneve", "l2tp"),
        )
    },
}
"""Layers whose name in a path does not depend on what is in them. Layers that stand nowhere here are in no path."""

TYPES = {
    **dict.fromkeys(("eth", "vlan", "snap", "fr"), "type"),
    **dict.fromkeys(("sll", "sll2", "chdlc", "gre", "geneve"), "protocol"),
}
"""Layers with an EtherType, and its field."""

ETHERTYPES = {
    0x0800: "ip",
    0x86DD: "ip6",
    0x0806: "arp",
    **dict.fromkeys((0x8100, 0x88A8, 0x9100, 0x9200), "vlan"),
    **dict.fromkeys((0x8847, 0x8848), "mpls"),
    0x8864: "pppoe",
    0x880B: "ppp",
    0x6558: "eth",
}

CARRIED = {"ipv4": "protocol", **dict.fromkeys(("ipv6", "ext", "ah", "ah6", "frag"), "next")}
"""Layers that say which protocol IP carries, and the field."""

PROTOCOLS = {
    **{1: "icmp", 2: "igmp", 4: "ip", 6: "tcp", 17: "udp", 33: "dccp", 41: "ip6", 46: "rsvp", 47: "gre", 50: "esp"},
    **{51: "ah", 58: "icmp6", 59: "nonext", 88: "eigrp", 89: "ospf", 103: "pim", 112: "vrrp", 132: "sctp", 137: "mpls"},
}

EXTENSIONS = {0: "hbh", 43: "rt", 60: "dst", 135: "mip6", 139: "hip", 140: "shim6"}

PPP = {
    **{0x21: "ip", 0x57: "ip6", 0xC021: "lcp", 0x8021: "ipcp", 0x8057: "ipv6cp", 0x80FD: "ccp", 0xFD: "comp"},
    **{0xFB: "comp", 0xC223: "chap", 0xC023: "pap", 0x3D: "mp", 0x2D: "vjc", 0x2F: "vju", 0xC029: "cbcp"},
}

WLAN = {0: "mgmt", 1: "ctl", 3: "ext"}


def path_of(headers: list[Header]) -> str:
    """The path of a packet with these headers, from the lowest layer up."""
    names: list[str] = []
    known: list[Header] = []
    for number, header in enumerate(headers):
        found = _names(header, headers[:number])
        if found is not None:
            names += found
            known.append(header)
    return ":".join(names + _ending(known[-1]))


def _names(header: Header, below: list[Header]) -> list[str] | None:
    """What a header is called in a path; nothing when it is in none, None when nothing ends with it either."""
    layer, fields = header.layer, header.fields
    if layer in ("frag", "raw"):
        whole = layer == "frag" and (fields["offset"] or fields["more_frag"])
        return [] if whole or (below and layer == "raw") else [layer]
    if layer == "ext" or layer == "other":
        carries = next(one for one in reversed(below) if one.layer in CARRIED)
        number = _number(carries, CARRIED[carries.layer])
        return [(EXTENSIONS if layer == "ext" else PROTOCOLS).get(number, f"proto{number}")]
    if layer == "gre":
        if fields["version"]:
            return ["gre1"]
        return ["gre", "erspan1"] if fields["protocol"] == 0x88BE and not fields["S"] else ["gre"]
    if layer == "pppoe":
        return ["pppoed"] if fields["code"] else ["pppoe"]
    if layer == "mpls_payload":
        return ["cw"] if _number(header, "kind") == 0 else []
    if layer == "teredo" and _number(header, "kind") >> 12 == 6:
        return ["teredo"]
    return [NAMES[layer]] if layer in NAMES else None


def _ending(header: Header) -> list[str]:
    """What follows the last header and has none of its own."""
    layer, fields = header.layer, header.fields
    if layer == "gre" and fields["version"]:
        return ["ack"]
    if layer == "snap" and fields["oui"] not in (0, 0xF8):
        return ["oui"]
    if layer in TYPES:
        number = _number(header, TYPES[layer])
        if number <= 1500 and layer in ("eth", "vlan"):
            return ["llc", "malformed"]
        if number in ETHERTYPES:
            return [ETHERTYPES[number], "malformed"]
        return ["pppoed"] if number == 0x8863 else [f"0x{number:04x}"]
    if (layer == "ipv4" and (fields["offset"] or fields["more_frag"])) or layer == "frag":
        return ["frag"]
    if layer in CARRIED:
        number = _number(header, CARRIED[layer])
        return ["nonext"] if number == 59 else [PROTOCOLS.get(number, f"proto{number}"), "malformed"]
    if layer == "ppp":
        parts = [fields[name] for name in ("high", "low") if name in fields]
        first = [] if "high" in fields else [fields["first"]]
        number = int.from_bytes(bytes(int(part) for part in first + parts), "big")
        name = PPP.get(number, f"0x{number:04x}")
        return [name, "malformed"] if name in ("ip", "ip6") else [name]
    if layer in ("wlan", "wlan_padded"):
        if fields["type"] != 2:
            return [WLAN[_number(header, "type")]]
        return ["null"] if _number(header, "subtype") & 4 else ["protected"] if fields["protected"] else []
    if layer == "mpls_payload":
        return [{4: "ip", 6: "ip6"}.get(_number(header, "kind"), "eth"), "malformed"]
    return ["malformed"] if layer == "mpls" else []


def _number(header: Header, name: str) -> int:
    value = header.fields[name]
    assert isinstance(value, int)
    return value


LINKS = {0: "null", 1: "eth", 101: "raw", 113: "sll", 276: "sll2"}


def paths_of(stack: str, capture: Path, entry: dict[str, Any]) -> Counter[str]:
    """How many frames of a capture have which path; `entry` is its truth, for their number and the link type."""
    seen = headers_of(stack, capture)
    found = Counter(path_of(headers) for headers in seen.values())
    if len(seen) < entry["packets"]:
        link = LINKS[int(next(iter(entry["linktypes"])))]
        found[f"{link}:malformed"] += entry["packets"] - len(seen)
    return found


def true_paths(entry: dict[str, Any]) -> Counter[str]:
    """The same as the truth has it, malformed headers by one name."""
    found: Counter[str] = Counter()
    for path, frames in entry["paths"].items():
        found[MALFORMED.sub("malformed", path)] += frames
    return found
