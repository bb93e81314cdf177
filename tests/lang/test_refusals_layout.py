"""Wrong layouts, and wrong headers made from them."""

# pyright: reportArgumentType=false, reportUnusedClass=false, reportUnusedExpression=false
# pyright: reportOperatorIssue=false, reportInvalidTypeForm=false
# ruff: noqa: B018

from sluice.lang import AnyUntil, Assign, Bit, Callback, Connectionless, Else, If, Pred, UInt, Varint, layout
from tests.lang.refusal import Refusals, above, alone, keyed, paired, plain, scratch, small, wide

refused = Refusals()
test_refused = refused.test()


@refused("a field of 0 bits", "a field has at least one bit.")
def length_zero():
    class h(layout):
        a = Bit(0)  # wrong


@refused("a field of -16 bits", "a field has at least one bit.")
def length_negative():
    class h(layout):
        a = Bit(8)
        b = UInt(-16)  # wrong


@refused(
    "the length of a field is a number of bits, not 1.5",
    "write Bit(8), or Bit(n << 3) with a field n before it that counts bytes.",
)
def length_float():
    class h(layout):
        a = Bit(1.5)  # wrong


@refused(
    "the length of a field is a number of bits, not '8'",
    "write Bit(8), or Bit(n << 3) with a field n before it that counts bytes.",
)
def length_text():
    class h(layout):
        a = Bit("8")  # wrong


@refused("the length of a field is a number of bits, not bytes", "use a field of at most 64 bits in it.")
def length_bytes():
    class h(layout):
        a = Bit(wide.address)  # wrong


@refused("const=16 does not fit in 4 bits", "give a number from 0 to 15.")
def const_too_large():
    class h(layout):
        a = Bit(4, const=16)  # wrong


@refused("const=-1 does not fit in 4 bits", "give a number from 0 to 15.")
def const_negative():
    class h(layout):
        a = Bit(4, const=-1)  # wrong


@refused(
    "const= and serial= are for numbers, and this field is a byte slice",
    "a number has a constant length of at most 64 bits; split the field.",
)
def const_of_bytes():
    class h(layout):
        a = Bit(128, const=1)  # wrong


@refused(
    "const= and serial= are for numbers, and this field is a byte slice",
    "a number has a constant length of at most 64 bits; split the field.",
)
def const_of_variable_length():
    class h(layout):
        n = Bit(8)
        a = Bit(n << 3, const=1)  # wrong


@refused("const= is 1.0, not a whole number", "compare with an expression in p.require(...) instead.")
def const_float():
    class h(layout):
        a = Bit(8, const=1.0)  # wrong


@refused("const= is an expression, not a whole number", "compare with an expression in p.require(...) instead.")
def const_expression():
    class h(layout):
        n = Bit(8)
        a = Bit(8, const=n + 1)  # wrong


@refused(
    "const= and serial= are for numbers, and this field is a byte slice",
    "a number has a constant length of at most 64 bits; split the field.",
)
def serial_bytes():
    class h(layout):
        a = UInt(96, serial=True)  # wrong


@refused("init=300 does not fit in 8 bits", "give a number from 0 to 255.")
def init_too_large():
    class h(layout):
        a = UInt(8, init=300)  # wrong


@refused("init= is not a constant", "give a whole number, and compute in p.prep.")
def init_expression():
    class h(layout):
        a = UInt(8)
        b = UInt(8, init=a)  # wrong


@refused("init= is for numbers of at most 64 bits", "a byte slice starts empty.")
def init_of_bytes():
    class h(layout):
        a = Bit(65, init=0)  # wrong


@refused("unknown byte order 'middle'", "the order is 'big' or 'little'.")
def order_unknown():
    class h(layout):
        a = UInt(16, order="middle")  # wrong


@refused("a little-endian field has whole bytes, at most 8", "use 8, 16, ... or 64 bits.")
def little_endian_bits():
    class h(layout):
        a = UInt(12, order="little")  # wrong


@refused("a little-endian field that does not begin at a byte", "reorder the fields.")
def little_endian_amid_a_byte():
    class h(layout):
        a = Bit(4)
        b = UInt(16, order="little")  # wrong
        c = Bit(4)

    p = Connectionless("p")
    p.header = h
    return alone(p)


