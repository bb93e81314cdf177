"""`sluice mos --ipv6 --tunnels`: flows over IPv6 and within tunnels, held against the truth of the corpus."""

from __future__ import annotations

import hashlib
import subprocess
from collections import Counter
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.compat.mos.programs import configuration, program
from tests.support.corpus import corpus, truth

BOTH = ("--ipv6", "--tunnels")
NOTHING = hashlib.sha256(b"").hexdigest()
CAPTURES = (
    "seladb_PcapPlusPlus__four_ipv6_http_streams.pcap",
    "aol_moloch__v6-http.pcap",
    "gen__tcp_clean.pcap",
    "gen__tcp_over_ipfrag.pcap",
    "gen__gtp_tcp.pcap",
    "gen__gtp_tcp_outerfrag.pcap",
    "gen__tun_geneve.pcap",
    "gen__tun_gre.pcap",
    "gen__tun_gretap.pcap",
    "gen__tun_ip6gre.pcap",
    "gen__tun_ip6tnl.pcap",
    "gen__tun_ipip.pcap",
    "gen__tun_mpls.pcap",
    "gen__tun_sit.pcap",
    "gen__tun_triple.pcap",
    "gen__tun_vxlan.pcap",
    "gen__tun_vxlan6.pcap",
)


def end(address: str, port: int | str) -> str:
    return f"{ip_address(address)} {port}"


Flow = tuple[str, str, str, str]


def expected(name: str) -> tuple[Counter[Flow], set[tuple[str, str]]]:
    """Flows that begin with a SYN: client, server, and the hashes of what each received; the ends of those where data
    came after a reset, which belong to no flow.
    """
    flows = [flow for flow in truth()[name]["tcp"] if flow["a2b"]["syn"]]
    cut = {(end(*flow["a"]), end(*flow["b"])) for flow in flows if "data_after_rst" in flow["flags"]}
    return Counter(
        (end(*flow["a"]), end(*flow["b"]), flow["b2a"]["sha256"], flow["a2b"]["sha256"]) for flow in flows
    ), cut


def without(flows: Counter[Flow], cut: set[tuple[str, str]]) -> Counter[Flow]:
    return Counter({flow: count for flow, count in flows.items() if flow[:2] not in cut})


@pytest.mark.parametrize("name", CAPTURES)
def test_flows_are_those_of_the_truth(name: str, tmp_path: Path) -> None:
    path = corpus() / name
    if not path.is_file():
        pytest.skip("not in this corpus")
    command = [str(program("ends", *BOTH)), str(configuration(tmp_path, path)), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    *lines, raw = done.stdout.splitlines()
    found: Counter[Flow] = Counter()
    for line in lines:
        number, client, client_port, server, server_port = line.split()
        hashes = []
        for side in "01":
            stream = tmp_path / f"{number}.{side}"
            hashes.append(hashlib.sha256(stream.read_bytes()).hexdigest() if stream.is_file() else NOTHING)
        found[(end(client, client_port), end(server, server_port), hashes[0], hashes[1])] += 1
    flows, cut = expected(name)
    assert without(found, cut) == without(flows, cut)
    assert {flow[:2] for flow in found} == {flow[:2] for flow in flows}
    assert 0 < int(raw.split()[1]) <= truth()[name]["packets"], "raw sockets see a packet once, whatever it carries"
