"""Each option of a rule against its documented meaning: one case that matches, and one beside it that does not."""

from __future__ import annotations

import pytest

from tests.functions.detect.boxes import connection, datagram, fires, needs_ids, packets, rule
from tests.functions.detect.cases import icmp
from tests.support.connection import handshake, pair
from tests.support.packets import A4, eth, ip4, tcp

pytestmark = needs_ids


@pytest.mark.parametrize(
    ("options", "said", "matches"),
    [
        ('content:"evil";', b"an evil text", True),
        ('content:"evil";', b"an Evil text", False),
        ('content:"evil"; nocase;', b"an eVIl text", True),
        ('content:"e|76 69|l";', b"evil", True),
        (r'content:"a\"b\;c\\d\:e";', b'a"b;c\\d:e', True),
        ('content:"|00 ff|"; rawbytes;', b"\x00\xff", True),
        ('content:!"evil";', b"good", True),
        ('content:!"evil";', b"evil", False),
        # offset: where the search begins; depth: how many bytes from there it may reach
        ('content:"ab"; offset:2;', b"abab", True),
        ('content:"ab"; offset:3;', b"abab", False),
        ('content:"ab"; depth:4;', b"xxab", True),
        ('content:"ab"; depth:3;', b"xxab", False),
        ('content:"ab"; offset:1; depth:3;', b"xxab", True),
        ('content:"ab"; offset:1; depth:2;', b"xxab", False),
        # distance: how far after the last match the search begins; within: how many bytes from there it may reach
        ('content:"ab"; content:"cd"; distance:2;', b"abxxcd", True),
        ('content:"ab"; content:"cd"; distance:3;', b"abxxcd", False),
        ('content:"ab"; content:"cd"; distance:0;', b"cdab", False),
        ('content:"cd"; content:"ab"; distance:-4;', b"abcd", True),
        ('content:"ab"; content:"cd"; within:4;', b"abxxcd", True),
        ('content:"ab"; content:"cd"; within:3;', b"abxxcd", False),
        ('content:"ab"; content:"cd"; distance:1; within:3;', b"abxxcd", True),
        ('content:"ab"; content:"cd"; distance:1; within:2;', b"abxxcd", False),
        # within counts from where distance leads, even if that is before the beginning
        ('content:"cd"; content:"ab"; distance:-6; within:4;', b"abcd", True),
        ('content:"cd"; content:"ab"; distance:-6; within:3;', b"abcd", False),
        ('content:"ab"; content:!"cd"; within:2;', b"abxxcd", True),
        ('content:"ab"; content:!"cd"; within:2;', b"abcd", False),
        # a later occurrence of the first is tried where the second does not follow the first one
        ('content:"ab"; content:"cd"; within:2;', b"ab..ab..abcd", True),
        ('content:"ab"; content:"cd"; within:2; content:"ef"; within:2;', b"abcd..abcdef", True),
        # without a range the order does not matter
        ('content:"ab"; content:"cd";', b"cdab", True),
        ('content:"ab"; content:"cd"; fast_pattern;', b"abcd", True),
        ('content:"abcdef"; fast_pattern:2,3; content:"x";', b"xabcdef", True),
        ('content:"abcdef"; fast_pattern:2,3; content:"x";', b"xabcdeg", False),
        # only: it may be anywhere, and what is relative does not follow it
        ('content:"ab"; fast_pattern:only; content:"cd";', b"cdab", True),
        ('content:"ab"; fast_pattern:only; content:"cd";', b"cdac", False),
        ('content:"List"; fast_pattern:only; pcre:"/lIST x/i";', b"liST X", True),
        ('content:"ab"; content:"xyz"; fast_pattern:only; content:"cd"; within:2;', b"abcdxyz", True),
        ('content:"ab"; content:"xyz"; fast_pattern:only; content:"cd"; within:2;', b"abxyzcd", False),
        ('content:"xyz"; fast_pattern:only; content:"cd"; within:2;', b"cdxyz", True),
        ('pcre:"/e.il/";', b"evil", True),
        ('pcre:"/E.IL/";', b"evil", False),
        ('pcre:"/E.IL/i";', b"evil", True),
        ('pcre:"/a.b/";', b"a\nb", False),
        ('pcre:"/a.b/s";', b"a\nb", True),
        ('pcre:"/^b/";', b"a\nb", False),
        ('pcre:"/^b/m";', b"a\nb", True),
        ('pcre:"/a b #c/x";', b"ab", True),
        ('pcre:"/b/A";', b"ab", False),
        ('pcre:"/a$/";', b"a\n", True),
        ('pcre:"/a$/E";', b"a\n", False),
        ('pcre:!"/evil/";', b"good", True),
        ('pcre:!"/evil/";', b"evil", False),
        ('content:"ab"; pcre:"/^cd/R";', b"abcd", True),
        ('content:"ab"; pcre:"/^cd/R";', b"abxcd", False),
        ('content:"ab"; pcre:"/c+/R"; content:"d"; within:1;', b"abccd", True),
        ('content:"ab"; pcre:"/c+?/R"; content:"d"; within:1;', b"abccd", True),
        ('content:"ab"; pcre:"/c+/RG"; content:"d"; within:1;', b"abccd", True),
        ('pcre:"m#a/b#";', b"a/b", True),
    ],
)
def test_payload(options: str, said: bytes, matches: bool) -> None:
    assert fires(options, said) == matches
    assert bool(packets([datagram(said)], rule(options, "udp any any -> any any")).rows) == matches


