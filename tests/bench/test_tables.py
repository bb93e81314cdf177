"""Tables and pictures of bench/run.py, from recorded results: they say what was measured, and what was not."""

import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from bench import cases, tables
from bench.cases import ALL_PASSES, Case, of_groups, prefaulted, sluice, without
from bench.measuring import Results, disagreements, in_order, read
from bench.plot import bars
from bench.programs import MissingError
from bench.run import KEPT, PAGE, PICTURES, ROOT, keep, kept
from bench.traces import BY_NAME, CORPUS, TRACES, TraceFolder
from tests.bench.traces import IN_ORDER, assembled, by_ends

OURS = sluice("http1k")
BOUND, LIBNIDS = Case("http1k", "bound"), Case("http1k", "libnids")


def rounds(*ns: float, **more: int) -> list[dict[str, float]]:
    return [{"ns_per_packet_cpu": one, "packets": 10, "bytes": 640, **more} for one in ns]


@pytest.fixture
def results() -> Results:
    found = Results(
        machine={"processor": "Abacus", "cores": "2", "caches": "L1 1K", "system": "Linux", "compiler": "cc"}
    )
    found.machine |= {"rounds": "3", "date": "2026-01-01"}
    found.rounds = {
        OURS: rounds(40, 60, 50, delivered_bytes=100, flows=2),
        BOUND: rounds(10, 30, 25, delivered_bytes=100),
        LIBNIDS: rounds(100, 120, 110, delivered_bytes=90),
        prefaulted("http1k"): rounds(10, 30, 20, delivered_bytes=100),
        sluice("http1k", passes="none"): rounds(80, 90, 100, delivered_bytes=100),
    }
    found.generated = [
        {"stack": "s", "passes": "all", "lines": 1234, "code_bytes": 5678, "sluice": 0.5, "cc": 3.25, "kept": 0.2}
    ]
    found.missing = {Case("http1k", "ndpi", "none"): "ndpi: there is no header"}
    return found


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_medians_spans_and_ratios_within_rounds(results: Results) -> None:
    head, _, *found = rows(tables.main(results))
    assert head[3:10] == ["bound", "libnids", "ndpi", "gopacket", "sluice", "Sluice : bound", "libnids : Sluice"]
    assert head[10:] == ["Sluice, `--prefault`", "that : bound"]
    assert found == [
        [
            *("`http1k`", "`assemble`", "cold"),
            *("25.0 <sub>10.0-30.0</sub>", "110.0 <sub>100.0-120.0</sub>", "-", "-", "50.0 <sub>40.0-60.0</sub>"),
            *("2.00", "2.20"),  # of 4, 2, 2 and of 2.5, 2, 2.2
            *("20.0 <sub>10.0-30.0</sub>", "1.00"),
        ]
    ]


def test_ratios_within_turns(results: Results) -> None:
    """Where cases took turns each turn is compared, with others the round."""
    slow = sluice("http1k", passes="none")
    for case, turns in ((OURS, [[10, 40], [30]]), (slow, [[20, 120], [120]])):
        for found, one in zip(results.rounds[case], turns, strict=False):
            found["turns"] = one
    assert results.ratio(slow, OURS) == 2.5  # of 2, 3, 4 in turns, and 100/50 of the round without
    assert results.ratio(OURS, BOUND) == 2.0


def test_cases_of_sluice_on_one_trace_take_turns() -> None:
    """Those of a trace lie after one another, in another order each round."""
    wanted = [sluice(trace, function, warm) for trace in ("a", "b") for function in "fgh" for warm in (False, True)]
    wanted += [Case("a", "bound"), Case("b", "bound"), prefaulted("a")]
    order = random.Random(1)
    first, second = (in_order(wanted, order) for _ in range(2))
    assert first != second
    for found in (first, second):
        assert sorted(map(str, (case for team in found for case in team))) == sorted(map(str, wanted))
        assert sorted(map(len, found)) == [1, 1, 1, 3, 3, 3, 3]
        assert all(len({(case.trace, case.warm) for case in team}) == 1 for team in found)
        traces = [team[0].trace for team in found]
        assert traces in (["a"] * 4 + ["b"] * 3, ["b"] * 3 + ["a"] * 4)


