"""Options about headers and messages: IP's header and fragments, ICMP, targets of HTTP, hellos of TLS, DNS queries."""

from __future__ import annotations

import struct

import pytest

from sluice.functions.detect.errors import RuleError
from tests.functions.detect.boxes import connection, datagram, needs_ids, packets, rule
from tests.functions.detect.cases import get, icmp
from tests.functions.detect.traffic import client_hello, dns_query, server_hello
from tests.support.packets import UDP, eth, fragments4, ip4, udp

pytestmark = needs_ids

ANY_UDP = "udp any any -> any any"
ANY_IP = "ip any any -> any any"


def with_flags(bits: int, body: bytes = b"x") -> bytes:
    """A UDP packet with these bits of R, D and M in its IP header."""
    packet = bytearray(ip4(udp(1, 2, body), UDP))
    packet[6] = bits << 5
    return eth(bytes(packet))


@pytest.mark.parametrize(
    ("value", "matching"),
    [
        ("D", {2}), ("=D", {2}), ("DM", {3}), ("+D", {2, 3, 6}), ("D+", {2, 3, 6}), ("*DM", {1, 2, 3, 5, 6}),
        ("!DM", {0, 4}), ("R", {4}),
    ],
)  # fmt: skip
def test_fragbits(value: str, matching: set[int]) -> None:
    rules = rule(f"fragbits:{value};", ANY_IP)
    found = {bits for bits in (0, 1, 2, 3, 4, 5, 6) if packets([with_flags(bits)], rules).rows}
    assert found == matching


def test_fragments_are_seen_one_by_one() -> None:
    frames = fragments4(udp(1, 2, b"y" * 100), 48, 32, protocol=UDP)
    assert packets(frames, rule("fragbits:M;", ANY_UDP)).sids == [1, 1]
    assert packets(frames, rule("fragoffset:0;", ANY_UDP)).sids == [1]
    assert packets(frames, rule("fragoffset:>0;", ANY_UDP)).sids == [1, 1]
    assert packets(frames, rule("fragoffset:10; fragbits:!M;", ANY_UDP)).sids == [1]
    assert packets(frames, rule('fragbits:M; content:"yyy";', ANY_IP)).sids == [1, 1]
    assert packets(frames, rule("fragbits:M;", "tcp any any -> any any")).sids == []
    (row,) = packets(frames, rule("fragoffset:6; fragbits:M;", ANY_IP)).rows
    assert (row["src_ip"], row["dest_ip"], row["pcap_cnt"]) == ("10.0.0.1", "10.0.0.2", 2)


def test_ip_proto() -> None:
    frames = [eth(ip4(b"payload", 99)), datagram(b"x")]
    for value, matching in (
        ("99", [1]), ("17", [2]), (">17", [1]), ("!99", [2]), ("udp", [2]), ("UDP", [2]), (">udp", [1]), ("!udp", [1]),
        ("!tcp", [1, 2]), ("<rdp", [2]),
    ):  # fmt: skip
        assert [row["pcap_cnt"] for row in packets(frames, rule(f"ip_proto:{value};", ANY_IP)).rows] == matching
    assert packets(frames, rule("ip_proto:!99; ip_proto:!6;", ANY_IP)).sids == [1]
    with pytest.raises(RuleError, match="there is no protocol 'udpx'"):
        packets(frames, rule("ip_proto:udpx;", ANY_IP))


def test_packets_that_were_reassembled() -> None:
    whole, parts = ip4(udp(1, 2, b"evil" * 30), UDP), fragments4(udp(1, 2, b"evil" * 30), 48, 32, protocol=UDP)
    six = {extended: ip6_fragments(udp(1, 2, b"evil" * 30), UDP, extended) for extended in (False, True)}
    for header in (ANY_UDP, ANY_IP):
        for frames, sids in (([eth(whole)], [1]), (parts[::-1], [2]), (six[False], [1]), (six[True], [2])):
            rules = rule('content:"evil"; flow:no_frag;', header) + rule('content:"evil"; flow:only_frag;', header, 2)
            assert packets(frames, rules).sids == sids
    segments = connection([(">", b"evil")])
    cut = [part for frame in segments for part in fragments4(frame[34:], 8)]
    rules = rule('content:"evil"; flow:to_server,no_frag;') + rule('content:"evil"; flow:only_frag;', sid=2)
    assert packets(segments, rules).sids == [1] and packets(cut, rules).sids == [2]
    for words in ("no_frag,only_frag", "only_stream,no_frag"):
        with pytest.raises(RuleError, match="contradicts itself"):
            packets(segments, rule(f'content:"evil"; flow:{words};'))


