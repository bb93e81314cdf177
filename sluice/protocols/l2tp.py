"""L2TP version 2: RFC 2661, UDP port 1701. Data messages (T is 0) carry PPP. Offers tunnel (its id and the session's).

Limits: control messages are not read.
"""

from sluice.lang import Bit, Connectionless, If, UInt, layout


class l2tp_hdr(layout):
    T = Bit(1)
    L = Bit(1)
    reserved = Bit(2)
    S = Bit(1)
    reserved2 = Bit(1)
    O = Bit(1)  # noqa: E741
    P = Bit(1)
    reserved3 = Bit(4)
    version = Bit(4)


class l2tp_length(layout):
    length = UInt(16)


class l2tp_ids(layout):
    tunnel = UInt(16)
    session = UInt(16)


class l2tp_numbers(layout):
    ns = UInt(16)
    nr = UInt(16)


class l2tp_offset(layout):
    offset = UInt(16)
    padding = Bit(offset << 3)


def l2tp_parser() -> Connectionless:
    l2tp = Connectionless("l2tp")
    l2tp.header = l2tp_hdr + (If(l2tp_hdr.L) >> l2tp_length) + l2tp_ids
    l2tp.header += If(l2tp_hdr.S) >> l2tp_numbers
    l2tp.header += If(l2tp_hdr.O) >> l2tp_offset
    l2tp.require(l2tp.header.version == 2, "version")
    l2tp.offer(tunnel=(l2tp.header.tunnel << 16) | l2tp.header.session)
    return l2tp
