"""The summary names ports that look like tunnels, and --tunnel-port follows them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from tests.cli.conftest import Command
from tests.protocols.forms import FRAME, INNER, in_udp
from tests.support.capture import pcap

VXLAN = b"\x08\0\0\0\0\0\x01\0" + FRAME
GENEVE = b"\0\0\x65\x58\0\0\x01\0" + FRAME
GTP = b"\x30\xff" + struct.pack(">HI", len(INNER), 9) + INNER
SUSPECTS = {"vxlan=48879": in_udp(48879, VXLAN), "geneve=7000": in_udp(7000, GENEVE), "gtp=7001": in_udp(7001, GTP)}
SUSPECTS["fou=7002"] = in_udp(7002, INNER)


def test_the_summary_names_suspected_tunnel_ports(sluice: Command, tmp_path: Path) -> None:
    path = tmp_path / "tunnels.pcap"
    others = [in_udp(7003, b"nothing of the kind, but long enough"), in_udp(4789, VXLAN)]
    path.write_bytes(pcap([*SUSPECTS.values(), *others]))
    command = ("flows", "--stack", Path(__file__).with_name("vxlan.py"), "-r", path, "-o", tmp_path / "rows", "--json")
    done = sluice(*command)
    reports = json.loads(done.out)["reports"]
    assert {name.partition("--tunnel-port ")[2].rstrip(")") for name in reports if "suspected" in name} == set(SUSPECTS)
    done = sluice(*command, "--tunnel-port", "vxlan=48879")
    assert not any("48879" in name for name in json.loads(done.out)["reports"])
