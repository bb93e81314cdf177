"""What functions decide for single connections: which bytes are wanted, how overlaps end, who hears no more."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from sluice.codegen.stack import generate
from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.subscription import HookError
from sluice.ir.hook import Hook
from sluice.ir.interpreter import Interpreter
from sluice.lower.build import build
from sluice.stacks.find import find_stack
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.stacks import small_tcp
from tests.support.together import Together

SECOND = 10**9
HEAD = '#include "sluice.h"\n'

WATCH = """
SLUICE_COUNTER(zero, "bytes of the active side")
SLUICE_COUNTER(one, "and of the passive one")
SLUICE_COUNTER(gaps, "bytes given up")
SLUICE_COUNTER(ends, "ends heard")
SLUICE_ON(tcp, gap) { SLUICE_COUNTER_OF(event->box, gaps) += data->length; }
SLUICE_COUNTER(closed, "and the connection had closed")
SLUICE_ON(tcp, end) {
    const uint8_t *state = (const uint8_t *)event->instance + event->owner->state_offset;
    SLUICE_COUNTER_OF(event->box, ends)++;
    SLUICE_COUNTER_OF(event->box, closed) += event->owner->state[*state].closed;
}
"""
ADD = """
    if (event->side)
        SLUICE_COUNTER_OF(event->box, one) += data->bytes.length;
    else
        SLUICE_COUNTER_OF(event->box, zero) += data->bytes.length;
"""
COUNT = WATCH + "SLUICE_ON(tcp, data) {" + ADD + "}\n"
DECIDES = (
    WATCH
    + """
