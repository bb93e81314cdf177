"""The report as text, JSON and a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sluice.analyze.report.text import text_of
from tests.analyze.conftest import SUBJECTS, Analyses, to_bitcode
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return to_bitcode(SUBJECTS / "running.c", tmp_path_factory.mktemp("report") / "running.bc")


def test_the_text_says_where_packets_come_from_and_which_variables_are_state(sluice: Command, running: Path) -> None:
    done = sluice("analyze", "report", running)
    assert done.status == 0 and done.err == ""
    assert (
        "29 variables, of which 9 persist from packet to packet, packet processing uses 9 of these and may update 4"
        in done.out
    )
    assert "pcap_next in loopProcedure  pcap" in done.out
    assert re.search(r"^  queue +char \*\[100\] ", done.out, re.MULTILINE)
    row = next(line for line in done.out.splitlines() if line.startswith("  head "))
    assert "int" in row and "enqueue (running.c:" in row and "dequeue" not in row
    assert re.search(r"^  hosts .*processPacket \(running.c:\d+\*", done.out, re.MULTILINE)
    assert "thread, started in main, running.c:" in done.out


def test_the_json_has_all_of_it(sluice: Command, running: Path) -> None:
    found = json.loads(sluice("analyze", "report", "--json", running).out)
    assert found["totals"]["top_level"] == 9
    tail = next(one for one in found["variables"] if one["name"] == "tail")
    assert tail["kind"] == "global" and tail["type"] == "int" and tail["declared"]["file"].endswith("running.c")
    assert {use["in"] for use in tail["uses"]} == {"dequeue", "ifEmpty_Wait", "ifFull_Wait"}
    hosts = next(one for one in found["variables"] if one["name"] == "hosts")
    assert found["memory"][hosts["points_to"][0]]["name"].startswith("malloc at ")
    start, before, reached, parent = hosts["reached"]
    assert before == -1 and parent == start and found["memory"][start]["name"] == "hosts"
    lines = [line for group in found["memory"][reached]["writes"] for line in found["writes"][group]]
    assert {one["in"] for one in lines} == {"processPacket"}


def test_the_page_links_variables_and_source(sluice: Command, running: Path, tmp_path: Path) -> None:
    page = tmp_path / "running.html"
    assert sluice("analyze", "report", "--page", page, running).status == 0
    text = page.read_text()
    assert "<code>threshold</code>" in text and "id='running.c:1'" in text
    assert "pkt = (char *)pcap_next(extPcap, &amp;pcapHdr)" in text


def test_a_use_through_a_pointer_has_a_star(subject: Analyses) -> None:
    text = text_of(subject("aliases"))
    assert re.search(r"^  counters .*count \(aliases.c:\d+, \d+\*", text, re.MULTILINE)


def test_long_lists_are_cut_unless_all_is_wanted(sluice: Command, running: Path, tmp_path: Path) -> None:
    source = tmp_path / "many.c"
    variables = "".join(f"int unused{i};\n" for i in range(40))
    source.write_text(
        f"#include <unistd.h>\n{variables}char buffer[8];\nint main(void) {{ return read(0, buffer, 8) > 0; }}\n"
    )
    module = to_bitcode(source, tmp_path / "many.bc")
    short, long = sluice("analyze", "report", module).out, sluice("analyze", "report", "--all", module).out
    assert "more (--all)" in short and "unused39" not in short
    assert "more (--all)" not in long and "unused39" in long


def test_a_function_of_the_users_can_be_a_receive_call(sluice: Command, tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text(
        "int state; int next_packet(char *); int main(void) { char b[9]; while (next_packet(b)) state++; return 0; }\n"
    )
    module = to_bitcode(source, tmp_path / "own.bc")
    assert sluice("analyze", "report", module).status == 1
    models = tmp_path / "own.yaml"
    models.write_text("receive:\n  - functions: [next_packet]\n    packet: arg0\n")
    done = sluice("analyze", "report", "--models", models, module)
    assert done.status == 0 and "next_packet in main  own" in done.out


def test_a_function_that_reads_no_packets_can_be_excluded(subject: Analyses, program: Analyses) -> None:
    text = (
        "#include <unistd.h>\nint settings, state; void configure(int fd) { char b[9]; read(fd, b, 9); }\n"
        "void start(void) { settings = 1; }\n"
        "int main(int argc, char **argv) { char b[9]; configure(argc); start(); "
        "while (read(0, b, 9)) state++; return 0; }"
    )
    assert {one.name for one in program(text).top_level if one.kind == "global"} == {"settings", "state"}
    narrowed = program(text, not_receive=["configure"])
    assert {one.name for one in narrowed.top_level if one.kind == "global"} == {"state"}
    assert [reason for _, reason in narrowed.not_receive] == ["is excluded by --not-receive"]


@pytest.mark.parametrize("steps", ["0", "-5", "many"])
def test_a_wrong_number_of_steps_is_refused(steps: str, sluice: Command, running: Path) -> None:
    done = sluice("analyze", "report", f"--slice-steps={steps}", running)
    assert done.status == 2 and "--slice-steps" in done.err and "a number of steps" in done.err


def test_the_reason_of_an_assumption_is_in_the_report(sluice: Command, tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text(
        "#include <unistd.h>\nint state; void unknown(int *);\n"
        "int main(void) { char b[9]; unknown(&state); while (read(0, b, 9) > 0) state++; return 0; }\n"
    )
    module = to_bitcode(source, tmp_path / "own.bc")
    done = sluice("analyze", "report", "--assume", "unknown=it only prints", "--assume", "mistyped", module)
    assert "assumed to be harmless (--assume): unknown (it only prints)" in done.out
    assert "mistyped (has no effect: no function without a description has this name)" in done.out
