"""Headers that capture facilities put in front of a packet: NFLOG, PFLOG, ENC, PPI, PKTAP, IPNET, AVS and Prism.

The numbers are those of the LINKTYPE_ registry (LINKTYPE_NFLOG and so on).

NFLOG (link type 239, Linux netfilter): attributes, written by little-endian hosts; number 9 is the IP packet. PFLOG
(117, packet filter of the BSDs) and ENC (109, IPsec of OpenBSD): an address family and the IP packet; it is 2 for
IPv4, and 10, 24, 28 or 30 for IPv6, as in null.py. PPI (192) and PKTAP (258, formerly 149) offer the link type of the
packet as `link_type`. IPNET (226, Solaris): IP, family 2 or 26. AVS (163) and Prism (119) precede an 802.11 frame; 119
also has AVS headers. Limits: only what selects the next layer is parsed.
"""

from sluice.lang import AnyUntil, Bit, Connectionless, If, UInt, layout

PAYLOAD = 9
"""The attribute of NFLOG that holds the packet."""
PACKET = 1
"""The record of PKTAP that holds a packet."""
PRISM_SIZE = 144
AVS_MAGIC = 0x80211


class nflog_hdr(layout):
    family = Bit(8)
    version = Bit(8)
    resource = UInt(16)


class nflog_attribute(layout):
    attribute_length = UInt(16, order="little")
    attribute = UInt(16, order="little")
    value = Bit(((((attribute_length + 3) & 0xFFFC) - 4) << 3) * (attribute != PAYLOAD))


class pflog_hdr(layout):
    length = Bit(8)
    family = Bit(8)
    action = Bit(8)
    reason = Bit(8)
    rest = Bit(((length + 3) & 0xFC) - 4 << 3)


class enc_hdr(layout):
    family_big = UInt(16)
    family_rest = Bit(8)
    family_low = Bit(8)
    spi = UInt(32)
    flags = Bit(32)


class ppi_hdr(layout):
    version = Bit(8)
    flags = Bit(8)
    length = UInt(16, order="little")
    link_type = UInt(32, order="little")
    values = Bit((length - 8) << 3)


class pktap_hdr(layout):
    length = UInt(32, order="little")
    record = UInt(32, order="little")
    link_type = UInt(32, order="little")
    rest = Bit((length - 12) << 3)


class ipnet_hdr(layout):
    version = Bit(8)
    family = Bit(8)
    hook = UInt(16)
    length = UInt(32)
    interface = UInt(32)
    group = UInt(32)
    source_zone = UInt(32)
    target_zone = UInt(32)


class avs_hdr(layout):
    magic = UInt(20)
    version = Bit(12)
    length = UInt(32)


class avs_rest(layout):
    values = Bit((avs_hdr.length - 8) << 3)


class prism_rest(layout):
    prism_values = Bit((PRISM_SIZE - 8) << 3)


def nflog_parser() -> Connectionless:
    nflog = Connectionless("nflog", link_types=(239,))
    nflog.header = nflog_hdr + AnyUntil([nflog_attribute], nflog_attribute.attribute != PAYLOAD)
    nflog.require(nflog.header.version == 0, "version")
    nflog.require((nflog.header.attribute == PAYLOAD) & (nflog.header.attribute_length >= 4), "no packet")
    nflog.sdu = nflog.payload[: nflog.header.attribute_length - 4]
    return nflog


def pflog_parser() -> Connectionless:
    pflog = Connectionless("pflog", link_types=(117,))
    pflog.header = pflog_hdr
    return pflog


def enc_parser() -> Connectionless:
    """The family is in the byte order of the host that captured; families are small numbers."""
    enc = Connectionless("enc", link_types=(109,))
    enc.header = enc_hdr
    enc.offer(family=(enc.header.family_big >> 8) | enc.header.family_low)
    return enc


def ppi_parser() -> Connectionless:
    ppi = Connectionless("ppi", link_types=(192,))
    ppi.header = ppi_hdr
    ppi.require(ppi.header.version == 0, "version")
    ppi.offer(link_type=ppi.header.link_type)
    return ppi


def pktap_parser() -> Connectionless:
    pktap = Connectionless("pktap", link_types=(149, 258))
    pktap.header = pktap_hdr
    pktap.require(pktap.header.record == PACKET, "record")
    pktap.offer(link_type=pktap.header.link_type)
    return pktap


def ipnet_parser() -> Connectionless:
    ipnet = Connectionless("ipnet", link_types=(226,))
    ipnet.header = ipnet_hdr
    return ipnet


def avs_parser() -> Connectionless:
    """AVS, or Prism, whose first word is another."""
    avs = Connectionless("avs", link_types=(119, 163))
    is_avs = avs_hdr.magic == AVS_MAGIC
    avs.header = avs_hdr + (If(is_avs) >> avs_rest) + (If(~is_avs) >> prism_rest)
    return avs
