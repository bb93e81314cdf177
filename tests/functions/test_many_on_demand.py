"""More than 64 handlers on demand in one box: their bits are in several words, in C, in Python and in processes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.codegen.stack import generate
from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.functions import load_python
from sluice.hooks.function import Functions
from sluice.hooks.subscription import HookError
from sluice.lower.build import build
from tests.chain.running import checked, run, run_isolated
from tests.support.connection import handshake, pair
from tests.support.stacks import small_ip
from tests.support.together import Together

SECOND = 10**9
FIRST, COUNT = 100, 120
"""Handlers of the first function, and of both."""
FLOW, NOT_FLOW, ALL, NOT_ALL, TIMER, BYTES, PUBLISHED, EVERY, PROBE = 0, 200, 400, 600, 900, 901, 902, 903, 1000
"""Lengths of segments: of a command about handler n, n + 1 more; of others; handlers receive those of PROBE or more."""


def handlers(first: int, beyond: int) -> str:
    """A function with handlers on demand of events of its own. It registers them by the lengths of segments."""
    counters = "".join(f'SLUICE_COUNTER(handler{n}, "calls")\n' for n in range(first, beyond))
    events = "".join(
        f"""
SLUICE_EVENT(tcp, probe{n}, packet) {{ return data->length >= {PROBE} && (data->length + {n}) % 3; }}
SLUICE_ON_DEMAND(tcp, probe{n}) {{ SLUICE_COUNTER_OF(event->box, handler{n})++; }}"""
        for n in range(first, beyond)
    )
    cases = "".join(
        f"""
    case {FLOW + n + 1}: SLUICE_REGISTER_FLOW(event, tcp, probe{n}); break;
    case {NOT_FLOW + n + 1}: SLUICE_DEREGISTER_FLOW(event, tcp, probe{n}); break;
    case {ALL + n + 1}: SLUICE_REGISTER(event->box, tcp, probe{n}); break;
    case {NOT_ALL + n + 1}: SLUICE_DEREGISTER(event->box, tcp, probe{n}); break;"""
        for n in range(first, beyond)
    )
    every = "".join(f"\n        SLUICE_REGISTER(event->box, tcp, probe{n});" for n in range(first, beyond))
    timer = f"""
SLUICE_TIMER(tcp, later{first}) {{ SLUICE_REGISTER_FLOW(event, tcp, probe{beyond - 1}); }}"""
    return f"""{counters}{events}{timer}
