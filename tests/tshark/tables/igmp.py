"""What tshark calls the fields of IGMP; the records of a report are branches of its tree."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, Table, Value, Where, bits

VERSION_3, QUERY, REPORT_3 = 3, 0x11, 0x22
RECORD = "igmp.record_type"
ONLY_SINGLE = "tshark shows a group of each record, too"


def is_single(node: Node) -> bool:
    """Whether it is about one group, as all are but reports of version 3."""
    return node.numbers("igmp.type")[0] != REPORT_3


def sources(node: Node) -> Value:
    """All sources, one after the other."""
    return b"".join(node.bytes("igmp.saddr")) or None


def records(node: Node) -> list[Node]:
    """The records of a report."""
    return [record for record in node.nodes if RECORD in record.fields]


TABLES = [
    Table(
        "igmp",
        "igmp",
        {
            "type": "igmp.type",
            "max_response": ("igmp.max_resp", "igmp.reserved"),
            "checksum": "igmp.checksum",
            "group": Where("igmp.maddr", is_single, ONLY_SINGLE),
            "reserved": bits("igmp.s", 4, 4),
            "suppress": "igmp.s",
            "robustness": "igmp.qrv",
            "interval": "igmp.qqic",
            "source_count": Where("igmp.num_src", is_single, ONLY_SINGLE),
            "sources": Where(Computed(sources), is_single, ONLY_SINGLE),
            "reserved_report": "igmp.reserved",
            "records": "igmp.num_grp_recs",
        },
    ),
    Table(
        "igmp_record",
        "igmp",
        {
            "kind": RECORD,
            "auxiliary_words": "igmp.aux_data_len",
            "source_count": "igmp.num_src",
            "group": "igmp.maddr",
            "sources": Computed(sources),
            "auxiliary": "igmp.aux_data",
        },
        records,
    ),
]
