"""Tables of bounded size, text from the network, and numbers with units."""

from __future__ import annotations

import pytest

from sluice.report.page.bounds import First, Largest, Ranking
from sluice.report.page.html import data, element, foreign
from sluice.report.page.text import MOST, duration, end, nanoseconds, size, visible, when
from sluice.report.page.timeline import BARS, Timeline


def test_a_ranking_keeps_the_highest_and_counts_the_others() -> None:
    ranking = Ranking[int](100, 2)
    for number in range(10_000):
        ranking.add(number, 1, 10)
        ranking.add(-1, 5, 1)  # the highest at all times
    assert len(ranking) <= 200
    assert ranking.top(1) == [(-1, [50_000, 10_000])]
    assert ranking.given_up + len(ranking) == 10_001
    kept = sum(sums[0] for _, sums in ranking.top(200))
    assert kept + ranking.given_up_sums[0] == 10_000 + 50_000
    assert ranking.left_out(10) == 10_001 - 10


def test_of_equal_entries_the_earlier_come_first() -> None:
    ranking = Ranking[str](2, 1)
    for name in "abcd":
        ranking.add(name, 1)
    assert [name for name, _ in ranking.top(2)] == ["a", "b"]


def test_the_largest_items_are_stored() -> None:
    largest = Largest(3)
    for weight in [5, 1, 9, 7, 9, 2]:
        if largest.wants(weight):
            largest.add(weight, weight)
        else:
            largest.skip()
    assert largest.items() == [9, 9, 7]
    assert (largest.seen, largest.left_out) == (6, 3)


def test_the_first_items_are_stored() -> None:
    first = First(2)
    for item in range(5):
        first.add(item)
    assert (first.items, first.left_out) == ([0, 1], 3)


def test_a_time_line_has_a_bounded_number_of_bars_and_loses_nothing() -> None:
    line = Timeline()
    for number in range(4096):
        line.add({"ts": f"{number}.000000000", "width": 10**9, "interval": number, "packets": 1, "bytes": 60,
                  "captured": 60, "rexmit": number % 2})  # fmt: skip
    facts = line.facts()
    assert len(facts["bars"]) <= BARS
    assert [sum(bar[place] for bar in facts["bars"]) for place in range(3)] == [4096, 4096 * 60, 2048]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", "a\\x00b"),
        ("line\nline\t", "line\\x0aline\\x09"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("blåbær 漢字 עברית", "blåbær 漢字 עברית"),
    ],
)
def test_what_would_not_be_seen_is_shown_by_its_number(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_long_text_is_cut_with_its_length() -> None:
    shown = visible("x" * 65_536)
    assert shown == "x" * MOST + "… (65,536 characters)"


def test_elements_escape_what_they_contain() -> None:
    hostile = "</script><script>alert(1)</script>\"'&"
    assert "<script" not in element("p", hostile, title=hostile)
    assert "<script" not in foreign(hostile)
    assert data("x", [hostile]).count("<") == 2
    assert element("p", hostile, title=hostile).count('"') == 3  # two of the attribute, one as text in the content


@pytest.mark.parametrize(
    ("octets", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (99_949, "99.9 kB"), (999_499, "999 kB"), (999_500, "1.00 MB"),
     (123_456_789_012, "123 GB")],
)  # fmt: skip
def test_sizes(octets: int, shown: str) -> None:
    assert size(octets) == shown


@pytest.mark.parametrize(
    ("nanoseconds_", "shown"),
    [(0, "0 µs"), (1500, "2 µs"), (20_000_000, "20.0 ms"), (500_000_000, "500 ms"), (2_340_000_000, "2.34 s"),
     (119_900_000_000, "119.9 s"), (150 * 10**9, "2 min 30 s"), (7260 * 10**9, "2 h 01 min"), (10**15, "11 d 13 h")],
)  # fmt: skip
def test_durations(nanoseconds_: int, shown: str) -> None:
    assert duration(nanoseconds_) == shown


def test_times_and_ends() -> None:
    assert nanoseconds("1700000000.012345678") == 1_700_000_000_012_345_678
    assert when(1_700_000_000_012_345_678) == "2023-11-14 22:13:20.012"
    assert when(1 << 64) == "2554-07-21 23:34:33.709"
    assert when(10**21, 0) == "1,000,000,000,000 s"
    assert [end("10.0.0.1", 80), end("::1", 80), end("::1", None), end(None, None)] == [
        "10.0.0.1:80",
        "[::1]:80",
        "::1",
        "?",
    ]