SLUICE_ON(tcp, packet) {{
    switch (data->length) {{{cases}
    case {TIMER}: SLUICE_ARM(event, tcp, later{first}, 1500000000); break;
    case {EVERY}:{every}
    }}
}}
"""


BYTES_OF_FLOWS = f"""
SLUICE_COUNTER(bytes, "of flows that are registered")
SLUICE_ON(tcp, packet) {{ if (data->length == {BYTES}) SLUICE_REGISTER_FLOW(event, tcp, data); }}
SLUICE_ON_DEMAND(tcp, data) {{ SLUICE_COUNTER_OF(event->box, bytes) += data->bytes.length; }}
"""
PUBLISHES = f"""
SLUICE_PUBLISH(probed, {{ uint32_t length; }})
SLUICE_ON(tcp, packet) {{ if (data->length >= {PROBE}) SLUICE_EMIT(event, probed, .length = data->length); }}
"""
SUBSCRIBES = f"""
SLUICE_COUNTER(probed, "events")
SLUICE_ON(tcp, packet) {{ if (data->length == {PUBLISHED}) SLUICE_REGISTER_FLOW(event, chain, probed); }}
SLUICE_ON_DEMAND(chain, probed) {{ SLUICE_COUNTER_OF(event->box, probed)++; }}
"""
TOGETHER = Together(
    small_ip,
    first=handlers(0, FIRST),
    second=handlers(FIRST, COUNT),
    bytes=BYTES_OF_FLOWS,
    publishes=PUBLISHES,
    subscribes=SUBSCRIBES,
)


@dataclass
class Flow:
    """What is registered for a flow, or not, other than for all."""

    more: set[int] = field(default_factory=lambda: set())
    less: set[int] = field(default_factory=lambda: set())
    timers: list[int] = field(default_factory=lambda: [])


def expected(script: list[tuple[int, int]]) -> Counter[str]:
    """Calls of each handler, by a model of the registrations. script: the flow and the length of each segment."""
    calls: Counter[str] = Counter()
    flows: dict[int, Flow] = {}
    every: set[int] = set()
    for second, (number, length) in enumerate(script):
        flow = flows.setdefault(number, Flow())
        for other in flows.values():
            if other.timers and second - other.timers[0] >= 2:  # of 1.5 s, before the packet at 2 s
                other.timers.clear()
                for n in (FIRST - 1, COUNT - 1):
                    other.more, other.less = other.more | {n}, other.less - {n}
        n = length % 200 - 1
        if length >= PROBE:
            registered = (every - flow.less) | flow.more
            calls.update(f"handler{n}" for n in registered if (length + n) % 3)
        elif length == TIMER:
            flow.timers = [second]
        elif length == EVERY:
            every = set(range(COUNT))
        elif length > NOT_ALL:
            every -= {n}
        elif length > ALL:
            every |= {n}
        elif length > NOT_FLOW:
            flow.more, flow.less = flow.more - {n}, flow.less | {n}
        else:
            flow.more, flow.less = flow.more | {n}, flow.less - {n}
    return calls


@cache
def scripts() -> list[list[tuple[int, int]]]:
    """Commands by chance to three flows, with segments that handlers receive between them."""
    made: list[list[tuple[int, int]]] = []
    for seed in range(6):
        chance = random.Random(seed)
        script: list[tuple[int, int]] = []
        for _ in range(150):
            command = chance.choice((FLOW, FLOW, NOT_FLOW, ALL, ALL, NOT_ALL)) + chance.randrange(COUNT) + 1
            length = chance.choice((command, command, PROBE + chance.randrange(3), TIMER))
            script.append((chance.randrange(3), EVERY if seed == 5 and len(script) == 20 else length))
        made.append([*script, *((flow, PROBE + rest) for flow in range(3) for rest in range(3))])
    return made


def packets_of(script: list[tuple[int, int]]) -> list[bytes]:
    """The handshakes of three flows, then a segment per second."""
    hosts = [pair(port=40000 + number) for number in range(3)]
    packets = [packet for client, server in hosts for packet in handshake(client, server)]
    return packets + [hosts[flow][0].send("A", b"x" * length) for flow, length in script]


def called(reports: dict[str, int]) -> Counter[str]:
    """Calls of the handlers that were called."""
    names = {name.rpartition(".")[2]: value for name, value in reports.items() if value}
    return Counter({name: value for name, value in names.items() if name.startswith("handler")})


def run_box(stack: CompiledStack, packets: list[bytes], options: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Reports, and the counters of TCP."""
    with Box(stack, Settings(max_instances=1 << 8, memory=1 << 24), function_options=options) as box:
        box.burst([(packet, (1000 + number) * SECOND, 1, None) for number, packet in enumerate(packets)])
        box.finish()
        assert box.failure() is None
        return box.reports(), box.counters()["tcp_over_ipv4"]


@pytest.mark.parametrize("script", scripts(), ids=range(len(scripts())))
def test_registrations_in_several_words(script: list[tuple[int, int]]) -> None:
    """For all and for single flows, by handlers and by timers, in a chain of functions in one box."""
    reports, _ = run_box(TOGETHER.compiled, packets_of(script), TOGETHER.options("first", ""))
    assert called(reports) == expected(script) and TOGETHER.compiled.compiled.messages == ""
    assert sum(called(reports).values()) > 100


def test_bytes_of_streams_and_published_events() -> None:
    """Handlers with numbers above 64 decide whether bytes are wanted, and receive what functions publish."""
    script = [(0, BYTES), (0, 950), (1, 950), (1, PUBLISHED), (0, PROBE), (1, PROBE), (1, PROBE + 1)]
    reports, counters = run_box(TOGETHER.compiled, packets_of(script), TOGETHER.options("first", ""))
    assert TOGETHER.of("bytes", reports) == {"bytes": 950 + PROBE}
    assert TOGETHER.of("subscribes", reports) == {"probed": 2}
    assert counters["bytes:in"] == 950 + PROBE
    assert counters["bytes:not wanted"] == BYTES + 950 + PUBLISHED + PROBE + PROBE + 1