REQUEST = (
    b"POST /a/%2e%2E/b//c%20d?x=%41 HTTP/1.1\r\nHost: www.example\r\nCookie: id=7\r\nUser-Agent: tool/1\r\n"
    b"Content-Length: 9\r\n\r\nbody=evil"
)
RESPONSE = b"HTTP/1.1 404 Not Here\r\nServer: s\r\nSet-Cookie: k=v\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    ("options", "matches"),
    [
        ('content:"/b/c d?x=A"; http_uri;', True),
        ('content:"%2e"; http_uri;', False),
        ('content:"/a/%2e%2E/b//c%20d"; http_raw_uri;', True),
        ('content:"/b/c"; http_raw_uri;', False),
        ('uricontent:"/b/c d";', True),
        ('uricontent:"/a/";', False),
        ('content:"Host: www.example|0d 0a|"; http_header;', True),
        ('content:"id=7"; http_header;', False),
        ('content:"Cookie: id=7"; http_raw_header;', True),
        ('content:"id=7"; http_cookie;', True),
        ('content:"tool"; http_cookie;', False),
        ('content:"POST"; http_method;', True),
        ('content:"GET"; http_method;', False),
        ('content:"evil"; http_client_body;', True),
        ('content:"POST"; http_client_body;', False),
        ('content:"404"; http_stat_code;', True),
        ('content:"200"; http_stat_code;', False),
        ('content:"Not Here"; http_stat_msg;', True),
        ('content:"Here|0d|"; http_stat_msg;', False),
        ('content:"k=v"; http_cookie; content:"404"; http_stat_code;', True),
        ('http.uri; content:"/b"; content:"d?x"; distance:1; within:6;', True),
        ('http.host; content:"www.example";', True),
        ('http.user_agent; content:!"curl"; content:"tool";', True),
        ('http.user_agent; content:!"tool";', False),
        ('pcre:"/^\\/b\\/c d\\?x=A$/U";', True),
        ('pcre:"/%2e%2E/I";', True),
        ('pcre:"/^body=e\\w+$/P";', True),
        ('pcre:"/^Host: w/Hm";', True),
        ('pcre:"/^Cookie: id=\\d\\r\\n/Dm";', True),
        ('pcre:"/^POST$/M";', True),
        ('pcre:"/^id=7$/C";', True),
        ('pcre:"/^id=7$/K";', True),
        ('pcre:"/^404$/S";', True),
        ('pcre:"/^not here$/Yi";', True),
        ('content:"/b"; http_uri; pcre:"/^\\/c/UR";', True),
        ('content:"/b"; http_uri; content:"evil"; http_client_body; content:"POST /a";', True),
        ('content:"/b"; http_uri; content:"absent";', False),
    ],
)
def test_http_buffers(options: str, matches: bool) -> None:
    talk = [(">", REQUEST), ("<", RESPONSE)]
    assert bool(packets(connection(talk), rule(options)).rows) == matches


def test_the_protocol_http_is_http_alone() -> None:
    rules = rule('content:"body";', "http any any -> any any")
    assert packets(connection([(">", REQUEST)]), rules).sids == [1]
    assert packets(connection([(">", b"some body")]), rules).sids == []


