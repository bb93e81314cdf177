"""ERSPAN types II and III within GRE: mirrored Ethernet frames after an ERSPAN header (draft-foschiano-erspan).

Type II is GRE protocol 0x88be with a sequence number (type I has neither the number nor a header). Type III is 0x22eb;
its `frame_type` is the kind of the mirrored frame (0 Ethernet, 2 IP). Offers tunnel (the session). Limits: frames that
the mirror truncated (`truncated`) are not marked further; platform-specific fields are bytes.
"""

from sluice.lang import Bit, Connectionless, If, UInt, layout


class erspan_hdr(layout):
    version = Bit(4)
    vlan = Bit(12)
    cos = Bit(3)
    encapsulation = Bit(2)
    truncated = Bit(1)
    session = Bit(10)
    reserved = Bit(12)
    port_index = Bit(20)


class erspan3_hdr(layout):
    version = Bit(4)
    vlan = Bit(12)
    cos = Bit(3)
    bad = Bit(2)
    truncated = Bit(1)
    session = Bit(10)
    timestamp = UInt(32)
    security_group = UInt(16)
    protocol_data = Bit(1)
    frame_type = Bit(5)
    hardware = Bit(6)
    direction = Bit(1)
    granularity = Bit(2)
    O = Bit(1)  # noqa: E741


class erspan3_platform(layout):
    platform = Bit(64)


def erspan_parser() -> Connectionless:
    erspan = Connectionless("erspan")
    erspan.header = erspan_hdr
    erspan.offer(tunnel=erspan.header.session)
    return erspan


def erspan3_parser() -> Connectionless:
    erspan = Connectionless("erspan3")
    erspan.header = erspan3_hdr + (If(erspan3_hdr.O) >> erspan3_platform)
    erspan.offer(tunnel=erspan.header.session)
    return erspan
