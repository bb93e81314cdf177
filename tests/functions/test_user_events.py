"""Events that functions define by a base event and a filter, and handlers that are registered while traffic runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli.common.check_hooks import check_hooks
from sluice.cli.common.errors import CommandError
from sluice.codegen.stack import generate
from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.functions import FunctionError, Wanted, load_python
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.subscription import HookError
from sluice.lower.build import build
from tests.support.connection import handshake, pair
from tests.support.stacks import small_ip
from tests.support.together import Together

SECOND = 10**9
HEAD = '#include "sluice.h"\n'


def function(name: str, text: str) -> CFunction:
    return read_c_function(name, HEAD + text, f"{name}.c")


def ran(stack: CompiledStack, packets: list[bytes], options: list[str], most: int = 1 << 8) -> dict[str, int]:
    with Box(stack, Settings(max_instances=most, memory=1 << 24), function_options=options) as box:
        for number, packet in enumerate(packets):
            box.packet(packet, (1000 + number) * SECOND)
        box.finish()
        return box.reports()


def reports(name: str, packets: list[bytes], options: str = "", most: int = 1 << 8) -> dict[str, int]:
    """What a function of this file reports, beside all others. most: the number of connections."""
    return ALL.of(name, ran(ALL.compiled, packets, ALL.options(name, options), most))


def talk(port: int, sizes: list[int]) -> list[bytes]:
    """A connection whose client sends segments of these sizes."""
    client, server = pair(port=port)
    packets = handshake(client, server)
    for size in sizes:
        packets.append(client.send("A", b"x" * size))
    return packets


SIZES = """
SLUICE_COUNTER(asked, "how often the filter of large was asked")
SLUICE_COUNTER(asked_huge, "and that of huge")
SLUICE_COUNTER(seen_large, "how often large happened")
SLUICE_COUNTER(seen_huge, "and huge")
SLUICE_COUNTER(order, "1 where huge was told before large")
SLUICE_EVENT(tcp, large, packet) { SLUICE_COUNTER_OF(event->box, asked)++; return data->length > 100; }
SLUICE_EVENT(tcp, huge, large) { SLUICE_COUNTER_OF(event->box, asked_huge)++; return data->length > 1000; }
SLUICE_EVENT(tcp, unheard, packet) { SLUICE_COUNTER_OF(event->box, asked) += 1000; return true; }
SLUICE_ON(tcp, huge) {
    if (SLUICE_COUNTER_OF(event->box, seen_huge)++ >= SLUICE_COUNTER_OF(event->box, seen_large))
        SLUICE_COUNTER_OF(event->box, order) = 1;
}
SLUICE_ON(tcp, large) { SLUICE_COUNTER_OF(event->box, seen_large)++; }
"""
OTHER = """
SLUICE_COUNTER(also, "how often another function heard of huge")
SLUICE_ON(tcp, huge) { SLUICE_COUNTER_OF(event->box, also)++; }
"""


def test_nested_events_happen_after_their_base_and_their_filters_are_asked_once() -> None:
    """Also where several listen, of several functions; the filter of an event that nobody hears is not asked."""
    packets = talk(40000, [10, 200, 2000, 50])
    found = reports("sizes", packets)
    assert found == {"asked": 7, "asked_huge": 2, "seen_large": 2, "seen_huge": 1, "order": 0}
    assert reports("other", packets) == {"also": 1}


SIBLINGS = """
SLUICE_COUNTER(first, "how often the first was heard")
SLUICE_COUNTER(second, "how often the second was heard")
SLUICE_COUNTER(inner, "how often an event of the first was heard")
static bool told;
SLUICE_EVENT(tcp, one, packet) { return data->length >= 100; }
SLUICE_EVENT(tcp, two, packet) { return data->length >= 200 && !told; }
SLUICE_EVENT(any, two, packet) { return data->length >= 300; }
SLUICE_EVENT(tcp, within, one) { return told; }
SLUICE_ON(tcp, one) { told = true; SLUICE_COUNTER_OF(event->box, first)++; }
SLUICE_ON(tcp, two) { told = false; SLUICE_COUNTER_OF(event->box, second)++; }
SLUICE_ON(tcp, within) { SLUICE_COUNTER_OF(event->box, inner)++; }
"""


def test_filters_of_one_base_are_asked_before_handlers_are_called() -> None:
    """So that one event is none of another one's causes; what happens with one is asked after its handlers. Two of one
    name, for the layer and for all, are two.
    """
    found = reports("siblings", talk(40000, [200, 100, 250]))
    assert found == {"first": 3, "second": 1, "inner": 3}


IS = """
SLUICE_EVENT(tcp, a, packet) { return true; }
SLUICE_EVENT(tcp, over_ipv4_x, packet) { return true; }
SLUICE_ON(tcp, a) { }
SLUICE_ON(tcp, over_ipv4_x) { }
"""
G = """
SLUICE_EVENT(tcp_over_ipv4, x, packet) { return true; }
SLUICE_ON(tcp_over_ipv4, x) { }
"""


def test_names_that_come_to_the_same_are_told_apart() -> None:
    """Of a function whose handlers' names begin like a question; of a layer and an event with `_` in their names."""
    assert ALL.compiled.compiled.messages == ""


