"""Flow statistics in Python beside nfstream: `.venv/bin/python bench/flow_frames.py CAPTURE ... [--nfstream PYTHON]`.

Both read the file, and iterate over all its flows: `sluice.flows` with the stack `tcp_ip`, and nfstream's NFStreamer
without dissection, with timeouts beyond the capture. It prints the numbers of flows and packets, packets a second of
CPU time (of all processes and threads of the call; the program of Sluice is compiled before), and the ratio. nfstream
has a virtual environment of its own:

    python3 -m venv /tmp/nfstream && /tmp/nfstream/bin/pip install nfstream
    .venv/bin/python bench/flow_frames.py capture.pcap --nfstream /tmp/nfstream/bin/python
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

import sluice  # noqa: E402

PEER = """
import json, resource, sys
from nfstream import NFStreamer
def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
begin = cpu()
flows = packets = 0
long = 10**9
for flow in NFStreamer(source=sys.argv[1], n_dissections=0, idle_timeout=long, active_timeout=long):
    flows += 1
    packets += flow.bidirectional_packets
print(json.dumps([flows, packets, cpu() - begin]))
"""


@dataclass
class Figure:
    """What a program found in a capture, and its CPU time."""

    flows: int
    packets: int
    seconds: float

    @property
    def rate(self) -> float:
        """Packets of flows a second."""
        return self.packets / self.seconds


def ours(capture: str) -> Figure:
    """Sluice's figure."""
    begin, flows, packets = time.process_time(), 0, 0
    for row in sluice.flows(capture, stack="tcp_ip"):
        flows += 1
        packets += row["src_pkts"] + row["dst_pkts"]
    return Figure(flows, packets, time.process_time() - begin)


def theirs(python: str, capture: str) -> Figure:
    """The figure of nfstream."""
    done = subprocess.run([python, "-c", PEER, capture], check=True, capture_output=True, text=True)
    return Figure(*json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print a line for each capture and program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+", metavar="CAPTURE")
    parser.add_argument("--nfstream", metavar="PYTHON", help="a Python that has nfstream")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for capture in options.captures:
        ours(capture)  # compiles the program
        rounds = [
            (ours(capture), theirs(options.nfstream, capture) if options.nfstream else None)
            for _ in range(options.rounds)
        ]
        figures = {"sluice": [one for one, _ in rounds], "nfstream": [one for _, one in rounds if one is not None]}
        print(capture)
        for name, found in figures.items():
            if found:
                rate = median(one.rate for one in found)
                print(
                    f"  {name:10} {found[0].flows:>10,} flows {found[0].packets:>12,} packets {rate:>14,.0f} per second"
                )
        if figures["nfstream"]:
            ratio = median(one.rate / other.rate for one, other in rounds if other is not None)
            print(f"  {ratio:.1f} times nfstream's packets per second")


if __name__ == "__main__":
    main()
