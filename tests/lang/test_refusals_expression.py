"""Wrong expressions, conditions and choices."""

# pyright: reportArgumentType=false, reportUnusedExpression=false, reportGeneralTypeIssues=false
# pyright: reportOperatorIssue=false, reportIndexIssue=false
# ruff: noqa: B018

from sluice.lang import (
    Assign,
    Bit,
    Connectionless,
    Else,
    If,
    Pred,
    Stack,
    UInt,
    crc32c,
    internet_checksum,
    layout,
    one_of,
)
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from tests.lang.refusal import Refusals, above, alone, keyed, paired, plain, small, wide

refused = Refusals()
test_refused = refused.test()

LOGIC = (
    "put it into If(...) or Pred(...); for and, or, not write &, |, ~ with each comparison in parentheses, "
    "for x in (a, b) write one_of(x, a, b)."
)


@refused(
    "an expression has no truth value while the stack is being described",
    LOGIC,
)
def word_and():
    p = plain()
    If(p.header.kind == 1 and p.header.size == 2)  # wrong


@refused(
    "an expression has no truth value while the stack is being described",
    LOGIC,
)
def word_or():
    p = plain()
    Pred(p.header.kind == 1 or p.header.size == 2)  # wrong


@refused(
    "an expression has no truth value while the stack is being described",
    LOGIC,
)
def word_not():
    p = plain()
    p.require(not p.header.kind, "kind")  # wrong


@refused(
    "an expression has no truth value while the stack is being described",
    LOGIC,
)
def python_if():
    p = plain()
    if p.header.kind == 1:  # wrong
        p.sdu = p.payload[:4]


@refused(
    "an expression has no truth value while the stack is being described",
    LOGIC,
)
def chained_comparison():
    p = plain()
    p.require(1 <= p.header.kind < 5, "kind")  # wrong


@refused(
    "an expression has no truth value while the stack is being described",
    LOGIC,
)
def word_in():
    p = plain()
    If(p.header.kind in (1, 2))  # wrong


@refused(
    "'==' needs numbers, and one side is a byte slice",
    "take its .length, or declare a field of at most 64 bits for what you compare.",
)
def bytes_compared():
    p = keyed()
    Pred(p.payload == 5)  # wrong


@refused(
    "'+' needs numbers, and one side is a byte slice",
    "take its .length, or declare a field of at most 64 bits for what you compare.",
)
def bytes_added():
    p = keyed()
    p.prep = Assign(p.temp.count, 1 + p.temp.piece)  # wrong


@refused("'~' needs a number, and this is a byte slice", "complement a number, as in ~(x == 1).")
def bytes_complemented():
    p = keyed()
    ~p.payload  # wrong


@refused(
    "a number cannot be sliced",
    "slice bytes (payload, sdu, a field of more than 64 bits); shift and mask a number.",
)
def number_sliced():
    p = plain()
    p.sdu = p.header.kind[:4]  # wrong


@refused(
    "'first' is not an expression",
    "use a field (p.header.x), a property of the parser (p.payload_len), or a whole number.",
)
def bytes_indexed_by_text():
    p = plain()
    p.require(p.payload["first"] == 5, "first byte")  # wrong


@refused("a slice of bytes has no step", "write [low:high].")
def slice_with_step():
    p = plain()
    p.sdu = p.payload[::2]  # wrong


@refused("the limit of a slice is bytes where a number is needed", "use a field of at most 64 bits, or .length.")
def slice_to_bytes():
    p = keyed()
    p.sdu = p.payload[: p.temp.piece]  # wrong


@refused("a number has no length in bytes", "use .length of payload, sdu or a slice.")
def length_of_number():
    p = plain()
    p.header.kind.length  # wrong


@refused("an expression cannot be iterated over", "slice bytes, as in p.payload[:n].")
def iterated():
    p = plain()
    for _ in p.payload:  # wrong
        pass


@refused(
    "0.5 is not an expression",
    "use a field (p.header.x), a property of the parser (p.payload_len), or a whole number.",
)
def float_number():
    p = plain()
    p.require(p.header.kind < 0.5, "kind")  # wrong


@refused(
    "18446744073709551616 does not fit in 64 bits",
    "numbers are at most 64 bits wide; compare longer fields in parts.",
)
def number_too_wide():
    p = plain()
    p.require(p.header.kind < 1 << 64, "kind")  # wrong


@refused(
    "'A' is not an expression",
    "use a field (p.header.x), a property of the parser (p.payload_len), or a whole number.",
)
def text():
    p = plain()
    p.require(p.header.kind == "A", "kind")  # wrong


@refused(
    "'small' is not an expression",
    "use a field (p.header.x), a property of the parser (p.payload_len), or a whole number.",
)
def layout_as_expression():
    p = plain()
    p.sdu = small  # wrong


