"""What tshark calls the fields of gtp."""

from collections.abc import Callable

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, NotShown, Shown, Table, Value, Where

SAYS_NOTHING = "its flag is not set, so tshark does not show it; it is there for the sake of another one"
TO_THE_USER = "tshark shows these bits only in packets to the user"

SERVICE_CLASS, UDP_PORT, RAN, XW_RAN, NR_RAN, SESSION, PDCP = 0x20, 0x40, 0x81, 0x83, 0x84, 0x85, 0xC0
LONG_PDCP, LONG_PDCP_OPTIONAL = 0x82, 0x03
NAMED = (SERVICE_CLASS, UDP_PORT, RAN, XW_RAN, NR_RAN, SESSION, PDCP, LONG_PDCP, LONG_PDCP_OPTIONAL)


def flag(name: str) -> Callable[[Node], bool]:
    """Whether a flag is set."""
    return lambda node: node.numbers(f"gtp.flags.{name}")[0] == 1


def extension(node: Node, *kinds: int) -> tuple[int, bytes] | None:
    """The last extension header of one of these types, or, if none are given, of a type that has no name: its type, and
    its bytes from the length on without the next one's type.
    """
    found = None
    # The first type stands before all headers, the others each at the end of one.
    for kind, data in zip(node.numbers("gtp.ext_hdr.next"), node.bytes("gtp.ext_hdr"), strict=False):
        if kind in kinds or (not kinds and kind not in NAMED):
            found = kind, data[:-1]
    return found


def kind_of(*kinds: int, shift: int = 0, mask: int = 0xFF) -> Computed:
    """The type of such an extension header."""

    def value(node: Node) -> Value:
        found = extension(node, *kinds)
        return None if found is None else found[0] >> shift & mask

    return Computed(value)


def number(*kinds: int, at: int, size: int = 1, shift: int = 0, width: int = 64) -> Computed:
    """A number in such an extension header, from the byte after its type on; `shift` bits stand after it."""

    def value(node: Node) -> Value:
        found = extension(node, *kinds)
        if found is None:
            return None
        return int.from_bytes(found[1][at : at + size], "big") >> shift & (1 << width) - 1

    return Computed(value)


def rest(*kinds: int, at: int) -> Computed:
    """The bytes of such an extension header from there on."""

    def value(node: Node) -> Value:
        found = extension(node, *kinds)
        return found[1][at:] or None if found is not None else None

    return Computed(value)


def session_rest(node: Node) -> Value:
    """What follows a paging policy, or where it would be."""
    found = extension(node, SESSION)
    return found[1][3 + ("gtp.ext_hdr.pdu_ses_cont.ppi" in node.fields) :] or None if found is not None else None


def last_type(node: Node) -> Value:
    """That of the last extension header, and of what follows it."""
    return node.numbers("gtp.ext_hdr.next")[-1] if "gtp.ext_hdr.next" in node.fields else None


def not_from_the_user(node: Node) -> bool:
    """Not a PDU Session Container from the user."""
    return node.numbers("gtp.ext_hdr.pdu_ses_con.pdu_type") != [1]


EXTENSIONS: dict[str, Shown] = {
    "no_more": Where(Computed(last_type), flag("e"), SAYS_NOTHING),
    "service_class_type": kind_of(SERVICE_CLASS),
    "service_class_words": number(SERVICE_CLASS, at=0),
    "service_class": number(SERVICE_CLASS, at=1),
    "service_class_rest": rest(SERVICE_CLASS, at=2),
    "udp_port_type": kind_of(UDP_PORT),
    "udp_port_words": number(UDP_PORT, at=0),
    "udp_port": "gtp.ext_hdr.udp_port",
    "udp_port_rest": rest(UDP_PORT, at=3),
    "ran_type": kind_of(RAN),
    "ran_words": number(RAN, at=0),
    "ran_container": rest(RAN, at=1),
    "long_pdcp_type": kind_of(LONG_PDCP),
    "long_pdcp_optional_type": kind_of(LONG_PDCP_OPTIONAL),
    "long_pdcp_words": number(LONG_PDCP, LONG_PDCP_OPTIONAL, at=0),
    "long_pdcp_spare": number(LONG_PDCP, LONG_PDCP_OPTIONAL, at=1, shift=2),
    "long_pdcp_number": number(LONG_PDCP, LONG_PDCP_OPTIONAL, at=1, size=3, width=18),
    "long_pdcp_rest": rest(LONG_PDCP, LONG_PDCP_OPTIONAL, at=4),
    "xw_ran_type": kind_of(XW_RAN),
    "xw_ran_words": number(XW_RAN, at=0),
    "xw_ran_container": rest(XW_RAN, at=1),
    "nr_ran_type": kind_of(NR_RAN),
    "nr_ran_words": number(NR_RAN, at=0),
    "nr_pdu_type": "nrup.pdu_type",
    "nr_flags": number(NR_RAN, at=1, width=4),
    "nr_rest": rest(NR_RAN, at=2),
    "session_type": kind_of(SESSION),
    "session_words": number(SESSION, at=0),
    "session_pdu_type": "gtp.ext_hdr.pdu_ses_con.pdu_type",
    "QMP": number(SESSION, at=1, shift=3, width=1),
    "session_flags": number(SESSION, at=1, width=3),
    "PPP": Where("gtp.ext_hdr.pdu_ses_cont.ppp", not_from_the_user, TO_THE_USER),
    "RQI": Where("gtp.ext_hdr.pdu_ses_cont.rqi", not_from_the_user, TO_THE_USER),
    "QFI": "gtp.ext_hdr.pdu_ses_con.qos_flow_id",
    "PPI": "gtp.ext_hdr.pdu_ses_cont.ppi",
    "paging_spare": "gtp.spare.b4b0",
    "session_rest": Computed(session_rest),
    "pdcp_type": kind_of(PDCP),
    "pdcp_words": number(PDCP, at=0),
    "pdcp_number": "gtp.ext_hdr.pdcp_sn",
    "pdcp_rest": rest(PDCP, at=3),
    "comprehension": kind_of(shift=6),
    "extension_type": kind_of(mask=0x3F),
    "extension_words": number(at=0),
    "extension_content": rest(at=1),
}

PEEK = NotShown("this parser only looks at what comes next")

TABLES = [
    Table(
        "gtp",
        "gtp",
        {
            "version": "gtp.flags.version",
            "PT": "gtp.flags.payload",
            "spare": "gtp.flags.reserved",
            "E": "gtp.flags.e",
            "S": "gtp.flags.s",
            "PN": "gtp.flags.pn",
            "MT": "gtp.message",
            "length": "gtp.length",
            "TEID": "gtp.teid",
            "sequence_number": Where("gtp.seq_number", flag("s"), SAYS_NOTHING),
            "npdu_number": Where("gtp.npdu_number", flag("pn"), SAYS_NOTHING),
            "unused": NotShown("tshark shows it only with flag E, when it is the type of an extension header"),
            **EXTENSIONS,
        },
    ),
    Table("pdu", (), {"version": PEEK, "rest": PEEK}),
]
