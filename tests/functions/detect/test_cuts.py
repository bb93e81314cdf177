"""Alerts do not depend on how a stream was cut into segments, nor on their order and repetition; plain Python says
which rules match a stream.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

from tests.functions.detect.boxes import Alerts, Talk, connection, needs_ids, numbered, packets, rule
from tests.support.connection import goodbye, handshake, pair
from tests.support.packets import fragments4

pytestmark = needs_ids

REQUEST = (
    b"POST /one/../two?a=%41b HTTP/1.1\r\nHost: www.example\r\nCookie: c=1\r\nContent-Length: 12\r\n\r\nbody is evil"
    b"GET /three HTTP/1.1\r\nHost: www.example\r\n\r\n"
)
RULES = numbered(
    'content:"/one/../two";',
    'content:"www.example"; nocase; content:"c=1"; distance:2; within:20;',
    'content:"POST"; depth:4; content:"evil"; distance:20;',
    'content:"evil"; content:!"good";',
    'content:"evil"; content:!"GET /three";',
    'content:"Host"; pcre:"/Cookie: c=\\d\\r\\n/";',
    'pcre:"/body is \\w+GET/";',
    'content:"GET"; pcre:"/^ \\/three HTTP.1\\.1\\r$/Rm";',
    'pcre:"/(?<!x)evil(?!x)/";',
    'pcre:"/example\\r\\n\\r\\n$/";',
    'content:"/two?a=Ab"; http_uri;',
    'content:"evil"; http_client_body; content:"POST"; http_method;',
    'content:"/three"; http_uri; content:!"Cookie"; http_raw_header;',
    'content:"/two"; http_uri; content:"GET /three";',
    'content:"GET /three"; flowbits:set,third;',
    'content:"POST"; flowbits:isset,third;',
    'content:"POST"; flowbits:isnotset,third;',
    'content:"never there";',
)
EXPECTED = Counter({1: 1, 2: 1, 3: 1, 4: 1, 6: 1, 7: 1, 8: 1, 9: 1, 10: 1, 11: 1, 12: 1, 13: 1, 14: 1, 15: 1, 16: 1})


def by_port(found: Alerts) -> dict[int, Counter[int]]:
    """How often each rule alerted, by the client's port."""
    ports: dict[int, Counter[int]] = defaultdict(Counter)
    for row in found.rows:
        ports[row["src_port"]][row["alert"]["signature_id"]] += 1
    return ports


def sent(port: int, segments: Sequence[tuple[int, bytes]]) -> list[bytes]:
    """A connection whose client sends these segments, by their offsets in the stream."""
    client, server = pair(port=port)
    frames = handshake(client, server)
    frames += [client.at(offset, data) for offset, data in segments]
    client.next = client.isn + 1 + max(offset + len(data) for offset, data in segments)
    return [*frames, *goodbye(client, server)]


def parts(said: bytes, *cuts: int) -> list[tuple[int, bytes]]:
    """A stream cut at these places."""
    places = [0, *cuts, len(said)]
    return [(low, said[low:high]) for low, high in itertools.pairwise(places)]


def test_the_whole_stream() -> None:
    assert packets(connection([(">", REQUEST)]), RULES).counts == EXPECTED


def test_a_cut_at_every_byte_in_every_order() -> None:
    frames: list[bytes] = []
    for cut in range(1, len(REQUEST)):
        one, two = parts(REQUEST, cut)
        overlap = max(0, cut - 3), REQUEST[max(0, cut - 3) :]
        frames += sent(1000 + cut, [one, two])
        frames += sent(2000 + cut, [two, one])
        frames += sent(3000 + cut, [one, one, overlap, two])
    found = by_port(packets(frames, RULES))
    assert len(found) == 3 * (len(REQUEST) - 1)
    for port, alerts in found.items():
        assert alerts == EXPECTED, port


def test_single_bytes_and_random_segments() -> None:
    chance = random.Random(7)
    frames = sent(1000, parts(REQUEST, *range(1, len(REQUEST))))
    for number in range(60):
        cuts = sorted(chance.sample(range(1, len(REQUEST)), chance.randint(2, 20)))
        segments = parts(REQUEST, *cuts)
        segments += chance.choices(segments, k=3)
        chance.shuffle(segments)
        frames += sent(2000 + number, segments)
    for port, alerts in by_port(packets(frames, RULES)).items():
        assert alerts == EXPECTED, port


