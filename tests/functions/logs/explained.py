"""Where rows and tshark's fields differ, capture by capture, and why.

For each capture and kind of message: how many of tshark's messages no row has, how many rows tshark has no message for,
and the reason. Differences that one rule explains for all captures are not here but in test_agreement.py.
"""

from __future__ import annotations

SPACE = "a space in the request target: tshark takes what follows for the version, llhttp refuses the request"
URGENT = "tshark leaves urgent data out of the stream; our TCP keeps them in line, where the request is whole"
VERSION = "QUIC of a version that the stack does not open: a draft before 29, or Google's"
RESERVED = "Initial packets of version 0x0a0a0a0a, which forces negotiation: tshark opens them, the stack does not"
NO_KEY = "Handshake packets that tshark opens with secrets of the file, and the stack does not"
UNKNOWN = "tshark does not open Initial packets of a connection that begins with another version"
RECORD = "tshark reads a record when all of it is there, of which this capture has the beginning alone"
PORT = "TLS on a port that tshark takes for one of BitTorrent"
NO_IP = "packets that are shorter than their IP headers say, so that the stack has no whole datagram of them"
FUZZED = "fuzzed messages: tshark shows what it could read of malformed names"
AFTER_GAP = "a response found after a gap, which tshark takes for a part of the body before"
HTTP_2 = "HTTP/2, of which the truth has nothing: test_http2.py compares it with tshark"
HTTP_3 = "HTTP/3, of which the truth has nothing: test_http3.py compares it with tshark"
CUT = "a request of which segments are missing, which tshark does not show"

EXPLAINED: dict[tuple[str, str], tuple[int, int, str]] = {
    ("FoxIO-LLC_ja4__chrome-cloudflare-quic-with-secrets.pcapng", "request"): (0, 2, f"{HTTP_2}; {HTTP_3}"),
    ("FoxIO-LLC_ja4__chrome-cloudflare-quic-with-secrets.pcapng", "response"): (0, 2, f"{HTTP_2}; {HTTP_3}"),
    ("FoxIO-LLC_ja4__gre-erspan-vxlan.pcap", "request"): (1, 1, SPACE),
    ("OISF_suricata-verify__tcp-urgp-01-oob-tcp-urgent1.pcap", "request"): (0, 1, URGENT),
    ("gen__quic_v2_vneg.pcap", "hello"): (0, 1, UNKNOWN),
    ("orion-belt_tempo__TCPTRAFFIC.pcap", "request"): (0, 56, HTTP_2),
    ("orion-belt_tempo__TCPTRAFFIC.pcap", "response"): (0, 56, HTTP_2),
    ("ntop_nDPI__4in6tunnel.pcap", "answer"): (0, 1, RECORD),
    ("ntop_nDPI__badpackets.pcap", "dns"): (91, 0, NO_IP),
    ("ntop_nDPI__fuzz-2006-06-26-2594.pcap", "dns"): (41, 38, FUZZED),
    ("ntop_nDPI__gnutella.pcap", "hello"): (0, 1, PORT),
    ("ntop_nDPI__gnutella.pcap", "answer"): (0, 1, PORT),
    ("ntop_nDPI__gnutella.pcap", "certificate"): (0, 1, PORT),
    ("ntop_nDPI__quic-forcing-vn-with-data.pcapng", "hello"): (0, 1, UNKNOWN),
    ("ntop_nDPI__quic-mvfst-22.pcap", "hello"): (1, 0, VERSION),
    ("ntop_nDPI__quic-mvfst-22.pcap", "answer"): (1, 0, VERSION),
    ("ntop_nDPI__quic-v2.pcapng", "request"): (0, 1, HTTP_3),
    ("ntop_nDPI__quic-v2.pcapng", "response"): (0, 1, HTTP_3),
    ("ntop_nDPI__quic_0RTT.pcapng", "hello"): (1, 0, VERSION),
    ("ntop_nDPI__quic_0RTT.pcapng", "answer"): (1, 0, VERSION),
    ("ntop_nDPI__quic_interop_V.pcapng", "hello"): (63, 0, RESERVED),
    ("ntop_nDPI__quic_t51.pcap", "hello"): (1, 0, VERSION),
    ("ntop_nDPI__quic_t51.pcap", "answer"): (1, 0, VERSION),
    ("seladb_PcapPlusPlus__650HttpResponses.pcap", "response"): (0, 1, AFTER_GAP),
    ("seladb_PcapPlusPlus__unidirectional_tcp_stream_with_missing_packet.pcap", "request"): (0, 1, CUT),
    ("wireshark_wireshark__quic-fragmented-handshakes.pcapng", "request"): (0, 1, HTTP_3),
    ("wireshark_wireshark__quic-fragmented-handshakes.pcapng", "response"): (0, 1, HTTP_3),
    ("wireshark_wireshark__quic_follow_multistream.pcapng", "certificate"): (1, 0, NO_KEY),
    ("wireshark_wireshark__tcp-badsegments.pcap", "request"): (0, 1, CUT),
}
