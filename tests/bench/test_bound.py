"""The hand-written bound finds the same connections and the same bytes as Sluice where every byte is in order."""

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.programs import HYPERSCAN, PEERS, build, has_header
from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack
from tests.scale.test_connections import connections

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
BENCH = Path(__file__).resolve().parents[2] / "bench"
BOUND = next(peer for peer in PEERS if peer.name == "bound")
IN_ORDER = (
    "gen__tcp_portreuse", "sdnfv_openNetVM__64B_download", "seladb_PcapPlusPlus__one_tcp_stream_max_seq",
)  # fmt: skip

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="its hash is an instruction of x86-64")


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(BOUND, tmp_path_factory.mktemp("bound"), "-Werror")


@pytest.fixture(scope="module")
def tcp_ip() -> CompiledStack:
    return compile_stack(find_stack("tcp_ip"), tuple(find_functions(["assemble"]).c))


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in (program, *arguments)], capture_output=True, text=True, timeout=60)


def measured(program: Path, *arguments: object) -> dict[str, Any]:
    done = run(program, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("warm", [(), ("--warm",)], ids=["cold", "warm"])
@pytest.mark.parametrize("name", IN_ORDER)
def test_it_finds_what_sluice_finds(bound: Path, tcp_ip: CompiledStack, name: str, warm: tuple[str, ...]) -> None:
    capture = CORPUS / f"{name}.pcap"
    with Box(tcp_ip, Settings(seed=1, timeouts=False), [], [""]) as box:
        box.run(str(capture))
        box.finish()
        tcp, delivered = box.counters()["tcp_over_ipv4"], box.reports()
    found = measured(bound, capture, "assemble", *warm)
    assert (found["flows"], found["left_out"]) == (tcp["instances"], 0)
    assert (found["delivered_bytes"], found["deliveries"]) == (delivered["delivered_bytes"], delivered["deliveries"])
    assert found["delivered_bytes"] > 20_000
    assert found["packets"] == tcp["packets"]


def test_none_delivers_nothing(bound: Path) -> None:
    found = measured(bound, CORPUS / f"{IN_ORDER[0]}.pcap", "none")
    assert (found["flows"], found["deliveries"], found["delivered_bytes"], found["left_out"]) == (24, 0, 0, 0)


@pytest.mark.skipif(not has_header(HYPERSCAN), reason="there is no Hyperscan (Debian: libhyperscan-dev)")
def test_it_searches_what_sluice_searches(bound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same expressions match in the same bytes."""
    capture, patterns = CORPUS / f"{IN_ORDER[1]}.pcap", BENCH / "patterns.txt"
    monkeypatch.setenv("SLUICE_CFLAGS", f"-I{BENCH} -Wl,--no-as-needed -lhs")
    wanted = find_functions([f"{BENCH / 'search.c'}:{patterns}"])
    with Box(compile_stack(find_stack("tcp_ip"), tuple(wanted.c)), Settings(), [], wanted.options) as box:
        box.run(str(capture))
        box.finish()
        reports = box.reports()
    found = measured(bound, capture, "search", "--patterns", patterns)
    assert {name: found[name] for name in ("deliveries", "delivered_bytes", "matches")} == reports
    assert found["matches"] >= 750


def test_what_it_leaves_out_is_counted(bound: Path) -> None:
    """Packets over IPv6 in one capture, segments after a hole in the other."""
    assert measured(bound, CORPUS / "gen__tcp_clean.pcap", "assemble")["left_out"] == 430
    assert measured(bound, CORPUS / "gen__tcp_loss_reorder.pcap", "assemble")["left_out"] > 0


def test_its_table_has_the_room_that_is_asked_for(bound: Path, tmp_path: Path) -> None:
    capture = connections(tmp_path, 20_000)
    found = measured(bound, capture, "assemble", "--connections", 20_000)
    assert (found["flows"], found["delivered_bytes"]) == (20_000, 32 * 20_000)
    done = run(bound, capture, "assemble", "--connections", 5_000)
    assert done.returncode == 1 and "the table is full" in done.stderr and done.stdout == ""


def test_wrong_usage(bound: Path, tmp_path: Path) -> None:
    assert run(bound).returncode == run(bound, tmp_path, "everything").returncode == 2
    done = run(bound, tmp_path / "no.pcap", "none")
    assert done.returncode == 1 and "No such file" in done.stderr