@pytest.mark.parametrize("gap", [0, 1500, 2040, 2047, 2048, 2049, 4000])
def test_contents_across_blocks(gap: int) -> None:
    """Matches that lie in two blocks that follow each other are found wherever the segments are cut."""
    said = b"-" * (gap % 1000) + b"first" + b"-" * gap + b"second" + b"-" * 5000
    rules = rule('content:"first"; content:"second"; distance:0;') + rule('pcre:"/first-*second/s";', sid=2)
    block, start = 2048, gap % 1000
    end = start + 5 + gap + 6
    expected = [1, 2] if start >= ((end - 1) // block - 1) * block else []
    for cut in (1, 100, 1460, 2048):
        found = packets(connection([(">", said)], cut), rules, "block=2048")
        assert sorted(found.sids) == expected, cut


def test_a_plain_search_agrees_on_random_streams() -> None:
    """Contents and expressions alone, which Python's re can say, on streams of few letters."""
    chance = random.Random(11)
    plain = {
        1: (r'content:"abc";', rb"abc"), 2: (r'content:"ab"; content:"ca"; within:3;', rb"ab.?ca"),
        3: (r'content:"aa"; content:"bb"; distance:2; within:4;', rb"aa.{2,4}(?:bb)"),
        4: (r'content:"cab"; offset:5; depth:6;', rb"^.{5,8}cab"), 5: (r'pcre:"/a{3}[^a]b/";', rb"a{3}[^a]b"),
        6: (r'pcre:"/c$/";', rb"c$"),
    }  # fmt: skip
    rules = "".join(rule(options, sid=sid) for sid, (options, _) in plain.items())
    streams = {1000 + n: bytes(chance.choices(b"abc", k=chance.randint(3, 40))) for n in range(150)}
    frames = [
        frame
        for port, said in streams.items()
        for frame in sent(port, parts(said, *sorted(chance.sample(range(1, len(said)), min(4, len(said) - 1)))))
    ]
    found = by_port(packets(frames, rules))
    for port, said in streams.items():
        expected = {sid for sid, (_, text) in plain.items() if re.search(text, said, re.DOTALL)}
        assert set(found[port]) == expected, (port, said)


def test_a_gap_joins_nothing() -> None:
    client, server = pair()
    frames = handshake(client, server)
    frames += [client.at(0, b"first "), client.at(10, b"second"), server.send("A", ack=client.isn + 1 + 16)]
    client.next = client.isn + 17
    frames += goodbye(client, server)
    rules = (
        rule('content:"first"; content:"second";') + rule('content:"second";', sid=2) + rule('content:"first";', sid=3)
    )
    found = packets(frames, rules)
    assert sorted(found.sids) == [2, 3] and found.reports["ids_gaps"] == 1


@pytest.mark.parametrize(("after", "sids"), [(b"Moz", []), (b"Xoz", [1])])
def test_a_negated_content_whose_region_is_in_the_next_block(after: bytes, sids: list[int]) -> None:
    rules = rule('content:"UserAgent"; content:!"Moz"; within:3;')
    for cut in (1, 1460):
        for before in (4087, 4086, 4085):
            said = b"-" * before + b"UserAgent" + after + b"-" * 5000
            assert packets(connection([(">", said)], cut), rules).sids == sids


def test_a_gap_before_any_bytes_counts() -> None:
    client, server = pair()
    frames = handshake(client, server)
    frames += [client.at(10, b"second"), server.send("A", ack=client.isn + 1 + 16)]
    client.next = client.isn + 17
    frames += goodbye(client, server)
    rules = rule('content:"second"; offset:10; depth:6;') + rule('content:"second"; depth:6;', sid=2)
    found = packets(frames, rules)
    assert found.sids == [1] and found.reports["ids_gaps"] == 1


TALK: Talk = [(">", REQUEST[:110]), ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")]


def test_a_response_before_its_request() -> None:
    """Both sides' segments in another order: the response waits for its request."""
    frames = connection(TALK, close=False)
    swapped = [*frames[:3], frames[4], frames[3]]
    rules = rule('content:"200"; http_stat_code;') + rule('content:"/two"; http_uri;', sid=2)
    assert packets(frames, rules).counts == packets(swapped, rules).counts == Counter({1: 1, 2: 1})


def test_the_same_over_ipv6_in_vlans_and_in_fragments() -> None:
    for version, tags in ((6, ()), (4, (7,)), (4, (7, 8)), (6, (7,))):
        client, server = pair(version=version, tags=tags)
        frames = [*handshake(client, server), client.data(REQUEST), *goodbye(client, server)]
        assert packets(frames, RULES).counts == EXPECTED, (version, tags)
    client, server = pair()
    frames = [*handshake(client, server)]
    segment = client.data(REQUEST)[34:]
    frames += reversed(fragments4(segment, 48, 64))
    assert packets([*frames, *goodbye(client, server)], RULES).counts == EXPECTED


def test_places_are_those_of_the_stream_in_every_block() -> None:
    said = b"".join(b"<%06d>" % offset for offset in range(0, 9000, 8))
    places = (0, 2040, 2048, 4088, 4096, 6144, 8984)
    rules = "".join(
        rule(f'content:"<{place:06}>"; offset:{place}; depth:8; pcre:"/^<{place + 8:06}>/R";', sid=place + 1)
        + rule(f'content:"<{place:06}>"; offset:{place + 1}; depth:8;', sid=place + 100001)
        for place in places
    )
    for cut in (1, 500, 1460):
        found = packets(connection([(">", said)], cut), rules, "block=2048")
        assert sorted(found.sids) == [place + 1 for place in places], cut