def test_passes(results: Results) -> None:
    found = {row[0]: row[1:] for row in rows(tables.passes(results))}
    assert found["all passes, ns a packet"] == ["50.0 <sub>40.0-60.0</sub>"]
    assert found["no pass : all"] == ["2.00"]
    assert "without `dispatch` : all" not in found, "not measured"
    results.rounds |= {replace(OURS, passes=without(name)): rounds(60, 70, 80) for name in ALL_PASSES}
    found = {row[0]: row[1:] for row in rows(tables.passes(results))}
    assert {f"without `{name}` : all" for name in ALL_PASSES} <= found.keys()
    assert found["without `dispatch` : all"] == ["1.50"]
    assert found["the same of Rubik, published"] == ["-"]
    assert {trace for ratios in cases.PAPER.values() for trace in ratios} <= {case.trace for case in cases.passes()}


def test_limits(results: Results) -> None:
    """Each beside what it may be so many times of: others' time by ours, too."""
    results.rounds[sluice("http1k_loss5")] = rounds(80, 90, 100)
    head, _, *found = rows(tables.limits(results))
    assert head[1:] == ["limit", "`http1k`", "`http32k`", "`http1k_mix20k`"]
    by_name = {row[0]: row[1:3] for row in found}
    assert by_name["`assemble`, cold : bound"] == ["2.0", "2.00"]
    assert by_name["libnids : `assemble`, cold"] == ["at least 2 / 2.7 / 3.3", "2.20"]
    assert by_name["5% loss and reordering : in order"] == ["2.0", "2.00"]
    assert by_name["`assemble`, warm : bound"] == ["2.5", "-"]


def test_limits_are_of_what_is_measured() -> None:
    """But for what there is no trace of: connections that are mixed, with loss and in tunnels."""
    measured = {*of_groups(("main", "passes", "many", "shapes"))}
    pairs = [pair for _, _, found in cases.limits() for pair in found]
    unknown = {case for pair in pairs for case in pair} - measured
    assert {case.trace for case in unknown} == {"http1k_mix20k_loss5", "http1k_mix20k_gtp"}


def test_generated(results: Results) -> None:
    assert rows(tables.generated(results))[2] == ["`s`", "all", "1,234", "5,678", "0.50", "3.25", "0.20"]


def test_what_there_is_not_and_what_differs_is_said(results: Results) -> None:
    said = tables.machine(results)
    assert "- Abacus, 2 cores, L1 1K; Linux; cc.\n" in said
    assert "- Missing: ndpi: there is no header.\n" in said
    assert disagreements(results) == ["libnids delivers 90 of the 100 bytes of http1k"]
    assert "- Note: libnids delivers 90 of the 100 bytes of http1k.\n" in said


