"""Keys as words of 64 bits."""

from sluice.engine.box import Box, compile_stack
from sluice.lang import Bit, Connectionless, Stack, layout


class some_hdr(layout):
    who = Bit(32)
    kind = Bit(8)


def test_a_comparison_in_the_upper_half_of_a_word() -> None:
    """In C a comparison is an int, narrower than where it has to be shifted to."""
    some = Connectionless("some")
    some.header = some_hdr
    some.selector = [some.header.who, some.header.kind == 1]
    stack = Stack("keys")
    stack.some = some
    with Box(compile_stack(stack)) as box:
        for kind in (1, 0, 1, 2):
            box.packet(bytes([0, 0, 0, 0, kind]))
        box.finish()
        assert box.counters()["some"]["instances"] == 2
