"""Wrong parsers: actions."""

# pyright: reportArgumentType=false, reportUnusedExpression=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportUnusedClass=false

from sluice.lang import (
    AddAlias,
    Assemble,
    Assign,
    Bit,
    Callback,
    Else,
    If,
    Pred,
    Sequence,
    Stack,
    layout,
    swap_sides,
)
from tests.lang.refusal import (
    Refusals,
    above,
    alone,
    keyed,
    paired,
    plain,
    seen,
    small,
)

refused = Refusals()
test_refused = refused.test()


@refused(
    "an expression is not an action",
    "actions: Assign(...), Assemble(), Callback(...), swap_sides(), If(...) >> action.",
)
def prep_no_action():
    p = keyed()
    p.prep = p.header.kind == 1  # wrong


@refused("5 is not an action", "actions: Assign(...), Assemble(), Callback(...), swap_sides(), If(...) >> action.")
def prep_number_after_if():
    p = keyed()
    p.prep = If(p.header.kind == 1) >> 5  # wrong


@refused(
    "5 is neither an action nor a part of a header",
    "write If(condition) >> something, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def a_sum_of_what_is_neither():
    p = keyed()
    p.prep = (If(p.header.kind == 1) >> 5) + 6  # wrong


@refused(
    "'small' is not an action",
    "actions: Assign(...), Assemble(), Callback(...), swap_sides(), If(...) >> action.",
)
def prep_layout():
    p = keyed()
    p.prep = small  # wrong


@refused(
    "'swap_sides' is not an action",
    "actions: Assign(...), Assemble(), Callback(...), swap_sides(), If(...) >> action.",
)
def prep_forgotten_parentheses():
    p = paired()
    p.prep = If(p.created) >> swap_sides  # wrong


@refused("a field of the header cannot be assigned to", "assign to a field of temp or perm instead.")
def assign_to_header():
    p = keyed()
    p.prep = Assign(p.header.kind, 1)  # wrong


@refused("a field of the header cannot be assigned to", "assign to a field of temp or perm instead.")
def assign_to_bare_header_field():
    p = keyed()
    p.prep = Assign(small.kind, 1)  # wrong
    return alone(p)


@refused("a field of a virtual packet cannot be assigned to", "assign to a field of temp or perm instead.")
def assign_to_virtual_packet():
    p = keyed()
    p.prep = Assign(p.v.header.kind, 1)  # wrong


@refused(
    "only a field of temp, perm or of a callback's layout can be assigned to",
    "declare it in a layout, and set p.temp = that_layout or p.perm = that_layout.",
)
def assign_to_expression():
    p = keyed()
    p.prep = Assign(p.temp.count + 1, 5)  # wrong


@refused("parser 'keyed' assigns to a field of parser 'paired'", "a parser sets only its own temp and perm.")
def assign_to_another_parser():
    other, p = paired(), keyed()
    p.prep = Assign(other.perm.count, 1)  # wrong
    return alone(p)


@refused(
    "layout 'seen' is no part of parser 'keyed'",
    "make it p.header, p.temp, p.perm or a Callback's; of another layer ask stack.layer.header.x.",
)
def assign_to_another_layout():
    p = keyed()
    p.prep = Assign(seen.count, 1)  # wrong
    return alone(p)


@refused(
    "a number assigned to a field that holds bytes",
    "a field of at most 64 bits holds a number, a longer one bytes.",
)
def number_assigned_to_bytes():
    p = keyed()
    p.prep = Assign(p.temp.piece, 5)  # wrong


@refused(
    "a byte slice assigned to a field that holds a number",
    "a field of at most 64 bits holds a number, a longer one bytes.",
)
def bytes_assigned_to_number():
    p = keyed()
    p.prep = Assign(p.temp.count, p.payload[:4])  # wrong


@refused(
    "'temp.count' and what is assigned to it are not of one kind",
    "a field of at most 64 bits holds a number, a longer one bytes.",
)
def bytes_from_below_assigned_to_number():
    p = keyed()
    p.prep = Assign(p.temp.count, p.below.address)  # wrong
    return above(p)


@refused("Assemble() in prep", "assemble in an event: p.event.asm = If(...) >> Assemble().")
def assemble_in_prep():
    p = paired()
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.prep = If(p.created) >> Assemble()  # wrong
    p.event.all = Assemble()
    return alone(p)


@refused("parser 'paired' assembles but has no sequence", "define p.seq = Sequence(...).")
def assemble_without_sequence():
    p = paired()
    p.event.all = If(p.created) >> Assemble()  # wrong
    return alone(p)


@refused("Callback() in prep", "call back in an event: p.event.x = ... + Callback(data).")
def callback_in_prep():
    p = keyed()
    p.prep = Callback(seen)  # wrong
    return alone(p)


@refused("Callback needs a layout", "declare class name(layout) with the fields to hand over.")
def callback_without_layout():
    p = keyed()
    p.event.x = Callback(p.header.kind)  # wrong


@refused("const= in a layout for a callback", "const= is what a header must have; use init=.")
def callback_with_const():
    class marked(layout):
        a = Bit(8, const=1)  # wrong

    Callback(marked)


@refused("swap_sides() stands in prep of a connection-oriented parser", "move it there.")
def swap_sides_in_event():
    p = paired()
    p.event.x = swap_sides()  # wrong
    return alone(p)


@refused("swap_sides() stands in prep of a connection-oriented parser", "move it there.")
def swap_sides_of_connectionless():
    p = keyed()
    p.prep = swap_sides()  # wrong
    return alone(p)


@refused("parser 'keyed' has no p.alias", "say what packets are found by: p.alias = [...], before this.")
def alias_of_a_parser_without():
    p = keyed()
    p.prep = AddAlias(p, [p.header.src])  # wrong


@refused("AddAlias with 2 of 1 values", "give one for each part of p.alias, as a list.")
def alias_of_another_length():
    p = keyed()
    p.alias = [p.header.src]
    p.prep = AddAlias(p, [p.header.src, p.header.src])  # wrong


@refused("to_sender of a parser without sides", "leave it out, or make the parser by ConnectionOriented().")
def alias_to_sender_of_connectionless():
    p = keyed()
    p.alias = [p.header.src]
    p.prep = AddAlias(p, [p.header.src], to_sender=True)  # wrong


@refused(
    "parser 'keyed' looks for no packet by a selector that it got by AddAlias",
    "write p.alias = [...], p.selector before this.",
)
def alias_by_a_selector_that_none_is_looked_for_by():
    p = keyed()
    p.alias = [p.header.src]
    p.prep = AddAlias(p, p.selector)  # wrong


@refused("to_sender of a selector", "leave it out: it is given for both sides.")
def alias_by_selector_to_sender():
    p = paired()
    p.alias = [p.header.src], p.selector
    p.prep = AddAlias(p, p.selector, to_sender=True)  # wrong


@refused(
    "parser 'plain' gives an instance of parser 'keyed' a selector",
    "only that parser itself knows what its selector has of a packet: do it there.",
)
def alias_by_the_selector_of_another_layer():
    p, q = keyed(), plain()
    p.alias = [p.header.src], p.selector
    q.prep = AddAlias(p, p.selector)  # wrong
    s = Stack("two")
    s.p, s.q = p, q
    s += (s.p >> s.q) + Pred(1)
    return s


@refused(
    "p.alias is not a list",
    "write p.alias = [a, b], for both sides alike; for several to be tried, ([a, b], [c, d]).",
)
def alias_by_the_selector_first():
    p = keyed()
    p.alias = p.selector, [p.header.src]  # wrong


@refused("AddAlias of 5", "write AddAlias(p, [values]) with this parser or one below.")
def alias_of_a_number():
    p = keyed()
    p.prep = AddAlias(5, [p.header.src])  # wrong


@refused(
    "p.alias is not a list",
    "write p.alias = [a, b], for both sides alike; for several to be tried, ([a, b], [c, d]).",
)
def alias_not_a_list():
    p = keyed()
    p.alias = p.header.src  # wrong


@refused(
    "p.alias is not a list",
    "write p.alias = [a, b], for both sides alike; for several to be tried, ([a, b], [c, d]).",
)
def alias_whose_condition_stands_before_one_list_only():
    p = keyed()
    p.alias = If(p.header.src == 1) >> [p.header.src], [p.header.src]  # wrong


@refused(
    "the lists of p.alias have 1 and 2 values", "give each the same number: AddAlias gives values for any of them."
)
def aliases_of_other_lengths():
    p = keyed()
    p.alias = [p.header.src], [p.header.src, p.header.src]  # wrong


@refused(
    "the alias of layer 'only' is not of one width over all layers below, in all its lists",
    "make it of what the packet itself has, not of p.below, and each list as wide.",
)
def aliases_of_other_widths():
    p = keyed()
    p.alias = [p.header.src], [p.payload_len]  # wrong
    return alone(p)


@refused("an alias with an Else()", "a packet outside the condition is known by the selector alone.")
def alias_with_else():
    p = keyed()
    p.alias = If(p.header.src == 1) >> [p.header.src] >> Else() >> [p.header.src]  # wrong


@refused("parser 'plain' has p.alias but no instances", "give it p.selector = [...].")
def alias_without_selector():
    p = plain()
    p.alias = [p.header.src]  # wrong
    return alone(p)


@refused("'way' outside a selector", "it tells instances apart: p.selector = [..., p.way].")
def way_in_a_condition():
    p = keyed()
    p.prep = Assign(p.temp.count, p.way)  # wrong
    return alone(p)


@refused("AddAlias with a value of 32 bits where 'src' of p.alias has 16", "use a field as wide.")
def alias_of_another_width():
    p = keyed()
    p.alias = [p.header.src]
    p.prep = AddAlias(p, [p.temp.count])  # wrong
    return alone(p)
