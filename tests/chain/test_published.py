"""Events that functions publish: declared structs, hierarchies as in mOS, subscribers in C and Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.chain.describe import describe
from sluice.chain.description import function
from sluice.codegen.stack import generate
from sluice.engine.functions import FunctionError, find_functions
from sluice.engine.published import check_published
from sluice.engine.published_cycles import check_cycles
from sluice.hooks.function import Functions
from sluice.hooks.subscription import HookError
from sluice.lower.build import build
from tests.chain.functions import Put
from tests.chain.running import checked, run, run_isolated, talk
from tests.support.small_stacks import small_stack

DPI = """
SLUICE_PUBLISH(detected, { uint32_t kind; sl_bytes start; })
SLUICE_PUBLISH_AS(detected, http, { bool get; uint16_t port, unused; })
SLUICE_PUBLISH(never, { uint64_t number; })
SLUICE_COUNTER(evaluated, "fields of an event without a subscriber")
SLUICE_ON(tcp, data) {
    SLUICE_EMIT(event, never, .number = ++SLUICE_COUNTER_OF(event->box, evaluated));
    if (data->offset)
        return;
    if (event->side == 0)
        SLUICE_EMIT(event, http, .kind = 1, .start = data->bytes, .get = true, .port = 80);
    else
        SLUICE_EMIT(event, detected, .kind = 7, .start = data->bytes);
}
"""
IDS = """
struct of_flow { uint64_t kinds; };
SLUICE_STATE(struct of_flow)
SLUICE_COUNTER(detected, "events")
SLUICE_COUNTER(http, "of these, the children")
SLUICE_COUNTER(bytes, "at the start of streams")
SLUICE_COUNTER(most, "that an instance was told of")
SLUICE_COUNTER(base_first, "children whose base was received before")
SLUICE_ON(chain, detected) {
    SLUICE_COUNTER_OF(event->box, detected)++;
    SLUICE_COUNTER_OF(event->box, bytes) += data->start.length;
    SLUICE_STATE_OF(event)->kinds += data->kind;
    if (SLUICE_STATE_OF(event)->kinds > SLUICE_COUNTER_OF(event->box, most))
        SLUICE_COUNTER_OF(event->box, most) = SLUICE_STATE_OF(event)->kinds;
}
SLUICE_ON(chain, http) {
    SLUICE_COUNTER_OF(event->box, http) += data->get && data->port == 80 && data->kind == 1;
    SLUICE_COUNTER_OF(event->box, base_first) += SLUICE_STATE_OF(event)->kinds == 1;
}
"""


def test_a_subscriber_to_a_base_receives_its_children(put: Put, tmp_path: Path) -> None:
    """After the base, with all fields; state belongs to the instance for which it was published."""
    came = run(checked(function(put("dpi.c", DPI)) >> function(put("ids.c", IDS))), tmp_path / "out")
    assert came.reports == {
        "dpi.evaluated": 0,
        "ids.detected": 6,
        "ids.http": 3,
        "ids.base_first": 3,
        "ids.bytes": 3 * (10 + 120),
        "ids.most": 8,
    }


def test_without_a_subscriber_there_is_no_code(put: Put) -> None:
    """Neither a call, nor a struct that is filled: what emits is a constant condition."""
    plan = checked(function(put("dpi.c", DPI)) >> function(put("ids.c", IDS)))
    functions = Functions(tuple(plan.wanted().c))
    source = generate(build(small_stack(), functions.hooks()), functions).source
    assert "enum { dpi_chain_never_subscribed = false };" in source
    assert "enum { dpi_chain_http_subscribed = true };" in source
    emitted = source.rpartition("void dpi_chain_never_publish(const struct sl_event *from")[2].partition("\n{\n")[2]
    assert emitted.startswith("    (void)from;\n    (void)given;\n}")


EXPECTS = """
#include <stdbool.h>
SLUICE_EXPECT(detected, { uint32_t kind; sl_bytes start; })
SLUICE_COUNTER(detected, "events")
SLUICE_ON(chain, detected) { SLUICE_COUNTER_OF(event->box, detected)++; }
SLUICE_COUNTER(closed, "connections")
SLUICE_ON(tcp, end) { SLUICE_COUNTER_OF(event->box, closed)++; }
"""


def test_an_event_that_another_function_may_publish(put: Put, tmp_path: Path) -> None:
    both = checked(function(put("dpi.c", DPI)) >> function(put("log.c", EXPECTS)))
    alone = checked(function(put("log.c", EXPECTS)))
    for runs in (run, run_isolated):
        assert runs(both, tmp_path / "out").reports["log.detected"] == 6
        reports = runs(alone, tmp_path / "out").reports
        assert reports["log.detected"] == 0 and reports["log.closed"]
    assert [one["publishes"] for one in describe(alone, "s")["functions"]] == [[]]


MORE = """
SLUICE_COUNTER(large, "of those with a filter")
SLUICE_COUNTER(asked, "how often the filter was called")
SLUICE_COUNTER(watched, "of one instance")
SLUICE_EVENT(chain, large, detected) { SLUICE_COUNTER_OF(event->box, asked)++; return data->start.length > 100; }
SLUICE_ON(chain, large) { SLUICE_COUNTER_OF(event->box, large)++; }
SLUICE_ON_DEMAND(chain, detected) { SLUICE_COUNTER_OF(event->box, watched)++; }
SLUICE_ON(tcp, created) { if (sl_event_number(event) == 2) SLUICE_REGISTER_FLOW(event, chain, detected); }
"""


def test_filters_and_handlers_on_demand_work_on_published_events(put: Put, tmp_path: Path) -> None:
    came = run(checked(function(put("dpi.c", DPI)) >> function(put("more.c", MORE))), tmp_path / "out")
    found = {name.removeprefix("more."): value for name, value in came.reports.items() if name.startswith("more.")}
    assert found == {"large": 3, "asked": 6, "watched": 2}


SEEN = """
from sluice.functions import counter, event, on, publishes

