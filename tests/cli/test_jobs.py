"""sluice flows --jobs: many captures, each processed separately, some at a time."""

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import struct
import time
from functools import partial
from pathlib import Path

import pytest

from sluice.cli import flows
from sluice.cli.common.capture_set_rows import Taking
from sluice.cli.common.errors import CommandError
from sluice.cli.common.jobs import Done, Jobs, Report, Work, joined, of_whole_sets
from sluice.engine.box import Outcome
from sluice.report.capture_sets import CaptureSet
from sluice.report.formats.find import JSON
from sluice.report.rotation import Limits, Rotating
from sluice.report.schema import Schema
from tests.cli.conftest import DATAGRAMS, FIRST, Command
from tests.support.capture import pcap
from tests.support.packets import UDP, eth, fragments4, ip4, udp

CAPTURE = FIRST / "capture.pcap"


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def split(pcap: bytes) -> tuple[bytes, list[bytes]]:
    """The header of a pcap file in little endian, and its records."""
    at, records = 24, list[bytes]()
    while at < len(pcap):
        end = at + 16 + struct.unpack_from("<I", pcap, at + 8)[0]
        records.append(pcap[at:end])
        at = end
    return pcap[:24], records


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A capture, and the same rotated after each ten packets, in a folder of its own."""
    (tmp_path / "one").mkdir()
    shutil.copy(CAPTURE, tmp_path / "one" / "x.pcap")
    (tmp_path / "two").mkdir()
    head, records = split(CAPTURE.read_bytes())
    for number in range(0, len(records), 10):
        part = tmp_path / "two" / f"y.pcap{number // 10 or ''}"
        part.write_bytes(head + b"".join(records[number : number + 10]))
    return tmp_path


def test_each_capture_is_processed_separately(sluice: Command, folder: Path) -> None:
    """Rows are those of the capture alone, in the order of the captures; a rotated one is one capture."""
    out = folder / "flows.jsonl"
    done = sluice("flows", "--stack", DATAGRAMS, "-r", folder / "**" / "*.pcap*", "--jobs", "2", "-o", out, "--json")
    assert (done.status, done.err) == (0, "")
    alone = rows(sluice("flows", "--stack", DATAGRAMS, "-r", CAPTURE).out)
    one, two = str(folder / "one" / "x.pcap"), str(folder / "two" / "y.pcap")
    assert rows(out.read_text()) == [{"capture": name, **row} for name in (one, two) for row in alone]
    summary = json.loads(done.out)
    assert summary["packets"] == 44 and summary["reports"]["flows"] == 6
    assert [(one["packets"], one["flows"], len(one["files"])) for one in summary["captures"]] == [
        (22, 3, 1),
        (22, 3, 3),
    ]


def test_the_flows_of_a_capture_are_divided(sluice: Command, tmp_path: Path) -> None:
    """Rows and counters are those of the whole capture, also with fragments, of any number of tasks."""
    capture = tmp_path / "many.pcap"
    frames = many_flows()
    capture.write_bytes(pcap(frames, [1000 + number / 1000 for number in range(len(frames))]))
    given = ("flows", "--stack", "tcp_ip", "-r", capture, "--json")
    whole = tmp_path / "whole.jsonl"
    alone = json.loads(sluice(*given, "-o", whole).out)
    expected = rows(whole.read_text())
    assert len(expected) > 60
    for split in ("2", "3"):
        out = tmp_path / f"{split}.jsonl"
        done = sluice(*given, "--jobs", "2", "--split", split, "-o", out)
        assert (done.status, done.err) == (0, "")
        assert rows(out.read_text()) == [{"capture": str(capture), **row} for row in expected]
        summary = json.loads(done.out)
        assert (summary["packets"], summary["reports"]) == (alone["packets"], alone["reports"])
        assert [one["packets"] for one in summary["captures"]] == [len(frames)]
        assert summary["packets_divided"] == 0


def test_a_capture_is_divided_among_as_many_tasks_as_there_can_be_workers(
    sluice: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = sluice("flows", "-r", folder / "one", "--jobs", "2", "--split", "65")
    assert done.status == 2 and "--split 65: give from 1 to 64" in done.err
    alone = sluice("flows", "-r", folder / "one", "--split", "2")
    assert alone.status == 2 and "--split 2: divides the tasks of --jobs and --ray" in alone.err
    monkeypatch.setattr(flows, "SPLIT_LEAST", 0)
    options = argparse.Namespace(split=None, jobs=200)
    assert flows._shares(options, CaptureSet(("x.pcap",)), 1) == 64  # pyright: ignore[reportPrivateUsage]


def many_flows() -> list[bytes]:
    """Flows of several hosts whose packets alternate, some in fragments."""
    found: list[bytes] = []
    for turn in range(3):
        for number in range(64):
            src, dst = bytes([10, 0, number % 7, 1]), bytes([10, 1, number % 5, 2])
            datagram = udp(1000 + number, 53, bytes(100 + turn))
            if number % 9 == 0:
                found += fragments4(datagram, 40, protocol=UDP, id=64 * turn + number, src=src, dst=dst)
                continue
            found.append(eth(ip4(datagram, UDP, src, dst)))
    return found


def test_rows_in_another_format(sluice: Command, folder: Path) -> None:
    done = sluice("flows", "--stack", DATAGRAMS, "-r", folder / "one", "--jobs", "2", "--format", "csv")
    lines = done.out.splitlines()
    assert lines[0].startswith("capture,schema,layers") and len(lines) == 4
    assert all(line.startswith(str(folder / "one" / "x.pcap")) for line in lines[1:])


def test_a_capture_that_is_damaged_is_named_and_the_others_are_complete(sluice: Command, folder: Path) -> None:
    whole = CAPTURE.read_bytes()
    (folder / "one" / "a.pcap").write_bytes(whole[: len(whole) // 2])
    (folder / "one" / "b.pcap").write_bytes(b"no capture")
    done = sluice("flows", "--stack", DATAGRAMS, "-r", folder / "one", "--jobs", "1", "-o", folder / "out.jsonl")
    assert done.status == 1
    assert f"sluice: {folder / 'one' / 'a.pcap'}: " in done.err and f"sluice: {folder / 'one' / 'b.pcap'}: " in done.err
    assert "2 of 3 captures could not be read to their end" in done.err
    found = rows((folder / "out.jsonl").read_text())
    assert sum(str(row["capture"]).endswith("x.pcap") for row in found) == 3


def test_only_files_that_are_complete(sluice: Command) -> None:
    done = sluice("flows", "-r", CAPTURE, "--follow", "--jobs", "2")
    assert done.status == 2 and "--jobs: is for files that are complete" in done.err


def test_a_pattern_that_matches_nothing(sluice: Command, tmp_path: Path) -> None:
    done = sluice("flows", "-r", tmp_path / "*.pcap")
    assert done.status == 1 and "no file matches this pattern" in done.err


SETS = [CaptureSet((name,)) for name in ("a", "b", "c")]


def prepare(kind: str) -> Work:
    """Work in a process that writes the names of the sets, and at `b` does something else."""

    def work(captures: CaptureSet, rows: str, report: Report) -> Outcome:
        Path(rows).write_text(f"{captures.name}\n")
        if captures.name == "b" and kind == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if captures.name == "c" and kind == "dies":
            raise CommandError("it cannot be")
        if captures.name == "b" and kind == "waits":
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(60)
        return Outcome(1, {"box": {"packets": 1}}, {"rows": 1})

    return work


def taken(kind: str, at_once: int = 1) -> tuple[Outcome, list[str]]:
    found: list[str] = []
    jobs = Jobs(partial(prepare, kind), lambda _, rows: found.append(rows.read_text()), at_once)
    done = jobs.run(SETS)
    return joined(done, len(SETS), 1.0), found


def test_rows_are_taken_in_order() -> None:
    outcome, found = taken("works", at_once=2)
    assert found == ["a\n", "b\n", "c\n"]
    assert (outcome.packets, outcome.counters, outcome.reports) == (3, {"box": {"packets": 3}}, {"rows": 3})


def test_a_process_that_fails_takes_only_its_set_with_it() -> None:
    outcome, found = taken("dies")
    assert found == ["a\n", "b\n", "c\n"] and outcome.packets == 1
    assert outcome.failure == "2 of 3 captures could not be read to their end"


def test_a_process_that_dies_between_two_sets_takes_none_with_it() -> None:
    found: list[str] = []

    def take(captures: CaptureSet, rows: Path) -> None:
        found.append(rows.read_text())
        for child in multiprocessing.active_children() if captures.name == "a" else ():
            child.kill()
            child.join()

    done = Jobs(partial(prepare, "works"), take, 1).run(SETS)
    assert found == ["a\n", "b\n", "c\n"] and not any(one.outcome.failure for one in done)


def test_after_an_interrupt_no_other_set_begins() -> None:
    outcome, found = taken("waits")
    assert found == ["a\n", "b\n"] and outcome.interrupted and outcome.failure is None


def test_rows_of_shares_are_kept_when_others_do_not_come(tmp_path: Path) -> None:
    """As after Ctrl-C: of the first capture one share has ended, of the second one two of three."""
    out = tmp_path / "out.jsonl"
    one, two = (CaptureSet((name,)).divided(3) for name in ("a", "b"))
    ended = (one[0], 1), (two[0], 9), (two[1], 5)
    with contextlib.closing(Rotating(str(out), Schema("flow", {}), JSON, Limits())) as file:
        with Taking(file) as taking:
            for share, first in ended:
                rows_of = tmp_path / "rows"
                rows_of.write_text(f'{{"first_ts":{first}}}\n{{"first_ts":')
                taking.take(share, rows_of)
    assert rows(out.read_text()) == [
        {"capture": "a", "first_ts": 1}, {"capture": "b", "first_ts": 5}, {"capture": "b", "first_ts": 9}
    ]  # fmt: skip
    whole = of_whole_sets([Done(share, Outcome(1, {}, {"flows": 1})) for share in (one[0], two[1], two[2])])
    assert [done.outcome.reports["flows"] for done in whole] == [1, 2]
