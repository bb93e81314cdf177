"""What tshark calls the fields of the packets that negotiate PPP; the options of one stand in its tree side by side."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, NotShown, Shown, Table, Value

COMMON: dict[str, Shown] = {"code": "ppp.code", "id": "ppp.identifier", "length": "ppp.length"}
BY_KIND = NotShown("tshark shows it by the kind of the option")


def option(protocol: str, kind: int) -> tuple[Shown, Shown]:
    """Type and length of the last option of a kind."""

    def lengths(node: Node) -> list[int]:
        types, sizes = node.numbers(f"{protocol}.opt.type"), node.numbers(f"{protocol}.opt.length")
        return [size for one, size in zip(types, sizes, strict=True) if one == kind]

    return (
        Computed(lambda node: kind if lengths(node) else None),
        Computed(lambda node: lengths(node)[-1] if lengths(node) else None),
    )


def other(protocol: str, *known: int) -> dict[str, Shown]:
    """The last option of another kind than those."""

    def found(node: Node) -> list[tuple[int, int]]:
        types, sizes = node.numbers(f"{protocol}.opt.type"), node.numbers(f"{protocol}.opt.length")
        return [(one, size) for one, size in zip(types, sizes, strict=True) if one not in known]

    def kind(node: Node) -> Value:
        return found(node)[-1][0] if found(node) else None

    def length(node: Node) -> Value:
        return found(node)[-1][1] if found(node) else None

    return {"option_type": Computed(kind), "option_length": Computed(length), "option_data": BY_KIND}


def kinds(protocol: str, **names: int) -> dict[str, Shown]:
    """The fields of type and length of options, by what they are called."""
    found: dict[str, Shown] = {}
    for name, kind in names.items():
        of_type, length = option(protocol, kind)
        whole = name.endswith("_compression")
        found |= {name if whole else f"{name}_type": of_type, f"{name}_length": length}
    return found


TABLES = [
    Table(
        "lcp",
        "lcp",
        COMMON
        | kinds("lcp", mru=1, accm=2, authentication=3, magic=5, protocol_compression=7, address_compression=8)
        | {
            "mru": "lcp.opt.mru",
            "accm": "lcp.opt.asyncmap",
            "authentication": "lcp.opt.auth_protocol",
            "authentication_data": "lcp.opt.algorithm",
            "magic": "lcp.opt.magic_number",
        }
        | other("lcp", 1, 2, 3, 5, 7, 8),
    ),
    Table(
        "ipcp",
        "ipcp",
        COMMON
        | kinds("ipcp", compression=2, address=3)
        | {
            "compression": "ipcp.opt.compress_proto",
            "compression_data": BY_KIND,
            "address": "ipcp.opt.ip_address",
        }
        | other("ipcp", 2, 3),
    ),
    Table(
        "ipv6cp",
        "ipv6cp",
        COMMON | kinds("ipv6cp", identifier=1) | {"identifier": "ipv6cp.interface_identifier"} | other("ipv6cp", 1),
    ),
    Table("ccp", "ccp", COMMON | other("ccp")),
    Table(
        "pap",
        "pap",
        {
            "code": "pap.code",
            "id": "pap.identifier",
            "length": "pap.length",
            "peer_length": "pap.peer_id.length",
            "peer": "pap.peer_id",
            "password_length": "pap.password.length",
            "password": "pap.password",
        },
    ),
    Table(
        "chap",
        "chap",
        {
            "code": "chap.code",
            "id": "chap.identifier",
            "length": "chap.length",
            "value_length": "chap.value_size",
            "value": "chap.value",
        },
    ),
]
