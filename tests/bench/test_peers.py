"""The programs that Sluice is compared with do the same work: on a trace in order they find the same bytes."""

from pathlib import Path

import pytest

from bench.programs import HYPERSCAN, PEERS, MissingError, Peer, build, build_tool, has_header
from tests.bench.traces import CORPUS, answer, assembled, packets

PATTERNS = Path(__file__).resolve().parents[2] / "bench" / "patterns.txt"
STREAM = CORPUS / "seladb_PcapPlusPlus__one_tcp_stream_max_seq.pcap"
OTHERS = [peer for peer in PEERS if peer.name != "bound"]
SEARCHING = [peer for peer in OTHERS if "search" in peer.functions]


def name(peer: Peer) -> str:
    return peer.name


@pytest.fixture(scope="module", params=OTHERS, ids=name)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Peer, Path]:
    wanted: Peer = request.param
    try:
        flags = ("-Werror",) if wanted.source.endswith(".c") else ()
        return wanted, build(wanted, tmp_path_factory.mktemp(wanted.name), *flags)
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of 20 whole connections, of 240 bytes each, one after the other."""
    folder = tmp_path_factory.mktemp("connections")
    answer(build_tool("synthesize", folder), "small", folder / "out.pcap", "--packets", 20 * 46, "--flows", 1)
    return folder / "out.pcap"


@pytest.mark.parametrize("warm", [(), ("--warm",)], ids=["cold", "warm"])
def test_it_finds_what_sluice_finds(peer: tuple[Peer, Path], connections: Path, warm: tuple[str, ...]) -> None:
    what, program = peer
    for trace in (connections, STREAM):
        if "none" in what.functions:
            assert answer(program, trace, "none", *warm)["flows"] == assembled(trace)["connections"]
        if "assemble" in what.functions:
            found = answer(program, trace, "assemble", *warm)
            assert found["packets"] == len(packets(trace)) and found["ns_per_packet_cpu"] > 0
            assert found["delivered_bytes"] == assembled(trace)["bytes"] >= 20 * 240


@pytest.mark.skipif(not has_header(HYPERSCAN), reason="there is no Hyperscan (Debian: libhyperscan-dev)")
@pytest.mark.parametrize("peer", SEARCHING, ids=name, indirect=True)
def test_it_finds_the_same_matches(peer: tuple[Peer, Path], tmp_path: Path) -> None:
    _, program = peer
    bound = build(PEERS[0], tmp_path)
    found = [answer(each, STREAM, "search", "--patterns", PATTERNS)["matches"] for each in (program, bound)]
    assert found == [3, 3]


def test_what_there_is_not_is_said(tmp_path: Path) -> None:
    nothing = Peer("nothing", "nothing.c", "no/such.h", (), "libnothing-dev")
    with pytest.raises(MissingError, match=r"nothing: no/such\.h is not there .* \(Debian: libnothing-dev\)"):
        build(nothing, tmp_path)


def test_files_that_are_no_captures_are_refused(peer: tuple[Peer, Path], tmp_path: Path) -> None:
    _, program = peer
    (tmp_path / "text").write_text("not a capture, whatever its length may be")
    with pytest.raises(AssertionError, match="text"):
        answer(program, tmp_path / "text", "assemble" if "assemble" in peer[0].functions else "none")
