"""Wrong parsers: settings, instances, actions and events."""

# pyright: reportArgumentType=false, reportUnusedExpression=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportUnusedClass=false
# ruff: noqa: B018

from sluice.lang import (
    PSM,
    AddAlias,
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    Else,
    If,
    Native,
    Pred,
    PSMState,
    Sequence,
    Stack,
    UInt,
    layout,
    swap_sides,
)
from tests.lang.refusal import (
    Refusal,
    Refusals,
    above,
    alone,
    check,
    keyed,
    memory,
    paired,
    plain,
    scratch,
    small,
    wide,
)

refused = Refusals()

SETTINGS = (
    "known here: alias, buffer_data, creates, event, event_relation, header, lifetime, link_types, "
    "max_instances, message, name, needs_captured, "
    "perm, prep, psm, record, sdu, selector, seq, temp, timeout."
)


@refused.test()
def test_refused(refusal: Refusal) -> None:
    check(refusal)


class seen(layout):
    count = UInt(32)
    name = Bit(256)


# --- settings ----------------------------------------------------------------------------------------------


@refused("parser 'plain' has no setting 'selctor'", "did you mean 'selector'?")
def setting_misspelt():
    p = plain()
    p.selctor = [p.header.src]  # wrong


@refused(
    "parser 'plain' has no setting 'keys'",
    SETTINGS,
)
def setting_that_is_internal():
    p = plain()
    p.keys = [p.header.src]  # wrong


@refused("parser 'plain' has no setting '_timeout'", "did you mean 'timeout'?")
def setting_that_is_hidden():
    p = plain()
    p._timeout = 5.0  # wrong


@refused(
    "parser 'plain' has no setting 'payload'",
    SETTINGS,
)
def property_set():
    p = plain()
    p.payload = p.unit  # wrong


@refused(
    "parser 'plain' has no setting 'below'",
    SETTINGS,
)
def below_set():
    p = plain()
    p.below = p  # wrong


@refused("'src' belongs to a layer below", "that one says p.offer(src=...).")
def name_below_set():
    p = plain()
    p.below.src = 1  # wrong


@refused("virtual packets cannot be set", "keep what you need in a field of perm.")
def virtual_packets_set():
    p = keyed()
    p.v.header = small  # wrong


@refused("virtual packets have no 'temp'", "only their header fields are kept: p.v.header.x.")
def virtual_packets_have_no_temp():
    p = keyed()
    p.v.temp.count  # wrong


@refused("p.temp is a field, not a layout", "write p.temp = some_layout, a class derived from layout.")
def temp_is_no_layout():
    p = plain()
    p.temp = Bit(8)  # wrong


@refused("a field of more than 64 bits in perm", "a perm field has at most 64 bits.")
def perm_too_wide():
    class big(layout):
        address = Bit(128)  # wrong

    p = plain()
    p.perm = big


@refused("const= in a layout for perm", "const= is what a header must have; use init=.")
def const_in_perm():
    class fixed(layout):
        a = Bit(8, const=1)  # wrong

    p = plain()
    p.perm = fixed


@refused(
    "a field of variable length in a layout for temp",
    "give it a number of bits, or write Bytes() for bytes of any length.",
)
def variable_length_in_temp():
    class flexible(layout):
        a = Bit(8)
        b = Bit(a << 3)  # wrong

    p = plain()
    p.temp = flexible


@refused("a timeout of 0", "a timeout is a number of seconds, from 1e-9 to 1e9.")
def timeout_zero():
    p = keyed()
    p.timeout = 0  # wrong


@refused("a timeout of '5 s'", "a timeout is a number of seconds, from 1e-9 to 1e9.")
def timeout_text():
    p = keyed()
    p.timeout = "5 s"  # wrong


@refused("a timeout of inf", "a timeout is a number of seconds, from 1e-9 to 1e9.")
def timeout_endless():
    p = keyed()
    p.timeout = float("inf")  # wrong


@refused("p.max_instances is 0", "it is a whole number, from 1 to 2**31.")
def no_instances():
    p = keyed()
    p.max_instances = 0  # wrong


@refused("p.max_instances is 2.5", "it is a whole number, from 1 to 2**31.")
def half_an_instance():
    p = keyed()
    p.max_instances = 2.5  # wrong


