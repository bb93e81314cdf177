"""What the security functions cost a packet: `.venv/bin/python bench/boxes.py`.

Each function over the same connections and datagrams, beside the stack alone; the stacks take turns in one process. CPU
time, medians; the parameters let all packets pass, translated where that is what a function does. `bench/state.py` has
figures with a store, `bench/detection.py` those of `ids`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).absolute().parent.parent))

from sluice.engine.box import Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.engine.measure import Candidate, measure
from sluice.functions.firewall.rules import read_rules
from sluice.functions.firewall.table import table
from sluice.stacks.find import find_stack
from tests.support.capture import pcap
from tests.support.connection import Host, goodbye, handshake
from tests.support.packets import eth, ip4, udp

CONNECTIONS, OPEN, SEGMENTS, ROUNDS = 4000, 100, 20, 5
SERVER = bytes([198, 51, 100, 7])
RULES = """table inet filter {
    set servers { type ipv4_addr; flags interval; elements = { 198.51.100.0/24 } }
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        ip daddr @servers tcp dport { 80, 443, 8080 } accept
        udp dport 53 accept
    }
}
"""


def trace(path: Path) -> int:
    """Write the capture: connections to a server, 100 open at once, each with a datagram. Returns its packets."""
    chance = random.Random(1)
    frames: list[bytes] = []
    for first in range(0, CONNECTIONS, OPEN):
        pairs: list[tuple[Host, Host]] = []
        for number in range(first, first + OPEN):
            client = Host(bytes([10, 1, number >> 8, number & 255]), 1024 + number, chance.getrandbits(32))
            server = Host(SERVER, 80, chance.getrandbits(32), peer=client)
            client.peer = server
            pairs.append((client, server))
            frames += handshake(client, server)
            frames.append(eth(ip4(udp(5000, 53, bytes(40)), 17, client.address, SERVER)))
        for _ in range(SEGMENTS):
            for client, server in pairs:
                frames += [server.data(bytes(1000)), client.send("A")]
        for client, server in pairs:
            frames += goodbye(client, server)
    path.write_bytes(pcap(frames, [1000 + number * 1e-5 for number in range(len(frames))]))
    return len(frames)


def functions(folder: Path) -> dict[str, str]:
    """The functions, with their parameters."""
    (folder / "rules.nft").write_text(RULES)
    (folder / "table").write_bytes(table(read_rules(str(folder / "rules.nft"))))
    none = folder / "none"
    return {
        "firewall": f"table={folder}/table,out={none}",
        "ratelimit": f"packets=100000000,out={none}",
        "synflood": f"half_open=100000,out={none}",
        "fakereset": f"out={none}",
        "anonymise": "key=an-example-of-a-secret",
        "assets": f"out={none}",
        "nat": "inside=10.1.0.0/16",
        "balance": "address=198.51.100.7,servers=10.9.0.1+10.9.0.2",
        "portscan": f"out={none}",
        "trojan": f"out={none}",
    }


def candidate(stack: str, function: str, given: str) -> Candidate:
    """A stack with one function, or with none."""
    compiled = compile_stack(find_stack(stack), tuple(find_functions([function]).c) if function else ())
    return Candidate(compiled, Settings(seed=1, max_instances=1 << 15), [given] if function else [])


def main() -> int:
    """Measure and print; with --json as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", default="tcp_ip")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packets = trace(folder / "trace.pcap")
        asked = {"the stack alone": ("", ""), **{each: (each, given) for each, given in functions(folder).items()}}
        candidates = [candidate(options.stack, *words) for words in asked.values()]
        measured = measure(candidates, str(folder / "trace.pcap"), ROUNDS)
    found = {each: median(one.cpu_ns) / packets for each, one in zip(asked, measured, strict=True)}
    if options.json:
        print(json.dumps(found))
        return 0
    print(f"{packets:,} packets; ns of CPU time a packet")
    for each, took in found.items():
        print(f"{each:20}{took:8.1f}{took - found['the stack alone']:+8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
