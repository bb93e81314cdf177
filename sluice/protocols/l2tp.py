"""L2TP version 2: RFC 2661, UDP port 1701. Data messages (T is 0) carry PPP. Offers tunnel (its id and the session's).

The first attribute of a control message (T is 1) is its kind, `message_type`; other attributes follow. One without
attributes only acknowledges. The length, if present, ends the message. A data message of version 3 is parsed by
l2tp3.py. Limits: hidden attributes are not decrypted; control messages of version 3 are malformed (version).
"""

from sluice.lang import AnyUntil, Bit, Connectionless, Else, If, UInt, layout


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


class l2tp_message(layout):
    mandatory = Bit(1)
    hidden = Bit(1)
    reserved_message = Bit(4)
    message_length = Bit(10)
    vendor = UInt(16)
    attribute = UInt(16)
    message_type = UInt(16)


class l2tp_attribute(layout):
    attribute_mandatory = Bit(1)
    attribute_hidden = Bit(1)
    attribute_reserved = Bit(4)
    attribute_length = Bit(10)
    attribute_vendor = UInt(16)
    attribute_type = UInt(16)
    attribute_value = Bit((attribute_length - 6) << 3)


def l2tp_parser() -> Connectionless:
    l2tp = Connectionless("l2tp")
    l2tp.header = l2tp_hdr + (If(l2tp_hdr.L) >> l2tp_length) + l2tp_ids
    l2tp.header += If(l2tp_hdr.S) >> l2tp_numbers
    l2tp.header += If(l2tp_hdr.O) >> l2tp_offset
    attributes = l2tp_message + AnyUntil([l2tp_attribute], l2tp.cursor < l2tp_length.length)
    l2tp.header += If(l2tp_hdr.T & (l2tp_length.length > l2tp.cursor)) >> attributes
    header = l2tp.header
    l2tp.require((header.version == 2) | ((header.version == 3) & ~header.T), "version")
    l2tp.require((header.T == 0) | (header.L & header.S), "control")
    l2tp.require((header.L == 0) | (header.length >= l2tp.cursor), "length")
    three = header.version == 3  # RFC 3931, 4.1.2.1: 16 reserved bits, then what l2tp3.py reads
    l2tp.sdu = (
        If(three)
        >> l2tp.unit[4:]
        >> Else()
        >> If(header.L)
        >> l2tp.unit[l2tp.cursor : header.length]
        >> Else()
        >> l2tp.payload
    )
    l2tp.offer(tunnel=((header.tunnel << 16) | header.session) * ~three)
    return l2tp
