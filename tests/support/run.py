"""Runs a compiled stack on packets and stores all its results; checks each run."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.events import PythonFunction, Seen
from sluice.engine.functions import READY
from sluice.ir.hook import Hook
from sluice.lang import Stack
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.law import check_law
from tests.support.packets import A4, A6, TCP, UDP, eth, fragments4, fragments6, ip4, ip6, tcp, udp
from tests.support.unoptimised import unoptimised

EVENTS = ("malformed", "created", "orphan", "packet", "data", "rexmit", "out_of_wnd", "unplaced", "gap", "end")
ENDINGS = ("accept", "timeout", "reused", "evicted", "eof", "limit")
SECOND = 10**9
START = 1_700_000_000 * SECOND
LINGERING = ("TERMINATED", "RESET")


def watch_all(
    stack: Stack,
    *more: tuple[str, str],
    passes: str | list[str] = "all",
    options: Iterable[str] = (),
) -> CompiledStack:
    """Compile a stack so that `run` gets all its built-in events, the events in `more`, and its flow log.

    With other passes than the default, the C is compiled without optimisation, because the test is of the passes and
    not of the C compiler's optimiser.
    """
    files = [READY / "flow_log.c", Path(__file__).with_name("watch.c")]
    functions = tuple(read_c_function(path.stem, path.read_text(), str(path)) for path in files)
    hooks = frozenset([Hook("*", event) for event in EVENTS] + [Hook(layer, event) for layer, event in more])
    with nullcontext() if passes == "all" else unoptimised():
        return compile_stack(stack, functions, hooks, passes, frozenset(options))


@dataclass
class Result:
    """The results of a run.

    events: in order. rows: of the flow log. counters: by layer and name. reports: figures of functions. live: by layer,
    the instances that existed after the last packet (for a capture: when the box had finished the file).
    """

    events: list[Seen]
    rows: list[dict[str, Any]]
    counters: dict[str, dict[str, int]]
    reports: dict[str, int]
    live: dict[str, int] = field(default_factory=lambda: {})

    @property
    def row(self) -> dict[str, Any]:
        """The only row."""
        assert len(self.rows) == 1, self.rows
        return self.rows[0]

    @property
    def state(self) -> str:
        """The last state of the only connection."""
        return self.row["state"]

    def named(self, *names: str) -> list[Seen]:
        """Events of these names."""
        return [event for event in self.events if event.name in names]

    def streams(self, port: int) -> list[bytes]:
        """For every connection in order of creation: the bytes that the end at `port` sent."""
        found: dict[int, bytearray] = {}
        for event in self.events:
            if "sport" in event.key:
                bytes_ = found.setdefault(event.instance, bytearray())
                if event.name == "data" and event.sport == port:
                    bytes_ += event.bytes
        return [bytes(found[number]) for number in sorted(found)]

    def stream(self, port: int) -> bytes:
        """The bytes that the end at `port` sent on the only connection."""
        (found,) = self.streams(port)
        return found

    def count(self, layer: str, name: str = "packets") -> int:
        """A counter, summed over the variants of a layer."""
        return sum(
            counters.get(name, 0)
            for variant, counters in self.counters.items()
            if variant == layer or variant.startswith(f"{layer}_over_")
        )


def live_instances(counters: dict[str, dict[str, int]]) -> dict[str, int]:
    """Instances that have begun and not ended, by layer."""
    return {
        layer: found["instances"] - sum(found[f"ended:{reason}"] for reason in ENDINGS)
        for layer, found in counters.items()
        if "instances" in found
    }


def run(
    compiled: CompiledStack,
    packets: Iterable[bytes | tuple[bytes, int]],
    times: Sequence[float] | None = None,
    *,
    link_type: int = 1,
    settings: Settings | None = None,
) -> Result:
    """Process the packets and finish. A pair is a packet truncated by the snap length, and its length on the wire.

    times: seconds from the beginning, one for each packet (default: 1 ms apart).
    """

    def feed(box: Box) -> None:
        for number, packet in enumerate(packets):
            data, length = packet if isinstance(packet, tuple) else (packet, len(packet))
            seconds = number / 1000 if times is None else times[number]
            box.packet(data, START + int(seconds * SECOND), link_type, length)

    return _watched(compiled, settings or Settings(seed=1, max_instances=1 << 16), feed)


def run_capture(compiled: CompiledStack, path: Path, settings: Settings | None = None) -> Result:
    """The same for a capture file. Nothing times out unless the settings enable it, as in `sluice flows`."""

    def feed(box: Box) -> None:
        outcome = box.run(path)
        assert outcome.fault is None, outcome.fault

    return _watched(compiled, settings or Settings(seed=1, timeouts=False), feed)


def _watched(compiled: CompiledStack, settings: Settings, feed: Callable[[Box], None]) -> Result:
    """Open a box, let `feed` pass packets to it, and return the results."""
    result = Result([], [], {}, {})
    hooks = sorted({(hook.layer, hook.event) for hook in compiled.functions.python})
    seen = PythonFunction("seen", [(layer, event, result.events.append) for layer, event in hooks], [])
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
        with Box(compiled, settings, [seen], [f"out={out.name}"]) as box:
            feed(box)
            result.live = live_instances(box.counters())
            box.finish()
            result.counters, result.reports = box.counters(), box.reports()
        result.rows = [json.loads(line) for line in Path(out.name).read_text().splitlines()]
    check(compiled, result)
    return result


def check(compiled: CompiledStack, result: Result) -> None:
    """Check the invariants of every run: counters conserve, nothing is left, events and rows agree."""
    check_conservation(compiled.program, result.counters)
    check_all_ended(compiled.program, result.counters)
    assert result.reports["pool left"] == 0
    ends = [event for event in result.named("end") if event.instance]
    assert len({event.instance for event in ends}) == len(ends), "an instance ended twice"
    told = Counter((event.layer, event.reason) for event in result.named("malformed"))
    assert told == malformed(result.counters)
    offsets: dict[tuple[int, int], int] = {}
    for event in result.named("data", "gap"):
        if not event.instance:
            continue
        where = event.instance, event.side
        assert event.offset == offsets.get(where, 0), f"{event} begins elsewhere than the last one ended"
        rules = compiled.program.layers[event.layer].rules
        size = 1 if rules is not None and rules.units else len(event.bytes) if event.name == "data" else 0
        offsets[where] = event.offset + (size if event.name == "data" else event.length)
    check_law(result.rows)
    for row in result.rows:
        if row["src_stream"] is None or not row["layers"].endswith("tcp"):
            continue
        for side in ("src", "dst"):
            first_gap = next((gap["offset"] for gap in row["gaps"] if gap["side"] == side), None)
            assert first_gap is None or row[f"{side}_stream"] == first_gap, row


def malformed(counters: dict[str, dict[str, int]]) -> Counter[tuple[str, str]]:
    """The number of malformed packets by layer and reason."""
    found: Counter[tuple[str, str]] = Counter()
    for layer, own in counters.items():
        for name, count in own.items():
            kind, _, reason = name.partition(":")
            if kind == "malformed" and count:
                found[layer, reason] += count
    return found


def sha256(data: bytes) -> str:
    """The hash in the format of the rows."""
    return hashlib.sha256(data).hexdigest()


def late() -> list[bytes]:
    """Traffic of one instance in each table of tcp_ip, which advances the sweeps of the tables."""
    return [
        eth(ip4(tcp(9, 9, 0, "A"), TCP, A4, A4)),
        eth(ip6(tcp(9, 9, 0, "A"), TCP, A6, A6)),
        eth(ip4(udp(9, 9), UDP, A4, A4)),
        fragments4(bytes(16), 8, id=65535)[0],
        fragments6(bytes(16), 8, id=65535)[0],
    ]


def leaves_nothing(
    compiled: CompiledStack, packets: Sequence[bytes | tuple[bytes, int]], before: Result, idle: float = 60
) -> None:
    """Assert that after the packets and `idle` seconds of other traffic, every instance has ended.

    before: the results of a run of the packets. A table's sweep examines 8 slots per 32 look-ups.
    """
    slots = max((found.get("instances", 0) for found in before.counters.values()), default=0)
    more = late() * (4 * slots + 64)
    times = [number / 1000 for number in range(len(packets))]
    begin = (times[-1] if times else 0) + 4 * idle + 400
    times += [begin + number / 1000 for number in range(len(more))]
    settings = Settings(seed=1, max_instances=1 << 16, idle=idle)
    result = run(compiled, [*packets, *more], times, settings=settings)
    for layer, live in result.live.items():
        assert live <= 1, f"{layer} has {live} instances left"
