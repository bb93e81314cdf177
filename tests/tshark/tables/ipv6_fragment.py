"""What tshark calls the fields of frag."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "frag",
        "ipv6.fraghdr",
        {
            "next": "ipv6.fraghdr.nxt",
            "reserved": "ipv6.fraghdr.reserved_octet",
            "offset": "ipv6.fraghdr.offset",
            "reserved2": "ipv6.fraghdr.reserved_bits",
            "more_frag": "ipv6.fraghdr.more",
            "id": "ipv6.fraghdr.ident",
        },
    )
]
