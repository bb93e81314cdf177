"""Tags between one EtherType and the next: VN-Tag, TTag, HSR, TrustSec (CMD), and MACsec without encryption.

VN-Tag is EtherType 0x8926 (IEEE 802.1BR is 0x893F, and is not parsed), TTag the timestamps of Cisco and Gigamon
(0x8988), HSR IEC 62439-3 (0x892F; PRP's trailer counts as padding), TrustSec Cisco's metadata header (0x8909), MACsec
IEEE 802.1AE (0x88E5). Each offers ethertype; up to 1500 it is the length of an IEEE 802.3 frame, as in ethernet.py.
Limits: an encrypted or modified MACsec frame is not parsed further; the integrity check value of 16 bytes is removed
and not verified.
"""

from sluice.lang import Bit, Connectionless, Else, If, UInt, layout

CHECK_VALUE = 16


class vntag_hdr(layout):
    direction = Bit(1)
    pointer = Bit(1)
    destination_vif = Bit(14)
    looped = Bit(1)
    reserved = Bit(1)
    version = Bit(2)
    source_vif = Bit(12)
    type = UInt(16)


class ttag_hdr(layout):
    timestamp = Bit(48)
    type = UInt(16)


class hsr_hdr(layout):
    path = Bit(4)
    size = Bit(12)
    sequence = UInt(16)
    type = UInt(16)


class cmd_hdr(layout):
    version = Bit(8)
    words = Bit(8)  # of 4 bytes, of the options
    options = Bit(words << 5)
    type = UInt(16)


class macsec_hdr(layout):
    version = Bit(1)
    end_station = Bit(1)
    has_channel = Bit(1)
    broadcast = Bit(1)
    encrypted = Bit(1)
    changed = Bit(1)
    association = Bit(2)
    short_length = Bit(8)
    packet_number = UInt(32)


class macsec_channel(layout):
    channel = UInt(64)


class macsec_type(layout):
    type = UInt(16)


def tag(name: str, header: type[layout]) -> Connectionless:
    """A tag that ends with an EtherType called `type`."""
    parser = Connectionless(name)
    parser.header = header
    kind = parser.header.type
    parser.offer(ethertype=kind)
    parser.sdu = If(kind <= 1500) >> parser.payload[:kind] >> Else() >> parser.payload
    return parser


def vntag_parser() -> Connectionless:
    return tag("vntag", vntag_hdr)


def ttag_parser() -> Connectionless:
    return tag("ttag", ttag_hdr)


def hsr_parser() -> Connectionless:
    return tag("hsr", hsr_hdr)


def cmd_parser() -> Connectionless:
    return tag("cmd", cmd_hdr)


def macsec_parser() -> Connectionless:
    macsec = Connectionless("macsec")
    macsec.header = macsec_hdr + (If(macsec_hdr.has_channel) >> macsec_channel)
    clear = ~macsec_hdr.encrypted & ~macsec_hdr.changed
    macsec.header += If(clear) >> macsec_type
    macsec.require(macsec.header.version == 0, "version")
    macsec.offer(ethertype=macsec.header.type)
    # 802.1AE, 9.7: a short length counts the secured data, including the EtherType
    short = macsec.header.short_length
    rest = macsec.payload_len - CHECK_VALUE * (macsec.payload_len >= CHECK_VALUE)
    macsec.sdu = If(short >= 2) >> macsec.payload[: short - 2] >> Else() >> macsec.payload[:rest]
    return macsec
