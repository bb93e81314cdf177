"""IPv6: RFC 8200, the fixed header. Extension headers are layers.

A payload length of 0 means the whole frame (segmentation offload, or a jumbogram, whose length is in its hop-by-hop
options); a length beyond the frame is reduced to the frame. Offers src, dst (16 bytes each), protocol (the next
header), and unmeasured: whether the payload length is 0. Limits: if a routing header has segments left, dst is the
address of the next hop of the route.
"""

from sluice.lang import Bit, Connectionless, Else, If, UInt, layout


class ipv6_hdr(layout):
    version = Bit(4)
    traffic_class = Bit(8)
    flow_label = Bit(20)
    payload_length = UInt(16)
    next = Bit(8)
    hop_limit = Bit(8)
    src = Bit(128)
    dst = Bit(128)


def ipv6_parser() -> Connectionless:
    ip6 = Connectionless("ipv6")
    ip6.header = ipv6_hdr
    ip6.require(ip6.header.version == 6, "version")
    length = ip6.header.payload_length
    ip6.sdu = If(length == 0) >> ip6.payload >> Else() >> ip6.payload[:length]
    ip6.offer(src=ip6.header.src, dst=ip6.header.dst, protocol=ip6.header.next, unmeasured=length == 0)
    return ip6
