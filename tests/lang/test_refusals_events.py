"""Wrong parsers: events."""

# pyright: reportArgumentType=false, reportUnusedExpression=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportUnusedClass=false
# ruff: noqa: B018

from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Callback,
    If,
    Native,
    Pred,
    PSMState,
    Sequence,
)
from tests.lang.refusal import (
    Refusals,
    alone,
    assembled,
    keyed,
    paired,
    plain,
    seen,
    small,
    wide,
)

refused = Refusals()
test_refused = refused.test()


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
    p = assembled()
    p.event.x = If(p.v.header.kind == 1) >> Callback(seen)  # wrong
    p.event_relation += p.event.packet >> p.event.x
    return alone(p)


@refused(
    "a virtual packet outside a condition of the machine or of an event",
    "p.v.header.x may stand in Pred(...) of transitions and in If(...) of events.",
)
def virtual_packet_in_an_assign():
    p = assembled()
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
    p = assembled()
    p.prep = If(p.v.header.kind == 1) >> Assign(p.temp.count, 1)  # wrong
    return alone(p)


@refused(
    "event 'y' asks for virtual packets and happens with 'packet', which knows none",
    "use p.header in it, or relate it to an event of your own.",
)
def virtual_packets_with_built_in_event_through_another():
    p = assembled()
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
    "'psm.go' is read before all steps are made",
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


@refused("'psm.go' is read before the packet is looked at", "created comes first; use header, temp and perm.")
def transition_with_created():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.event.x = If(p.psm.go) >> Callback(seen)  # wrong
    p.event_relation += p.event.created >> p.event.x
    return alone(p)


@refused("'psm.go' is read before the machine makes its steps", "use header, temp and perm, or relate it to 'packet'.")
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


@refused("'sdu' is read before the packet is looked at", "created comes first; use header, temp and perm.")
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
