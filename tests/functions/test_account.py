"""account and abacus agree with scripts by somebody who had not seen them, on real captures with retransmissions."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, RunError, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack
from tests.functions.reference.abacus import count
from tests.functions.reference.account import account
from tests.support.connection import handshake, pair
from tests.support.corpus import captures

Row = dict[str, Any]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "account" / "capture.pcap"

AGREE = (
    "LibtraceTeam_libtrace__vlan.pcap",
    "OISF_suricata-verify__bug-7264-tcp-3whs-ack-data-tls-01-input.pcap",
    "OISF_suricata-verify__eve-overlap-payload-01-tcp-overlap.pcap",
    "OISF_suricata-verify__output-eve-ftp-data-input.pcap",
    "OISF_suricata-verify__smb-eicar-overlap-input.pcap",
    "OISF_suricata-verify__tcp-async-01-input.pcap",
    "OISF_suricata-verify__tcp-empty-sack-tcp-opt.pcap",
    "aol_moloch__wireshark-retrans.pcap",
    "david415_honeybadger-pcap-files__eureka.pcap",
    "david415_honeybadger-pcap-files__ordered_coalesce_netcat1.pcapng",
    "david415_honeybadger-pcap-files__qi_local_GET_slashdot_redirect.pcap",
    "david415_honeybadger-pcap-files__qi_local_SYNACK_curl_jsonip.pcap",
    "gen__tcp_clean.pcap",
    "gen__tcp_loss_reorder.pcap",
    "gen__tcp_seqwrap.pcap",
    "gen__tun_qinq.pcap",
    "gen__tun_vlan.pcap",
    "ntop_nDPI__ethereum.pcap",
    "ntop_nDPI__ocs.pcap",
    "ntop_nDPI__reddit.pcap",
    "ntop_nDPI__sites.pcapng",
    "ntop_nDPI__teams.pcap",
    "ntop_nDPI__webex.pcap",
    "ntop_nDPI__zoom.pcapng",
    "sdnfv_openNetVM__64B_download.pcap",
    "seladb_PcapPlusPlus__650HttpResponses.pcap",
    "seladb_PcapPlusPlus__one_tcp_stream.pcap",
    "wireshark_wireshark__tcp-badsegments.pcap",
)
"""Captures with retransmissions, of segments that are neither in tunnels nor in IP fragments, where the scripts do not
look."""


@cache
def both() -> CompiledStack:
    return compile_stack(find_stack("tcp_ip"), tuple(find_functions(["account", "abacus"]).c))


def rows(capture: Path, folder: Path, options: str = "") -> tuple[list[Row], list[Row], dict[str, int]]:
    """The rows of account and of abacus, and what they reported."""
    files = (folder / "account", folder / "abacus")
    given = [f"{options}out={files[0]}", f"out={files[1]}"]
    with Box(both(), Settings(max_instances=1 << 16, memory=1 << 28, timeouts=False), [], given) as box:
        reports = box.run(capture).reports
    first, second = ([json.loads(line) for line in file.read_text().splitlines()] for file in files)
    return first, second, reports


def ordered(found: list[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in found)


@pytest.mark.parametrize("name", AGREE)
def test_agrees_with_the_reference(name: str, tmp_path: Path) -> None:
    capture = next((path for path in captures() if path.name == name), None)
    if capture is None:
        pytest.skip("not in this corpus")
    accounts, ways, reports = rows(capture, tmp_path)
    subscribers = [row for row in accounts if "subscriber" in row]
    assert ordered(subscribers) == ordered([asdict(item) for item in account(str(capture))])
    assert ordered(ways) == ordered([asdict(item) for item in count(str(capture))])
    assert sum(row["retransmitted"] + row["abuse"] for row in subscribers) > 0
    assert reports["charged_bytes"] == sum(row["up"] + row["down"] for row in subscribers)
    assert reports["uncharged_bytes"] == sum(row["retransmitted"] for row in subscribers)
    assert reports["abused_bytes"] == sum(row["abuse"] for row in subscribers)
    assert reports["retransmitted_segments"] == sum(row["retransmitted"] for row in ways)
    assert reports["reordered_segments"] == sum(row["reordered"] for row in ways)


def test_abuse_is_reported_with_its_packet(tmp_path: Path) -> None:
    """Up to the bound; what is beyond it is counted."""
    found, _, reports = rows(EXAMPLE, tmp_path)
    abuse = [row["abuse"] for row in found if "abuse" in row and "subscriber" not in row]
    assert [(row["src"], row["packet"], row["offset"], row["length"]) for row in abuse] == [
        ("10.0.0.12", 17, 0, 18),
        ("198.51.100.7", 18, 0, 1000),
    ]
    assert reports["abuses"] == 2
    found, _, reports = rows(EXAMPLE, tmp_path, "reports=1,")
    assert len(found) == 3 and reports["abuses"] == 2


def test_further_subscribers_share_an_account(tmp_path: Path) -> None:
    found, _, _ = rows(EXAMPLE, tmp_path, "subscribers=1,reports=0,")
    assert [row["subscriber"] for row in found] == ["10.0.0.11", None]
    assert [found[1][name] for name in ("connections", "up", "down", "retransmitted", "abuse")] == [
        1,
        18,
        1000,
        0,
        1018,
    ]


def test_what_is_no_longer_kept_counts_as_the_same(tmp_path: Path) -> None:
    """64 KiB after, the first copy is gone."""
    client, server = pair()
    packets = handshake(client, server) + [client.data(b"a" * 1000) for _ in range(70)]
    with Box(
        both(), Settings(max_instances=1 << 8, memory=1 << 26), [], [f"out={tmp_path / 'x'}", f"out={tmp_path / 'y'}"]
    ) as box:
        for packet in [*packets, client.at(0, b"b" * 1000), client.at(69000, b"c" * 1000)]:
            box.packet(packet, 10**9)
        box.finish()
        assert (box.reports()["uncharged_bytes"], box.reports()["abused_bytes"]) == (1000, 1000)


def test_a_file_that_cannot_be_written(capfd: pytest.CaptureFixture[str]) -> None:
    for options in (["out=/nowhere/x"], ["out=/dev/null", "out=/nowhere/x"]):
        with pytest.raises(RunError, match="a function refused"):
            Box(both(), Settings(max_instances=1 << 8, memory=1 << 20), [], options)
        assert "/nowhere/x: No such file or directory" in capfd.readouterr().err
    with Box(both(), Settings(max_instances=1 << 8, memory=1 << 20), [], ["out=/dev/full", "out=/dev/full"]) as box:
        assert box.run(EXAMPLE).failure == "/dev/full: the rows could not all be written: No space left on device"