lines = counter("rows")
rows = []

@publishes
class alert:
    kind: int
    urgent: bool
    start: bytes

@publishes(base="alert")
class web_alert:
    port: "uint16_t"

@on("chain", "detected")
def saw(event):
    rows.append((event.layer, event.name, event.kind, event.start[:2], event.sport, event.side))
    if event.kind == 1:
        web_alert(event, kind=event.kind, start=event.start, port=event.dport)
    else:
        alert(event, kind=event.kind, urgent=True)
    lines.add()
"""
TOLD = """
from sluice.functions import event, on

rows = []

@event("chain", "alert")
def urgent_alert(event):
    return event.urgent

@on("chain", "alert")
def alerted(event):
    rows.append(("alert", event.kind, event.start[:1], event.dport))

@on("chain", "urgent_alert")
def urgent(event):
    rows.append(("urgent", event.kind, event.packet > 0, event.key["sport"]))

@on("chain", "web_alert")
def web(event):
    rows.append(("web", event.port, event.values["port"]))
"""


def test_python_publishes_for_python(put: Put, tmp_path: Path) -> None:
    """What C published reaches it, and what it publishes reaches functions after it, with the instance's key."""
    functions = [function(put(*each)) for each in (("dpi.c", DPI), ("seen.py", SEEN), ("told.py", TOLD))]
    plan = checked(functions[0] >> functions[1] >> functions[2])
    seen, told = (_rows(python) for python in plan.python())
    came = run(plan, tmp_path / "out")
    assert came.reports["seen.lines"] == 6
    assert seen[:2] == [
        ("chain", "detected", 1, b"AA", 40000, 0),
        ("chain", "detected", 1, b"BB", 40001, 0),
    ]
    assert ("chain", "detected", 7, b"an", 80, 1) in seen
    assert told[:2] == [("alert", 1, b"A", 80), ("web", 80, 80)]
    assert told.count(("urgent", 7, True, 80)) == 3


def _rows(python: object) -> list[object]:
    handler = python.handlers[0][2]  # type: ignore[attr-defined]
    return handler.__globals__["rows"]


TWICE = """
from sluice.functions import counter, on, parameter

port = parameter(80, "whose packets are counted")
seen = counter("packets")

@on("tcp", "packet")
def count(event):
    if event.sport == port:
        seen.add()
"""


