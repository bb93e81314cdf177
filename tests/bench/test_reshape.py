"""bench/reshape.c: packets come in another order, none is lost or changed, and each connection keeps its own order."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bench.programs import build_tool
from sluice.engine.box import Box, Settings, compile_stack
from sluice.stacks.find import find_stack
from tests.bench.traces import CORPUS, IN_ORDER, Ends, answer, assembled, by_ends, ends, packets
from tests.support.packets import TCP, checksum, pseudo_header

SYN, RST = 2, 4
SCTP = CORPUS / "gen__sctp_v4.pcap"


@pytest.fixture(scope="module")
def reshape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tool("reshape", tmp_path_factory.mktemp("reshape"), "-Werror")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.pcap"


def most_open(path: Path) -> int:
    """How many connections have begun and not ended at the most."""
    left = Counter(ends(packet) for packet in packets(path))
    begun: set[Ends] = set()
    most = 0
    for packet in packets(path):
        who = ends(packet)
        begun.add(who)
        most = max(most, len(begun))
        left[who] -= 1
        if not left[who]:
            begun.discard(who)
    return most


def test_without_options_the_trace_stays_as_it_is(reshape: Path, out: Path) -> None:
    found = answer(reshape, IN_ORDER, out)
    assert packets(out) == packets(IN_ORDER)
    assert found == {
        "packets": 14328, "connections": len(by_ends(IN_ORDER)), "lost": 0, "reordered": 0, "duplicated": 0,
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 20, 300])
def test_so_many_connections_are_open_at_once(reshape: Path, out: Path, count: int) -> None:
    answer(reshape, IN_ORDER, out, "--open", count)
    assert by_ends(out) == by_ends(IN_ORDER)
    assert most_open(out) == count
    assert packets(out) != packets(IN_ORDER)


def test_the_seed_makes_the_order(reshape: Path, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one", "again", "other")]
    for path, seed in zip(paths, (7, 7, 8), strict=True):
        answer(reshape, IN_ORDER, path, "--open", 50, "--loss", 0.1, "--seed", seed)
    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()


def test_copies_have_clients_of_their_own(reshape: Path, out: Path) -> None:
    before = by_ends(IN_ORDER)
    count = 2 * len(before) + 5
    assert answer(reshape, IN_ORDER, out, "--open", 100, "--connections", count)["connections"] == count
    after = by_ends(out)
    assert len(after) == count
    assert {who: after[who] for who in before} == before
    copies = Counter(tuple(packet[42:] for packet in after[who]) for who in after.keys() - before.keys())
    originals = Counter(tuple(packet[42:] for packet in found) for found in before.values())
    assert sum((copies - originals - originals).values()) > 0 or len(copies) == len(originals)
    times = assembled(out)["bytes"] / assembled(IN_ORDER)["bytes"]
    assert 2 <= times < 2.1


def test_checksums_of_copies_are_right(reshape: Path, out: Path) -> None:
    def right(packet: bytes) -> bool:
        segment = packet[34 : 14 + int.from_bytes(packet[16:18], "big")]
        whole = pseudo_header(packet[26:30], packet[30:34], TCP, len(segment)) + segment
        return checksum(packet[14:34]) == checksum(whole) == 0

    before = by_ends(IN_ORDER)
    answer(reshape, IN_ORDER, out, "--open", 10, "--connections", 2 * len(before))
    wrong = Counter(not right(packet) for packet in packets(IN_ORDER))
    assert Counter(not right(packet) for packet in packets(out)) == {key: 2 * wrong[key] for key in wrong}
    assert wrong[False] > 5000


def test_copies_of_associations(reshape: Path, out: Path) -> None:
    """Of SCTP: each copy brings what the association brought, with a right checksum where the one before was right."""
    before = associations(SCTP)
    connections = answer(reshape, SCTP, out)["connections"] + 2 * before["associations"]
    answer(reshape, SCTP, out, "--open", 2, "--connections", connections)
    assert associations(out) == {what: 3 * count for what, count in before.items()}
    assert before["associations"] > 1 and before["messages"] > 100 and before["bad checksums"] < before["packets"] / 10


def associations(path: Path) -> dict[str, int]:
    """What Sluice finds in a trace of SCTP when it verifies checksums."""
    stack = compile_stack(find_stack("sctp"), options=frozenset({"checksums"}))
    with Box(stack, Settings(seed=1, timeouts=False)) as box:
        box.run(str(path))
        counters = box.counters()
    packets = [own for name, own in counters.items() if name.startswith("sctp_packet")]
    associations = [own for name, own in counters.items() if name.startswith("sctp_over")]
    return {
        "packets": sum(own["packets"] for own in packets),
        "bad checksums": sum(own.get("malformed:checksum", 0) for own in packets),
        "associations": sum(own["instances"] for own in associations),
        "messages": counters["sctp_message"]["packets"],
    }


@pytest.mark.parametrize("shape", [(), ("--open", 30)], ids=["kept", "open"])
@pytest.mark.parametrize("option", ["--loss", "--reorder", "--duplicate"])
def test_within_a_connection(reshape: Path, out: Path, option: str, shape: tuple[object, ...]) -> None:
    """What is delayed or comes twice; SYNs and resets stay where they are, and Sluice finds every byte."""
    done = answer(reshape, IN_ORDER, out, option, 0.2, *shape)
    changed = done[{"--loss": "lost", "--reorder": "reordered", "--duplicate": "duplicated"}[option]]
    assert changed > 100 and done["lost"] + done["reordered"] + done["duplicated"] == changed
    before, after = by_ends(IN_ORDER), by_ends(out)
    more = 0
    for who, packets_before in before.items():
        added = Counter(after[who]) - Counter(packets_before)
        more += sum(added.values())
        assert not Counter(packets_before) - Counter(after[who])
        fixed = [[packet for packet in found if packet[47] & (SYN | RST)] for found in (packets_before, after[who])]
        assert fixed[0] == fixed[1]
    assert more == (changed if option == "--duplicate" else 0)
    if option != "--duplicate":
        assert sum(before[who] != after[who] for who in before) > 100
    assert assembled(out) == assembled(IN_ORDER)


@pytest.mark.parametrize("tunnel", ["gtp", "pptp"])
def test_tunnels(reshape: Path, out: Path, tunnel: str) -> None:
    """Every packet is in one, and inside is the same traffic."""
    answer(reshape, IN_ORDER, out, f"--{tunnel}", "--open", 30)
    inner = Counter(packet[50:] for packet in packets(out))
    assert inner == Counter(packet[14:] for packet in packets(IN_ORDER))
    assert assembled(out, tunnel) == assembled(IN_ORDER)


def test_wrong_usage(reshape: Path, tmp_path: Path) -> None:
    for words in ([], ["in"], ["in", "out", "--no"], [IN_ORDER, tmp_path / "o", "--loss", "2"]):
        done = subprocess.run([reshape, *words], capture_output=True, text=True, timeout=300)
        assert done.returncode == 1 and done.stderr.startswith("reshape: ")
