"""Names that rules use: the fields that they compare, and names of protocols, services, types and states.

Numbers are those of IANA's registries (protocol numbers, service names, ICMP and ICMPv6 parameters).
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.functions.ip_protocols import PROTOCOLS

FIELD_NUMBERS = (
    "nfproto",
    "l4proto",
    "saddr",
    "daddr",
    "sport",
    "dport",
    "flags",
    "ttl",
    "dscp",
    "length",
    "id",
    "type",
    "code",
    "state",
    "direction",
    "ether_saddr",
    "ether_daddr",
    "ether_type",
)
"""The fields of a packet, in the order of enum firewall_field (functions/ready/firewall_table.h)."""

SERVICES = {
    "ftp-data": 20,
    "ftp": 21,
    "ssh": 22,
    "telnet": 23,
    "smtp": 25,
    "domain": 53,
    "bootps": 67,
    "bootpc": 68,
    "tftp": 69,
    "http": 80,
    "kerberos": 88,
    "pop3": 110,
    "sunrpc": 111,
    "ntp": 123,
    "imap2": 143,
    "imap": 143,
    "snmp": 161,
    "snmp-trap": 162,
    "bgp": 179,
    "ldap": 389,
    "https": 443,
    "microsoft-ds": 445,
    "isakmp": 500,
    "syslog": 514,
    "submission": 587,
    "ldaps": 636,
    "imaps": 993,
    "pop3s": 995,
    "openvpn": 1194,
    "radius": 1812,
    "nfs": 2049,
    "mysql": 3306,
    "ms-wbt-server": 3389,
    "ipsec-nat-t": 4500,
    "sip": 5060,
    "mdns": 5353,
    "postgresql": 5432,
    "http-alt": 8080,
}
ICMP = {
    "echo-reply": 0,
    "destination-unreachable": 3,
    "source-quench": 4,
    "redirect": 5,
    "echo-request": 8,
    "router-advertisement": 9,
    "router-solicitation": 10,
    "time-exceeded": 11,
    "parameter-problem": 12,
    "timestamp-request": 13,
    "timestamp-reply": 14,
    "info-request": 15,
    "info-reply": 16,
    "address-mask-request": 17,
    "address-mask-reply": 18,
}
ICMPV6 = {
    "destination-unreachable": 1,
    "packet-too-big": 2,
    "time-exceeded": 3,
    "parameter-problem": 4,
    "echo-request": 128,
    "echo-reply": 129,
    "mld-listener-query": 130,
    "mld-listener-report": 131,
    "mld-listener-done": 132,
    "mld-listener-reduction": 132,
    "nd-router-solicit": 133,
    "nd-router-advert": 134,
    "nd-neighbor-solicit": 135,
    "nd-neighbor-advert": 136,
    "nd-redirect": 137,
    "mld2-listener-report": 143,
}
STATES = {"new": 0, "established": 1, "related": 2, "invalid": 3, "untracked": 4}
DIRECTIONS = {"original": 0, "reply": 1}
FLAGS = {"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32, "ecn": 64, "ece": 64, "cwr": 128}
FAMILIES = {"ipv4": 4, "ipv6": 6}
ETHER_TYPES = {"ip": 0x0800, "ip6": 0x86DD, "vlan": 0x8100}
DSCP = {"cs0": 0, "cs1": 8, "cs2": 16, "cs3": 24, "cs4": 32, "cs5": 40, "cs6": 48, "cs7": 56, "ef": 46, "be": 0} | {
    f"af{high}{low}": 8 * high + 2 * low for high in range(1, 5) for low in range(1, 4)
}

REJECTIONS = {
    "icmp": {
        "net-unreachable": 0,
        "host-unreachable": 1,
        "prot-unreachable": 2,
        "port-unreachable": 3,
        "net-prohibited": 9,
        "host-prohibited": 10,
        "admin-prohibited": 13,
    },
    "icmpv6": {
        "no-route": 0,
        "admin-prohibited": 1,
        "addr-unreachable": 3,
        "port-unreachable": 4,
        "policy-fail": 5,
        "reject-route": 6,
    },
}
"""Codes of "destination unreachable" (RFC 792, 1122, 1812; RFC 4443)."""
REJECTIONS_BOTH = {
    "port-unreachable": (3, 4),
    "admin-prohibited": (13, 1),
    "no-route": (0, 0),
    "host-unreachable": (1, 3),
}

PRIORITIES = {"raw": -300, "mangle": -150, "dstnat": -100, "filter": 0, "security": 50, "srcnat": 100}
HOOKS = ("prerouting", "forward", "postrouting")
"""Hooks that a packet passes which is forwarded, in this order."""


@dataclass(frozen=True)
class Type:
    """The kind of a field's values: bits, and names of some of them."""

    bits: int
    names: dict[str, int]
    kind: str = "number"


