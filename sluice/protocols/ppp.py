"""PPP: RFC 1661 and 1662, link types 9 and 50, and within PPPoE, L2TP and PPTP.

The address and control fields (0xff 0x03) and the first byte of the protocol may be omitted (compressed); `temp` holds
the full protocol. Compressed forms are accepted without the negotiation that allows them: they are unambiguous. A
first byte of 0x0f or 0x8f, which no protocol has, is the address of a Cisco HDLC frame, which the same link types may
carry. LCP and related protocols are in ppp_control.py. Limits: VJ-compressed headers (RFC 1144), CCP-compressed and
encrypted (MPPE) packets are opaque.
"""

from sluice.lang import Assign, Bit, Connectionless, Else, If, layout

ADDRESS = 0xFF


class ppp_first(layout):
    first = Bit(8)  # the address, or else the protocol's first byte


class ppp_framed(layout):
    control = Bit(8)
    high = Bit(8)  # the protocol's first byte


class ppp_low(layout):
    low = Bit(8)


class ppp_temp(layout):
    protocol = Bit(16)


def ppp_parser() -> Connectionless:
    ppp = Connectionless("ppp", link_types=(9, 50))
    framed = ppp_first.first == ADDRESS
    ppp.header = ppp_first + (If(framed) >> ppp_framed)
    # a first byte that is odd is the last one (RFC 1661, 2)
    ppp.header += If((framed & ~(ppp_framed.high & 1)) | (~framed & ~(ppp_first.first & 1))) >> ppp_low
    ppp.require(~framed | (ppp.header.control == 3), "control")

    ppp.temp = ppp_temp
    ppp.prep = (
        If(ppp.header.first == ADDRESS)
        >> Assign(ppp.temp.protocol, ppp.header.high)
        >> Else()
        >> Assign(ppp.temp.protocol, ppp.header.first)
    )
    ppp.prep += If(ppp.header_contain(ppp_low)) >> Assign(ppp.temp.protocol, (ppp.temp.protocol << 8) | ppp.header.low)
    cisco = (ppp.header.first == 0x0F) | (ppp.header.first == 0x8F)
    ppp.sdu = If(cisco) >> ppp.unit >> Else() >> ppp.payload
    return ppp
