"""The programs on real captures, held against what somebody computed who had only the facts of the interface."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.mos.programs import EXAMPLES, configuration, run
from tests.compat.mos.reference.check_bytes import check_bytes
from tests.compat.mos.reference.check_firewall import check_firewall
from tests.compat.mos.reference.check_midstat import check_midstat
from tests.compat.mos.reference.check_nat import check_nat, translated
from tests.compat.mos.reference.check_orphan import check_orphan
from tests.support.corpus import captures

EXTERNAL = "203.0.113.1"
RULES = EXAMPLES / "rules.txt"
CAPTURES = (
    "OISF_suricata-verify__bug-7264-tcp-3whs-ack-data-tls-01-input.pcap",
    "OISF_suricata-verify__output-eve-ftp-data-input.pcap",
    "OISF_suricata-verify__tcp-async-01-input.pcap",
    "OISF_suricata-verify__tcp-fastopen-01-tfo.pcap",
    "OISF_suricata-verify__tcp-split-handshake-01-4whs-split-handshake-4whs.pcap",
    "aol_moloch__wireshark-retrans.pcap",
    "david415_honeybadger-pcap-files__eureka.pcap",
    "gen__tcp_clean.pcap",
    "gen__tcp_loss_reorder.pcap",
    "gen__tcp_portreuse.pcap",
    "gen__tcp_seqwrap.pcap",
    "ntop_nDPI__gnutella.pcap",
    "ntop_nDPI__reddit.pcap",
    "ntop_nDPI__teams.pcap",
    "seladb_PcapPlusPlus__650HttpResponses.pcap",
    "seladb_PcapPlusPlus__one_tcp_stream.pcap",
    "wireshark_wireshark__challenge01_ooo_stream.pcapng",
)


def midstat(path: Path, folder: Path) -> list[str]:
    return check_midstat(path, run("midstat", ["-f", str(configuration(folder, path))]))


def bytes_(path: Path, folder: Path) -> list[str]:
    return check_bytes(path, run("bytes", ["-f", str(configuration(folder, path))]))


def orphan(path: Path, folder: Path) -> list[str]:
    return check_orphan(path, 80, run("orphan", ["-f", str(configuration(folder, path)), "-p", "80"]))


def firewall(path: Path, folder: Path) -> list[str]:
    output = folder / "out.pcap"
    said = run("firewall", ["-f", str(configuration(folder, path, output)), "-r", str(RULES)])
    return check_firewall(path, RULES, said, output)


def nat(path: Path, folder: Path) -> list[str]:
    output = folder / "out.pcap"
    run("nat", ["-f", str(configuration(folder, path, output)), "-e", EXTERNAL])
    return check_nat(path, EXTERNAL, output)


def nat_outside(path: Path, folder: Path) -> list[str]:
    """As a box sees it: the server's packets come addressed to the external address."""
    given, output = folder / "given.pcap", folder / "out.pcap"
    translated(path, given, EXTERNAL)
    run("nat", ["-f", str(configuration(folder, given, output)), "-e", EXTERNAL])
    return check_nat(path, EXTERNAL, output, given)


@pytest.mark.parametrize("program", [midstat, bytes_, orphan, firewall, nat, nat_outside], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", CAPTURES)
def test_does_what_the_facts_say(name: str, program: Callable[[Path, Path], list[str]], tmp_path: Path) -> None:
    path = next((path for path in captures() if path.name == name), None)
    if path is None:
        pytest.skip("not in this corpus")
    assert program(path, tmp_path) == []