def test_instances_of_one_function_have_their_own_parameters_and_figures(put: Put, tmp_path: Path) -> None:
    """In C, with statics, types and macros of the same names, and in Python."""
    text = """
#define LIMIT SLUICE_PARAMETER_OF(event->box, port)
struct totals { uint64_t seen; };
SLUICE_WORKER(struct totals)
SLUICE_PARAMETER(port, number, 80, "whose packets are counted")
SLUICE_COUNTER(seen, "packets")
static uint64_t calls;
static bool is_it(const struct sl_event *event) { calls++; return sl_load_be16(event->unit.at) == LIMIT; }
SLUICE_ON(tcp, packet) { if (is_it(event)) SLUICE_WORKER_OF(event->box)->seen++; }
SLUICE_CLOSE { SLUICE_COUNTER_OF(box, seen) = SLUICE_WORKER_OF(box)->seen; sl_report(box, "calls", calls); }
"""
    c, python = put("count.c", text), put("watch.py", TWICE)
    plan = checked(
        function(c) >> (function(c, "second", port=40000) | function(python)) >> function(python, "fourth", port=40001)
    )
    reports = run(plan, tmp_path / "out").reports

    def packets(port: int) -> int:
        return sum(packet[34:36] == port.to_bytes(2, "big") for packet in talk())

    assert reports == {
        "count.seen": packets(80), "count.calls": len(talk()), "second.seen": packets(40000),
        "second.calls": len(talk()), "watch.seen": packets(80), "fourth.seen": packets(40001),
    }  # fmt: skip


PING = """
SLUICE_PUBLISH(%s, { uint32_t kind; })
SLUICE_ON(chain, %s) { SLUICE_EMIT(event, %s, .kind = data->kind); }
"""
ECHO = """
from sluice.functions import on, publishes
@publishes
class ping:
    kind: int
@on("chain", "ping")
def saw(event):
    %s
@on("tcp", "data")
def look(event):
    ping(event, kind=1)
"""


def cycle(*sources: str) -> str:
    """What is said of functions without a chain; without folders."""
    with pytest.raises(HookError) as error:
        found = find_functions(list(sources))
        check_published(found.c, found.python)
        check_cycles(found.c, found.python)
    return re.sub(r"[\w./-]*/([\w.]+\.(?:c|py))", r"\1", str(error.value))


def test_without_a_chain_a_publication_does_not_lead_back_to_its_function(put: Put) -> None:
    one, two = put("one.c", PING % ("ping", "pong", "ping")), put("two.c", PING % ("pong", "ping", "pong"))
    own = put("own.c", PING % ("ping", "ping", "ping"))
    assert cycle(one, two).startswith(
        "one.c:4: 'one' publishes an event that leads back to it: 'two' subscribes to 'ping' (two.c:4), "
        "'one' subscribes to 'pong' (one.c:4)\n    let events go in one direction"
    )
    assert "'own' subscribes to 'ping' (own.c:4)" in cycle(own)
    assert "'echo' subscribes to 'ping' (echo.py:" in cycle(put("echo.py", ECHO % "ping(event, kind=2)"))


def test_what_is_expected_is_not_emitted_and_has_the_fields_of_its_publisher(put: Put) -> None:
    text = "SLUICE_EXPECT(a, { uint32_t kind; })\nSLUICE_ON(tcp, end) { SLUICE_EMIT(event, a, .kind = 1); }\n"
    with pytest.raises(FunctionError, match="this function emits 'a', but does not publish it"):
        find_functions([put("one.c", text)])
    other = put(
        "two.c", "SLUICE_PUBLISH(a, { uint64_t kind; })\nSLUICE_ON(tcp, end) { SLUICE_EMIT(event, a, .kind = 1); }\n"
    )
    same = put("three.c", "SLUICE_EXPECT(a, { uint32_t kind; })\nSLUICE_ON(chain, a) { }\n")
    assert "'a' is { uint32_t kind }, but { uint64_t kind } at two.c:" in cycle(other, same)


def test_a_file_in_python_subscribes_to_its_own_events(put: Put) -> None:
    found = find_functions([put("echo.py", ECHO % "print(event.kind)")])
    check_cycles(found.c, found.python)