ON_DEMAND = """
SLUICE_COUNTER(all, "packets seen")
SLUICE_COUNTER(some, "those of connections that are watched")
SLUICE_COUNTER(asked, "how often the filter was asked")
SLUICE_COUNTER(data_seen, "large packets of those")
SLUICE_EVENT(tcp, watched, packet) { SLUICE_COUNTER_OF(event->box, asked)++; return data->length > 100; }
SLUICE_ON(tcp, packet) {
    SLUICE_COUNTER_OF(event->box, all)++;
    if (data->length == 1)
        SLUICE_REGISTER_FLOW(event, tcp, watched);
    if (data->length == 2)
        SLUICE_DEREGISTER_FLOW(event, tcp, watched);
    if (data->length == 3)
        SLUICE_REGISTER(event->box, tcp, watched);
    if (data->length == 4)
        SLUICE_DEREGISTER(event->box, tcp, watched);
}
SLUICE_ON_DEMAND(tcp, watched) { SLUICE_COUNTER_OF(event->box, data_seen)++; }
"""


@pytest.mark.parametrize(
    "first, second, seen",
    [
        ([200, 200], [200], 0),  # nobody has registered
        ([1, 200, 2, 200], [200], 1),  # for one flow, and not any more
        ([3, 200], [200], 2),  # for all
        ([3, 2, 200], [200], 1),  # for all but one
        ([3, 2, 1, 200], [200], 2),  # again
        ([3, 1, 4, 200], [200], 1),  # for one, though for no others any more
        ([1], [200], 0),  # for another one
    ],
)
def test_handlers_on_demand(first: list[int], second: list[int], seen: int) -> None:
    """A filter is asked only where a handler of its event is registered."""
    found = reports("demand", talk(40000, first) + talk(40001, second))
    assert found["data_seen"] == seen
    assert found["all"] == 6 + len(first) + len(second)
    assert (found["asked"] > 0) == (seen > 0)


def test_an_instance_begins_unwatched() -> None:
    """What was registered for a connection does not go over to the next one in its place."""
    assert reports("demand", talk(40000, [1, 200]) + talk(40001, [200]), most=1)["data_seen"] == 1


KEEPING = """
SLUICE_KEEP(tcp, 4096)
SLUICE_COUNTER(kept, "bytes whose first copy was there")
SLUICE_ON(tcp, rexmit) { SLUICE_COUNTER_OF(event->box, kept) += data->old.captured; }
"""


@pytest.mark.parametrize(
    "text, kept", [(KEEPING, 30), (KEEPING.replace("4096", "29"), 0), (KEEPING.partition(")\n")[2], 0)]
)
def test_what_was_delivered_is_kept(text: str, kept: int) -> None:
    client, server = pair()
    packets = handshake(client, server)
    packets.append(client.send("A", b"y" * 30))
    stack = compile_stack(small_ip(), (function("keeping", text),))
    assert ran(stack, [*packets, packets[-1]], [])["kept"] == kept


