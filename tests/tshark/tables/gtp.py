"""What tshark calls the fields of gtp."""

from collections.abc import Callable

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, Table, Value, Where

SAYS_NOTHING = "its flag is not set, so tshark does not show it; it is there for the sake of another one"


def flag(name: str) -> Callable[[Node], bool]:
    """Whether a flag is set."""
    return lambda node: node.numbers(f"gtp.flags.{name}")[0] == 1


def content(node: Node) -> Value:
    """Of the last extension header, what is between its length and the next one's type."""
    return node.bytes("gtp.ext_hdr")[-1][1:-1] if "gtp.ext_hdr" in node.fields else None


def next_type(node: Node) -> Value:
    """The type that the last extension header says to follow."""
    return node.numbers("gtp.ext_hdr.next")[-1] if "gtp.ext_hdr" in node.fields else None


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
            "next_extension": Where("gtp.ext_hdr.next", flag("e"), SAYS_NOTHING),
            "extension_words": "gtp.ext_hdr.length",
            "extension_content": Computed(content),
            "extension_next": Computed(next_type),
        },
    )
]