PORT = Type(16, SERVICES)
PROTOCOL = Type(8, PROTOCOLS)
V4, V6, ETHER = Type(32, {}, "ipv4"), Type(128, {}, "ipv6"), Type(48, {}, "ether")
_FLAGS, _STATE = Type(8, FLAGS, "flags"), Type(3, STATES, "state")

SET_TYPES = {"ipv4_addr": V4, "ipv6_addr": V6, "ether_addr": ETHER, "inet_service": PORT, "inet_proto": PROTOCOL}


@dataclass(frozen=True)
class Field:
    """A field of a match. needs: conditions on the packet, as pairs of a field and a value."""

    name: str
    type: Type
    needs: tuple[tuple[str, int], ...] = ()


_IP, _IP6 = (("nfproto", 4),), (("nfproto", 6),)
FIELDS: dict[tuple[str, str], Field] = {
    ("ip", "saddr"): Field("saddr", V4, _IP),
    ("ip", "daddr"): Field("daddr", V4, _IP),
    ("ip", "protocol"): Field("l4proto", PROTOCOL, _IP),
    ("ip", "ttl"): Field("ttl", Type(8, {}), _IP),
    ("ip", "dscp"): Field("dscp", Type(6, DSCP), _IP),
    ("ip", "length"): Field("length", Type(16, {}), _IP),
    ("ip", "id"): Field("id", Type(16, {}), _IP),
    ("ip6", "saddr"): Field("saddr", V6, _IP6),
    ("ip6", "daddr"): Field("daddr", V6, _IP6),
    ("ip6", "hoplimit"): Field("ttl", Type(8, {}), _IP6),
    ("ip6", "dscp"): Field("dscp", Type(6, DSCP), _IP6),
    ("tcp", "flags"): Field("flags", _FLAGS, (("l4proto", 6),)),
    ("icmp", "type"): Field("type", Type(8, ICMP), (*_IP, ("l4proto", 1))),
    ("icmp", "code"): Field("code", Type(8, {}), (*_IP, ("l4proto", 1))),
    ("icmpv6", "type"): Field("type", Type(8, ICMPV6), (*_IP6, ("l4proto", 58))),
    ("icmpv6", "code"): Field("code", Type(8, {}), (*_IP6, ("l4proto", 58))),
    ("th", "sport"): Field("sport", PORT),
    ("th", "dport"): Field("dport", PORT),
    ("meta", "l4proto"): Field("l4proto", PROTOCOL),
    ("meta", "nfproto"): Field("nfproto", Type(8, FAMILIES)),
    ("meta", "length"): Field("length", Type(32, {})),
    ("ct", "state"): Field("state", _STATE),
    ("ct", "direction"): Field("direction", Type(1, DIRECTIONS)),
    ("ether", "saddr"): Field("ether_saddr", ETHER),
    ("ether", "daddr"): Field("ether_daddr", ETHER),
    ("ether", "type"): Field("ether_type", Type(16, ETHER_TYPES)),
    **{
        (name, port): Field(port, PORT, (("l4proto", PROTOCOLS[name]),))
        for name in ("tcp", "udp", "sctp", "dccp", "udplite")
        for port in ("sport", "dport")
    },
}
SUBJECTS = frozenset(subject for subject, _ in FIELDS)
