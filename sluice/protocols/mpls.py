"""MPLS: RFC 3032, a layer for each label of the stack; and the payload after the last one.

A label stack does not identify its payload. `mpls_payload_parser` uses the first four bits, as routers do: 4 IPv4, 6
IPv6, 0 the control word of an Ethernet pseudo-wire (RFC 4448), 1 the associated channel (RFC 5586), which is not
parsed, else Ethernet. An Ethernet address may begin likewise (RFC 4928): if there is an EtherType at its offset in a
frame, a length beyond the packet means that it is not IP, and reserved bits, or no EtherType four bytes later, that
there is no control word. Limits: control words of other pseudo-wires are not recognised.
"""

from sluice.lang import Bit, Connectionless, Else, If, UInt, layout
from sluice.protocols.l2tp3 import ethernet_type

CONTROL_WORD = 0
FRAME = 18
"""Bytes: of an Ethernet header after a control word."""


class mpls_hdr(layout):
    label = Bit(20)
    traffic_class = Bit(3)
    bottom = Bit(1)
    ttl = Bit(8)


class mpls_payload_hdr(layout):
    kind = Bit(4)
    rest = Bit(4)


class mpls_payload_frame(layout):
    second = Bit(8)
    total = UInt(16)
    payload_length = UInt(16)
    addresses = Bit(48)
    type = UInt(16)
    between = Bit(16)
    type_later = UInt(16)  # its offset after a control word


def mpls_parser() -> Connectionless:
    mpls = Connectionless("mpls")
    mpls.header = mpls_hdr
    return mpls


def mpls_payload_parser() -> Connectionless:
    peek = Connectionless("mpls_payload")
    peek.header = mpls_payload_hdr + (If(peek.unit.length >= FRAME) >> mpls_payload_frame)
    header = peek.header
    kind, length = header.kind, peek.unit.length
    typed, typed_later = ethernet_type(header.type), ethernet_type(header.type_later)
    four = (header.total <= length) | ~typed
    six = (header.payload_length + 40 <= length) | ~typed
    word = (header.second == 0) & (header.rest == 0) & (typed_later | ~typed)
    peek.offer(
        is_ipv4=(kind == 4) & four,
        is_ipv6=(kind == 6) & six,
        is_ethernet=((kind != 4) | ~four) & ((kind != 6) | ~six) & ((kind != 1) | (header.second != 0)),
    )
    peek.sdu = If((kind == CONTROL_WORD) & word) >> peek.unit[4:] >> Else() >> peek.unit
    return peek
