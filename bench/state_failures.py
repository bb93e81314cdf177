"""Figures of CHC (3.6) besides what a packet costs: offloading, moves, and recovery from failures.

    .venv/bin/python bench/state_failures.py [--connections N] [--only offload|failures|checkpoint]

offload: additions to one counter by two clients, a second: by a function of the server, one at a time and combined as
the client of a box does; and by reading, changing and writing it, with optimistic locks (WATCH) and with a lock (SET).
failures: a NAT with two instances; all of its traffic moves to one of them, then an instance, the store and the root
are killed while all connections are open. Times are those of the controller, until what waits is handled.
checkpoint: the time to recover the store by the packets since its last checkpoint (figure 3.20).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sluice.chain.description import function
from sluice.chain.processes.controller import Controller
from sluice.state.library import load_library, make_library
from sluice.state.location import Location
from sluice.state.peer import Peer
from tests.state.instances import BURST, Action, compiled, kill, kill_root, plan_of, run_instances
from tests.state.servers import Server, running
from tests.state.traffic import address, connection

INSIDE, OUTSIDE = bytes([10, 1, 0, 0]), bytes([198, 51, 100, 0])
COMBINED = 64
SECONDS = 1.0


def opened(count: int) -> list[bytes]:
    """Connections that are all open at once: the first packets of each, then the others."""
    each = [connection(address(INSIDE, 1 + n % 60), address(OUTSIDE, 1 + n // 60 % 60), 1024 + n) for n in range(count)]
    return [one[step] for step in range(max(map(len, each))) for one in each if step < len(one)]


# --- offloading ---


def rate(location: Location, add: Callable[[Peer, int], int]) -> float:
    """Additions a second of two clients."""
    counts = [0, 0]

    def body(number: int) -> None:
        with Peer(location) as peer:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                counts[number] += add(peer, counts[number] + 1)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def offload(server: Server, _connections: int) -> None:
    """Prints additions a second."""
    library = make_library()
    with server.peer() as peer:
        load_library(peer, library)
    log, name = "sluice-log:{f}n:", f"{library.prefix}_add"

    def ids(number: int, count: int) -> bytes:
        first = threading.get_ident() % 60000 << 48 | number
        return b"".join((first + one).to_bytes(8, "big") for one in range(count))

    def function_of(count: int) -> Callable[[Peer, int], int]:
        def add(peer: Peer, number: int) -> int:
            new = ids(number, count)
            before = (int.from_bytes(new[:8], "big") - 1).to_bytes(8, "big")
            peer.call("FCALL", name, 2, "sluice:{f}n:", log, before, new, 1)
            return count

        return add

    def watched(peer: Peer, _number: int) -> int:
        peer.call("WATCH", "n")
        now = peer.call("GET", "n") or b"0"
        assert isinstance(now, bytes)
        replies = peer.calls([("MULTI",), ("SET", "n", int(now) + 1), ("EXEC",)])
        return int(replies[-1] is not None)

    def locked(peer: Peer, _number: int) -> int:
        while peer.call("SET", "lock", 1, "NX") is None:
            pass
        now = peer.call("GET", "n") or b"0"
        assert isinstance(now, bytes)
        peer.calls([("SET", "n", int(now) + 1), ("DEL", "lock")])
        return 1

    rows = [
        ("function of the server", function_of(1)),
        (f"the same, {COMBINED} combined", function_of(COMBINED)),
        ("read, change, write: WATCH", watched),
        ("read, change, write: lock", locked),
    ]
    base = 0.0
    for text, add in rows:
        found = rate(server.location, add)
        base = base or found
        print(f"{text:<30} {found:>12,.0f} additions a second {found / base:>8.2f}", flush=True)


# --- failures ---


def handled(controller: Controller) -> bool:
    """Whether all instances run, and have handled what they were given."""
    return all(
        controller.memory.functions[one.part.number].running
        and controller.memory.functions[one.part.number].done == controller.memory.stack.queue[one.part.number].count
        for one in controller.processes
    )


def failures(server: Server, connections: int) -> None:
    """Prints the time of a move and of each recovery."""
    packets = opened(connections)
    middle = len(packets) // BURST // 2
    if middle + 20 > 255 or len(packets) // BURST < 16:
        raise SystemExit("bench/state_failures.py: give --connections of 200 to 2000")
    began: dict[str, float] = {}
    moved = 0

    def noted(name: str, act: Action) -> Action:
        def run(controller: Controller) -> None:
            began[name] = time.monotonic()
            act(controller)

        return run

    def move(controller: Controller) -> None:
        nonlocal moved
        moved = controller.instances.assign("nat", dict.fromkeys(range(1024), 1))

    def after(name: str) -> Action:
        def run(controller: Controller) -> None:
            end = time.monotonic() + 20
            while not handled(controller) and time.monotonic() < end:
                time.sleep(0.0002)
            print(f"{name:<10} {(time.monotonic() - began[name]) * 1000:>10.1f} ms until all is handled", flush=True)

        return run

    actions: dict[int, Action] = {
        middle: noted("move", move), middle + 2: after("move"),
        middle + 4: noted("instance", kill("nat#1")), middle + 6: after("instance"),
        middle + 8: noted("store", lambda _: server.fail()), middle + 10: after("store"),
        middle + 12: kill_root,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        chain = compiled(plan_of(function("nat", inside="10.1.0.0/16")), {"nat": 2})
        found = run_instances(chain, packets, Path(folder), server.location, actions)
    reports = found.reports
    calls, spent = reports.get("store_replayed_calls", 0), reports.get("store_recovery_us", 0) / 1000
    print(f"root       {reports.get('root_recovery_us', 0) / 1000:>10.1f} ms")
    print(
        f"{moved} parts of {connections} connections moved; the store performed {calls} calls again in {spent:.1f} ms"
    )
    print(found.failure or "nothing was lost")


def checkpoint(server: Server, connections: int) -> None:
    """Prints the time to recover the store by the packets since its checkpoint."""
    packets = opened(connections)
    last = len(packets) // BURST - 2
    for part in (1, 2, 4):
        with server.peer() as peer:
            peer.call("FLUSHALL")
        actions: dict[int, Action] = {last - last // part: lambda _: server.save(), last: lambda _: server.fail()}
        with tempfile.TemporaryDirectory() as folder:
            chain = compiled(plan_of(function("nat", inside="10.1.0.0/16")), {"nat": 2})
            reports = run_instances(chain, packets, Path(folder), server.location, actions).reports
        calls, spent = reports.get("store_replayed_calls", 0), reports.get("store_recovery_us", 0) / 1000
        print(f"{last // part * BURST:>8,} packets since it: {calls:>8,} calls, {spent:>10.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--only", default="", choices=("", "offload", "failures", "checkpoint"))
    options = parser.parse_args()
    parts = {"offload": offload, "failures": failures, "checkpoint": checkpoint}
    for name, run in parts.items():
        if options.only not in ("", name):
            continue
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
            Path(folder).chmod(0o755)  # instances have users of their own
            with running(Path(folder)) as server:
                run(server, options.connections)


if __name__ == "__main__":
    main()
