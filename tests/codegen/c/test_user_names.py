"""Names of the description that are also names of C or of the generated code."""

from __future__ import annotations

import pytest

from sluice.engine.box import Box, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.hooks.subscription import HookError
from sluice.lang import Assign, Bit, Callback, Connectionless, If, Pred, Stack, UInt, layout
from tests.support.capture import Edge, Packet


def stack_of(**layouts: type[layout]) -> Stack:
    """A chain of layers, called as the keywords are, each of which reads a byte and says it, each by its layout."""
    stack = Stack("names")
    below = None
    for name, told in layouts.items():
        header = type(f"{name}_header", (layout,), {"x": Bit(8)})
        parser = Connectionless()
        parser.header = header
        parser.selector = [parser.header.x]
        (field,) = told.fields
        value = getattr(told, field)
        parser.event.said = If(parser.header.x > 0) >> (Assign(value, parser.header.x) + Callback(told))
        setattr(stack, name, parser)
        if below is not None:
            stack += (getattr(stack, below) >> getattr(stack, name)) + Pred(1)
        below = name
    return stack


def layout_of(name: str, field: str) -> type[layout]:
    """A layout of one field."""
    return type(name, (layout,), {field: UInt(16)})


def heard(stack: Stack, text: str) -> dict[str, int]:
    """What a C function reports of one packet of three bytes."""
    function = read_c_function("told", '#include "sluice.h"\n' + text, "told.c")
    compiled = compile_stack(stack, (function,))
    with Box(compiled, function_options=[""]) as box:
        Edge(box).packet(Packet(bytes((5, 6, 7)), 3, 0, 1))
        box.finish()
        return box.reports()


@pytest.mark.parametrize("name", ["box", "slots", "int", "sl_box", "sl_slots", "instance_a", "data"])
def test_a_layout(name: str) -> None:
    text = 'SLUICE_ON(a, said) { sl_report(event->box, "said", data->x); }\n'
    assert heard(stack_of(a=layout_of(name, "x")), text)["said"] == 5


@pytest.mark.parametrize("field", ["box", "double", "event", "new"])
def test_a_field(field: str) -> None:
    member = "double_" if field == "double" else field
    text = f'SLUICE_ON(a, said) {{ sl_report(event->box, "said", data->{member}); }}\n'
    assert heard(stack_of(a=layout_of("told", field)), text)["said"] == 5


def test_one_event_of_two_layers_with_different_data() -> None:
    stack = stack_of(a=layout_of("one", "x"), b=layout_of("two", "y"))
    text = (
        'SLUICE_ON(a, said) { sl_report(event->box, "a", data->x); }\n'
        'SLUICE_ON(b, said) { sl_report(event->box, "b", data->y); }\n'
    )
    reports = heard(stack, text)
    assert (reports["a"], reports["b"]) == (5, 6)
    with pytest.raises(HookError, match=r"told\.c: event 'said'.*'a' and 'b'\n.*each layer"):
        heard(stack, "SLUICE_ON(any, said) { (void)data; }\n")


def test_the_same_data_in_two_layers() -> None:
    told = layout_of("told", "x")
    text = "SLUICE_ON(any, said) { sl_report(event->box, event->layer->name, data->x); }\n"
    reports = heard(stack_of(a=told, b=told), text)
    assert (reports["a"], reports["b"]) == (5, 6)


def test_every_layer_without_an_event_of_the_users() -> None:
    text = "SLUICE_ON(any, packet) { sl_report(event->box, event->layer->name, data->length); }\n"
    assert heard(stack_of(a=layout_of("told", "x")), text)["a"] == 2  # after the header


def test_a_conditional_with_several_predecessors() -> None:
    """Its block, which the IR calls "do", is a label of another name in C."""

    class head(layout):
        who = Bit(8)
        odd = Bit(8)

    class kept(layout):
        n = Bit(8)

    parser = Connectionless("p")
    parser.header = head
    parser.perm = kept
    parser.selector = [parser.header.who]
    parser.creates = parser.header.who != 0
    parser.prep = Assign(parser.perm.n, parser.perm.n + 1) + (If(parser.header.odd > 7) >> Assign(parser.perm.n, 3))
    stack = Stack("labels")
    stack.p = parser
    source = compile_stack(stack).generated.source
    assert "goto do_" in source
