"""What tshark calls the fields of ipv4."""

from tests.tshark.table import COUNT, Explained, NotShown, Table, bits

OPTIONS = (
    *("end_of_options", "no_operation", "option", "option_size", "option_data"),
    *(f"{kind}_{part}" for kind in ("loose", "strict") for part in ("type", "size", "pointer", "passed", "last")),
)

TABLES = [
    Table(
        "ipv4",
        "ip",
        {
            "version": bits("ip.version", 4, 4),
            "ihl": bits("ip.hdr_len", 0, 4),
            "tos": "ip.dsfield",
            "total_length": "ip.len",
            "id": "ip.id",
            "reserved": "ip.flags.rb",
            "dont_frag": "ip.flags.df",
            "more_frag": "ip.flags.mf",
            "offset": "ip.frag_offset",
            "ttl": "ip.ttl",
            "protocol": "ip.proto",
            "checksum": "ip.checksum",
            "src": "ip.src",
            "dst": "ip.dst",
            **dict.fromkeys(OPTIONS, NotShown("tshark shows each option by its own name")),
        },
        explained={COUNT: [Explained("gen__pptp_vj.pcap", "tshark expands headers that PPP compressed (RFC 1144)")]},
    )
]