@pytest.mark.parametrize(
    "text, says",
    [
        ("SLUICE_EVENT(tcp, data, packet) { return true; }", "mine.c:3: 'data' is a built-in event"),
        (
            "SLUICE_EVENT(tcp, a, packet) { return true; }\nSLUICE_EVENT(tcp, a, data) { return true; }",
            "mine.c:4: event 'a' of 'tcp' is defined at mine.c:3 already",
        ),
        (
            "SLUICE_EVENT(tcp, a, b) { return true; }\nSLUICE_EVENT(tcp, b, a) { return true; }",
            "mine.c:3: event 'a' happens with itself",
        ),
        ("SLUICE_ON_DEMAND(udp, packet) { }", "mine.c:3: 'packet' of 'udp' is hooked already"),
        ("SLUICE_KEEP(tcp, MANY)", "mine.c:3: SLUICE_KEEP(tcp, MANY): write a number of bytes"),
    ],
)
def test_what_cannot_be_defined(text: str, says: str) -> None:
    with pytest.raises(HookError) as caught:
        functions = Functions((function("mine", f"SLUICE_ON(udp, packet) {{ }}\n{text}\n"),))
        generate(build(small_ip(), functions.hooks()), functions)
    assert str(caught.value).startswith(says)


def test_a_base_that_the_stack_does_not_have() -> None:
    """It is looked for where the user's event is defined; events of other functions are known."""
    mine = function("mine", "SLUICE_EVENT(tcp, a, pakket) { return true; }\nSLUICE_ON(tcp, a) { }\n")
    program = build(small_ip(), Functions((mine,)).hooks())
    with pytest.raises(
        CommandError, match="event 'pakket' of 'tcp', which the stack does not have; did you mean 'packet'"
    ):
        check_hooks(program, Wanted(c=[mine]))
    sizes, other = function("sizes", SIZES), function("other", OTHER)
    assert check_hooks(program, Wanted(c=[sizes, other])) == []
    with pytest.raises(CommandError, match="event 'huge' of 'tcp', which the stack does not have"):
        check_hooks(program, Wanted(c=[other]))


def test_declarations_for_layers_that_the_stack_does_not_have() -> None:
    """A slip of the pen there would else be silence: nothing kept, nothing controlled, no timer."""
    text = """SLUICE_KEEP(tpc, 100)
SLUICE_CONTROL(any)
SLUICE_CONTROL(tpc)
SLUICE_TIMER(box, tick) { }
SLUICE_TIMER(upd, late) { }
SLUICE_ON(tcp, data) { }
"""
    mine = function("mine", text)
    program = build(small_ip(), Functions((mine,)).hooks())
    assert check_hooks(program, Wanted(c=[mine])) == [
        f"mine.c: {what} means layer '{layer}', which the stack does not have; did you mean '{meant}'?"
        for what, layer, meant in (
            ("SLUICE_CONTROL(tpc)", "tpc", "tcp"),
            ("SLUICE_KEEP(tpc, 100)", "tpc", "tcp"),
            ("SLUICE_TIMER(upd, late)", "upd", "udp"),
        )
    ]


PYTHON = """
from sluice.functions import counter, event, on

asked = counter("how often the filter of large was asked")
large_seen = counter("how often it happened")
huge_seen = counter("and huge")


@event("tcp", "packet")
def large(event):
    asked.add()
    return event.length > 100


@event("tcp", "large")
def huge(event):
    return event.length > 1000


@event("tcp", "data")
def unheard(event):
    raise AssertionError


@on("tcp", "large")
def saw(event):
    large_seen.add()


@on("tcp", "huge")
def saw_huge(event):
    huge_seen.add()
"""


