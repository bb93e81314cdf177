"""CAPWAP, data channel: RFC 5415, 4.3, UDP port 5247.

If T is set, the payload is an IEEE 802.11 frame (binding 1, RFC 5416), else an IEEE 802.3 frame. A preamble of type 1
announces DTLS, which is opaque. Keep-alives (K) have no payload. Fragments are reassembled by fragment id, as in
ipv4.py. Limits: the control channel (5246) is not parsed; radio MAC address and wireless information are bytes.
"""

from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Bit,
    Connectionless,
    If,
    Pred,
    PSMState,
    Sequence,
    UInt,
    layout,
)
from sluice.protocols.l2tp3 import ethernet_type

DTLS, WLAN = 1, 1
UNKNOWN = 0xFFFFFFFF


class capwap_preamble(layout):
    version = Bit(4)
    type = Bit(4)


class capwap_hdr(layout):
    words = Bit(5)  # of 4 bytes, preamble included
    radio = Bit(5)
    binding = Bit(5)
    T = Bit(1)
    F = Bit(1)
    last = Bit(1)
    W = Bit(1)
    M = Bit(1)
    K = Bit(1)
    flags = Bit(3)
    fragment_id = UInt(16)
    fragment_offset = Bit(13)
    reserved = Bit(3)
    optional = Bit((words << 5) - 64)


class capwap_perm(layout):
    end = Bit(32, init=UNKNOWN)
    final = Bit(13)


def capwap_parser() -> Connectionless:
    capwap = Connectionless("capwap")
    clear = capwap_preamble.type != DTLS
    capwap.header = capwap_preamble + (If(clear) >> capwap_hdr)
    header = capwap.header
    capwap.require(header.version == 0, "version")
    fragment = header.F == 1
    capwap.selector = If(fragment) >> [capwap.below.src, capwap.below.dst, header.fragment_id, capwap.way]
    capwap.lifetime = 60
    capwap.max_instances = 1 << 16
    capwap.perm = capwap_perm
    position = header.fragment_offset << 3
    ends = Assign(capwap.perm.end, position + capwap.payload_len) + Assign(capwap.perm.final, header.fragment_offset)
    capwap.prep = If(fragment & header.last & (capwap.perm.end == UNKNOWN)) >> ends
    capwap.seq = If(fragment) >> Sequence(
        meta=position, data=capwap.payload[: capwap.perm.end - position], whole=True, limit=1 << 17
    )
    WHOLE = PSMState(start=True, accept=True)
    PART = PSMState()
    capwap.psm = PSM(WHOLE, PART)
    capwap.psm.whole = (WHOLE >> WHOLE) + Pred(~fragment)
    capwap.psm.part = (WHOLE >> PART) + Pred(fragment)
    at_end = (capwap.v.header.last == 1) & (capwap.v.header.fragment_offset == capwap.perm.final)
    capwap.psm.done = (PART >> WHOLE) + Pred(at_end)
    capwap.event.asm = If(capwap.psm.whole | capwap.psm.done) >> Assemble()
    capwap.offer(is_wlan=header.T, binding=header.binding)
    return capwap


class capwap_frame_hdr(layout):
    first = Bit(8)
    second = Bit(8)


class capwap_frame_rest(layout):
    addresses = Bit(80)
    type = UInt(16)


def capwap_frame_parser() -> Connectionless:
    """Classifies the frame without consuming any of it. Some access points send 802.11 without T, and some swap the
    two bytes of its frame control, which RFC 5416 leaves in the order of 802.11.
    """
    frame = Connectionless("capwap_frame")
    frame.header = capwap_frame_hdr + (If(frame.unit.length >= 14) >> capwap_frame_rest)
    kind, bound = frame.header.type, frame.below.binding == WLAN
    is_data, is_data_swapped = (frame.header.first & 0xF) == 8, (frame.header.second & 0xF) == 8
    is_frame = ethernet_type(kind) | ((kind >= 3) & (kind <= frame.payload_len))
    is_wlan = bound & (frame.below.is_wlan | ((is_data | is_data_swapped) & ~is_frame))
    frame.sdu = frame.unit
    swapped = ~is_data & is_data_swapped
    frame.offer(wlan=is_wlan & ~swapped, wlan_swapped=is_wlan & swapped, ethernet=~frame.below.is_wlan & ~is_wlan)
    return frame