@pytest.mark.parametrize(
    ("header", "variables", "matches"),
    [
        ("tcp 10.0.0.1 any -> 10.0.0.2 80", {}, True),
        ("tcp 10.0.0.2 any -> 10.0.0.1 any", {}, False),
        ("tcp 10.0.0.2 any <> 10.0.0.1 any", {}, True),
        ("tcp 10.0.0.0/24 any -> 10.0.0.0/30 any", {}, True),
        ("tcp !10.0.0.0/24 any -> any any", {}, False),
        ("tcp [10.0.0.0/24,!10.0.0.1] any -> any any", {}, False),
        ("tcp [10.0.0.0/24,!10.0.0.3] any -> any any", {}, True),
        ("tcp ![192.0.2.0/24,![10.0.0.0/8]] any -> any any", {}, True),
        ("tcp 2001:db8::/32 any -> any any", {}, False),
        ("tcp $HOME_NET any -> $EXTERNAL_NET any", {"HOME_NET": "10.0.0.1", "EXTERNAL_NET": "!$HOME_NET"}, True),
        ("tcp $HOME_NET any -> $EXTERNAL_NET any", {"HOME_NET": "10.0.0.0/8", "EXTERNAL_NET": "!$HOME_NET"}, False),
        ("tcp any 40000 -> any 80", {}, True),
        ("tcp any any -> any 81:", {}, False),
        ("tcp any any -> any :80", {}, True),
        ("tcp any any -> any [1:79,81:65535]", {}, False),
        ("tcp any any -> any [70:90,!80]", {}, False),
        ("tcp any any -> any !80", {}, False),
        ("tcp any any -> any $HTTP_PORTS", {}, True),
        ("tcp $(HOME_NET) any -> any $(WEB:-80)", {"HOME_NET": "10.0.0.0/8"}, True),
        ("tcp any any -> any $(WEB:-80)", {"WEB": "81"}, False),
        ("ip any any -> any any", {}, True),
        ("udp any any -> any any", {}, False),
    ],
)
def test_header(header: str, variables: dict[str, str], matches: bool) -> None:
    found = packets(connection([(">", b"evil")]), rule('content:"evil";', header), variables=variables)
    assert bool(found.rows) == matches


def test_flow_says_who_sent_it() -> None:
    talk = [(">", b"evil"), ("<", b"good")]
    for words, sids in (
        ("to_server", [1]),
        ("from_client", [1]),
        ("to_client", [2]),
        ("from_server", [2]),
        ("established", [1, 2]),
        ("to_server,established", [1]),
        ("not_established", []),
        ("stateless", [1, 2]),
        ("only_stream", [1, 2]),
    ):
        rules = rule(f'content:"evil"; flow:{words};') + rule(f'content:"good"; flow:{words};', sid=2)
        assert packets(connection(talk), rules).sids == sids, words


def test_flow_no_stream_is_about_packets() -> None:
    frames = connection([(">", b"evil" * 3)], 6)
    assert packets(frames, rule('content:"evil"; flow:no_stream;')).sids == [1, 1]


def test_flowbits_join_rules_of_a_flow() -> None:
    login = rule('content:"USER"; flowbits:set,login; flowbits:noalert;')
    after = rule('content:"evil"; flowbits:isset,login;', sid=2)
    before = rule('content:"evil"; flowbits:isnotset,login;', sid=3)
    assert packets(connection([(">", b"USER x"), ("<", b"evil")]), login + after + before).sids == [2]
    assert packets(connection([(">", b"evil")]), login + after + before).sids == [3]
    assert (
        packets(connection([(">", b"evil")]) + connection([(">", b"USER x")], client_port=41000), login + after).sids
        == []
    )


def test_flowbits_unset_toggle_and_alternatives() -> None:
    sets = rule('content:"A"; flowbits:set,a&b;')
    unset = rule('content:"B"; flowbits:isset,a; flowbits:unset,a;', sid=2)
    either = rule('content:"C"; flowbits:isset,a|b;', sid=3)
    both = rule('content:"C"; flowbits:isset,a&b;', sid=4)
    toggled = rule('content:"D"; flowbits:toggle,c;', sid=5) + rule('content:"C"; flowbits:isset,c;', sid=6)
    rules = sets + unset + either + both + toggled
    frames = [datagram(letter) for letter in (b"A", b"C", b"B", b"C", b"D", b"C", b"D", b"C")]
    udp_rules = rules.replace("alert tcp", "alert udp")
    assert packets(frames, udp_rules).sids == [1, 3, 4, 2, 3, 5, 3, 6, 5, 3]