def test_events_in_python(tmp_path: Path) -> None:
    path = tmp_path / "sizes.py"
    path.write_text(PYTHON)
    wanted = Wanted(python=[load_python(path)])
    stack = compile_stack(small_ip(), (), wanted.python_hooks())
    with Box(stack, Settings(max_instances=1 << 8, memory=1 << 24), wanted.python) as box:
        for packet in talk(40000, [10, 200, 2000, 50]):
            box.packet(packet, 1000 * SECOND)
        box.finish()
        assert box.reports() == {"asked": 7, "large_seen": 2, "huge_seen": 1}
    assert check_hooks(stack.program, wanted) == []


TURNS = """
from sluice.functions import event, on, on_demand

told = []


@event("tcp", "packet")
def small(event):
    told.append("small?")
    return True


@event("tcp", "packet")
def odd(event):
    told.append("odd?")
    return True


@event("tcp", "packet")
def rare(event):
    raise AssertionError("nobody is registered")


@event("tcp", "small")
def smaller(event):
    told.append("smaller?")
    return True


@on("tcp", "small")
def saw_small(event):
    told.append("small")


@on("tcp", "odd")
def saw_odd(event):
    told.append("odd")


@on_demand("tcp", "rare")
def saw_rare(event):
    raise AssertionError


@on("tcp", "smaller")
def saw_smaller(event):
    told.append("smaller")
"""


def test_filters_of_one_base_in_python_are_asked_before_their_handlers(tmp_path: Path) -> None:
    """As those in C are; and only those of which somebody may hear."""
    path = tmp_path / "turns.py"
    path.write_text(TURNS)
    function = load_python(path)
    wanted = Wanted(python=[function])
    hooks, demanded = wanted.python_hooks(), wanted.python_demanded()
    stack = compile_stack(small_ip(), (), hooks, demanded=demanded)
    with Box(stack, Settings(max_instances=1 << 8, memory=1 << 24), wanted.python) as box:
        box.packet(talk(40000, [10])[0], 1000 * SECOND)
        box.finish()
    told = function.handlers[0][2].__globals__["told"]
    assert told == ["small?", "odd?", "small", "smaller?", "smaller", "odd"]


def test_an_event_in_python_that_happens_with_itself(tmp_path: Path) -> None:
    path = tmp_path / "circle.py"
    path.write_text(PYTHON.replace('"tcp", "packet"', '"tcp", "huge"'))
    with pytest.raises(FunctionError, match="event 'large' happens with itself"):
        load_python(path)


MANY = (
    """
SLUICE_COUNTER(asked, "how often the filters were asked")
SLUICE_COUNTER(sum, "of the handlers that were called")
SLUICE_COUNTER(always, "calls of the one that is always called")
"""
    + "".join(
        f"""
SLUICE_EVENT(tcp, longer{n}, packet) {{ SLUICE_COUNTER_OF(event->box, asked)++; return data->length > {n}; }}
SLUICE_ON_DEMAND(tcp, longer{n}) {{ SLUICE_COUNTER_OF(event->box, sum) += 1 << {n}; }}
"""
        for n in range(10)
    )
    + """
SLUICE_EVENT(tcp, five, packet) { return data->length == 5; }
SLUICE_ON(tcp, five) { SLUICE_COUNTER_OF(event->box, always)++; }
SLUICE_PARAMETER(mask, number, 0, "those that are registered")
SLUICE_OPEN {
    for (uint32_t n = 0; n < 64; n++)
        sl_register(box, n, SLUICE_PARAMETER_OF(box, mask) >> n & 1);
    return 0;
}
"""
)


def test_many_handlers_on_demand() -> None:
    """None, some and all of them registered: who is not hears nothing, and the filter of its event is not asked."""
    for mask in (0, 1, 0b10_0000_0001, 0b1111111110, 0b1111111111):
        found = reports("many", talk(40000, [5]), f"mask={mask}")
        assert found == {"asked": 4 * mask.bit_count(), "sum": mask & 0b11111, "always": 1}


ALL = Together(
    small_ip,
    **{"many": MANY, "sizes": SIZES, "other": OTHER, "siblings": SIBLINGS, "is": IS, "g": G, "demand": ON_DEMAND},
)
"""The functions of this file, but those that keep bytes; `many` first, as the bits of its mask are those of the box."""
