"""Target-based reassembly: the result of each policy for the published patterns of overlapping pieces.

The pattern of fragments is from Novak, "Target-Based Fragmentation Reassembly" (2005), the pattern of segments from
Novak and Sturges, "Target-Based TCP Stream Reassembly" (2007): nine pieces A to I, then J to Q, each of which overlaps
some of the former in a different manner. The expected results are those that the papers measured on real systems, and
that other intrusion detection systems test for. (For segments, there is no published row of `bsd_right`, and the row of
`windows` is published only as equal to that of `bsd`.)
"""

from __future__ import annotations

from functools import cache

import pytest

from sluice.engine.box import Settings
from sluice.lang import Pred, Stack
from sluice.lang.sequence import POLICIES
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.ipv6_fragment import ipv6_fragment_parser
from sluice.protocols.tcp import tcp_parser
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.support.budget import thinned
from tests.support.packets import A6, eth, fragment_header, ip4, ip6, tcp

SETTINGS = Settings(timeouts=True, memory=1 << 20, max_instances=16, seed=1)
RAW = 253
"""A protocol number for experiments (RFC 3692)."""


@cache
def stack(policy: str) -> Compared:
    """A stack with fragments of IPv4 and IPv6, and TCP, all with one policy."""
    s = Stack("policies")
    s.eth, s.ipv4, s.ipv6 = ethernet_parser(), ipv4_parser(policy), ipv6_parser()
    s.frag, s.tcp = ipv6_fragment_parser(policy), tcp_parser(policy=policy)
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.eth >> s.ipv6) + Pred(s.eth.header.type == 0x86DD)
    s += (s.ipv6 >> s.frag) + Pred(s.ipv6.header.next == 44)
    s += (s.ipv4 >> s.tcp) + Pred(s.ipv4.header.protocol == 6)
    return compiled(s)


def delivered(policy: str, layer: str, frames: list[bytes]) -> bytes:
    """The bytes that a layer delivers; asserts that the interpreter delivers the same."""
    made, packets = stack(policy), [Packet(frame, number) for number, frame in enumerate(frames)]
    assert_same(made, packets, SETTINGS)
    events, _ = run_compiled(made, packets, SETTINGS)
    return b"".join(values[1] for where, name, _, _, values in events if (where, name) == (layer, "data"))


# --- fragments of a datagram --------------------------------------------------------------------------------------

FRAGMENTS = [
    *[("A", 0, 24), ("B", 32, 16), ("C", 48, 24), ("D", 80, 8), ("E", 104, 16), ("F", 120, 24)],
    *[("G", 144, 16), ("H", 160, 16), ("I", 176, 8)],
    *[("J", 8, 32), ("K", 48, 24), ("L", 72, 24), ("M", 96, 24), ("N", 128, 8), ("O", 152, 8), ("P", 160, 8)],
    ("Q", 176, 16),
]
"""Letter, offset and length, in order of arrival; the last one ends the datagram."""

OF_FRAGMENTS = {
    "first": "AAAJBBCCCLDLMEEFFFGGHHIQ",
    "last": "AJJJJBKKKLLLMMMFNFGOPHQQ",
    "bsd": "AAAJJBCCCLLLMMMFFFGGHHIQ",
    "bsd_right": "AJJJBBKKKLDLMEEFNFGOPHQQ",
    "linux": "AAAJJBKKKLLLMMMFFFGGPHQQ",
    "windows": "AAAJBBCCCLLLMEEFFFGGHHIQ",
    "solaris": "AAAJBBCCCLLLMMMFFFGGHHIQ",
}
"""One letter per 8 bytes of the datagram."""

SINGLE_FRAGMENTS = {
    "J over A's end and B's start": "ABJ",
    "K over C, the same": "CK",
    "L around D": "DL",
    "M over E, from before to the same end": "EM",
    "N within F": "FN",
    "O over G's end": "GO",
    "P over H's start": "HP",
    "Q over I, from the same start to after": "IQ",
}


def fragment(version: int, letter: str, at: int, length: int, more: bool) -> bytes:
    body = letter.encode() * length
    if version == 4:
        return eth(ip4(body, RAW, id=7, offset=at, more=more))
    return eth(ip6(fragment_header(body, RAW, 7, at, more), 44, A6))


def expected(of_policy: str, unit: int) -> bytes:
    return b"".join(letter.encode() * unit for letter in of_policy)


VERSIONS = pytest.mark.parametrize(("version", "layer"), [(4, "ipv4"), (6, "frag")], ids=["ipv4", "ipv6"])


@VERSIONS
@pytest.mark.parametrize("policy", POLICIES)
def test_fragments(policy: str, version: int, layer: str) -> None:
    frames = [fragment(version, *one, more=one[0] != "Q") for one in FRAGMENTS]
    assert delivered(policy, layer, frames) == expected(OF_FRAGMENTS[policy], 8)


