"""MPLS: RFC 3032, a layer for each label of the stack; and what follows the last one.

Nothing says what a label stack carries. `mpls_payload_parser` looks at the first four bits, as routers do: 4 IPv4, 6
IPv6, 0 the control word of an Ethernet pseudo-wire (RFC 4448), else Ethernet. Limits: a control word of other
pseudo-wires, or the associated channel (1; RFC 5586), is not told from Ethernet.
"""

from sluice.lang import Bit, Connectionless, Else, If, layout

CONTROL_WORD = 0


class mpls_hdr(layout):
    label = Bit(20)
    traffic_class = Bit(3)
    bottom = Bit(1)
    ttl = Bit(8)


class mpls_payload_hdr(layout):
    kind = Bit(4)
    rest = Bit(4)


def mpls_parser() -> Connectionless:
    mpls = Connectionless("mpls")
    mpls.header = mpls_hdr
    return mpls


def mpls_payload_parser() -> Connectionless:
    peek = Connectionless("mpls_payload")
    peek.header = mpls_payload_hdr
    peek.sdu = If(peek.header.kind == CONTROL_WORD) >> peek.unit[4:] >> Else() >> peek.unit
    return peek