def test_flowbits_of_groups() -> None:
    """As Snort 2's manual has them: setx unsets the other bits of its group; any and all are of a group; reset."""
    letters = {
        "A": "set,a,g", "B": "set,b,g", "C": "setx,c,g", "D": "set,d", "E": "unset,all,g", "F": "reset,g", "G": "reset",
        "H": "toggle,all,g",
    }  # fmt: skip
    asked = (
        "isset,a",
        "isset,b",
        "isset,c",
        "isset,d",
        "isset,any,g",
        "isset,all,g",
        "isnotset,any,g",
        "isnotset,all,g",
    )
    rules = "".join(
        rule(f'content:"{letter}"; flowbits:{bits}; flowbits:noalert;', "udp any any -> any any", sid)
        for sid, (letter, bits) in enumerate(letters.items(), 100)
    ) + "".join(
        rule(f'content:"?"; flowbits:{bits};', "udp any any -> any any", sid) for sid, bits in enumerate(asked, 1)
    )

    def holds(said: str) -> set[int]:
        return set(packets([datagram(letter.encode()) for letter in said], rules).sids)

    assert holds("?") == {7, 8}
    assert holds("AD?") == {1, 4, 5, 7}
    assert holds("ABD?") == {1, 2, 4, 5, 7}
    assert holds("ABDC?") == {3, 4, 5, 7}
    assert holds("CAB?") == {1, 2, 3, 5, 6}
    assert holds("ABDE?") == holds("ABDF?") == {4, 7, 8}
    assert holds("ABDG?") == {7, 8}
    assert holds("ABH?") == {3, 5, 7}


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ("dsize:3;", [3]),
        ("dsize:>3;", [4, 5]),
        ("dsize:<3;", [1, 2]),
        ("dsize:2<>4;", [2, 3, 4]),
        ("dsize:!3;", [1, 2, 4, 5]),
    ],
)
def test_dsize(options: str, sizes: list[int]) -> None:
    frames = [datagram(b"x" * size, sport=size) for size in range(1, 6)]
    found = packets(frames, rule(options, "udp any any -> any any"))
    assert [row["src_port"] for row in found.rows] == sizes


@pytest.mark.parametrize(
    ("flags", "counts"),
    [("S", 1), ("SA", 1), ("A+", 5), ("*SF", 4), ("!S", 4), ("F,A", 2), ("0", 0), ("A", 2)],
)
def test_flags(flags: str, counts: int) -> None:
    """The packets are S, SA, A, FA, FA, A."""
    assert len(packets(connection([]), rule(f"flags:{flags};")).rows) == counts


@pytest.mark.parametrize(
    ("value", "matches"), [("64", True), ("<64", False), (">63", True), ("60-70", True), ("-10", False)]
)
def test_ttl(value: str, matches: bool) -> None:
    assert bool(packets([datagram(b"x")], rule(f"ttl:{value};", "udp any any -> any any")).rows) == matches


@pytest.mark.parametrize(
    ("options", "matches"),
    [
        ("id:7;", True),
        ("id:8;", False),
        ("tos:0;", True),
        ("tos:!0;", False),
        ("seq:1001;", True),
        ("seq:1000;", False),
        ("ack:5001;", True),
        ("ack:0;", False),
        ("window:65535;", True),
        ("window:0xffff;", True),
        ("window:!65535;", False),
    ],
)
def test_numbers_of_headers(options: str, matches: bool) -> None:
    client, server = pair()
    frames = [*handshake(client, server), client.data(b"evil")]
    assert bool(packets(frames, rule(f'content:"evil"; {options}')).rows) == matches


@pytest.mark.parametrize(
    ("options", "matches"),
    [
        ("itype:8;", True),
        ("itype:0;", False),
        ("itype:>7;", True),
        ("itype:7<>9;", True),
        ("itype:8<>10;", False),
        ("icode:0;", True),
        ("icode:>0;", False),
    ],
)
def test_icmp(options: str, matches: bool) -> None:
    found = packets([icmp(b"ping")], rule(options, "icmp any any -> any any"))
    assert bool(found.rows) == matches
    if matches:
        assert (found.rows[0]["proto"], found.rows[0]["icmp_type"], found.rows[0]["icmp_code"]) == ("ICMP", 8, 0)


