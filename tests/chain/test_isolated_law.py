"""The law of isolated chains: functions in processes of their own come to what the fused chain comes to.

The functions of test_law count each event of the stack, in order, and decide about packets. Here they also publish and
subscribe, and have timers, so that order across processes matters. Each example compares figures, verdicts and bytes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from sluice.chain.description import function
from tests.chain.running import checked, run, run_isolated, talk
from tests.chain.test_law import Choice, Tree, arranged, folder, in_parallel_on_one_field, predicted, trees

__all__ = ["folder"]

TALKS = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_PARAMETER(salt, number, 0, "by which instances differ")
SLUICE_COUNTER(seen, "events")
SLUICE_COUNTER(digest, "of these, in order")
SLUICE_COUNTER(destroyed, "connections")
struct counted { uint64_t events; };
SLUICE_STATE(struct counted)
SLUICE_PUBLISH(NAMEplain, { uint64_t what; sl_bytes start; })
SLUICE_PUBLISH_AS(NAMEplain, NAMEmore, { uint8_t side; bool early; })
static void see(const struct sl_event *event, uint64_t what) {
    uint64_t *digest = &SLUICE_COUNTER_OF(event->box, digest);
    *digest = (*digest * 1000003 + sl_packet_number(event) * 64 + what) % 1000000007;
    SLUICE_COUNTER_OF(event->box, seen)++;
}
SLUICE_TIMER(tcp, idle) { see(event, 9); }
SLUICE_ON(tcp, packet) {
    uint64_t events = ++SLUICE_STATE_OF(event)->events;
    see(event, events % 8);
    if (events % 3 == 0)
        SLUICE_ARM(event, tcp, idle, 2000000000);
    if ((sl_packet_number(event) + SLUICE_PARAMETER_OF(event->box, salt)) % 7 == 0)
        SLUICE_RESET(event->box);
    if (events == 4)
        SLUICE_SEND(event->box, sl_packet_frame(event)->at, sl_packet_frame(event)->captured);
    SLUICE_EMIT(event, NAMEmore, .what = events, .start = event->unit, .side = event->side & 1, .early = events < 3);
}
SLUICE_ON(tcp, data) {
    see(event, 10 + data->bytes.captured % 5);
    uint8_t copy[4] = {(uint8_t)data->offset, 1, 2, 3};
    SLUICE_EMIT(event, NAMEplain, .what = 8, .start = {copy, 4, 4});
}
SLUICE_DESTROY { SLUICE_COUNTER_OF(box, destroyed) += state->events; }
"""
HEARS = """
SLUICE_ON(chain, OTHERplain) {
    see(event, 20 + data->what + (data->start.captured ? data->start.at[0] : 0));
    SLUICE_EMIT(event, NAMEplain, .what = data->what + 1, .start = data->start);
    if (data->what == 8)
        SLUICE_REGISTER_FLOW(event, tcp, state);
}
SLUICE_ON(chain, OTHERmore) { see(event, 40 + data->side + data->early); }
SLUICE_ON_DEMAND(tcp, state) { see(event, 50 + data->after); SLUICE_DEREGISTER_FLOW(event, tcp, state); }
"""
LOGS = """
from sluice.functions import counter, on
seen, digest = counter("events"), counter("of these, in order")

def see(event, what):
    seen.add()
    digest.value = (digest.value * 1000003 + event.packet * 64 + what) % 1000000007

@on("tcp", "packet")
def packet(event):
    see(event, 1)

@on("chain", "aplain")
def plain(event):
    see(event, 2 + event.what + len(event.start))

@on("chain", "cplain")
def other(event):
    see(event, 30 + event.what)
"""


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a publishes; b and c subscribe to it, c to b; Python subscribes to both ends."""
    made = tmp_path_factory.mktemp("talking")
    (made / "a.c").write_text(TALKS.replace("NAME", "a"))
    (made / "b.c").write_text((TALKS + HEARS).replace("NAME", "b").replace("OTHER", "a"))
    both = HEARS.replace("OTHER", "b") + "SLUICE_ON(chain, aplain) { see(event, 60 + data->what); }\n"
    (made / "c.c").write_text((TALKS + both).replace("NAME", "c"))
    (made / "log.py").write_text(LOGS)
    return made


def test_published_events_timers_and_state_are_in_the_order_of_the_fused_chain(talking: Path) -> None:
    a, b, c, log = (function(str(talking / name)) for name in ("a.c", "b.c", "c.c", "log.py"))
    plan = checked(a >> b >> c >> log)
    isolated = run_isolated(plan, talking / "isolated.pcap")
    fused = run(plan, talking / "fused.pcap")  # after it: Python's counters count on in this process
    assert isolated.reports == fused.reports
    assert isolated.left == fused.left
    assert fused.reports["packets_sent"] and fused.reports["packets_dropped"] and fused.reports["c.destroyed"]


def keeps_the_law(tree: Tree, made: Path, fused: bool) -> None:
    """The rules of chains say what a chain comes to (test_law); with `fused`, the fused chain does."""
    arrangement, functions = arranged(tree, made, iter(range(100)))
    earlier = [(one.name, other.name) for one, other in arrangement.earlier()]
    before = {name: tuple(one for one, other in earlier if other == name) for name, _ in functions}
    if in_parallel_on_one_field(functions, before):
        return  # test_law has the refusal
    plan = checked(arrangement)
    isolated = run_isolated(plan, made / "isolated.pcap")
    if fused:
        came = run(plan, made / "fused.pcap")
        assert isolated.reports == came.reports
        assert isolated.left == came.left
        assert isolated.counters == came.counters
    reports, left = predicted(functions, before)
    assert {name: value for name, value in isolated.reports.items() if "." in name} == reports
    assert isolated.left == left
    if any(choice.kind not in ("watch", "python") for _, choice in functions):
        assert isolated.reports["packets_dropped"] == len(talk()) - len(left)


def test_isolated_is_as_predicted_where_a_drop_meets_a_branch(folder: Path) -> None:
    """(drop >> watch | watch | python) >> (drop | ttl | tos) >> watch, python: one of each case."""
    early, late = Choice("drop", 0, 3, 0), Choice("drop", 1, 4, 3)
    watch, python = Choice("watch", 0, 2, 0), Choice("python", 0, 2, 0)
    branch = ("|", ((">", (early, watch)), watch, python))
    tree = (">", (branch, ("|", (late, Choice("ttl", 3, 2, 0), Choice("tos", 4, 3, 2))), watch, python))
    keeps_the_law(tree, folder, fused=False)


SETTINGS = {"suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate], "database": None}


@settings(max_examples=2, derandomize=True, **SETTINGS)  # each compiles functions
@given(trees(4))
def test_isolated_is_as_predicted(folder: Path, tree: Tree) -> None:
    keeps_the_law(tree, folder, fused=False)


@pytest.mark.slow_matrix
@settings(max_examples=100, **SETTINGS)
@given(trees(8))
def test_isolated_is_as_fused_in_many_arrangements(folder: Path, tree: Tree) -> None:
    keeps_the_law(tree, folder, fused=True)