@refused("p.max_instances is True", "it is a whole number, from 1 to 2**31.")
def a_flag_of_instances():
    p = keyed()
    p.max_instances = True  # wrong


@refused("parser 'plain' has p.max_instances but no instances", "give it p.selector = [...].")
def bounded_without_a_selector():
    p = plain()
    p.max_instances = 5  # wrong
    return alone(p)


@refused("p.record is 1", "give True or False.")
def record_number():
    p = keyed()
    p.record = 1  # wrong


@refused("p.buffer_data is 1", "give True or False.")
def buffer_data_number():
    p = keyed()
    p.buffer_data = 1  # wrong


@refused("link_types=1", "give a tuple of numbers from 0 to 65535, as in link_types=(1,).")
def link_types_number():
    Connectionless("p", link_types=1)  # wrong


@refused("link_types=(1, 70000)", "give a tuple of numbers from 0 to 65535, as in link_types=(1,).")
def link_type_out_of_range():
    Connectionless("p", link_types=(1, 70000))  # wrong


@refused("a parser called 'my parser'", "a name has letters, digits and '_', and begins with no digit.")
def name_of_parser():
    Connectionless("my parser")  # wrong


@refused("reason '' of p.require(...)", "give the reason as a word or two.")
def requirement_without_reason():
    p = plain()
    p.require(p.header.kind == 1, "")  # wrong


@refused("'perm.count' is asked for before the instance is found", "use header fields here; prep comes later.")
def selector_of_instance():
    p = keyed()
    p.selector = [p.perm.count]  # wrong
    return alone(p)


@refused("'temp.count' is asked for before the instance is found", "use header fields here; prep comes later.")
def selector_of_bare_temp():
    p = keyed()
    p.selector = [scratch.count]  # wrong
    return alone(p)


@refused("'sdu' is asked for before the machine makes its steps", "use header, temp and perm here, and p.payload.")
def requirement_of_instance_and_sdu():
    p = keyed()
    p.require((p.perm.count == 1) | (p.sdu.length == 1), "count")  # wrong
    return alone(p)


@refused("'sdu' is asked for before the instance is found", "use header fields here; prep comes later.")
def requirement_of_sdu():
    p = keyed()
    p.require(p.sdu.length == 1, "length")  # wrong
    return alone(p)


@refused(
    "layout 'wide' is no part of parser 'plain'",
    "make it p.header, p.temp, p.perm or a Callback's; of another layer ask stack.layer.header.x.",
)
def offer_of_another_layout():
    p = plain()
    p.offer(address=wide.address)  # wrong
    return alone(p)


@refused("reason None of p.require(...)", "give the reason as a word or two.")
def requirement_with_no_reason():
    p = plain()
    p.require(p.header.kind == 1, None)  # wrong


@refused("'src' is offered twice by parser 'plain'", "offer it once, or under another name.")
def offered_twice():
    p = plain()
    p.offer(src=p.header.src)
    p.offer(src=p.header.dst)  # wrong


@refused("a key or an offer of variable length", "use fields of a fixed number of bits.")
def offer_of_variable_length():
    p = plain()
    p.offer(
        data=p.payload[:4],  # wrong
    )
    return alone(p)


@refused("offer 'src' is asked of a parser", "ask a layer of a stack: stack.layer.offers.src.")
def offer_asked_of_a_parser():
    p = plain()
    p.offer(src=p.header.src)
    p.offers.src  # wrong


@refused("p.sdu is a number, not bytes", "write p.sdu = p.payload[:n].")
def sdu_number():
    p = plain()
    p.sdu = p.header.size  # wrong


@refused("p.sdu with an If and no Else", "say what goes up in the other case.")
def sdu_without_else():
    p = plain()
    p.sdu = If(p.header.kind == 1) >> p.payload  # wrong


@refused("p.sdu is a number, not bytes", "write p.sdu = p.payload[:n].")
def sdu_number_after_else():
    p = plain()
    p.sdu = If(p.header.kind == 1) >> p.payload >> Else() >> p.header.size  # wrong


@refused("'sdu' is asked for before the machine makes its steps", "use header, temp and perm here, and p.payload.")
def sdu_of_itself():
    p = plain()
    p.sdu = p.sdu[:4]  # wrong
    return alone(p)


