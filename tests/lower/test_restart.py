"""A restart begins another instance under the packet's key, whatever the key is made of."""

from sluice.ir.hook import Hook
from sluice.ir.interpreter import Interpreter
from sluice.ir.verify import verify
from sluice.lang import PSM, Bit, ConnectionOriented, If, Pred, PSMState, Stack, layout
from sluice.lower.build import build


class header(layout):
    one = Bit(8)
    other = Bit(8)
    keyless = Bit(8)
    again = Bit(8)


def stack() -> Stack:
    stack = Stack("restarts")
    p = ConnectionOriented("p", link_types=(1,))
    p.header = header
    pair = ([p.header.one, p.header.other, p.way], [p.header.other, p.header.one, p.way])
    p.selector = If(p.header.keyless == 0) >> pair
    OPEN, OVER = PSMState(start=True), PSMState(accept=True)
    p.psm = PSM(OPEN, OVER)
    p.psm.over = (OPEN >> OVER) + Pred(p.header.again == 2)
    p.psm.again = (OPEN >> OPEN) + Pred(p.header.again == 1)
    p.psm.again.restart = True
    stack.p = p
    return stack


def test_a_restart_knows_the_way_of_packets_that_had_a_key_and_of_those_that_had_none() -> None:
    program = build(stack(), frozenset({Hook("*", "created")}))
    verify(program)
    interpreter = Interpreter(program)
    for data in (b"\1\2\0\0", b"\2\1\0\0", b"\1\2\0\1", b"\1\2\1\1", b"\2\1\0\0"):
        interpreter.packet(data, 0, 1, len(data))
    interpreter.close()
    counters = interpreter.counters["p"]
    assert counters["instances"] == 2
    assert counters["ended:reused"] == 1
