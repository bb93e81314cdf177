"""Wrong parsers: settings."""

# pyright: reportArgumentType=false, reportUnusedExpression=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportUnusedClass=false
# ruff: noqa: B018

from sluice.lang import (
    Bit,
    Connectionless,
    Else,
    If,
    layout,
)
from tests.lang.refusal import (
    Refusals,
    alone,
    keyed,
    plain,
    scratch,
    small,
    wide,
)

refused = Refusals()
test_refused = refused.test()

SETTINGS = (
    "known here: alias, buffer_data, costly, creates, event, event_relation, header, lifetime, link_types, "
    "max_instances, message, name, needs_captured, "
    "perm, prep, psm, record, sdu, selector, seq, temp, timeout."
)


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


@refused("'perm.count' is read before the instance is found", "use header fields here; prep comes later.")
def selector_of_instance():
    p = keyed()
    p.selector = [p.perm.count]  # wrong
    return alone(p)


@refused("'temp.count' is read before the instance is found", "use header fields here; prep comes later.")
def selector_of_bare_temp():
    p = keyed()
    p.selector = [scratch.count]  # wrong
    return alone(p)


@refused("'sdu' is read before the machine makes its steps", "use header, temp and perm here, and p.payload.")
def requirement_of_instance_and_sdu():
    p = keyed()
    p.require((p.perm.count == 1) | (p.sdu.length == 1), "count")  # wrong
    return alone(p)


@refused("'sdu' is read before the instance is found", "use header fields here; prep comes later.")
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


@refused("offer 'src' is read from a parser", "read it from a layer of a stack: stack.layer.offers.src.")
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


@refused("'sdu' is read before the machine makes its steps", "use header, temp and perm here, and p.payload.")
def sdu_of_itself():
    p = plain()
    p.sdu = p.sdu[:4]  # wrong
    return alone(p)