def ip6_fragments(body: bytes, protocol: int, cut: bool) -> list[bytes]:
    """A datagram of IPv6 with a fragment header: an atomic fragment (RFC 6946), or two fragments."""
    pieces = [(0, body[:64], 1), (8, body[64:], 0)] if cut else [(0, body, 0)]
    out: list[bytes] = []
    for place, piece, more in pieces:
        rest = struct.pack(">BBHI", protocol, 0, place << 3 | more, 7) + piece
        out.append(
            eth(struct.pack(">IHBB", 6 << 28, len(rest), 44, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + rest, 0x86DD)
        )
    return out


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("rr", b"\x07\x07\x04" + bytes(5)), ("nop", b"\1\1\1\1"), ("ts", b"\x44\x08\x05\0" + bytes(4)),
        ("sec", b"\x82\x04\0\0"), ("esec", b"\x85\x04\0\0"), ("lsrr", b"\x83\x07\x08" + bytes(5)),
        ("ssrr", b"\x89\x07\x08" + bytes(5)), ("satid", b"\x88\x04\0\0"), ("eol", bytes(4)),
    ],
)  # fmt: skip
def test_ipopts(name: str, option: bytes) -> None:
    frame = [eth(ip4(udp(1, 2, b"x"), UDP, options=option))]
    assert packets(frame, rule(f"ipopts:{name};", ANY_IP)).sids == [1]
    assert packets(frame, rule("ipopts:any;", ANY_IP)).sids == [1]
    other = "rr" if name != "rr" else "ts"
    assert packets(frame, rule(f"ipopts:{other};", ANY_IP)).sids == []
    assert packets([datagram(b"x")], rule("ipopts:any;", ANY_IP)).sids == []


@pytest.mark.parametrize(
    ("options", "matches"),
    [
        ("icmp_id:1;", True), ("icmp_id:2;", False), ("icmp_id:!2;", True), ("icmp_seq:1;", True),
        ("icmp_seq:0x2;", False),
        ("itype:8; icmp_id:1; icmp_seq:1;", True),
    ],
)  # fmt: skip
def test_numbers_of_icmp(options: str, matches: bool) -> None:
    assert bool(packets([icmp(b"ping")], rule(options, "icmp any any -> any any")).rows) == matches


@pytest.mark.parametrize(
    ("value", "matches"),
    [
        ("10", True), ("9", False), (">9", True), (">10", False), ("<11", True), ("<10", False), ("9<>11", True),
        ("10<>12", False), ("10,raw", True), ("8,norm", True), ("10,norm", False),
    ],
)  # fmt: skip
def test_urilen(value: str, matches: bool) -> None:
    """The target is /a%20b?c=1: 10 bytes as it stands, and 8 normalised."""
    frames = connection(get(b"/a%20b?c=1"))
    assert bool(packets(frames, rule(f"urilen:{value};")).rows) == matches
    assert bool(packets(frames, rule(f'content:"/a"; http_uri; urilen:{value};')).rows) == matches


@pytest.mark.parametrize(
    ("options", "matches"),
    [
        ('tls.sni; content:"www.example";', True),
        ('tls.sni; content:"WWW.Example"; nocase;', True),
        ('tls.sni; content:"example.net";', False),
        ('tls.sni; content:!"example";', False),
        ('tls.sni; pcre:"/^www\\..*e$/";', True),
        ('tls.sni; content:"www"; content:"example"; distance:1; within:7;', True),
        ('content:"|16 03|"; depth:2; tls.sni; content:"example";', True),
        ("ssl_version:tls1.2;", True),
        ("ssl_version:tls1.0,tls1.2;", True),
        ("ssl_version:sslv3;", False),
        ("ssl_version:!tls1.2;", False),
        ("ssl_version:!sslv2,!sslv3;", True),
        ('ssl_version:tls1.2; tls.sni; content:"example";', True),
    ],
)
def test_hellos(options: str, matches: bool) -> None:
    said = client_hello(b"www.example", 0x0303)
    for cut in (1460, 7):
        frames = connection([(">", said)], cut, port=8443)
        assert bool(packets(frames, rule(options, "tls any any -> any any")).rows) == matches


def test_versions_of_both_sides() -> None:
    talk = [(">", client_hello(b"a.example", 0x0304)), ("<", server_hello(0x0302))]
    rules = "".join(
        rule(f"ssl_version:{version}; flow:{flow};", sid=sid)
        for sid, (version, flow) in enumerate(
            [("tls1.3", "to_server"), ("tls1.1", "to_client"), ("tls1.3", "to_client"), ("tls1.1", "to_server")], 1
        )
    )
    assert sorted(packets(connection(talk, port=443), rules).sids) == [1, 2]
    unknown = [client_hello(b"a.example", 0xFF01), client_hello(b"a.example", 0xFF01, b"\x03\x04")]
    for said, sids in zip(unknown, ([], [1]), strict=True):
        assert packets(connection([(">", said)], port=443), rules).sids == sids
    ssl2 = b"\x80\x2e\x01\x00\x02" + bytes(43)
    assert packets(connection([(">", ssl2)], 3, port=443), rule("ssl_version:sslv2;")).sids == [1]


