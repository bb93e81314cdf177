"""IGMP: versions 1 (RFC 1112), 2 (RFC 2236) and 3 (RFC 3376), protocol number 2 over IPv4.

A query of more than 8 bytes has version 3. A report of version 3 has records of groups; each is a layer,
`igmp_record_parser`, one after the other. Event `membership` is emitted for each query (type 0x11), report (0x12,
0x16; 0x22 for a record, with its kind and sources) and leave (0x17). A conversation is two addresses. The checksum is
verified only with option `checksums`. Needs a lower layer that offers src, dst and protocol.

Limits: other types (DVMRP, PIM version 1, mtrace) are not parsed.
"""

from sluice.lang import (
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    If,
    UInt,
    internet_checksum,
    layout,
    one_of,
)
from sluice.protocols.other_ip import between_hosts

QUERY, REPORT_1, REPORT_2, LEAVE, REPORT_3 = 0x11, 0x12, 0x16, 0x17, 0x22


class igmp_hdr(layout):
    type = Bit(8)
    max_response = Bit(8)
    checksum = UInt(16)


class igmp_group(layout):
    group = Bit(32)


class igmp_query(layout):
    reserved = Bit(4)
    suppress = Bit(1)
    robustness = Bit(3)
    interval = Bit(8)
    source_count = UInt(16)
    sources = Bit(source_count << 5)


class igmp_report(layout):
    reserved_report = Bit(16)
    records = UInt(16)


class igmp_record(layout):
    kind = Bit(8)
    auxiliary_words = Bit(8)
    source_count = UInt(16)
    group = Bit(32)
    sources = Bit(source_count << 5)
    auxiliary = Bit(auxiliary_words << 5)


class igmp_record_temp(layout):
    records = UInt(16)  # that follow


class igmp_membership(layout):
    type = Bit(8)
    kind = Bit(8)
    group = Bit(32)
    sources = Bit(999)


def igmp_parser() -> ConnectionOriented:
    igmp = between_hosts(ConnectionOriented("igmp"))
    single = one_of(igmp_hdr.type, QUERY, REPORT_1, REPORT_2, LEAVE)
    igmp.header = igmp_hdr + (If(single) >> igmp_group)
    igmp.header += If((igmp_hdr.type == QUERY) & (igmp.payload_len >= 4)) >> igmp_query
    igmp.header += If(igmp_hdr.type == REPORT_3) >> igmp_report
    igmp.require(internet_checksum(igmp.unit) == 0, "checksum", option="checksums")
    igmp.offer(records=igmp.header.records)
    igmp.event.membership = If(single) >> (
        Assign(igmp_membership.type, igmp.header.type)
        + Assign(igmp_membership.group, igmp.header.group)
        + Assign(igmp_membership.sources, igmp.header.sources)
        + Callback(igmp_membership)
    )
    return igmp


def igmp_record_parser() -> Connectionless:
    record = Connectionless("igmp_record")
    record.record = True
    record.header = igmp_record
    record.temp = igmp_record_temp
    record.prep = Assign(record.temp.records, record.below.records - 1)
    record.offer(records=record.temp.records)
    record.event.membership = (
        Assign(igmp_membership.type, REPORT_3)
        + Assign(igmp_membership.kind, record.header.kind)
        + Assign(igmp_membership.group, record.header.group)
        + Assign(igmp_membership.sources, record.header.sources)
        + Callback(igmp_membership)
    )
    return record
