"""IEEE 802.11 data frames, link type 105, and radiotap, link type 127.

Unprotected frames of type 2 with data carry LLC; management, control, and protected frames are not parsed further. Of
radiotap's fields the flags are used (the others are skipped): a frame check sequence at the end is removed, and
`wlan_parser(padded=True)` skips padding between a frame's header and its data (flag 0x20). `msdu_parser` parses an
aggregate of several frames (A-MSDU), frame by frame: addresses and a length before LLC.

Fragments of a frame are reassembled by sender, receiver, sequence number and traffic class (IEEE 802.11, 10.4 and
10.5); of a repeated fragment the first copy counts. Limits: protected fragments are not reassembled.
"""

from sluice.lang import (
    PSM,
    AnyUntil,
    Assemble,
    Assign,
    Bit,
    Connectionless,
    If,
    Length,
    Pred,
    PSMState,
    Sequence,
    UInt,
    layout,
)

DATA = 2
TIME_PRESENT, FLAGS_PRESENT, MORE_PRESENT = 1, 2, 1 << 31
CHECK_SEQUENCE, PADDED = 0x10, 0x20
FRAGMENT_ROOM = 1 << 16
"""The sequence space of a fragment, as its position follows from its number: more bytes than a frame has."""


class radiotap_hdr(layout):
    version = Bit(8)
    pad = Bit(8)
    length = UInt(16, order="little")
    present = UInt(32, order="little")


class radiotap_more(layout):
    present_more = UInt(32, order="little")


class radiotap_align(layout):
    alignment = Bit(32)


class radiotap_time(layout):
    time = UInt(64, order="little")


class radiotap_flags(layout):
    flags = Bit(8)


class wlan_control(layout):
    subtype = Bit(4)
    type = Bit(2)
    version = Bit(2)
    order = Bit(1)
    protected = Bit(1)
    more_data = Bit(1)
    power = Bit(1)
    retry = Bit(1)
    more_frag = Bit(1)
    from_ds = Bit(1)
    to_ds = Bit(1)


class wlan_swapped_control(layout):
    order = Bit(1)
    protected = Bit(1)
    more_data = Bit(1)
    power = Bit(1)
    retry = Bit(1)
    more_frag = Bit(1)
    from_ds = Bit(1)
    to_ds = Bit(1)
    subtype = Bit(4)
    type = Bit(2)
    version = Bit(2)


class wlan_addresses(layout):
    duration = UInt(16, order="little")
    address1 = Bit(48)
    address2 = Bit(48)
    address3 = Bit(48)
    sequence_low = Bit(4)
    fragment = Bit(4)
    sequence_high = Bit(8)


class wlan_address4(layout):
    address4 = Bit(48)


class wlan_qos(layout):
    aggregate = Bit(1)
    acknowledgement = Bit(2)
    end_of_service = Bit(1)
    tid = Bit(4)
    queue = Bit(8)


class wlan_ht(layout):
    ht = Bit(32)


class wlan_temp(layout):
    position = UInt(32)
    room = UInt(32)


class wlan_padding(layout):
    padding = Bit(16)


class msdu_hdr(layout):
    dst = Bit(48)
    src = Bit(48)
    length = UInt(16)


def radiotap_parser() -> Connectionless:
    radiotap = Connectionless("radiotap", link_types=(127,))
    more = radiotap_hdr.present & MORE_PRESENT
    another = (radiotap.cursor == 8) | ((radiotap_more.present_more & MORE_PRESENT) != 0)
    timed = (radiotap_hdr.present & TIME_PRESENT) != 0
    radiotap.header = radiotap_hdr + (If(more != 0) >> AnyUntil([radiotap_more], another))
    radiotap.header += If(timed & ((radiotap.cursor & 4) != 0)) >> radiotap_align
    radiotap.header += If(timed) >> radiotap_time
    radiotap.header += If((radiotap_hdr.present & FLAGS_PRESENT) != 0) >> radiotap_flags
    header = radiotap.header
    radiotap.require((header.length >= radiotap.cursor) & (header.length <= radiotap.unit.length), "length")
    checked = (header.flags & CHECK_SEQUENCE) != 0
    radiotap.sdu = radiotap.unit[header.length : radiotap.unit.length - (checked << 2)]
    return radiotap


def wlan_parser(padded: bool = False, swapped: bool = False) -> Connectionless:
    """`padded`: the header is padded to a multiple of 4 bytes. `swapped`: the bytes of frame control are swapped."""
    wlan = Connectionless("wlan", link_types=() if padded or swapped else (105,))
    control = wlan_swapped_control if swapped else wlan_control
    data = control.type == DATA
    qos = data & ((control.subtype & 8) != 0)
    wlan.header = control + (If(data) >> wlan_addresses)
    wlan.header += If(data & control.from_ds & control.to_ds) >> wlan_address4
    wlan.header += If(qos) >> wlan_qos
    wlan.header += If(qos & control.order) >> wlan_ht
    if padded:
        wlan.header += If(data & ((wlan.cursor & 2) != 0)) >> wlan_padding
    header = wlan.header
    clear = (header.type == DATA) & ((header.subtype & 4) == 0) & ~header.protected
    fragment = clear & (header.more_frag | (header.fragment != 0))
    number = [header.sequence_low, header.sequence_high, header.tid]
    wlan.selector = If(fragment) >> [header.address2, header.address1, *number, wlan.way]
    wlan.lifetime = 1  # dot11MaxReceiveLifetime is half of that
    wlan.max_instances = 1 << 12
    wlan.temp = wlan_temp
    wlan.prep = Assign(wlan.temp.position, header.fragment * FRAGMENT_ROOM)
    wlan.prep += Assign(wlan.temp.room, wlan.payload_len)
    wlan.prep += If(header.more_frag == 1) >> Assign(wlan.temp.room, FRAGMENT_ROOM)
    wlan.seq = If(fragment) >> Sequence(
        meta=wlan.temp.position, data=wlan.payload, data_len=wlan.temp.room, whole=True, limit=1 << 16, limit_pieces=64
    )
    WHOLE = PSMState(start=True, accept=True)
    PARTS = PSMState()
    wlan.psm = PSM(WHOLE, PARTS)
    wlan.psm.whole = (WHOLE >> WHOLE) + Pred(~fragment)
    wlan.psm.part = (WHOLE >> PARTS) + Pred(fragment)
    wlan.psm.last = (PARTS >> WHOLE) + Pred((wlan.v.header.more_frag == 0) & (wlan.v.header.fragment != 0))
    wlan.event.asm = If(wlan.psm.whole | wlan.psm.last) >> Assemble()
    return wlan


def msdu_parser() -> Connectionless:
    """The frames of an aggregate: each begins at a multiple of four bytes; the last one has no padding."""
    msdu = Connectionless("msdu")
    msdu.header = msdu_hdr
    there = msdu.cursor + msdu.payload_len
    length = msdu.cursor + msdu.header.length
    padded = (length + 3) & 0xFFFFFFFC
    msdu.message = Length(padded - (padded - there) * ((length <= there) & (padded > there)), bundled=True)
    msdu.sdu = msdu.payload[: msdu.header.length]
    return msdu
