"""Kills instances, the root and masters of a cluster at random, under load, and compares with the ideal chain.

    .venv/bin/python bench/state_kills.py [--seconds 600] [--connections N] [--seed S] [--safety replica|memory]

Runs chains of a NAT with three instances one after the other, over a cluster of three masters and three replicas on
loopback. In each, processes that a seed chooses get SIGKILL: an instance, the process of the stack, or the master that
has the state, which starts again as a replica after the run. What is printed of a run: its seed, what was killed, and
what differs from the ideal chain beyond what CHC's table 3.11 allows. Packets in flight are lost with the root, so what
left is compared without such a failure only; the final state always is. The exit status is 1 if something differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sluice.chain.description import function
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.program import IsolatedChain
from tests.state.clusters import Nodes, cluster
from tests.state.instances import BURST, Action, Ran, compiled, kill, kill_root, plan_of, run_ideal, run_instances
from tests.state.traffic import mixed

NAT = function("nat", inside="10.1.0.0/16")
KILLS = 4
"""Of a run, at most; masters among them: one, as the state has one replica."""


def choose(seed: int, bursts: int, nodes: Nodes) -> tuple[dict[int, Action], Counter[str], list[int]]:
    """What is killed before which burst; how often what is; and the ports of masters, once they were."""
    chosen, killed, ports = random.Random(seed), Counter[str](), list[int]()

    def master(_: Controller) -> None:
        ports.append(nodes.master_of("nat"))
        nodes.kill(ports[0])

    kinds: dict[str, Action] = {"root": kill_root, "master": master}
    kinds |= {label: kill(label) for label in ("nat", "nat#1", "nat#2")}
    actions: dict[int, Action] = {}
    for burst in sorted(chosen.sample(range(1, bursts), min(bursts - 1, chosen.randrange(1, KILLS + 1)))):
        name = chosen.choice([*kinds])
        actions[burst] = kinds.pop(name) if name in ("root", "master") else kinds[name]
        killed[name] += 1
    return actions, killed, ports


def differs(found: Ran, ideal: Ran, root: bool) -> str:
    """What is not as in the ideal chain; empty if nothing is."""
    if found.failure:
        return f"failure: {found.failure}"
    if found.state != ideal.state:
        first = next((a, b) for a, b in zip([*ideal.state, ""], [*found.state, ""], strict=False) if a != b)
        return f"state: {first[0]} is {first[1]}"
    if not root and found.left != ideal.left:
        return f"{len(found.left)} packets left, of {len(ideal.left)}, or others"
    lost = len(ideal.left) - len(found.left)
    counted = found.reports.get("root_lost_packets", 0)
    return f"{lost} packets are missing, of which {counted} were counted" if lost > counted else ""


def one(chain: IsolatedChain, packets: list[bytes], ideal: Ran, nodes: Nodes, seed: int, safety: str) -> bool:
    """A run. Whether it is as the ideal chain."""
    nodes.await_healthy()
    nodes.clear()
    actions, killed, ports = choose(seed, len(packets) // BURST, nodes)
    with tempfile.TemporaryDirectory() as folder:
        found = run_instances(chain, packets, Path(folder), nodes.location(safety=safety), actions)
    for port in ports:
        nodes.start(port)
    wrong = differs(found, ideal, bool(killed["root"]))
    what = ", ".join(f"{name} {count}" for name, count in sorted(killed.items()))
    print(f"seed {seed}: {what}: {wrong or 'as the ideal chain'}", flush=True)
    return not wrong


def main() -> int:
    """Prints each run."""
    parser = argparse.ArgumentParser(description="Kills under load, over a cluster.")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--connections", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--safety", choices=("replica", "memory"), default="replica")
    options = parser.parse_args()
    packets, runs, wrong = mixed(options.seed, options.connections), 0, 0
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as nodes:
        ideal = run_ideal(plan_of(NAT), packets, Path(folder, "ideal"))
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            chain = compiled(plan_of(NAT), {"nat": 3})
            wrong += not one(chain, packets, ideal, nodes, options.seed + runs, options.safety)
            runs += 1
    print(f"{runs} runs in {options.seconds:g} s, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