@refused("a byte slice that does not begin and end at a byte", "reorder the fields.")
def bytes_amid_a_byte():
    class h(layout):
        a = Bit(4)
        b = Bit(128)  # wrong
        c = Bit(4)

    p = Connectionless("p")
    p.header = h
    return alone(p)


@refused(
    "layout 'h' has 13 bits where it must have whole bytes",
    "add 3 bits before 'b' ends, or check the lengths.",
)
def partial_byte():
    class h(layout):
        a = Bit(8)
        b = Bit(5)  # wrong

    p = Connectionless("p")
    p.header = h
    return alone(p)


@refused(
    "layout 'h' has 11 bits where it must have whole bytes",
    "add 5 bits before 'b' ends, or check the lengths.",
)
def partial_byte_before_variable_length():
    class h(layout):
        n = Bit(8)
        b = Bit(3)  # wrong
        c = Bit(n << 3)

    p = Connectionless("p")
    p.header = h
    return alone(p)


@refused("field 'a' is defined twice in one layout", "give the second one another name.")
def field_twice():
    class h(layout):
        a = Bit(8)
        a = Bit(16)  # wrong


@refused("'b' is the same field as 'a'", "give 'b' a Bit(...) of its own.")
def field_under_two_names():
    class h(layout):
        a = Bit(8)
        b = a  # wrong


@refused("'a' is annotated and not assigned", "write a = Bit(n), with '='.")
def field_annotated():
    class h(layout):
        a: UInt(16)  # wrong


@refused("'a' in layout 'h' is not a field", "write a = Bit(n); put anything else outside the class.")
def no_field():
    class h(layout):
        a = 16  # wrong


@refused("'a' in layout 'h' is not a field", "write a = Bit(n); put anything else outside the class.")
def forgotten_length():
    class h(layout):
        a = UInt  # wrong


@refused("'where' cannot be the name of a field", "choose another name.")
def reserved_name():
    class h(layout):
        where = Bit(8)  # wrong


@refused(
    "layout 'more' is derived from layout 'small'",
    "derive it from layout alone; for a header write small + more.",
)
def derived_layout():
    class more(small):  # wrong
        a = Bit(8)


@refused("layout 'small' is called", "use the class itself: small, without parentheses.")
def called_layout():
    p = Connectionless("p")
    p.header = small()  # wrong


@refused("layout 'small' has no field 'sze'", "did you mean 'size'?")
def unknown_field_of_layout():
    If(small.sze > 5)  # wrong


@refused("the header of parser 'plain' has no field 'sze'", "did you mean 'size'?")
def unknown_header_field():
    p = plain()
    p.sdu = p.payload[: p.header.sze]  # wrong


@refused("the header of layer 'only' has no field 'destination'", "known here: dst, kind, seq, size, src.")
def unknown_header_field_of_layer():
    stack = alone(plain())
    stack.only.header.destination  # wrong


@refused("the temp of parser 'keyed' has no field 'peace'", "did you mean 'piece'?")
def unknown_temp_field():
    p = keyed()
    p.prep = Assign(p.temp.peace, p.payload)  # wrong


@refused("the perm of parser 'keyed' has no field 'cuont'", "did you mean 'count'?")
def unknown_perm_field():
    p = keyed()
    p.prep = Assign(p.perm.cuont, 1)  # wrong


@refused("the perm of parser 'plain' has no field 'count'", "set p.perm to a layout first.")
def perm_not_set():
    p = plain()
    p.perm.count  # wrong


@refused("the header of parser 'keyed' has no field 'knd'", "did you mean 'kind'?")
def unknown_virtual_field():
    p = keyed()
    p.v.header.knd  # wrong


@refused("field 'count' cannot be set by '='", "use Assign(register, expression) in p.prep or in an event.")
def field_set():
    p = keyed()
    p.perm.count = 5  # wrong


@refused(
    "field 'a' stands in several layouts of one header (one, two)",
    "give each field a name of its own, or say which: one.a.",
)
def ambiguous_field():
    class one(layout):
        a = Bit(8)

    class two(layout):
        a = Bit(8)

    p = Connectionless("p")
    p.header = one + two
    p.header.a  # wrong


@refused("'+=' on a header that has no first part", "start with p.header = some_layout.")
def header_extended_before_it_began():
    p = Connectionless("p")
    p.header += small  # wrong


@refused(
    "20 cannot be part of a header",
    "a header is made of layouts, If(...) >> layout, and AnyUntil(...), joined by '+'.",
)
def header_of_something_else():
    p = Connectionless("p")
    p.header = 20  # wrong