@VERSIONS
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("letters", SINGLE_FRAGMENTS.values(), ids=SINGLE_FRAGMENTS)
def test_one_fragment_over_another(policy: str, letters: str, version: int, layer: str) -> None:
    """The same for each row of the pattern alone; dots are bytes that neither fragment has."""
    places = {letter: (at, length) for letter, at, length in FRAGMENTS}
    low = min(places[letter][0] for letter in letters)
    high = max(sum(places[letter]) for letter in letters)
    frames = [fragment(version, letter, *places[letter], more=True) for letter in letters]
    frames += [fragment(version, ".", at, 8, more=True) for at in range(0, high, 8) if not covered(at, letters, places)]
    frames.append(fragment(version, ".", high, 8, more=False))
    found = delivered(policy, layer, frames)
    assert found == expected("." * (low // 8) + OF_FRAGMENTS[policy][low // 8 : high // 8] + ".", 8)


def covered(at: int, letters: str, places: dict[str, tuple[int, int]]) -> bool:
    return any(places[letter][0] <= at < sum(places[letter]) for letter in letters)


# --- segments of a stream -----------------------------------------------------------------------------------------

SEGMENTS = [
    *[("A", 1, 3), ("B", 5, 2), ("C", 7, 3), ("D", 11, 1), ("E", 14, 2), ("F", 16, 3), ("G", 19, 2), ("H", 21, 2)],
    ("I", 23, 1),
    *[("J", 2, 4), ("K", 7, 3), ("L", 10, 3), ("M", 13, 3), ("N", 17, 1), ("O", 20, 1), ("P", 21, 1), ("Q", 23, 2)],
    ("0", 0, 1),
]
"""Letter, offset in the stream and length, in order of arrival; the last one releases all others."""

OF_SEGMENTS = {
    "first": "0AAAJBBCCCLDLMEEFFFGGHHIQ",
    "last": "0AJJJJBKKKLLLMMMFNFGOPHQQ",
    "bsd": "0AAAJJBCCCLLLMMMFFFGGHHIQ",
    "bsd_right": "0AJJJBBKKKLDLMEEFNFGOPHQQ",
    "linux": "0AAAJJBCCCLLLMMMFFFGGHHQQ",
    "windows": "0AAAJJBCCCLLLMMMFFFGGHHIQ",
    "solaris": "0AJJJBBKKKLLLMMMFFFGGHHQQ",
}

BEFORE = [("B", 2, 1), ("D", 8, 1), ("E", 11, 2), ("A", 1, 2), ("J", 0, 4), ("L", 7, 3), ("M", 10, 3)]
SAME = [("C", 0, 3), ("H", 14, 2), ("I", 16, 2), ("K", 0, 3), ("L", 0, 4), ("P", 14, 1), ("Q", 14, 2)]
AFTER = [("A", 0, 2), ("F", 15, 3), ("G", 18, 2), ("J", 1, 2), ("O", 19, 1), ("N", 16, 1)]
OF_SETS = {
    "what starts before": (
        BEFORE,
        {
            "first": "JABJ...LDLMEE",
            "last": "JJJJ...LLLMMM",
            "bsd": "JJJJ...LLLMMM",
            "bsd_right": "JABJ...LDLMEE",
            "linux": "JJJJ...LLLMMM",
            "windows": "JJJJ...LLLMMM",
            "solaris": "JJJJ...LLLMMM",
        },
    ),
    "what starts at the same place": (
        SAME,
        {
            "first": "CCCL..........HHII",
            "last": "LLLL..........QQII",
            "bsd": "CCCL..........HHII",
            "bsd_right": "LLLL..........QQII",
            "linux": "LLLL..........HHII",
            "windows": "CCCL..........HHII",
            "solaris": "LLLL..........QQII",
        },
    ),
    "what starts after": (
        AFTER,
        {
            "first": "AAJ............FFFGG",
            "last": "AJJ............FNFGO",
            "bsd": "AAJ............FFFGG",
            "bsd_right": "AJJ............FNFGO",
            "linux": "AAJ............FFFGG",
            "windows": "AAJ............FFFGG",
            "solaris": "AJJ............FFFGG",
        },
    ),
}
"""Pieces in order of arrival, and the resulting bytes by policy; dots are bytes that no piece has."""

FIRST_NUMBERS = [0, 1, 0xFFFFFFFF, 0xFFFFFFFF - 10]
"""Numbers of the stream's first byte; with two of them, the number wraps within the pattern."""


def segments(pieces: list[tuple[str, int, int]], first: int, shift: int = 0) -> list[bytes]:
    """A SYN and then pieces of the stream; `shift` bytes of the stream precede all of them."""
    frames = [eth(ip4(tcp(1, 2, (first - 1) % (1 << 32), "S"), 6))]
    for letter, at, length in pieces:
        frames.append(eth(ip4(tcp(1, 2, (first + shift + at) % (1 << 32), "A", letter.encode() * length), 6)))
    return frames


@pytest.mark.parametrize("first", thinned(FIRST_NUMBERS, 3))
@pytest.mark.parametrize("policy", POLICIES)
def test_segments(policy: str, first: int) -> None:
    assert delivered(policy, "tcp", segments(SEGMENTS, first)) == OF_SEGMENTS[policy].encode()


@pytest.mark.parametrize("first", thinned(FIRST_NUMBERS, 3))
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("which", OF_SETS)
def test_segments_by_where_they_start(which: str, policy: str, first: int) -> None:
    """The byte before all pieces arrives last, so that all are held until then."""
    pieces, of_policy = OF_SETS[which]
    wanted = of_policy[policy]
    holes = [(".", at, 1) for at, letter in enumerate(wanted) if letter == "."]
    frames = segments([*pieces, *holes, ("0", -1, 1)], first, shift=1)
    assert delivered(policy, "tcp", frames) == b"0" + wanted.encode()


def test_bytes_that_were_delivered_are_never_replaced() -> None:
    """No policy replaces delivered bytes, because a subscriber has already got them."""
    for policy in POLICIES:
        assert delivered(policy, "tcp", segments([("a", 0, 4), ("b", 0, 6)], 100)) == b"aaaabb"


def test_the_default_is_that_the_first_copy_wins() -> None:
    frames = [fragment(4, *one, more=one[0] != "Q") for one in FRAGMENTS]
    s = Stack("default")
    s.eth, s.ipv4 = ethernet_parser(), ipv4_parser()
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    events, _ = run_compiled(compiled(s), [Packet(frame, 0) for frame in frames], SETTINGS)
    assert expected(OF_FRAGMENTS["first"], 8) in [values[1] for _, name, _, _, values in events if name == "data"]
