"""What tshark calls the fields of icmp6."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, Table, Value, Where

NO_ECHO = "it is no echo"
NO_ERROR = "it is no error: what stands there belongs to the message, which our parser does not read"
UDP = ("udp.srcport", "udp.dstport", "udp.length")
TCP = ("tcp.srcport", "tcp.dstport", "tcp.seq")
FRAGMENT = ("nxt", "reserved_octet", "offset", "reserved_bits", "more")
ID = "ipv6.fraghdr.ident"


def is_error(node: Node) -> bool:
    """Whether it is an error message, which quotes a packet."""
    return node.numbers("icmpv6.type")[0] < 128


def is_echo(node: Node) -> bool:
    """Whether it is an echo request or reply."""
    return node.numbers("icmpv6.type")[0] in (128, 129)


def before(node: Node) -> Value:
    """Version to payload length of the quoted header."""
    if "ipv6.flow" not in node.fields:
        return None
    traffic, flow, length = (node.numbers(f"ipv6.{name}")[0] for name in ("tclass", "flow", "plen"))
    return 6 << 44 | traffic << 36 | flow << 16 | length


def after(node: Node) -> bytes | None:
    """What tshark shows of the first six bytes after the quoted header."""
    if "ipv6.fraghdr.nxt" in node.fields:
        next, reserved, offset, unused, more = (node.numbers(f"ipv6.fraghdr.{name}")[0] for name in FRAGMENT)
        return bytes([next, reserved]) + (offset << 3 | unused << 1 | more).to_bytes(2, "big") + node.bytes(ID)[0]
    for names in (UDP, TCP):
        if names[-1] in node.fields:
            return b"".join(node.bytes(name)[0] for name in names)
    if len(node.fields["icmpv6.type"]) > 1:  # an ICMPv6 message is quoted
        return b"".join(node.bytes(f"icmpv6.{name}")[-1] for name in ("type", "code", "checksum", "echo.identifier"))
    return None


def ports(node: Node) -> Value:
    """The first four of them."""
    found = after(node)
    return int.from_bytes(found[:4], "big") if found else None


def after_ports(node: Node) -> Value:
    """The next two."""
    found = after(node)
    return int.from_bytes(found[4:6], "big") if found else None


TABLES = [
    Table(
        "icmp6",
        "icmpv6",
        {
            "type": "icmpv6.type",
            "code": "icmpv6.code",
            "checksum": "icmpv6.checksum",
            "id": Where("icmpv6.echo.identifier", is_echo, NO_ECHO),
            "number": Where("icmpv6.echo.sequence_number", is_echo, NO_ECHO),
            "unused": Where(("icmpv6.reserved", "icmpv6.mtu", "icmpv6.pointer"), is_error, NO_ERROR),
            "quoted_before": Computed(before),
            "quoted_next": "ipv6.nxt",
            "quoted_hop_limit": "ipv6.hlim",
            "quoted_src": "ipv6.src",
            "quoted_dst": "ipv6.dst",
            "quoted_ports": Where(Computed(ports), is_error, NO_ERROR),
            "quoted_id": Where(Computed(after_ports), is_error, NO_ERROR),
        },
    )
]