def test_sameip() -> None:
    land = eth(ip4(tcp(80, 80, 1, "S"), src=A4, dst=A4))
    rules = rule("flags:S; sameip;")
    assert packets([land], rules).sids == [1]
    assert packets(connection([]), rules).sids == []


@pytest.mark.parametrize(
    ("threshold", "alerts"),
    [
        ("threshold:type limit, track by_src, count 2, seconds 60;", 2),
        ("threshold:type threshold, track by_dst, count 3, seconds 60;", 3),
        ("threshold:type both, track by_src, count 3, seconds 60;", 1),
        ("threshold:type limit, track by_src, count 1, seconds 4;", 3),
        ("detection_filter:track by_src, count 7, seconds 60;", 3),
    ],
)
def test_threshold(threshold: str, alerts: int) -> None:
    """Ten packets, one a second."""
    rules = rule(f'content:"x"; {threshold}', "udp any any -> any any")
    assert len(packets([datagram(b"x")] * 10, rules, step=1).rows) == alerts


@pytest.mark.parametrize(
    "options",
    [
        'content:"530 ";',
        'content:"530"; content:"denied"; within:20;',
        'content:"530"; fast_pattern; pcre:"/^530 \\w+ denied\\r\\n/m";',
        'pcre:"/^530 \\w+ denied\\r\\n/m";',
        'content:"530 "; content:!"530 ok"; within:6;',
    ],
)
@pytest.mark.parametrize("cut", [1, 7, 1460])
def test_matches_of_one_stream_are_counted(options: str, cut: int) -> None:
    """As where one connection guesses passwords: what matches once is counted once, however the stream is cut."""
    said = b"220 hi\r\n" + b"530 login denied\r\n" * 6
    for times, alerts in (
        ("detection_filter:track by_src, count 4, seconds 60;", 2),
        ("threshold:type threshold, track by_src, count 3, seconds 60;", 2),
        ("threshold:type both, track by_dst, count 6, seconds 60;", 1),
        ("threshold:type both, track by_dst, count 7, seconds 60;", 0),
        ("threshold:type limit, track by_dst, count 5, seconds 60;", 5),
        ("", 1),
    ):
        frames = connection([("<", said)], cut)
        assert len(packets(frames, rule(f"{options} {times}")).rows) == alerts, times
    if cut == 1460:
        far = b"".join(b"530 login denied\r\n" + b"." * 9000 + b"\r\n" for _ in range(3))
        limited = rule(f"{options} threshold:type limit, track by_src, count 9, seconds 60;")
        assert len(packets(connection([("<", far)], cut), limited).rows) == 3


def test_a_row_has_what_the_rule_says() -> None:
    options = (
        'content:"evil"; classtype:trojan-activity; reference:url,example.com/1; reference:cve,2020-1; rev:7; gid:3; '
        "metadata:policy one, policy two, created 2020;"
    )
    (row,) = packets(connection([(">", b"evil")]), rule(options)).rows
    assert row["alert"] == {
        "action": "allowed",
        "gid": 3,
        "signature_id": 1,
        "rev": 7,
        "signature": "rule 1",
        "category": "A Network Trojan was detected",
        "severity": 1,
        "metadata": {"policy": ["one", "two"], "created": ["2020"]},
        "references": ["url:example.com/1", "cve:2020-1"],
    }
    assert (row["event_type"], row["proto"], row["direction"], row["pcap_cnt"]) == ("alert", "TCP", "to_server", 4)
    assert (row["src_ip"], row["src_port"], row["dest_ip"], row["dest_port"]) == ("10.0.0.1", 40000, "10.0.0.2", 80)
    assert row["timestamp"] == "2023-11-14T22:13:20.003000+0000"
    (row,) = packets(connection([(">", b"evil")]), rule('content:"evil"; classtype:trojan-activity; priority:4;')).rows
    assert row["alert"]["severity"] == 4


def test_a_row_about_http_has_the_message() -> None:
    (row,) = packets(connection([(">", REQUEST)]), rule('content:"/b"; http_uri;')).rows
    assert row["app_proto"] == "http"
    assert row["http"]["hostname"] == "www.example" and row["http"]["http_method"] == "POST"


def test_established_needs_a_handshake() -> None:
    client, server = pair()
    syn_with_data = [client.send("S", b"evil")]
    rules = rule('content:"evil"; flow:established;')
    assert packets(syn_with_data, rules).sids == []
    client, server = pair()
    assert packets([*handshake(client, server), client.data(b"evil")], rules).sids == [1]