@refused(
    "an Assign cannot be part of a header",
    "a header is made of layouts, If(...) >> layout, and AnyUntil(...), joined by '+'.",
)
def action_in_header():
    p = keyed()
    p.header = small + (If(small.kind == 1) >> Assign(p.temp.count, 1))  # wrong


@refused("layout 'small' stands twice in one header", "give the second place a layout of its own.")
def layout_twice_in_header():
    p = Connectionless("p")
    p.header = small + wide + small  # wrong


@refused(
    "an If(...) without a body",
    "write If(condition) >> body, in parentheses where '+' joins it: '+' binds before '>>'.",
)
def choice_without_parentheses():
    p = Connectionless("p")
    p.header = small + If(small.kind == 1) >> wide  # wrong


@refused("Else() with nothing after it", "write Else() >> something.")
def choice_without_body_in_header():
    p = Connectionless("p")
    p.header = small + (If(small.kind == 1) >> wide >> Else())  # wrong


@refused("field 'kind' is used before it is parsed", "use it in conditions and lengths of parts after its own.")
def field_before_it_is_parsed():
    p = Connectionless("p")
    p.header = small + wide

    class last(layout):
        end = Bit(8)

    p.header = (
        (If(p.header.kind == 1) >> last)  # wrong
        + small
    )
    return alone(p)


@refused("field 'size' is used before it is parsed", "use it in conditions and lengths of parts after its own.")
def layout_field_before_it_is_parsed():
    class first(layout):
        data = Bit(small.size << 3)  # wrong

    p = Connectionless("p")
    p.header = first + small
    return alone(p)


@refused("field 'size' is used before it is parsed", "use it in conditions and lengths of parts after its own.")
def bare_field_before_it_is_parsed():
    class first(layout):
        data = Bit(small.size)  # wrong

    p = Connectionless("p")
    p.header = first + small
    return alone(p)


@refused("field 'size' is used before it is parsed", "use it in conditions and lengths of parts after its own.")
def list_end_before_it_is_parsed():
    p = Connectionless("p")
    p.header = (
        AnyUntil([wide], p.cursor < small.size)  # wrong
        + small
    )
    return alone(p)


@refused("'temp.count' is read before the header is parsed", "use fields parsed before, and p.cursor.")
def temp_in_header():
    p = keyed()
    p.header += If(p.temp.count == 1) >> wide  # wrong
    return alone(p)


@refused("'temp.count' is read before the header is parsed", "use fields parsed before, and p.cursor.")
def bare_temp_in_header():
    p = keyed()
    p.header += If(scratch.count == 1) >> wide  # wrong
    return alone(p)


@refused("'to_active' is read before the header is parsed", "use fields parsed before, and p.cursor.")
def side_in_header():
    p = paired()
    p.header += If(p.to_active) >> wide  # wrong
    return alone(p)


@refused(
    "a virtual packet outside a condition of the machine or of an event",
    "p.v.header.x may stand in Pred(...) of transitions and in If(...) of events.",
)
def virtual_packet_in_header():
    p = keyed()
    p.header += If(p.v.header.kind == 1) >> wide  # wrong
    return alone(p)


@refused(
    "layout 'scratch' is no part of parser 'p'",
    "make it p.header, p.temp, p.perm or a Callback's; of another layer ask stack.layer.header.x.",
)
def field_of_another_layout():
    p = Connectionless("p")
    p.header = small
    p.header += If(scratch.count == 1) >> wide  # wrong
    return alone(p)


@refused("a field outside any layout", "make it a member of a class derived from layout.")
def field_outside_any_layout():
    size = Bit(8)
    p = Connectionless("p")
    p.header = small + (If(size == 1) >> wide)  # wrong
    return alone(p)


@refused("two layouts of parser 'p' are called 'option'", "give one another name.")
def two_layouts_of_one_name():
    def part():
        class option(layout):  # wrong
            a = Bit(8)

        return option

    p = Connectionless("p")
    p.header = part() + part()
    return alone(p)


@refused("header_contain needs a layout", "give a class derived from layout.")
def contains_no_layout():
    p = plain()
    p.header_contain(p.header.kind)  # wrong