@refused(
    "an If(...) >> ... is not an expression",
    "use a field (p.header.x), a property of the parser (p.payload_len), or a whole number.",
)
def choice_as_expression():
    p = keyed()
    Assign(p.temp.count, If(p.header.kind == 1) >> 2)  # wrong


@refused(
    "a group of fields is not an expression",
    "use a field (p.header.x), a property of the parser (p.payload_len), or a whole number.",
)
def fields_as_expression():
    p = plain()
    p.sdu = p.header  # wrong


@refused("a condition is bytes where a number is needed", "compare something, as in If(x == 1).")
def condition_of_bytes():
    p = plain()
    If(p.payload)  # wrong


@refused("a predicate is bytes where a number is needed", "compare something, as in Pred(x == 1).")
def predicate_of_bytes():
    p = plain()
    Pred(p.payload[:4])  # wrong


@refused("what p.require() asks is bytes where a number is needed", "compare something, as in p.header.x == 1.")
def requirement_of_bytes():
    p = plain()
    p.require(p.payload, "payload")  # wrong


@refused("crc32c() needs bytes, and this is a number", "give it a slice, as in sctp.unit.")
def crc_of_number():
    p = plain()
    crc32c(p.header.size, blank=(0, 4))  # wrong


@refused("blank=(4, 0)", "give its first byte and the one after it, ascending.")
def crc_blank_descending():
    p = plain()
    crc32c(p.unit, blank=(4, 0))  # wrong


@refused("internet_checksum() needs bytes, and this is a number", "give it a slice, as in ip.unit[:n].")
def checksum_of_number():
    p = plain()
    internet_checksum(p.header.src)  # wrong


@refused("one_of() without anything to compare with", "write one_of(x, a, b, ...).")
def one_of_nothing():
    p = plain()
    one_of(p.header.kind)  # wrong


@refused("one_of() with a collection", "list what to compare with one by one, or write one_of(x, *values).")
def one_of_list():
    p = plain()
    one_of(p.header.kind, [1, 2])  # wrong


@refused(
    "'==' needs numbers, and one side is a byte slice",
    "take its .length, or declare a field of at most 64 bits for what you compare.",
)
def one_of_bytes():
    p = plain()
    one_of(p.payload, 1, 2)  # wrong


@refused("serial numbers of different widths", "declare both fields with the same bits.")
def serial_numbers_of_two_widths():
    class numbers(layout):
        a = UInt(32, serial=True)
        b = UInt(16, serial=True)

    p = Connectionless("p")
    p.header = numbers
    p.require(p.header.a < p.header.b, "order")  # wrong
    return alone(p)


@refused("bytes where a number is needed", "use .length, or a field of at most 64 bits.")
def wide_value_from_below_as_number():
    p = plain()
    p.require(
        p.below.address == 1,  # wrong
        "address",
    )
    return above(p)


@refused("a number where bytes are needed", "use payload, sdu, or a slice of them.")
def number_from_below_as_bytes():
    p = plain()
    p.sdu = p.below.src[:1]  # wrong
    return above(p)


@refused(
    "no layer below layer 'upper' offers 'source'",
    "did you mean 'src'? Or a parser below must say p.offer(source=...).",
)
def nobody_below_offers():
    p = plain()
    p.require(p.below.source == 1, "source")  # wrong
    return above(p)


@refused("no layer below layer 'top' offers 'src'", "a parser below must say p.offer(src=...).")
def nobody_below_offers_anything():
    p = plain()
    p.require(p.below.src == 1, "source")  # wrong
    s = alone(plain())
    s.top = p
    s += (s.only >> s.top) + Pred(1)
    return s


@refused(
    "no step leads to layer 'tcp', and its parser reads what a layer below offers",
    "write stack += (stack.lower >> stack.tcp) + Pred(...).",
)
def step_forgotten():
    s = Stack("s")
    s.eth, s.ip = ethernet_parser(), ipv4_parser()
    s.tcp = tcp_parser()  # wrong
    s += (s.eth >> s.ip) + Pred(s.eth.header.type == 0x0800)
    return s


@refused(
    "no step leads to layer 'middle', and its parser reads what a layer below offers",
    "write stack += (stack.lower >> stack.middle) + Pred(...).",
)
def step_forgotten_to_a_layer_that_leads_on():
    p = plain()
    p.require(p.below.src == 1, "source")
    s = alone(plain())
    s.middle = p  # wrong
    s.top = plain()
    s += (s.middle >> s.top) + Pred(1)
    return s


@refused("layer 'only' has no state machine", "define p.psm, or leave cur_state out.")
def state_compared_without_machine():
    p = keyed()
    p.prep = If(p.cur_state == 1) >> Assign(p.temp.count, 1)  # wrong
    return alone(p)


