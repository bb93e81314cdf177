"""Wrong parsers: instances."""

# pyright: reportArgumentType=false, reportUnusedExpression=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportUnusedClass=false

from sluice.lang import (
    PSM,
    Assemble,
    ConnectionOriented,
    Else,
    If,
    PSMState,
    Sequence,
)
from tests.lang.refusal import (
    Refusals,
    alone,
    keyed,
    memory,
    plain,
    small,
)

refused = Refusals()
test_refused = refused.test()


@refused("a selector is a list, or a pair of lists", "write [a, b], or ([a, b], [c, d]).")
def selector_no_list():
    p = plain()
    p.selector = p.header.src  # wrong


@refused("a selector is a list, or a pair of lists", "write [a, b], or ([a, b], [c, d]).")
def selector_empty():
    p = plain()
    p.selector = []  # wrong


@refused("a selector is a list, or a pair of lists", "write [a, b], or ([a, b], [c, d]).")
def selector_tuple():
    p = plain()
    p.selector = (p.header.src, p.header.dst)  # wrong


@refused(
    "a connection-oriented selector has two lists",
    "write ([source ...], [destination ...]), or use Connectionless().",
)
def selector_of_one_side():
    p = ConnectionOriented("p")
    p.header = small
    p.selector = [p.header.src, p.header.dst]  # wrong


@refused("a connectionless selector has one list", "write [a, b], or use ConnectionOriented().")
def selector_of_two_sides():
    p = plain()
    p.selector = ([p.header.src], [p.header.dst])  # wrong


@refused("the two lists of a selector have different lengths", "give both sides the same fields, in one order.")
def selector_of_different_lengths():
    p = ConnectionOriented("p")
    p.header = small
    p.selector = [p.header.src, p.header.kind], [p.header.dst]  # wrong


@refused("the two lists of a selector differ in the width of a field", "pair source with destination.")
def selector_of_different_widths():
    p = ConnectionOriented("p")
    p.header = small
    p.selector = [p.header.src], [p.header.kind]  # wrong
    return alone(p)


@refused("a key or an offer of variable length", "use fields of a fixed number of bits.")
def selector_of_variable_length():
    p = plain()
    p.selector = [p.payload[:4]]  # wrong
    return alone(p)


@refused("a selector with an Else()", "a packet outside the condition uses a fresh instance by itself.")
def selector_with_else():
    p = plain()
    p.selector = If(p.header.kind == 1) >> [p.header.src] >> Else() >> [p.header.dst]  # wrong


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def selector_without_body():
    p = plain()
    p.selector = If(p.header.kind == 1)  # wrong


@refused(
    "'src' is not an expression",
    "use a field (p.header.x), a property of the parser (p.payload_len), or a whole number.",
)
def selector_of_texts():
    p = plain()
    p.selector = ["src", "dst"]  # wrong


@refused("'perm.count' is read before the instance is found", "use header fields here; prep comes later.")
def selector_of_perm():
    p = keyed()
    p.selector = [p.perm.count]  # wrong
    return alone(p)


@refused(
    "a virtual packet outside a condition of the machine or of an event",
    "p.v.header.x may stand in Pred(...) of transitions and in If(...) of events.",
)
def selector_of_virtual_packets():
    p = keyed()
    p.selector = [p.v.header.src]  # wrong
    return alone(p)


@refused("parser 'plain' has p.perm but no instances", "give it p.selector = [...].")
def perm_without_instances():
    p = plain()
    p.perm = memory  # wrong
    return alone(p)


@refused("parser 'plain' has p.timeout but no instances", "give it p.selector = [...].")
def timeout_without_instances():
    p = plain()
    p.timeout = 30  # wrong
    return alone(p)


@refused("parser 'plain' has p.psm but no instances", "give it p.selector = [...].")
def machine_without_instances():
    p = plain()
    A = PSMState(start=True)
    p.psm = PSM(A)  # wrong
    return alone(p)


@refused("parser 'plain' has p.seq but no instances", "give it p.selector = [...].")
def sequence_without_instances():
    p = plain()
    p.seq = Sequence(meta=p.header.seq, data=p.payload)  # wrong
    p.event.all = Assemble()
    return alone(p)