# --- instances ---------------------------------------------------------------------------------------------


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


@refused("'perm.count' is asked for before the instance is found", "use header fields here; prep comes later.")
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


# --- actions -----------------------------------------------------------------------------------------------


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


# --- events ------------------------------------------------------------------------------------------------


@refused("p.event is not set", "write p.event.name = action.")
def events_replaced():
    p = keyed()
    p.event = Callback(seen)  # wrong


@refused(
    "'created' is a built-in event",
    "define an event of your own and relate it: p.event.created >> p.event.yours.",
)
def event_built_in():
    p = keyed()
    p.event.created = Callback(seen)  # wrong


@refused("event 'x' is defined twice", "give the second one another name.")
def event_twice():
    p = keyed()
    p.event.x = Callback(seen)
    p.event.x = Callback(seen)  # wrong


@refused("'owner' cannot be the name of an event", "choose another name.")
def event_reserved():
    p = keyed()
    p.event.owner = Callback(seen)  # wrong


@refused(
    "event 'x' is an expression, not an action",
    "write p.event.x = If(condition) >> Assemble(), or Callback(...), or another action.",
)
def event_no_action():
    p = keyed()
    p.event.x = p.header.kind == 1  # wrong


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def event_without_body():
    p = keyed()
    p.event.x = If(p.header.kind == 1)  # wrong


@refused("there is no event 'frist'", "did you mean 'first'?")
def event_unknown():
    p = keyed()
    p.event.first = Callback(seen)
    p.event_relation += p.event.frist, p.event.first  # wrong


@refused("event 'gap' brings no 'lenght' along", "did you mean 'length'?")
def event_value_unknown():
    p = keyed()
    Assign(seen.count, p.event.gap.lenght)  # wrong


@refused(
    "'gap.length' is known only when event 'gap' happens",
    "use it in an event related to it: p.event_relation += p.event.gap >> p.event.yours.",
)
def event_value_out_of_its_event():
    p = keyed()
    p.event.x = Assign(seen.count, p.event.gap.length) + Callback(seen)  # wrong
    return alone(p)


@refused(
    "'packet.length' is known only when event 'packet' happens",
    "use it in an event related to it: p.event_relation += p.event.packet >> p.event.yours.",
)
def event_value_in_prep():
    p = keyed()
    p.prep = Assign(p.temp.count, p.event.packet.length)  # wrong
    return alone(p)


@refused(
    "'packet.length' is known only when event 'packet' happens",
    "use it in an event related to it: p.event_relation += p.event.packet >> p.event.yours.",
)
def event_value_of_one_cause_of_two():
    p = keyed()
    p.event.x = Assign(seen.count, p.event.packet.length) + Callback(seen)  # wrong
    p.event_relation += p.event.packet >> p.event.x
    p.event_relation += p.event.created >> p.event.x
    return alone(p)


@refused("event 'x' brings no 'count' along", "only some built-in events bring values along.")
def event_value_of_user_event():
    p = keyed()
    p.event.x = Callback(seen)
    p.event.x.count  # wrong


@refused("an event is related to an event, not to an expression", "write p.event.a >> p.event.b.")
def event_related_to_nothing():
    p = keyed()
    p.event.x = Callback(seen)
    p.event.x >> p.header.kind  # wrong


@refused(
    "a relation joins two events",
    "write p.event_relation += p.event.a, p.event.b (before) or += p.event.a >> p.event.b (with).",
)
def relation_of_one():
    p = keyed()
    p.event.x = Callback(seen)
    p.event_relation += p.event.x  # wrong


@refused(
    "a relation joins two events",
    "write p.event_relation += p.event.a, p.event.b (before) or += p.event.a >> p.event.b (with).",
)
def relation_of_three():
    p = keyed()
    p.event.x = Callback(seen)
    p.event_relation += p.event.x, p.event.x, p.event.x  # wrong


@refused("p.event_relation is extended, not replaced", "write p.event_relation += p.event.a, p.event.b.")
def relations_replaced():
    p = keyed()
    p.event.x = Callback(seen)
    p.event_relation = p.event.created >> p.event.x  # wrong