@pytest.mark.parametrize(
    ("options", "matches"),
    [
        ('dns.query; content:"evil.example";', True),
        ('dns.query; content:"EVIL"; nocase;', True),
        ('dns.query; content:"good";', False),
        ('dns.query; content:!"evil";', False),
        ('dns.query; pcre:"/^evil\\.example$/";', True),
        ('content:"|01 00|"; offset:2; depth:2; dns.query; content:"evil";', True),
        ('content:"|02 00|"; offset:2; depth:2; dns.query; content:"evil";', False),
    ],
)
def test_dns_query(options: str, matches: bool) -> None:
    message = dns_query(b"evil.example")
    assert packets([datagram(message, dport=53)], rule(options, "dns any any -> any any")).sids == [1] * matches
    stream = struct.pack(">H", len(message)) + message
    options = options.replace("offset:2", "offset:4")
    for cut in (1460, 5):
        found = packets(connection([(">", stream)], cut, port=53), rule(options, "dns any any -> any any"))
        assert found.sids == [1] * matches


def test_a_long_dns_message_is_counted() -> None:
    for size, cut in ((2048, 0), (2049, 1)):
        message = dns_query(b"evil.example").ljust(size, b"\0")
        frames = connection([(">", struct.pack(">H", size) + message)], port=53)
        found = packets(frames, rule('dns.query; content:"evil.example";', "dns any any -> any any"))
        assert found.sids == [1] and found.reports.get("ids_dns_cut", 0) == cut


def test_each_name_of_a_message() -> None:
    two = dns_query(b"a.example", b"b.example")
    rules = rule('dns.query; content:"b.example";', ANY_UDP) + rule('dns.query; content:"example";', ANY_UDP, 2)
    assert sorted(packets([datagram(two, dport=53)], rules).sids) == [1, 2, 2]


def test_rules_are_grouped_by_the_ports_of_servers() -> None:
    """Each rule has ports of its own, more of them than there may be groups."""
    rules = "".join(
        rule('content:"evil"; flow:to_server;', f"tcp any any -> any [{port},{port + 5000}:{port + 5001}]", port)
        for port in range(1000, 1300, 2)
    )
    rules += rule('content:"good"; flow:to_client;', "tcp any 1000:1100 -> any any", 5)
    for port in (1000, 1150, 1298, 6000, 6001, 6299):
        found = packets(connection([(">", b"evil"), ("<", b"good")], port=port), rules)
        expected = [port if port < 5000 else (port - 5000) // 2 * 2] + [5] * (1000 <= port <= 1100)
        assert found.sids == expected, port
    assert packets(connection([(">", b"evil"), ("<", b"good")], port=80), rules).sids == []


@pytest.mark.parametrize(
    ("options", "said", "sids"),
    [
        # a block ends after 4096 bytes: what an expression says about the end is not about that
        (r'content:"foo"; pcre:"/foo\z/";', b"-" * 4093 + b"foo" + b"bar", []),
        (r'content:"foo"; pcre:"/foo\Z/";', b"-" * 4093 + b"foo" + b"bar", []),
        (r'content:"foo"; pcre:"/foo$/";', b"-" * 4093 + b"foo" + b"bar", []),
        (r'content:"foo"; pcre:"/foo(?!bar)/";', b"-" * 4093 + b"foo" + b"bar", []),
        (r'content:"foo"; pcre:"/foo(?=bar)/";', b"-" * 4093 + b"foo" + b"bar", [1]),
        (r'content:"foo"; pcre:"/foo\b/";', b"-" * 4093 + b"foo" + b"bar", []),
        (r'content:"foo"; pcre:!"/foob/";', b"-" * 4093 + b"foo" + b"bar", []),
        (r'content:"foo"; pcre:"/foo\z/";', b"-" * 4093 + b"foo", [1]),
        (r'content:"foo"; pcre:"/foo\z/";', b"-" * 9000 + b"foo", [1]),
        # flag A and \G: where the search begins, which is the beginning of the stream
        ('content:"foo"; pcre:"/foo/A";', b"-" * 8191 + b"-" + b"foo" * 9, []),
        ('content:"foo"; pcre:"/.foo/A";', b"-" * 8191 + b"-foo", []),
        (r'content:"foo"; pcre:"/\G.*foo/s";', b"-" * 8192 + b"-foo", []),
        ('content:"foo"; pcre:"/bar/AR";', b"-" * 8192 + b"foobar", [1]),
        ('content:"foo"; pcre:"/bar/AR";', b"-" * 8192 + b"foo-bar", []),
    ],
)
def test_the_end_of_a_block_is_not_the_end_of_the_stream(options: str, said: bytes, sids: list[int]) -> None:
    for cut in (1460, 1):
        if cut == 1 and len(said) > 5000:
            continue
        assert packets(connection([(">", said)], cut), rule(options)).sids == sids