SLUICE_CONTROL(tcp)
SLUICE_PARAMETER(off, flag, no, "the active side is")
SLUICE_PARAMETER(most, number, 0, "bytes that both sides may hold")
SLUICE_PARAMETER(limit, number, 0, "bytes after which a side is off")
SLUICE_PARAMETER(switched, flag, no, "a segment of one byte switches its side off, one of two on")
SLUICE_PARAMETER(policy, number, 0, "1: the first copy wins, 2: the last")
SLUICE_COUNTER(sixth, "byte of the first that are delivered")
SLUICE_ON(tcp, created) {
    struct sl_box *box = event->box;
    if (SLUICE_PARAMETER_OF(box, off))
        sl_buffer(event, 0, 0);
    if (SLUICE_PARAMETER_OF(box, most))
        sl_buffer(event, SL_BOTH, (uint32_t)SLUICE_PARAMETER_OF(box, most));
    if (SLUICE_PARAMETER_OF(box, policy))
        sl_policy(event, SL_BOTH, SLUICE_PARAMETER_OF(box, policy) == 2 ? SL_POLICY_LAST : SL_POLICY_FIRST);
}
SLUICE_ON(tcp, packet) {
    if (SLUICE_PARAMETER_OF(event->box, switched) && data->length == 1)
        sl_buffer(event, event->side, 0);
    if (SLUICE_PARAMETER_OF(event->box, switched) && data->length == 2)
        sl_buffer(event, event->side, 1 << 16);
}
SLUICE_ON(tcp, data) {
    if (SLUICE_PARAMETER_OF(event->box, limit) && data->offset >= SLUICE_PARAMETER_OF(event->box, limit))
        sl_buffer(event, event->side, 0);
    if (data->offset == 0 && data->bytes.captured > 5)
        SLUICE_COUNTER_OF(event->box, sixth) = data->bytes.at[5];
"""
    + ADD
    + "}\n"
)


@cache
def function(name: str, text: str) -> CFunction:
    return read_c_function(name, HEAD + text, f"{name}.c")


@cache
def compiled(*functions: CFunction, stack: str = "") -> CompiledStack:
    return compile_stack(find_stack(stack) if stack else small_tcp(), functions)


def run(stack: CompiledStack, packets: list[bytes], options: str = "") -> tuple[dict[str, int], dict[str, int]]:
    """The reports, and the counters of TCP."""
    with Box(stack, Settings(max_instances=1 << 8, memory=1 << 24), function_options=[options]) as box:
        for number, packet in enumerate(packets):
            box.packet(packet, (1000 + number) * SECOND)
        box.finish()
        counters = box.counters()
        return box.reports(), counters["tcp" if "tcp" in counters else "tcp_over_ipv4"]


def opened() -> tuple[list[bytes], Host, Host]:
    client, server = pair()
    return handshake(client, server), client, server


def conserved(counters: dict[str, int]) -> bool:
    """All bytes that came in went somewhere."""
    out = ("delivered", "known already", "discarded", "no memory")
    return counters.get("bytes:in", 0) == sum(counters.get(f"bytes:{name}", 0) for name in out)


def test_a_side_that_is_off_is_neither_held_nor_delivered() -> None:
    """The other one is; and its FIN is still in order after its data, so that the connection closes."""
    packets, client, server = opened()
    first, second = client.send("A", b"a" * 10), client.send("A", b"a" * 10)
    packets += [second, first, server.send("A", b"b" * 30), *goodbye(client, server)]
    reports, counters = run(compiled(function("decides", DECIDES)), packets, "off")
    assert reports == {"zero": 0, "one": 30, "gaps": 0, "ends": 1, "closed": 1, "sixth": ord("b")}
    assert counters["bytes:not wanted"] == 20 and counters["bytes:in"] == 30 and conserved(counters)


@pytest.mark.parametrize("most", [19, 20, 29, 30])
def test_a_side_may_hold_fewer_bytes(most: int) -> None:
    """More than that wait for the hole, so it is given up: what fills it comes too late."""
    packets, client, _server = opened()
    hole = client.send("A", b"a" * 10)
    waiting = [client.send("A", b"b" * 10) for _ in range(3)]
    reports, counters = run(compiled(function("decides", DECIDES)), [*packets, *waiting, hole], f"most={most}")
    assert reports["gaps"] == (0 if most == 30 else 10)
    assert reports["zero"] == (40 if most == 30 else 30)
    assert conserved(counters)


def test_the_first_bytes_only() -> None:
    packets, client, server = opened()
    packets += [client.send("A", b"a" * 10) for _ in range(10)]
    packets += [server.send("A", b"b" * 15)]
    reports, counters = run(compiled(function("decides", DECIDES)), packets, "limit=20")
    assert (reports["zero"], reports["one"]) == (30, 15)
    assert counters["bytes:not wanted"] == 70 and conserved(counters)


def test_off_with_bytes_held_and_on_again() -> None:
    """What waits when a side is switched off is discarded, what came beyond a hole while it was off is a gap later."""
    packets, client, _server = opened()
    hole = client.send("A", b"h" * 10)
    held = client.send("A", b"a" * 10)
    off = client.send("A", b"o")
    hidden = client.send("A", b"x" * 10)
    on = client.send("A", b"oo")
    last = client.send("A", b"z" * 10)
    stack = compiled(function("decides", DECIDES))
    reports, counters = run(stack, [*packets, held, off, hidden, hole, on, last], "switched")
    assert counters["bytes:discarded"] == 10 + 1 and conserved(counters)
    assert counters["bytes:not wanted"] == 10 + 10 + 2 and reports["zero"] == 10 and reports["gaps"] == 0
    reports, counters = run(stack, [*packets, off, hidden, on, held, last, hole], "switched")
    assert counters["bytes:discarded"] == 1 and conserved(counters)
    assert reports["zero"] == 30 and reports["gaps"] == 1 + 10 + 2
    reports, counters = run(stack, [*packets, off, hidden, on], "switched")
    assert conserved(counters)


@pytest.mark.parametrize("policy, wins", [("policy=1", "b"), ("policy=2", "c")])
def test_the_overlap_policy_of_a_connection(policy: str, wins: str) -> None:
    packets, client, _server = opened()
    packets += [client.at(5, b"b" * 5), client.at(5, b"c" * 5), client.at(0, b"a" * 5)]
    reports, _ = run(compiled(function("decides", DECIDES)), packets, policy)
    assert reports["sixth"] == ord(wins)


STOP = """
SLUICE_CONTROL(tcp)
SLUICE_PARAMETER(side, number, 0, "which")
SLUICE_EVENT(tcp, large, data) { return data->bytes.length > 1; }
SLUICE_ON(tcp, packet) {
    if (data->length == 5)
        SLUICE_STOP(event, (unsigned)SLUICE_PARAMETER_OF(event->box, side));
}
SLUICE_COUNTER(large, "large ones")
SLUICE_ON(tcp, large) { SLUICE_COUNTER_OF(event->box, large)++; }
"""


@pytest.mark.parametrize(
    "side, expected",
    [
        ("0", {"zero": 10, "one": 40, "ends": 1, "closed": 1, "large": 1 + 2}),
        ("1", {"zero": 10 + 5 + 20, "one": 20, "ends": 1, "closed": 1, "large": 3 + 1}),
        ("2", {"zero": 10, "one": 20, "ends": 0, "closed": 0, "large": 2}),
    ],
)
def test_a_function_hears_no_more_of_a_side(side: str, expected: dict[str, int]) -> None:
    """Nor of its own events there; of the end it does not when it stopped hearing of both."""
    packets, client, server = opened()
    packets += [client.send("A", b"a" * 10), server.send("A", b"b" * 20), client.send("A", b"a" * 5)]
    packets += [client.send("A", b"a" * 20), server.send("A", b"b" * 20), *goodbye(client, server)]
    reports, counters = run(compiled(function("stop", COUNT + STOP)), packets, f"side={side}")
    assert reports == expected | {"gaps": 0}
    assert conserved(counters)
    not_wanted = {"0": 20, "1": 20, "2": 40}[side]
    assert counters["bytes:not wanted"] == not_wanted  # nobody else wants them


RESUME = """
SLUICE_CONTROL(tcp)
SLUICE_ON(tcp, created) { SLUICE_STOP(event, 0); }
SLUICE_ON(tcp, data) { if (event->side) SLUICE_RESUME(event, 0); }
SLUICE_COUNTER(from, "offset of the first bytes heard of")
SLUICE_COUNTER(zero, "bytes")
SLUICE_EVENT(tcp, again, data) { return event->side == 0; }
SLUICE_ON(tcp, again) {
    if (!SLUICE_COUNTER_OF(event->box, zero))
        SLUICE_COUNTER_OF(event->box, from) = data->offset;
    SLUICE_COUNTER_OF(event->box, zero) += data->bytes.length;
}
"""


def test_another_function_goes_on_hearing_and_one_hears_again() -> None:
    """So the bytes are wanted still."""
    packets, client, _server = opened()
    packets += [client.send("A", b"a" * 5), client.send("A", b"a" * 20)]
    other = 'SLUICE_COUNTER(other, "bytes")\n'
    other += "SLUICE_ON(tcp, data) { SLUICE_COUNTER_OF(event->box, other) += data->bytes.length; }"
    functions = Together(small_tcp, stop=COUNT + STOP, other=other, resume=RESUME)
    reports, counters = run(functions.compiled, packets, "side=2")
    assert (reports["stop.zero"], reports["other.other"]) == (0, 25)
    assert not counters.get("bytes:not wanted") and counters["bytes:delivered"] == 25
    packets, client, server = opened()
    packets += [client.send("A", b"a" * 5), server.send("A", b"b"), client.send("A", b"a" * 20)]
    reports, _ = run(functions.compiled, packets, "side=2")
    assert functions.of("resume", reports) == {"from": 5, "zero": 20}


ON_DEMAND = """
SLUICE_COUNTER(zero, "bytes")
SLUICE_ON(tcp, packet) {
    if (data->length == 1)
        SLUICE_REGISTER_FLOW(event, tcp, data);
    if (data->length == 2)
        SLUICE_DEREGISTER_FLOW(event, tcp, data);
}
SLUICE_ON_DEMAND(tcp, data) { SLUICE_COUNTER_OF(event->box, zero) += data->bytes.length; }
"""


def test_a_flow_that_nobody_watches_is_only_tracked() -> None:
    """Where bytes of streams are for handlers on demand alone, those of other connections are not even held."""
    packets, client, _server = opened()
    sizes = [10, 1, 10, 2, 10]
    packets += [client.send("A", b"a" * size) for size in sizes]
    reports, counters = run(compiled(function("demand", ON_DEMAND)), packets)
    assert reports == {"zero": 10}  # from the packet after the one that registered it
    assert counters["bytes:in"] == 12 and counters["bytes:not wanted"] == 21 and conserved(counters)


def test_unwanted_bytes_outside_the_window_are_not_discarded_again() -> None:
    """Not wanted, they were never counted as having come in. In the interpreter, bytes of all streams are wanted."""
    packets, client, _server = opened()
    packets += [client.at(3_000_000, b"abc"), client.data(b"d")]
    reports, counters = run(compiled(function("demand", ON_DEMAND)), packets)
    assert reports == {"zero": 0}
    assert counters["bytes:not wanted"] == 3 + 1
    assert counters["bytes:in"] == counters["bytes:discarded"] == 0 and conserved(counters)
    interpreter = Interpreter(build(small_tcp(), frozenset({Hook("tcp", "data")})))
    for number, packet in enumerate(packets):
        interpreter.packet(packet, (1000 + number) * SECOND)
    interpreter.close()
    counters = interpreter.counters["tcp"]
    assert counters["bytes:in"] == 4 and counters["bytes:discarded"] == 3 and conserved(counters)


def test_a_program_that_embeds_the_stack_wants_the_bytes() -> None:
    """Where it gets `data`, no handler on demand decides whether bytes are held."""
    hooks = frozenset({Hook("tcp", "data")})
    asked = Functions((function("demand", ON_DEMAND),))
    for functions, decides in ((asked, True), (replace(asked, embedded=hooks), False)):
        source = generate(build(small_tcp(), functions.hooks()), functions, weak=True).source
        assert ("(watched & 0x1ull), &box->base.pool" in source) == decides


def test_a_layer_above_wants_the_bytes() -> None:
    """PPTP takes the streams of TCP, which no function stops by hearing no more itself."""
    packets, client, _server = opened()
    packets += [client.send("A", b"a" * 5), client.send("A", b"a" * 20)]
    stack = compiled(function("stop", COUNT + STOP), stack="pptp")
    reports, counters = run(stack, packets, "side=2")
    assert reports["zero"] == 0 and counters["bytes:delivered"] == 25


def test_only_streams_of_bytes_are_controlled() -> None:
    text = "SLUICE_CONTROL(ipv4)\nSLUICE_ON(ipv4, created) { sl_buffer(event, 0, 0); }"
    with pytest.raises(HookError, match=r"off\.c: SLUICE_CONTROL\(ipv4\): 'ipv4' delivers whole datagrams"):
        compiled(function("off", text))


def test_nothing_is_paid_where_nothing_is_decided() -> None:
    """The C of a stack is the same, word by word, where no function decides anything."""
    functions = Functions((function("count", COUNT),))
    plain = generate(build(small_tcp(), functions.hooks()), functions).source
    assert "sl_control" not in plain and "timer" not in plain and "sl_output" not in plain
