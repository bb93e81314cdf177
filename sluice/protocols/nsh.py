"""Network service header: RFC 8300, EtherType 0x894F, and within VXLAN-GPE and GRE.

`next` is the payload's type: 1 IPv4, 2 IPv6, 3 Ethernet, 4 another header, 5 MPLS. Limits: metadata are bytes.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class nsh_hdr(layout):
    version = Bit(2)
    O = Bit(1)  # noqa: E741
    unassigned = Bit(1)
    ttl = Bit(6)
    words = Bit(6)  # of 4 bytes, this header included
    unassigned2 = Bit(4)
    metadata_type = Bit(4)
    next = Bit(8)
    path = UInt(24)
    index = Bit(8)
    metadata = Bit((words << 5) - 64)


def nsh_parser() -> Connectionless:
    nsh = Connectionless("nsh")
    nsh.header = nsh_hdr
    nsh.require(nsh.header.version == 0, "version")
    return nsh