@refused("the relations of events run in a circle: x -> x", "take one of them out.")
def relation_with_itself():
    p = keyed()
    p.event.x = Callback(seen)
    p.event_relation += p.event.x, p.event.x  # wrong


@refused("the relations of events run in a circle: y -> x -> y", "take one of them out.")
def relations_contradict():
    p = keyed()
    p.event.x, p.event.y = Callback(seen), Callback(seen)
    p.event_relation += p.event.x, p.event.y
    p.event_relation += p.event.y >> p.event.x  # wrong


@refused("the relations of events run in a circle: z -> x -> y -> z", "take one of them out.")
def relations_in_a_circle():
    p = keyed()
    p.event.x, p.event.y, p.event.z = Callback(seen), Callback(seen), Callback(seen)
    p.event_relation += p.event.x, p.event.y
    p.event_relation += p.event.y, p.event.z
    p.event_relation += p.event.z, p.event.x  # wrong


@refused("'created' is built in and happens by itself", "put it on the left side of >>.")
def built_in_event_as_effect():
    p = keyed()
    p.event.x = Callback(seen)
    p.event_relation += p.event.x >> p.event.created  # wrong


@refused("'end' is built in, and when it happens is settled", "relate it by p.event.end >> p.event.yours.")
def built_in_event_before():
    p = keyed()
    p.event.x = Callback(seen)
    p.event_relation += p.event.x, p.event.end  # wrong


@refused("event 'y' belongs to parser 'paired'", "relate events of one parser.")
def relation_of_another_parser():
    p, other = keyed(), paired()
    p.event.x = Callback(seen)
    other.event.y = Callback(seen)
    p.event_relation += p.event.x, other.event.y  # wrong


@refused(
    "event 'x' asks for virtual packets and happens with 'packet', which knows none",
    "use p.header in it, or relate it to an event of your own.",
)
def virtual_packets_with_built_in_event():
    p = paired()
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.event.all = Assemble()
    p.event.x = If(p.v.header.kind == 1) >> Callback(seen)  # wrong
    p.event_relation += p.event.packet >> p.event.x
    return alone(p)


@refused(
    "a virtual packet outside a condition of the machine or of an event",
    "p.v.header.x may stand in Pred(...) of transitions and in If(...) of events.",
)
def virtual_packet_in_an_assign():
    p = paired()
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.event.all = Assemble()
    p.event.x = Assign(seen.count, p.v.header.kind) + Callback(seen)  # wrong
    return alone(p)


@refused("virtual ordered packets need a sequence", "define p.seq = Sequence(...), or use p.header.")
def virtual_packet_without_sequence():
    p = paired()
    p.event.x = If(p.v.header.kind == 1) >> Callback(seen)  # wrong
    return alone(p)


@refused("a virtual packet keeps numbers only", "use header fields of at most 64 bits in conditions with v.")
def virtual_bytes():
    p = paired()
    p.header = small + wide
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.event.all = If(p.v.header.address.length == 1) >> Assemble()  # wrong
    return alone(p)


@refused(
    "a virtual packet outside a condition of the machine or of an event",
    "p.v.header.x may stand in Pred(...) of transitions and in If(...) of events.",
)
def virtual_packet_in_prep():
    p = paired()
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.event.all = Assemble()
    p.prep = If(p.v.header.kind == 1) >> Assign(p.temp.count, 1)  # wrong
    return alone(p)


@refused(
    "event 'y' asks for virtual packets and happens with 'packet', which knows none",
    "use p.header in it, or relate it to an event of your own.",
)
def virtual_packets_with_built_in_event_through_another():
    p = paired()
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.event.all = Assemble()
    p.event.x = If(p.header.kind == 1) >> Callback(seen)
    p.event.y = If(p.v.header.kind == 1) >> Callback(seen)  # wrong
    p.event_relation += p.event.packet >> p.event.x
    p.event_relation += p.event.x >> p.event.y
    return alone(p)


@refused(
    "event 'all' assembles and happens with 'data', which that makes happen",
    "assemble in an event of its own: p.event.asm = Assemble().",
)
def assembled_with_data():
    p = paired()
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.event.all = Assemble()  # wrong
    p.event_relation += p.event.data >> p.event.all
    return alone(p)