@refused(
    "'==' needs numbers, and one side is a byte slice",
    "take its .length, or declare a field of at most 64 bits for what you compare.",
)
def bare_field_of_bytes_as_number():
    p = Connectionless("p")
    p.header = wide
    p.require(wide.address == 1, "address")  # wrong


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def if_without_body():
    p = keyed()
    p.prep = If(p.header.kind == 1)  # wrong


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def if_joined_without_parentheses():
    p = keyed()
    p.prep = Assign(p.temp.count, 1) + If(p.header.kind == 1) >> Assign(p.temp.count, 2)  # wrong


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def if_joined_in_front():
    p = keyed()
    p.prep = If(p.header.kind == 1) + Assign(p.temp.count, 1)  # wrong


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def if_after_if():
    p = keyed()
    p.prep = If(p.header.kind == 1) >> If(p.header.size == 2) >> Assign(p.temp.count, 1)  # wrong


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def else_after_if():
    p = keyed()
    p.prep = If(p.header.kind == 1) >> Else() >> Assign(p.temp.count, 1)  # wrong


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def else_if_without_body():
    p = keyed()
    x = Assign(p.temp.count, 1)
    y = (
        If(p.header.kind == 1) >> x >> Else() >> If(p.header.size == 2)  # wrong
    )
    p.prep = y


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def else_after_else_if_without_body():
    p = keyed()
    x = Assign(p.temp.count, 1)
    p.prep = If(p.header.kind == 1) >> x >> Else() >> If(p.header.size == 2) >> Else() >> x  # wrong


@refused("a second Else() for one If(...)", "an If has one Else; put another If after the first Else.")
def second_else():
    p = keyed()
    x = Assign(p.temp.count, 1)
    p.prep = If(p.header.kind == 1) >> x >> Else() >> x >> Else()  # wrong


@refused("an Else() without its If(...)", "write If(condition) >> a >> Else() >> b.")
def else_without_if():
    p = keyed()
    p.prep = Else() >> Assign(p.temp.count, 1)  # wrong


@refused("an Else() without its If(...)", "write If(condition) >> a >> Else() >> b.")
def else_after_an_action():
    p = keyed()
    p.prep = Assign(p.temp.count, 1) >> Else()  # wrong


@refused("an Else() without its If(...)", "write If(condition) >> a >> Else() >> b.")
def else_added():
    p = keyed()
    x = Assign(p.temp.count, 1)
    p.prep = (If(p.header.kind == 1) >> x) + Else() >> x  # wrong


@refused("Else() with nothing after it", "write Else() >> something.")
def else_with_nothing_after():
    p = keyed()
    p.prep = If(p.header.kind == 1) >> Assign(p.temp.count, 1) >> Else()  # wrong


@refused("Else() with nothing after it", "write Else() >> something.")
def inner_else_with_nothing_after():
    p = keyed()
    x = Assign(p.temp.count, 1)
    y = If(p.header.size == 2) >> x >> Else()  # wrong
    p.prep = If(p.header.kind == 1) >> y >> Else() >> x


@refused("a second body for one If(...)", "join what is done together with '+', or put Else() between.")
def second_body():
    p = keyed()
    x = Assign(p.temp.count, 1)
    p.prep = If(p.header.kind == 1) >> x >> x  # wrong


@refused("a second body for one If(...)", "join what is done together with '+', or put Else() between.")
def second_body_of_else():
    p = keyed()
    x = Assign(p.temp.count, 1)
    p.prep = If(p.header.kind == 1) >> x >> Else() >> x >> x  # wrong


@refused("parser 'plain' has no 'paylod'", "did you mean 'payload'?")
def unknown_property():
    p = plain()
    p.sdu = p.paylod[:4]  # wrong


@refused(
    "parser 'plain' has no 'captured'",
    "known here: below, created, cur_state, current_state, cursor, event, event_relation, header, "
    "instance, payload, payload_len, perm, psm, refused, sdu, temp, time, to_active, to_passive, unit, v, way.",
)
def captured_length():
    p = plain()
    p.captured  # wrong


@refused("'to_active' of a parser without connections", "make it by ConnectionOriented(), or leave this out.")
def side_of_connectionless():
    p = keyed()
    If(p.to_active == 1)  # wrong


@refused("'created' of a parser without instances", "give it p.selector = [...].")
def created_without_instances():
    p = plain()
    p.temp = small
    p.prep = If(p.created) >> Assign(p.temp.kind, 1)  # wrong
    return alone(p)


@refused(
    "'psm.go' is read before the machine makes its steps",
    "use header, temp and perm here, and p.payload.",
)
def transition_in_prep():
    from sluice.lang import PSM, PSMState

    p = paired()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.prep = If(p.psm.go) >> Assign(p.temp.count, 1)  # wrong
    return alone(p)


class piece_of_64_bits(layout):
    a = Bit(64)


@refused(
    "a number cannot be sliced",
    "slice bytes (payload, sdu, a field of more than 64 bits); shift and mask a number.",
)
def number_of_64_bits_sliced():
    piece_of_64_bits.a[0:4]  # wrong
