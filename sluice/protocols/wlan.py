"""802.11 data frames, link type 105, and radiotap, link type 127.

Frames of type 2 that carry data in the clear lead on to LLC; management, control, and protected frames do not. Limits:
no A-MSDU; radiotap's fields are skipped, so padding between header and data (flag 0x20 of its flags) is not known.
"""

from sluice.lang import Bit, Connectionless, If, UInt, layout

DATA = 2


class radiotap_hdr(layout):
    version = Bit(8)
    pad = Bit(8)
    length = UInt(16, order="little")
    content = Bit((length - 4) << 3)


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


class wlan_addresses(layout):
    duration = UInt(16, order="little")
    address1 = Bit(48)
    address2 = Bit(48)
    address3 = Bit(48)
    sequence = UInt(16, order="little")  # times 16, and the number of the fragment


class wlan_address4(layout):
    address4 = Bit(48)


class wlan_qos(layout):
    tid = Bit(8)
    queue = Bit(8)


class wlan_ht(layout):
    ht = Bit(32)


def radiotap_parser() -> Connectionless:
    radiotap = Connectionless("radiotap", link_types=(127,))
    radiotap.header = radiotap_hdr
    return radiotap


def wlan_parser() -> Connectionless:
    wlan = Connectionless("wlan", link_types=(105,))
    data = wlan_control.type == DATA
    qos = data & ((wlan_control.subtype & 8) != 0)
    wlan.header = wlan_control + (If(data) >> wlan_addresses)
    wlan.header += If(data & wlan_control.from_ds & wlan_control.to_ds) >> wlan_address4
    wlan.header += If(qos) >> wlan_qos
    wlan.header += If(qos & wlan_control.order) >> wlan_ht
    return wlan