def test_there_are_more_words_only_where_they_are_needed() -> None:
    """64 handlers have one word in the box and in instances, as one handler has."""
    event = "SLUICE_EVENT(tcp, e{n}, packet) {{ return true; }}\nSLUICE_ON_DEMAND(tcp, e{n}) {{ }}\n"
    for count, words in ((64, 1), (129, 3)):
        text = '#include "sluice.h"\n' + "".join(event.format(n=n) for n in range(count))
        functions = Functions((read_c_function("some", text, "some.c"),))
        source = generate(build(small_ip(), functions.hooks()), functions).source
        assert functions.watch_words == words
        assert (f"#define SL_WATCH_WORDS {words}\n" in source) == (words > 1)
        assert (f"    struct sl_watch watch[{words}];\n" if words > 1 else "    struct sl_watch watch;\n") in source
        assert ("watched1" in source) == (words > 1) and ("watched2" in source) == (words > 1)


PYTHON = f"""
from sluice.functions import counter, on, on_demand
for n in range(70):
    globals()[f"python{{n}}"] = counter("calls")
handlers = []

def make(n):
    @on_demand("tcp", "packet")
    def look(event):
        if event.length >= {PROBE}:
            globals()[f"python{{n}}"].add()
    handlers.append(look)

for n in range(70):
    make(n)

@on("tcp", "packet")
def packet(event):
    n = event.length % 200 - 1
    if not 0 <= n < 70 or event.length > {NOT_ALL + 70}:
        return
    if event.length > {NOT_ALL}:
        handlers[n].deregister()
    elif event.length > {ALL}:
        handlers[n].register()
    elif event.length > {NOT_FLOW}:
        handlers[n].deregister(event)
    else:
        handlers[n].register(event)
"""


def test_handlers_in_python(tmp_path: Path) -> None:
    """Seventy in Python after a hundred in C: a record has the words of all of them, after its values."""
    path = tmp_path / "many.py"
    path.write_text(PYTHON)
    python = load_python(path)
    one = read_c_function("first", '#include "sluice.h"\n' + handlers(0, FIRST), "first.c")
    stack = compile_stack(small_ip(), (one,), python.hooks(), demanded=tuple(python.demanded()))
    flows = ((0, FLOW + 1), (0, FLOW + 70), (1, ALL + 65), (0, NOT_FLOW + 65), (2, ALL + 33), (2, NOT_ALL + 33))
    script = [*flows, (0, PROBE), (1, PROBE), (2, PROBE), (1, NOT_ALL + 65), (1, PROBE)]
    with Box(stack, Settings(max_instances=1 << 8, memory=1 << 24), [python]) as box:
        box.burst([(packet, (1000 + n) * SECOND, 1, None) for n, packet in enumerate(packets_of(script))])
        box.finish()
        found = {name: value for name, value in box.reports().items() if name.startswith("python") and value}
        assert found == {"python0": 1, "python69": 1, "python64": 2}
        assert called(box.reports()) == expected(script)


def test_in_processes(tmp_path: Path) -> None:
    """The functions in processes of their own come to what they come to in one box."""
    for name, text in (("first", handlers(0, FIRST)), ("second", handlers(FIRST, COUNT))):
        (tmp_path / f"{name}.c").write_text('#include "sluice.h"\n' + text)
    plan = checked(function(str(tmp_path / "first.c")) >> function(str(tmp_path / "second.c")))
    for script in scripts()[:2]:
        packets = tuple(packets_of(script))
        fused = run(plan, tmp_path / "fused.pcap", packets)
        isolated = run_isolated(plan, tmp_path / "isolated.pcap", packets)
        assert called(isolated.reports) == called(fused.reports) == expected(script)


def test_functions_that_control_instances_have_a_bit_each() -> None:
    """The 65th function in a box cannot stop events of a flow: its bit would be that of another one."""
    texts = [read_c_function(f"f{n}", '#include "sluice.h"\nSLUICE_ON(tcp, packet) { }\n', "f.c") for n in range(64)]
    last = read_c_function("last", '#include "sluice.h"\nSLUICE_CONTROL(tcp)\nSLUICE_ON(tcp, packet) { }\n', "last.c")
    with pytest.raises(HookError, match="'last' controls instances, and 64 functions precede it"):
        generate(build(small_ip(), frozenset()), Functions((*texts, last)))
