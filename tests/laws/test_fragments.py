"""The law for IPv4 and IPv6: a datagram is delivered once and whole, in whatever order its fragments come."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.passes.pipeline import PASSES
from tests.support.budget import in_matrix
from tests.support.packets import FRAGMENT, eth, fragment_header, ip4, ip6
from tests.support.run import run
from tests.support.stacks import whole

LAWS = settings.get_profile("laws")
FEWER = settings.get_profile("laws with fewer passes")
PROTOCOL = 200
"""One that nothing is said about: its payload is what counts."""


def frame4(body: bytes, low: int, high: int, id: int) -> bytes:
    return eth(ip4(body[low:high], PROTOCOL, id=id, offset=low, more=high < len(body)))


def frame6(body: bytes, low: int, high: int, id: int) -> bytes:
    return eth(ip6(fragment_header(body[low:high], PROTOCOL, id, low, high < len(body)), FRAGMENT))


@dataclass
class Datagram:
    """Its bytes, the fragments that it was cut into, and others that cover parts of it again."""

    body: bytes
    parts: list[tuple[int, int]]
    again: list[tuple[int, int]]


@st.composite
def datagrams(draw: st.DrawFn) -> Datagram:
    """At least two fragments; one of them is covered by nothing else, so that the datagram is there only once."""
    blocks = draw(st.integers(1, 12))
    last = draw(st.integers(1, 8))
    salt = draw(st.integers(0, 255))
    body = bytes((salt + number) & 255 for number in range(8 * blocks + last))
    cuts = sorted(draw(st.sets(st.integers(1, blocks), min_size=1, max_size=6)))
    parts = list(zip([0, *(8 * cut for cut in cuts)], [*(8 * cut for cut in cuts), len(body)], strict=True))
    only = draw(st.sampled_from(parts))
    again: list[tuple[int, int]] = []
    for low, high in draw(st.lists(st.tuples(st.integers(0, blocks), st.integers(0, blocks + 1)), max_size=5)):
        begin, end = 8 * low, min(8 * high, len(body))
        if begin <= end and (end <= only[0] or begin >= only[1]) and begin < len(body):
            again.append((begin, end))
    return Datagram(body, parts, again)


versions = pytest.mark.parametrize("frame, layer", [(frame4, "ipv4"), (frame6, "frag")], ids=["ipv4", "ipv6"])


def check(
    frame: Callable[[bytes, int, int, int], bytes],
    layer: str,
    made: list[Datagram],
    data: st.DataObject,
    passes: str = "all",
) -> None:
    """Every datagram once and whole, whatever the order of the fragments."""
    frames = [
        frame(datagram.body, low, high, id)
        for id, datagram in enumerate(made)
        for low, high in [*datagram.parts, *datagram.again]
    ]
    result = run(whole(passes), data.draw(st.permutations(frames)))
    delivered = [event.bytes for event in result.named("data") if event.layer == layer]
    assert Counter(delivered) == Counter(datagram.body for datagram in made)
    assert result.count(layer, "ended:accept") == len(made)
    assert result.count(layer, "passed") == len(made)
    assert sum(row["src_pkts"] for row in result.rows) == len(made)


@versions
@LAWS
@given(made=st.lists(datagrams(), min_size=1, max_size=4), data=st.data())
def test_each_datagram_once(
    frame: Callable[[bytes, int, int, int], bytes], layer: str, made: list[Datagram], data: st.DataObject
) -> None:
    check(frame, layer, made, data)


@versions
@pytest.mark.parametrize("passes", ["none", *(in_matrix(item.name) for item in PASSES)])
@FEWER
@given(made=st.lists(datagrams(), min_size=1, max_size=4), data=st.data())
def test_each_datagram_once_with_fewer_passes(
    passes: str,
    frame: Callable[[bytes, int, int, int], bytes],
    layer: str,
    made: list[Datagram],
    data: st.DataObject,
) -> None:
    check(frame, layer, made, data, passes)
