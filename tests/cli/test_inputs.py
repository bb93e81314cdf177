"""The options that say where packets come from, and what is said of those that do not go together."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import FIRST, Command

STACK = FIRST / "hello.py"
CAPTURE = FIRST / "capture.pcap"


def packets(done_out: str) -> int:
    return json.loads(done_out)["packets"]


def test_a_folder_gives_the_packets_of_all_its_captures(sluice: Command, tmp_path: Path) -> None:
    for name in ("a.pcap", "b.pcap12", "c.CAP"):
        shutil.copy(CAPTURE, tmp_path / name)
    (tmp_path / "README").write_text("no capture")
    done = sluice("run", STACK, "-r", tmp_path, "-r", CAPTURE, "--json")
    assert done.status == 0 and packets(done.out) == 4 * 22
    assert "1 of 4 names are not those of captures and are left out" in done.err


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "Give -r FILE, or -i INTERFACE"),
        (["-r", "-", "-r", "-"], "standard input can be read once"),
        (["-i", "lo", "--follow"], "is for files that grow"),
        (["-i", "pf:0"], "by their names, as in -i eth0"),
        (["-i", "lo", "--ring", "0"], "'0' is not a number of MiB from 1 to 16384"),
        (["-i", "lo", "--snaplen", "x"], "'x' is not a number of bytes from 1 to 262144"),
    ],
)
def test_options_that_do_not_go_together_are_misuse(sluice: Command, words: list[str], said: str) -> None:
    done = sluice("run", STACK, *words)
    assert done.status == 2 and said in done.err and "Traceback" not in done.err


def test_an_output_must_not_be_any_of_the_inputs(sluice: Command, tmp_path: Path) -> None:
    shutil.copy(CAPTURE, tmp_path / "a.pcap")
    done = sluice("flows", "--stack", STACK, "-r", CAPTURE, "-r", tmp_path, "-o", tmp_path / "a.pcap")
    assert done.status == 1 and "is the input as well" in done.err
    assert (tmp_path / "a.pcap").read_bytes() == CAPTURE.read_bytes()


def test_an_interface_that_there_is_not_is_named(sluice: Command) -> None:
    done = sluice("run", STACK, "-i", "absent0")
    assert done.status == 1 and "absent0: " in done.err and "Traceback" not in done.err
