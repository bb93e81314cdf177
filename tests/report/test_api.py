"""What `import sluice` offers: flows, log and run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.engine.box import RunError
from sluice.engine.functions import VENDOR, FunctionError
from sluice.functions import counter, on
from sluice.report import api
from sluice.stacks.find import UnknownStackError
from tests.report.rows import example

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "examples" / "logs" / "capture.pcap"
STACK = str(Path(__file__).with_name("small_stack.py"))
needs_parsers = pytest.mark.skipif(not VENDOR.is_dir(), reason="llhttp is not there: scripts/setup.sh gets it")


def rows_of(function: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in example(function).splitlines()]


def test_importing_sluice_imports_nothing_else() -> None:
    code = "import sluice, sys; print([name for name in sys.modules if name.startswith('sluice.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "[]\n", done.stderr
    assert {"flows", "log", "run"} <= set(dir(sluice))
    with pytest.raises(AttributeError, match="no attribute 'flow'"):
        _ = sluice.flow  # pyright: ignore


def test_flows_are_rows_with_times_and_durations() -> None:
    rows = list(sluice.flows(CAPTURE, stack=STACK))
    expected = rows_of("flowlog")
    assert [row["flow"] for row in rows] == [1, 2, 3]
    assert rows[1]["first_ts"] == datetime(2023, 11, 14, 22, 13, 20, 4000, UTC)
    assert rows[1]["rtt"] == 0.004
    same = [name for name in expected[1] if not isinstance(rows[1][name], (datetime, float))]
    assert {name: rows[1][name] for name in same} == {name: expected[1][name] for name in same}
    assert rows[0]["icmp_type"] is None


def test_a_table_is_read_anew_each_time_and_may_be_left() -> None:
    table = sluice.flows(CAPTURE, stack=STACK)
    rows = iter(table)
    assert next(rows)["flow"] == 1
    del rows
    assert len(list(table)) == len(list(table)) == 3
    assert table.name == "flow" and "community_id" in table.columns


def test_arrow_pandas_and_polars() -> None:
    pytest.importorskip("pyarrow")
    table = sluice.flows(CAPTURE, stack=STACK)
    assert table.arrow().column("src_pkts").to_pylist() == [1, 6, 6]
    pytest.importorskip("pandas")
    frame = table.pandas()
    assert frame["rtt"].isna().tolist() == [True, False, False]
    assert str(frame["first_ts"].dt.tz) == "UTC" and frame["src_pkts"].sum() == 13
    polars = pytest.importorskip("polars")
    assert table.polars()["sport"].to_list() == polars.DataFrame(table)["sport"].to_list() == [40000, 50001, 50002]


def test_a_table_is_written_to_any_format(tmp_path: Path) -> None:
    sluice.flows(CAPTURE, stack=STACK).write(str(tmp_path / "conn.log"))
    assert (tmp_path / "conn.log").read_text().startswith("#separator")


@needs_parsers
def test_the_rows_of_a_log_and_those_of_run_are_the_same() -> None:
    rows = list(sluice.log("http", CAPTURE, stack=STACK, search=100))
    assert [(row["host"], row["path"], row["status"], row["delay"]) for row in rows] == [
        ("www.example", "/", 200, 0.002),
        ("www.example", "/more", 200, 0.002),
    ]
    result = sluice.run(STACK, CAPTURE, "httplog:search=100")
    table = result.rows["http"]
    assert isinstance(table, sluice.Table) and list(table) == list(table) == rows
    assert result.packets == 24 and result.reports["httplog rows"] == 2
    assert result.counters["tcp"]["packets"] == 22


segments = counter("segments with data")


@on("tcp", "data")
def saw(event: Any) -> None:
    segments.add()


def test_functions_of_the_program_itself_and_events() -> None:
    for _ in range(2):
        result = sluice.run(STACK, CAPTURE, [saw], events=["tcp.created", "udp.packet"])
        assert result.reports == {"segments": 10}
        assert [event.name for event in result.events] == ["packet", "packet", "created", "created"]
        created = result.events[2]
        assert (created.layer, created.packet, created.key["dport"]) == ("tcp", 3, 80)


PAGE = (ROOT / "docs" / "python.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_of_the_manual_run(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(ROOT)
    exec(block.replace('"tcp_ip"', repr(STACK)), {"__name__": "example"})


def test_mistakes_are_told_before_anything_runs() -> None:
    with pytest.raises(FunctionError, match="did you mean 'http'"):
        sluice.log("htp", CAPTURE)
    with pytest.raises(FunctionError, match="did you mean 'rows'"):
        sluice.flows(CAPTURE, row=3)
    with pytest.raises(RunError, match="/nowhere: no such file"):
        sluice.flows("/nowhere")
    with pytest.raises(FunctionError, match=r"as in tcp\.data"):
        sluice.run(STACK, CAPTURE, events=["data"])
    with pytest.raises(FunctionError, match="marked with @on"):
        sluice.run(STACK, CAPTURE, [print])
    with pytest.raises(UnknownStackError):
        list(sluice.flows(CAPTURE, stack="tcp_i"))
    with pytest.raises(FunctionError, match="'tcp' has no event 'dat': did you mean 'data'"):
        sluice.run(STACK, CAPTURE, events=["tcp.dat"])


def test_lines_of_functions_end_with_lf_only() -> None:
    plain = api._plain  # pyright: ignore[reportPrivateUsage]
    lines = '{"a": "x\u2028\x85y"}\nplain\x0btext\n\nno end'.encode()
    assert plain(lines) == [{"a": "x\u2028\x85y"}, {"line": "plain\x0btext"}, {"line": ""}, {"line": "no end"}]
    assert plain(b"") == []