@refused(
    "event 'all' assembles and happens with 'state', of which a packet may see several",
    "assemble in an event of its own: p.event.asm = Assemble().",
)
def assembled_with_state():
    p = paired()
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.event.all = Assemble()  # wrong
    p.event_relation += p.event.state >> p.event.all
    return alone(p)


@refused(
    "'psm.go' is asked for before all steps are made",
    "use p.cur_state or event.state, or relate it to 'packet'.",
)
def transition_with_state():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.event.x = If(p.psm.go) >> Callback(seen)  # wrong
    p.event_relation += p.event.state >> p.event.x
    return alone(p)


@refused("'psm.go' is asked for before the packet is looked at", "created comes first; use header, temp and perm.")
def transition_with_created():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.event.x = If(p.psm.go) >> Callback(seen)  # wrong
    p.event_relation += p.event.created >> p.event.x
    return alone(p)


@refused(
    "'psm.go' is asked for before the machine makes its steps", "use header, temp and perm, or relate it to 'packet'."
)
def transition_with_rexmit():
    p = paired()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.seq = Sequence(meta=p.header.seq, data=p.payload)
    p.event.all = Assemble()
    p.event.x = If(p.psm.go) >> Callback(seen)  # wrong
    p.event_relation += p.event.rexmit >> p.event.x
    return alone(p)


@refused("'sdu' is asked for before the packet is looked at", "created comes first; use header, temp and perm.")
def sdu_with_created():
    p = keyed()
    p.event.x = Assign(seen.name, p.sdu) + Callback(seen)  # wrong
    p.event_relation += p.event.created >> p.event.x
    return alone(p)


@refused(
    "transition 'back' depends on a transition of the same step",
    "a step takes one transition; use the state instead.",
)
def transition_of_the_same_step():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(p.header.kind == 1)
    p.psm.back = (B >> A) + Pred(p.psm.go)  # wrong
    return alone(p)


@refused("a source file called 'cipher.py'", "give a file in C, as in Native('my_cipher.c').")
def native_source_in_another_language():
    Native("cipher.py")  # wrong


@refused("libraries='crypto'", "list their names, as in libraries=['crypto'] for -lcrypto.")
def native_libraries_as_text():
    Native("../native/scramble.c", libraries="crypto")  # wrong


@refused("option='--key'", "give a word, as in option='keylog' for --keylog.")
def native_option():
    Native("../native/scramble.c", option="--key")  # wrong


@refused("reasons='no key'", "list different reasons, each a few small letters, as ['no key'].")
def native_reasons_as_text():
    Native("../native/scramble.c").function("f", reasons="no key")  # wrong


@refused("reasons=['a', 'a']", "list different reasons, each a few small letters, as ['no key'].")
def native_reasons_twice():
    Native("../native/scramble.c").function("f", reasons=["a", "a"])  # wrong


@refused("reason 'no memory' is one that every function has", "leave it out.")
def native_reason_of_all():
    Native("../native/scramble.c").function("f", reasons=["no memory"])  # wrong


@refused("limit=-1", "a function gives 0 to 1048576 bytes.")
def native_limit():
    Native("../native/scramble.c").function("f", limit=-1)  # wrong


@refused("a function called 'f'", "give each function of the file once, by its name in C.")
def native_function_twice():
    module = Native("../native/scramble.c")
    module.function("f")
    module.function("f")  # wrong


@refused("into= names a field", "a function's numbers go to fields of p.temp of at most 64 bits.")
def native_into_a_field_of_a_layout():
    Native("../native/scramble.c").function("f")(1, into=[small.kind])  # wrong


@refused("context= is bytes where a number is needed", "give the number of an instance: what p.instance is.")
def native_context_is_bytes():
    p = plain()
    Native("../native/scramble.c").function("f")(1, context=p.payload)  # wrong


@refused("p.sdu is a call of 'f', which gives no bytes", "say limit=, the most that it gives.")
def native_without_bytes_as_sdu():
    p = plain()
    p.sdu = Native("../native/scramble.c").function("f")(p.payload)  # wrong


@refused(
    "'refused' of layer 'only', whose p.sdu calls no function in C",
    "set p.sdu to the call of one (see Native), or leave this out.",
)
def refused_without_a_call():
    p = plain()
    p.event.x = If(p.refused == 0) >> Callback(small)  # wrong
    return alone(p)