@refused("layout 'wide' is not part of the header of parser 'plain'", "make it a part of p.header.")
def contains_another_layout():
    p = plain()
    p.require(p.header_contain(wide), "wide")  # wrong
    return alone(p)


@refused("layout 'wide' is not part of the header of layer 'upper'", "make it a part of p.header.")
def contains_another_layout_of_a_layer():
    s = above(plain())
    s.top = plain()
    s += (s.upper >> s.top) + Pred(s.upper.header_contain(wide))  # wrong
    return s


class tagged(layout):
    tag = Bit(8, const=1)
    value = Bit(8)


class short_tagged(layout):
    tag = Bit(4, const=2)
    value = Bit(4)


class other(layout):
    tag = Bit(8)


class again(layout):
    tag = Bit(8, const=1)


class empty(layout):
    pass


@refused("AnyUntil needs a list of layouts", "write AnyUntil([a, b], condition).")
def list_of_nothing():
    AnyUntil([], 1)  # wrong


@refused("AnyUntil needs a list of layouts", "write AnyUntil([a, b], condition).")
def list_without_list():
    AnyUntil(tagged, 1)  # wrong


@refused(
    "AnyUntil lists layouts, and a field is none", "give classes derived from layout, or sums that begin with one."
)
def list_of_no_layouts():
    AnyUntil([tagged, tagged.value], 1)  # wrong


@refused(
    "the alternative that begins with 'tagged' has a list of its own",
    "a list cannot stand in another: give it a layer of its own, or read it as bytes.",
)
def list_within_a_list():
    AnyUntil([tagged + (If(tagged.value) >> AnyUntil([other]))], 1)  # wrong


@refused("layout 'empty' has no fields", "an alternative reads at least one byte.")
def list_of_an_empty_layout():
    AnyUntil([tagged, empty], 1)  # wrong


@refused(
    "'other' fits everything, so the alternatives after it are never tried",
    "put it last, or give its first field a const=.",
)
def catch_all_not_last():
    AnyUntil([other, tagged], 1)  # wrong


@refused(
    "'other' fits everything, so the alternatives after it are never tried",
    "put it last, or give its first field a const=.",
)
def catch_all_first_and_last():
    AnyUntil([other, tagged, other], 1)  # wrong


@refused(
    "'tagged' and 'short_tagged' begin with fields of another length or order",
    "alternatives are told apart by one first field: give it the same bits everywhere.",
)
def first_fields_of_different_length():
    AnyUntil([tagged, short_tagged], 1)  # wrong


@refused(
    "'tagged' and 'again' both begin with const=1",
    "only the first would ever be tried; give each a const of its own.",
)
def alternatives_of_one_const():
    AnyUntil([tagged, again], 1)  # wrong


@refused("the condition of AnyUntil is bytes where a number is needed", "compare something, as in p.cursor < n.")
def list_condition_of_bytes():
    AnyUntil([tagged], wide.address)  # wrong


@refused("end= is bytes where a number is needed", "give a position in bytes, as in p.header.len << 2.")
def list_end_of_bytes():
    p = plain()
    AnyUntil([tagged], 1, end=p.payload)  # wrong


@refused(
    "layout 'other' is read before it is parsed",
    "use header_contain(...) in conditions and lengths of parts after it.",
)
def contains_what_is_not_parsed_yet():
    p = plain()
    p.header = small + other
    p.header = (
        small
        + (If(p.header_contain(other)) >> tagged)  # wrong
        + other
    )
    return alone(p)


@refused("const=-1 does not fit in 62 bits", f"give a number from 0 to {(1 << 62) - 1}.")
def varint_const_too_small():
    class h(layout):
        a = Varint(const=-1)  # wrong


@refused(
    "'one' begins with a Varint(const=1), whose bytes differ from packet to packet",
    "tell alternatives apart by a Bit(n, const=...); or read the number, and use If(...) after it.",
)
def varint_tells_alternatives_apart():
    class one(layout):
        kind = Varint(const=1)

    AnyUntil([one], small.kind == 1)  # wrong


@refused("a Varint() in a layout for temp", "only headers have them; keep its value in a UInt(62).")
def varint_in_temp():
    class kept(layout):
        number = Varint()  # wrong

    p = Connectionless("p")
    p.temp = kept


@refused("a Varint() in a layout for a callback", "only headers have them; keep its value in a UInt(62).")
def varint_in_callback():
    class told(layout):
        number = Varint()  # wrong

    Callback(told)
