"""sluice bench: the figures that other tools read, and that they mean what they say."""

import json
from pathlib import Path

import pytest

from sluice.cli import bench
from sluice.cli.bench import times_of
from sluice.cli.common.running import compile_for
from sluice.engine.box import Settings
from sluice.engine.measure import Measured
from tests.cli.conftest import FIRST, ROOT, SMALL, Command, udp_packet
from tests.support.capture import pcap

KEYS = [
    "packets", "bytes", "flows", "delivered_bytes", "ns_per_packet_cpu", "ns_per_packet_wall", "mpps", "gbps",
    "spread", "peak_rss_bytes", "compile_seconds", "generated_lines",
]  # fmt: skip
CAPTURE = FIRST / "capture.pcap"
REORDERED = ROOT / "tests" / "corpus" / "gen__tcp_loss_reorder.pcap"


@pytest.fixture(autouse=True)
def compiled_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command compiles a stack although it is cached; here it does so only where a test is of that time."""
    if request.node.name != "test_compile_times_are_measured_even_if_the_library_is_kept":
        monkeypatch.setattr(bench, "compile_for", lambda *given, fresh: compile_for(*given))


@pytest.fixture
def found(sluice: Command) -> dict[str, float]:
    done = sluice("bench", SMALL, "-r", CAPTURE, "-f", "assemble", "--repeat", "3", "--json")
    assert done.status == 0 and done.err == ""
    return json.loads(done.out)


def test_all_keys_are_there_and_agree(found: dict[str, float]) -> None:
    assert list(found) == KEYS
    assert (found["packets"], found["bytes"], found["flows"]) == (22, 2939, 4)
    assert found["delivered_bytes"] == 18 + 1819
    assert found["mpps"] == pytest.approx(1e3 / found["ns_per_packet_cpu"], rel=1e-3)
    assert found["gbps"] == pytest.approx(2939 * 8 / 22 / found["ns_per_packet_cpu"], rel=1e-3)
    assert found["spread"] >= 1 and found["generated_lines"] > 1000
    assert 0 < found["ns_per_packet_wall"] and 0 < found["peak_rss_bytes"]


def test_compile_times_are_measured_even_if_the_library_is_kept(sluice: Command) -> None:
    found = json.loads(sluice("bench", FIRST / "hello.py", "-r", CAPTURE, "--repeat", "1", "--json").out)
    assert set(found["compile_seconds"]) == {"sluice", "cc"}
    assert found["compile_seconds"]["sluice"] > 0.01 and found["compile_seconds"]["cc"] > 0.1


def test_none_keeps_states_and_no_bytes(sluice: Command, found: dict[str, float]) -> None:
    tracked = json.loads(sluice("bench", SMALL, "-r", CAPTURE, "-f", "none", "--repeat", "1", "--json").out)
    assert tracked["flows"] == found["flows"] and tracked["delivered_bytes"] == 0
    assert tracked["spread"] == 1


def test_memory_is_that_of_trace_and_box_alone(sluice: Command, tmp_path: Path) -> None:
    """Twice the trace takes so much more, and the interpreter does not count."""
    peaks: list[int] = []
    for count in (8_000, 16_000):
        path = tmp_path / f"{count}.pcap"
        path.write_bytes(pcap([udp_packet(53, bytes(1000))] * count))
        done = sluice("bench", FIRST / "hello.py", "-r", path, "--repeat", "1", "--json")
        peaks.append(json.loads(done.out)["peak_rss_bytes"])
    each = 16 + 42 + 1000 + 48  # the record in the file, and the struct of the packet
    assert peaks[1] - peaks[0] == pytest.approx(8_000 * each, rel=0.2)
    assert peaks[0] < 8_000 * each * 1.6


@pytest.mark.parametrize("memory, instances", [(64 << 20, 1000), (1 << 20, 1_000_000)])
def test_memory_at_the_start(sluice: Command, memory: int, instances: int) -> None:
    """All that the limits allow is there, also what 22 packets have no use for: the pool, and the tables."""
    words = ("bench", FIRST / "hello.py", "-r", CAPTURE, "--repeat", "1", "--json")
    words = (*words, "--memory", memory, "--max-instances", instances)
    later, before = (json.loads(sluice(*words, *more).out)["peak_rss_bytes"] for more in ((), ("--prefault",)))
    assert before - later > 60 << 20


SPELLING = """#include "sluice.h"
#include <stdio.h>
SLUICE_OPEN {{
    FILE *file = fopen("{path}", "a");
    fputc('{letter}', file);
    fclose(file);
    return 0;
}}
SLUICE_ON(udp, packet) {{ (void)event; (void)data; }}
"""


def test_beside_another_function_they_take_turns(sluice: Command, tmp_path: Path) -> None:
    """There and back, so that neither is always the one that runs after the other."""
    spelled = tmp_path / "spelled"
    for letter in "ab":
        (tmp_path / f"{letter}.c").write_text(SPELLING.format(path=spelled, letter=letter))
    words = ("-f", tmp_path / "a.c", "--beside", "none", "--beside", tmp_path / "b.c", "--repeat", "3")
    done = sluice("bench", FIRST / "hello.py", "-r", CAPTURE, *words, "--json")
    found = json.loads(done.out)
    assert spelled.read_text() == "abbaab"
    assert list(found) == [*(key for key in KEYS if key != "peak_rss_bytes"), "beside"]
    assert found["beside"]["functions"] == ["none", str(tmp_path / "b.c")]
    assert 0 < found["beside"]["times_low"] <= found["beside"]["times"] <= found["beside"]["times_high"]
    done = sluice("bench", FIRST / "hello.py", "-r", CAPTURE, *words)
    assert " times as long as with none and " in done.out.splitlines()[2]
    assert "bytes for trace and box" not in done.out  # that would be of both


def test_how_many_times_longer_is_said_of_neighbouring_runs() -> None:
    """A machine that becomes four times slower meanwhile moves both medians, and no ratio."""

    def measured(*cpu: int) -> Measured:
        return Measured(10, 640, list(cpu), list(cpu), 0, [], {})

    found = times_of(measured(200, 220, 880, 800), measured(100, 100, 400, 400))
    assert found == {"ns_per_packet_cpu": 25, "times": 2.1, "times_low": 2.0, "times_high": 2.2}
    assert times_of(measured(30), measured(20)) == {
        "ns_per_packet_cpu": 2, "times": 1.5, "times_low": 1.5, "times_high": 1.5,
    }  # fmt: skip


def test_as_text(sluice: Command) -> None:
    done = sluice("bench", FIRST / "hello.py", "-r", CAPTURE, "--repeat", "2", "--passes", "none")
    assert done.status == 0
    assert "22 packets, 2,939 bytes, 3 flows" in done.out and "(medians of 2;" in done.out


def test_functions_that_write_to_standard_output_do_not_get_in_the_way(sluice: Command) -> None:
    done = sluice("bench", SMALL, "-r", CAPTURE, "-f", "flow_log:out=/dev/null", "--repeat", "2", "--json")
    assert json.loads(done.out)["flows"] == 4
    done = sluice("bench", SMALL, "-r", CAPTURE, "-f", "flow_log", "--repeat", "2", "--json")
    assert json.loads(done.out.splitlines()[-1])["flows"] == 4


def test_warm_packets_are_the_same_packets(sluice: Command, tmp_path: Path) -> None:
    """Those of a long trace with loss and reordering, of which the ring holds a part: every row, every hash agrees."""
    rows = [tmp_path / "cold.jsonl", tmp_path / "warm.jsonl"]
    for path, words in zip(rows, ((), ("--warm",)), strict=True):
        done = sluice("bench", SMALL, "-r", REORDERED, "-f", f"flow_log:out={path}", "--repeat", "2", "--json", *words)
        assert done.status == 0 and list(json.loads(done.out)) == KEYS
    assert REORDERED.stat().st_size > 4 * (256 << 10)
    assert rows[0].read_text() == rows[1].read_text() != ""


def test_settings_reach_the_box(sluice: Command) -> None:
    done = sluice("bench", SMALL, "-r", CAPTURE, "--max-instances", "1", "--repeat", "1", "--json", "--seed", "7")
    assert json.loads(done.out)["flows"] > 3  # what was evicted begins again
    assert Settings().max_instances > 1


def test_mistakes(mistake: Command, sluice: Command, tmp_path: Path) -> None:
    stack = FIRST / "hello.py"
    assert "functions in C" in mistake("bench", stack, "-r", CAPTURE, "-f", stack).err
    assert "functions in C" in mistake("bench", stack, "-r", CAPTURE, "--beside", stack).err
    assert "nosuch" in mistake("bench", stack, "-r", CAPTURE, "--beside", "nosuch").err
    assert "No such file" in mistake("bench", stack, "-r", tmp_path / "no").err
    (tmp_path / "empty.pcap").write_bytes(pcap([]))
    assert "has no packets" in mistake("bench", stack, "-r", tmp_path / "empty.pcap").err
    (tmp_path / "text").write_text("not a capture, whatever its length may be")
    assert str(tmp_path / "text") in mistake("bench", stack, "-r", tmp_path / "text").err
    (tmp_path / "cut.pcap").write_bytes(CAPTURE.read_bytes()[:-1])
    err = mistake("bench", stack, "-r", tmp_path / "cut.pcap").err
    assert str(tmp_path / "cut.pcap") in err and "packet 22" in err
    full = mistake("bench", SMALL, "-r", CAPTURE, "-f", "flow_log:out=/dev/full", "--repeat", "1").err
    assert "/dev/full: the rows could not all be written" in full
    assert sluice("bench", stack, "-r", CAPTURE, "--repeat", "0").status == 2
