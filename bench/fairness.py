"""The fairness experiment of the FLICK paper (section 6.4, figure 7): light and heavy tasks under three schedulers.

    .venv/bin/python bench/fairness.py [--tasks 200] [--items 50] [--rounds 3] [--picture fairness.svg] [--json FILE]

Half of the tasks have items of 1 KB, half of 16 KB; a task computes an addition for each byte of an item, and all
have the same number of items. These are in the kernel's buffers before the service may run, on one core. Figures are
the seconds until the last light and the last heavy task have ended, and the CPU time of the service, which other
programs of the machine do not change as much: `cooperative` is the service's own scheduler,
with a time slice of 50 microseconds; `round robin` gives each task a turn of one item; `to completion` a turn without
an end. Under the first, light tasks end first, and the time until all have ended is that of the others. Policies take
turns within a round.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.isolate_plot import picture  # noqa: E402  after the path
from bench.services import cpu_seconds  # noqa: E402
from sluice.service.bounds import Limits  # noqa: E402
from sluice.service.build import build_program  # noqa: E402
from sluice.service.load import load_source  # noqa: E402
from sluice.service.lower.program import lower  # noqa: E402
from sluice.service.serve import command_of, wire  # noqa: E402

TASK = """\
type item = unit { size : uint32; data : bytes &length = self.size; };
type item: record
  data : string

type done = unit { sum : uint64; };
type done: record
  sum : integer

process Task: (item/done c)
  let m = ? c
  let sum = for i in 1 .. len(m.data) initially a = 0: (a + i) mod 1000003
  c ! done(sum)
"""
LIGHT, HEAVY = 1 << 10, 16 << 10
"""Bytes of an item."""
POLICIES = {
    "cooperative": ["--slice", "50"],
    "round robin": ["--slice", "1000000", "--by-item", "1"],
    "to completion": ["--slice", "1000000"],
}
PATIENCE = 300.0


def build(limits: Limits) -> list[str]:
    """The command of the service."""
    service = load_source(TASK)
    process = service.process()
    program = build_program(process.name, lower(service, process).source)
    return command_of(program, (wire(process, ("", ("127.0.0.1", 0)), []), limits))


def load(clients: list[tuple[socket.socket, int]], items: int) -> dict[socket.socket, memoryview]:
    """Gives all clients' items to the kernel; what it does not take yet."""
    left: dict[socket.socket, memoryview] = {}
    for client, size in clients:
        rest = memoryview((size.to_bytes(4, "big") + bytes(size)) * items)
        with contextlib.suppress(BlockingIOError):
            while rest:
                rest = rest[client.send(rest) :]
        if rest:
            left[client] = rest
        else:
            client.shutdown(socket.SHUT_WR)
    return left


def run(command: list[str], tasks: int, items: int, core: int) -> tuple[float, float, float]:
    """Seconds until the last light and the last heavy task have ended, and CPU seconds of the service."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core})
    )
    assert process.stdout is not None
    port = int(process.stdout.readline().split()[2])
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        try:
            process.send_signal(signal.SIGSTOP)
            clients: list[tuple[socket.socket, int]] = []
            for number in range(tasks):
                client = stack.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
                client.connect(("127.0.0.1", port))
                client.setblocking(False)
                clients.append((client, HEAVY if number % 2 else LIGHT))
            left = load(clients, items)
            for client, size in clients:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client in left else 0)
                selector.register(client, events, size)
            begin, ended, before = time.monotonic(), {LIGHT: 0.0, HEAVY: 0.0}, cpu_seconds(process.pid)
            process.send_signal(signal.SIGCONT)
            while selector.get_map():
                ready = selector.select(PATIENCE)
                if not ready:
                    raise SystemExit("bench: no task ends")
                for key, events in ready:
                    client = key.fileobj
                    assert isinstance(client, socket.socket)
                    if events & selectors.EVENT_WRITE:
                        with contextlib.suppress(BlockingIOError):
                            left[client] = left[client][client.send(left[client]) :]
                        if not left[client]:
                            client.shutdown(socket.SHUT_WR)
                            selector.modify(client, selectors.EVENT_READ, key.data)
                    elif not client.recv(1 << 16):
                        selector.unregister(client)
                        ended[key.data] = time.monotonic() - begin
            used = cpu_seconds(process.pid) - before
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            out = process.communicate(timeout=60)[0]
    wrong = {name: value for name, value in json.loads(out)[0].items() if name.startswith("faults") and value}
    if wrong:
        raise SystemExit(f"bench: {wrong}")
    return ended[LIGHT], ended[HEAVY], used


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--picture", metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    command = build(Limits(buffer_size=1 << 15))
    found: dict[str, dict[str, list[float]]] = {name: {"light": [], "heavy": []} for name in POLICIES}
    used: dict[str, list[float]] = {name: [] for name in POLICIES}
    for number in range(options.rounds):
        for name, more in POLICIES.items():
            print(f"round {number + 1}: {name}", file=sys.stderr, flush=True)
            light, heavy, cpu = run([command[0], *more, *strip(command[1:])], options.tasks, options.items, cores[0])
            found[name]["light"].append(light)
            found[name]["heavy"].append(heavy)
            used[name].append(cpu)
    print(f"{'scheduler':<15}{'light':>10}{'heavy':>10}{'CPU':>10}   seconds until the last task has ended, medians")
    for name, kinds in found.items():
        print(f"{name:<15}{median(kinds['light']):>10.3f}{median(kinds['heavy']):>10.3f}{median(used[name]):>10.3f}")
    if options.picture:
        title = f"{options.tasks} tasks with {options.items} items of 1 KB or 16 KB: seconds until the last has ended"
        groups = [(name, list(kinds.items())) for name, kinds in found.items()]
        Path(options.picture).write_text(picture(title, groups), encoding="utf-8")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def strip(arguments: list[str]) -> list[str]:
    """A command line without the slice of the limits."""
    at = arguments.index("--slice")
    return arguments[:at] + arguments[at + 2 :]


if __name__ == "__main__":
    sys.exit(main())
