"""sluice flows: rows and summary, and where they go. What stands in the rows is tested with the functions."""

import json
import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import FIRST, Command
from tests.support.budget import in_matrix
from tests.support.corpus import OWN

CAPTURE = FIRST / "capture.pcap"


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_rows_go_to_standard_output(sluice: Command) -> None:
    done = sluice("flows", "-r", CAPTURE)
    assert done.status == 0 and done.err == ""
    found = rows(done.out)
    assert [(row["proto"], row["src"], row["sport"]) for row in found] == [
        ("udp", "10.0.0.7", 40007),
        ("udp", "10.0.0.8", 40008),
        ("tcp", "10.0.0.30", 51000),
        ("udp", "10.0.0.9", 40009),
    ]
    assert all(row["schema"] == "sluice-flows-1" for row in found)
    assert (found[2]["src_stream"], found[2]["dst_stream"], found[2]["end"]) == (18, 1819, "closed")


def test_or_to_a_file_with_the_summary_on_standard_output(sluice: Command, tmp_path: Path) -> None:
    out = tmp_path / "flows.jsonl"
    done = sluice("flows", "-r", CAPTURE, "-o", out)
    assert done.status == 0 and len(rows(out.read_text())) == 4
    assert "22 packets" in done.out and "flows: 4" in done.out
    found = json.loads(sluice("flows", "-r", CAPTURE, "-o", out, "--json").out)
    assert found["reports"]["flows"] == 4


def test_the_summary_beside_the_rows(sluice: Command) -> None:
    done = sluice("flows", "-r", CAPTURE, "--summary")
    assert len(rows(done.out)) == 4 and "flows: 4" in done.err
    done = sluice("flows", "-r", CAPTURE, "--summary", "--json")
    assert len(rows(done.out)) == 4 and json.loads(done.err)["reports"]["flows"] == 4


def test_json_without_a_file_for_the_rows_goes_to_standard_error(sluice: Command) -> None:
    done = sluice("flows", "-r", CAPTURE, "--json")
    assert len(rows(done.out)) == 4 and json.loads(done.err)["reports"]["flows"] == 4


def test_bounds_on_what_is_kept_are_told(sluice: Command, tmp_path: Path) -> None:
    out = tmp_path / "rows"
    done = sluice("flows", "-r", CAPTURE, "-o", out, "--idle", "1", "--rows", "1", "--holes", "1")
    assert done.status == 0 and len(rows(out.read_text())) > 4
    assert "flows out of order: " in done.out
    assert "sluice: note: " in done.err and "--rows N lets more wait" in done.err
    assert sluice("flows", "-r", CAPTURE, "--rows", "0").status == 2
    assert sluice("run", "tcp_ip", "-r", CAPTURE, "-f", f"flow_log:rows=9,out={out}").status == 0
    assert len(rows(out.read_text())) == 4


def test_a_stack_without_flows(sluice: Command, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "from sluice.lang import Stack\n"
        "from sluice.protocols.ethernet import ethernet_parser\n"
        "stack = Stack('plain')\n"
        "stack.eth = ethernet_parser()\n"
    )
    for command in (["flows", "--stack", tmp_path / "plain.py"], ["run", tmp_path / "plain.py", "-f", "flow_log"]):
        done = sluice(*command, "-r", CAPTURE)
        assert done.status == 0
        assert "warning: stack 'plain' has no connection-oriented layer" in done.err
    assert sluice("flows", "-r", CAPTURE).err == ""


def test_another_stack(sluice: Command) -> None:
    found = rows(sluice("flows", "--stack", FIRST / "hello.py", "-r", CAPTURE).out)
    assert {row["layers"] for row in found} == {"eth/ip/udp"}


def test_flows_in_tunnels_are_listed_unless_another_stack_is_asked_for(sluice: Command) -> None:
    """The stack is everything that there is, by default."""
    capture = OWN / "gen__tun_vxlan.pcap"
    ways = {row["layers"] for row in rows(sluice("flows", "-r", capture).out)}
    assert "eth/ipv4/udp/vxlan/eth/ipv4/tcp" in ways
    ways = {row["layers"] for row in rows(sluice("flows", "--stack", "tcp_ip", "-r", capture).out)}
    assert "eth/ipv4/udp" in ways and not any("vxlan" in str(way) for way in ways)


def test_nothing_times_out_unless_asked(sluice: Command) -> None:
    assert len(rows(sluice("flows", "-r", CAPTURE).out)) == 4
    assert len(rows(sluice("flows", "-r", CAPTURE, "--idle", "5").out)) > 4


def test_the_input_is_never_overwritten(mistake: Command, tmp_path: Path) -> None:
    capture = tmp_path / "in.pcap"
    capture.write_bytes(CAPTURE.read_bytes())
    (tmp_path / "link").symlink_to(capture)
    os.link(capture, tmp_path / "hard")
    for name in ("in.pcap", "link", "hard"):
        assert "would be overwritten" in mistake("flows", "-r", capture, "-o", tmp_path / name).err
    for options in (f"out={capture}", f"rows=9,holes=9,out={capture}"):
        assert "would be overwritten" in mistake("run", "tcp_ip", "-r", capture, "-f", f"flow_log:{options}").err
    assert capture.read_bytes() == CAPTURE.read_bytes()


def test_output_that_cannot_be_written(mistake: Command, tmp_path: Path) -> None:
    assert "there is no directory" in mistake("flows", "-r", CAPTURE, "-o", tmp_path / "no" / "out").err
    assert "is a directory" in mistake("flows", "-r", CAPTURE, "-o", tmp_path).err
    if os.geteuid() != 0:  # root may write everything
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        assert "cannot be written" in mistake("flows", "-r", CAPTURE, "-o", tmp_path / "out").err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_an_error(sluice: Command) -> None:
    done = sluice("flows", "-r", CAPTURE, "-o", "/dev/full", "--json")
    assert done.status == 1 and "could not all be written" in done.err
    assert "could not all be written" in json.loads(done.out)["failure"]


def test_a_wrong_input_leaves_the_output_alone(mistake: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("precious")
    mistake("flows", "-r", tmp_path / "no.pcap", "-o", out)
    assert out.read_text() == "precious"


TEIDS = Path(__file__).parents[1] / "corpus" / "AlexeyVasilev_PcapFlowLab__21_gtpu_same_inner_tuple_different_teid.pcap"


@pytest.mark.parametrize(("stack", "key"), [("gtp", "tunnel"), in_matrix("everything", "vlan,tunnel")])
def test_tunnels_tell_flows_apart_when_asked(sluice: Command, stack: str, key: str) -> None:
    """Two GTP tunnels carry the same ends."""
    command = ("flows", "-r", TEIDS, "--stack", stack)
    plain = [row for row in rows(sluice(*command).out) if row["proto"] == "tcp"]
    apart = [row for row in rows(sluice(*command, "--key", key).out) if row["proto"] == "tcp"]
    assert [row["src_pkts"] for row in plain] == [2] and "tunnel" not in plain[0]
    assert [row["src_pkts"] for row in apart] == [1, 1]
    assert "vlan" not in key or [row["vlan"] for row in apart] == [0, 0]
    assert len({row["tunnel"] for row in apart}) == 2


def test_a_key_that_nobody_offers(sluice: Command) -> None:
    done = sluice("flows", "-r", CAPTURE, "--stack", "gtp", "--key", "tunel")
    assert done.status == 2
    assert "--key tunel: no layer of the stack offers 'tunel'; did you mean 'tunnel'?" in done.err
    assert sluice("flows", "-r", CAPTURE, "--key", "vlan,").status == 2
