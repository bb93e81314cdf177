"""QUIC from the link layer to the bytes of its streams, with the ClientHello of each connection.

Link types 1 (Ethernet), 0 and 108 (BSD loopback), 101, 12, 14, 228 and 229 (IP). Initial packets are decrypted without
secrets, the others with a key log: `sluice run quic -r FILE --keylog FILE`.
"""

from sluice.lang import Pred, Stack
from sluice.lang.layer import Layer
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.null import null_parser
from sluice.protocols.quic import quic_parser
from sluice.protocols.quic_datagram import quic_datagram_parser
from sluice.protocols.quic_frame import CRYPTO, quic_frame_parser
from sluice.protocols.quic_protection import learn_random
from sluice.protocols.quic_stream import quic_crypto_parser, quic_stream_parser
from sluice.protocols.raw import raw_parser
from sluice.protocols.tls_handshake import CLIENT_HELLO, tls_client_hello_parser, tls_handshake_parser
from sluice.protocols.udp import udp_parser


def quic() -> Stack:
    s = Stack("quic")
    up_to_udp(s)
    over_udp(s, s.udp)
    learn_from_hello(s)
    return s


def up_to_udp(s: Stack) -> None:
    """From the link layer to UDP."""
    s.eth = ethernet_parser()
    s.null = null_parser()
    s.raw = raw_parser()
    s.ipv4 = ipv4_parser()
    s.ipv6 = ipv6_parser()
    s.udp = udp_parser()
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.eth >> s.ipv6) + Pred(s.eth.header.type == 0x86DD)
    s += (s.null >> s.ipv4) + Pred(s.null.temp.family == 2)
    s += (s.null >> s.ipv6) + Pred(s.null.temp.family != 2)
    s += (s.raw >> s.ipv4) + Pred(s.raw.header.version == 4)
    s += (s.raw >> s.ipv6) + Pred(s.raw.header.version == 6)
    s += (s.ipv4 >> s.udp) + Pred(s.ipv4.header.protocol == 17)
    s += (s.ipv6 >> s.udp) + Pred(s.ipv6.header.next == 17)


def over_udp(s: Stack, udp: Layer, deciphered: bool = False) -> None:
    """QUIC in UDP datagrams for which no other step matches."""
    s.quic_datagram = quic_datagram_parser(deciphered)
    s.quic = quic_parser(deciphered)
    s.quic_frame = quic_frame_parser(s.quic, deciphered)
    s.quic_crypto = quic_crypto_parser()
    s.quic_stream = quic_stream_parser()
    s.tls_handshake = tls_handshake_parser()
    s.tls_client_hello = tls_client_hello_parser()
    s += (udp >> s.quic_datagram) + Pred(1, fallback=True)
    s += (s.quic_datagram >> s.quic) + Pred(s.quic_datagram.offers.is_quic == 1)
    s += (s.quic >> s.quic_frame) + Pred(s.quic.sdu.length > 0)
    s += (s.quic_frame >> s.quic_stream) + Pred(s.quic_frame.offers.of_stream == 1)
    s += (s.quic_frame >> s.quic_crypto) + Pred(s.quic_frame.offers.type == CRYPTO)
    s += (s.quic_crypto >> s.tls_handshake) + Pred(1)
    s += (s.tls_handshake >> s.tls_client_hello) + Pred(s.tls_handshake.header.type == CLIENT_HELLO)


def learn_from_hello(s: Stack) -> None:
    """The ClientHello's random identifies the connection in a key log."""
    hello = s.tls_client_hello.prototype
    hello.event.learn = learn_random(hello.header.random, context=hello.below.connection)
