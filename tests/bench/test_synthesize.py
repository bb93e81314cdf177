"""bench/synthesize.c: made-up traffic, and that good connections beside it do not suffer."""

import itertools
import re
import struct
from pathlib import Path

import pytest

from bench.programs import build_tool
from sluice.codegen.stack import generate
from sluice.engine.box import Box, Settings
from sluice.hooks.function import Functions
from sluice.lower.build import build
from sluice.stacks.find import find_stack
from tests.bench.traces import CORPUS, answer, assembled, by_ends, compiled, packets, rows

GOOD = CORPUS / "gen__tcp_portreuse.pcap"
REORDERED = CORPUS / "gen__tcp_loss_reorder.pcap"
ATTACKS = ("ahead", "alternating", "overlaps", "collisions", "syn-flood", "fragments")
TEST_NETWORK = ("198.18.", "198.19.")


@pytest.fixture(scope="module")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tool("synthesize", tmp_path_factory.mktemp("synthesize"), "-Werror")


@pytest.mark.parametrize("kind", ATTACKS)
def test_good_connections_do_not_suffer(synthesize: Path, kind: str, tmp_path: Path) -> None:
    """Their rows (lengths, hashes, states, counts) are what they are without the attack, but for times."""
    check_beside(synthesize, kind, 5000, GOOD, 24, tmp_path)


@pytest.mark.parametrize("kind", ["ahead", "alternating"])
def test_good_connections_do_not_suffer_from_what_bounds_attackers(synthesize: Path, kind: str, tmp_path: Path) -> None:
    """So much is held that each side may have fewer small pieces; these connections hold some out of order, too."""
    check_beside(synthesize, kind, 100_000, REORDERED, 66, tmp_path)


def check_beside(synthesize: Path, kind: str, count: int, good: Path, connections: int, folder: Path) -> None:
    out = folder / f"{kind}.pcap"
    found = answer(synthesize, kind, out, "--packets", count, "--good", good)
    assert found == {"packets": count + len(packets(good)), "good": len(packets(good))}
    alone, beside = (
        [
            {key: value for key, value in row.items() if key not in ("first_ts", "last_ts")}
            for row in rows(path, folder)
            if not row["src"].startswith(TEST_NETWORK)
        ]
        for path in (good, out)
    )
    assert alone == beside and len(alone) == connections


@pytest.mark.parametrize("kind", [*ATTACKS, "small"])
def test_the_same_seed_gives_the_same_trace(synthesize: Path, kind: str, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one", "again", "other")]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        answer(synthesize, kind, path, "--packets", 1500, "--seed", seed)
    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()


def test_small_packets_are_whole_connections(synthesize: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.pcap"
    answer(synthesize, "small", out, "--packets", 60_000)
    assert {len(packet) for packet in packets(out)} == {60}
    ended = [row for row in rows(out, tmp_path) if row["end"] != "eof" or row["fin"]]
    assert len(ended) > 700
    assert {(row["src_stream"], row["dst_stream"]) for row in ended} == {(120, 120)}


def test_what_is_ahead_never_comes(synthesize: Path, tmp_path: Path) -> None:
    out = tmp_path / "ahead.pcap"
    answer(synthesize, "ahead", out, "--packets", 20_000)
    for connection in by_ends(out).values():
        numbers = sorted(struct.unpack_from(">I", packet, 38)[0] for packet in connection[3:])
        assert all((later - number) % 2**32 != 1 for number, later in itertools.pairwise(numbers))
        assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("flows, each, bounded", [(32, 600, False), (512, 250, True), (4096, 60, True)])
def test_scattered_bytes_of_many_connections_are_bounded(
    synthesize: Path, flows: int, each: int, bounded: bool, tmp_path: Path
) -> None:
    """The more connections there are, the fewer bytes each has in memory; of few they all wait."""
    out = tmp_path / "ahead.pcap"
    answer(synthesize, "ahead", out, "--flows", flows, "--packets", flows * each)
    with Box(compiled("tcp_ip", "assemble"), Settings(seed=1), [], [""]) as box:
        box.run(str(out))
        counters = box.counters()["tcp_over_ipv4"]
    given_up = counters["bytes:known already"]  # they fall into gaps that were given up
    assert (given_up > 0) == bounded


@pytest.mark.parametrize("kind, segments, size", [("alternating", 2003, 2000), ("overlaps", 1004, 2400)])
def test_what_was_missing_comes_at_last(synthesize: Path, kind: str, segments: int, size: int, tmp_path: Path) -> None:
    """After its last piece a connection has all its bytes, and another begins."""
    out = tmp_path / "out.pcap"
    answer(synthesize, kind, out, "--packets", 2 * segments, "--flows", 1)
    assert assembled(out) == {"bytes": 2 * size, "connections": 2}


def test_keys_with_one_hash_are_those_of_the_table() -> None:
    """hash_of in synthesize.c builds a key as tcp_ip does; when this changes, it has to, too."""
    source = generate(build(find_stack("tcp_ip")), Functions()).source
    assert re.search(
        r"from\[0\] = \(uint64_t\)\(\(uint64_t\)slots->src_32\) \| \(uint64_t\)\(\w+sport\) << 32;", source
    )