def test_results_that_are_kept_are_the_same(results: Results, tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text(results.to_json())
    assert read(tmp_path / "kept.json") == results


def test_a_page_keeps_its_prose(results: Results) -> None:
    page = (
        "Before.\n<!-- bench main -->\noutdated\n<!-- end -->\nBetween.\n<!-- bench machine -->\n<!-- end -->\nAfter.\n"
    )
    others = Results(machine={**results.machine, "processor": "Quipu"})
    new = tables.page(page, {"main": results, "machine": others})
    assert "outdated" not in new and tables.main(results) in new and tables.machine(others) in new
    assert [line for line in new.splitlines() if line in ("Before.", "Between.", "After.")] == [
        "Before.", "Between.", "After.",
    ]  # fmt: skip
    assert tables.page(new, {"main": results, "machine": others}) == new


def test_a_picture_has_a_bar_for_each_program(results: Results) -> None:
    root = ElementTree.fromstring(bars(results, "assemble", False))
    widths = [float(bar.get("width", "")) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(widths) == 3
    assert widths[1] == pytest.approx(110 / 120 * 560, abs=0.1) and widths[2] == pytest.approx(50 / 120 * 560, abs=0.1)


def test_the_page_is_made_from_the_results_that_are_kept() -> None:
    found = kept()
    assert PAGE.read_text() == tables.page(PAGE.read_text(), found), (
        "run bench/run.py --from bench/results.json --groups generated --save"
    )
    for name, (function, warm) in PICTURES.items():
        assert (PAGE.parent / f"performance-{name}.svg").read_text() == bars(found["main"], function, warm)


def test_what_events_cost(results: Results) -> None:
    tracked = sluice("http1k", "tracked")
    results.rounds |= {tracked: rounds(40, 50, 60), sluice("http1k", "watching"): rounds(44, 50, 90)}
    found = [row for row in rows(tables.events(results)) if row[0] == "times flow tracking"]
    assert [row[1] for row in found] == ["-", "-", "1.10", "-", "-"]
    results.rounds |= {sluice("http1k", "read"): rounds(80, 80, 80), sluice("http1k", "read_none"): rounds(40, 60, 80)}
    found = {row[0]: row[1] for row in rows(tables.resources(results))}
    assert found["no bytes, ns a packet"] == "60.0 <sub>40.0-80.0</sub>"
    assert [row[1] for row in rows(tables.resources(results)) if row[0] == "times that of all bytes"][2] == "0.75"


def test_each_group_is_kept_in_one_file(results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(name for groups in KEPT.values() for name in groups) == sorted(cases.GROUPS)
    monkeypatch.setattr("bench.run.KEPT", {tmp_path / "a": ("main",), tmp_path / "b": ("events", "resources")})
    keep(results, ["main", "events"])
    assert not (tmp_path / "b").exists() and OURS in read(tmp_path / "a").rounds


def test_every_case_is_of_a_trace_that_can_be_made() -> None:
    found = of_groups(cases.GROUPS)
    assert len(found) == len(set(found)) and {case.trace for case in found} <= BY_NAME.keys()
    sources = {trace.made[1] for trace in TRACES if trace.made[0] == "reshape"}
    assert all(source in BY_NAME or (CORPUS / source).is_file() for source in sources)
    assert {case.passes for case in found} >= {"all", "none", *ALL_PASSES, *map(without, ALL_PASSES)}


def test_traces_are_made_of_others(tmp_path: Path) -> None:
    (tmp_path / "http1k.pcap").write_bytes(IN_ORDER.read_bytes())
    folder = TraceFolder(tmp_path)
    assert len(by_ends(folder.path(BY_NAME["http1k_mix20k"]))) == 100_000
    assert assembled(folder.path(BY_NAME["http1k_gtp"]), "gtp") == assembled(IN_ORDER)


def test_real_traffic_is_not_replaced_by_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="nginx-light"):
        TraceFolder(tmp_path).path(BY_NAME["http1k"])


def test_captures_of_ones_own(tmp_path: Path) -> None:
    words = ["--rounds", "1", "--functions", "assemble", "--passes", "all", "--folder", str(tmp_path / "traces")]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "run.py"), str(IN_ORDER), *words],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert f"{IN_ORDER} cold assemble sluice tcp_ip all" in done.stdout
    assert f"{IN_ORDER} warm assemble sluice tcp_ip all" in done.stdout
    assert "round 1 of 1" in done.stderr


def test_the_slowest_packet() -> None:
    """Only that it runs: tests/runtime/core/test_table.c checks that tables grow a few buckets at a time."""
    words = [str(ROOT / "bench" / "run.py"), "--pause", "--rounds", "0", str(IN_ORDER)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r".*: slowest packet ([\d.]+) ms of CPU, ([\d.]+) ms by the clock\n", done.stdout)
    assert found and float(found[1]) > 0
