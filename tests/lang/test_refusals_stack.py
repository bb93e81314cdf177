"""Wrong stacks."""

# pyright: reportArgumentType=false, reportUnusedExpression=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false
# ruff: noqa: B018

from sluice.lang import PSM, Assign, Bit, Callback, Connectionless, If, Length, Pred, PSMState, Stack, layout
from tests.lang.refusal import Refusals, above, keyed, paired, plain, small

refused = Refusals()
test_refused = refused.test()


def two() -> Stack:
    s = Stack("two")
    s.low, s.high = plain(), keyed()
    return s


@refused("a stack without layers", "write stack.name = parser(...).")
def stack_of_nothing():
    return Stack("empty")  # wrong


@refused("depth=0", "a packet passes 1 to 255 layers.")
def depth_zero():
    Stack("s", depth=0)  # wrong


@refused("records=0", "a packet passes 1 to 255 records.")
def records_zero():
    Stack("s", records=0)  # wrong


@refused("depth='deep'", "a packet passes 1 to 255 layers.")
def depth_text():
    Stack("s", depth="deep")  # wrong


@refused("depth=256", "a packet passes 1 to 255 layers.")
def depth_too_large():
    s = Stack("s")
    s.depth = 256  # wrong


@refused("a stack called 'my stack'", "a name has letters, digits and '_', and begins with no digit.")
def name_of_stack():
    Stack("my stack")  # wrong


@refused(
    "stack.low is 'plain', not a parser",
    "assign what Connectionless() or ConnectionOriented() made (call the parser function).",
)
def layer_not_called():
    s = Stack("s")
    s.low = plain  # wrong


@refused(
    "stack.low is 'small', not a parser",
    "assign what Connectionless() or ConnectionOriented() made (call the parser function).",
)
def layer_no_parser():
    s = Stack("s")
    s.low = small  # wrong


@refused("layer 'low' is defined twice", "give the second one another name.")
def layer_twice():
    s = two()
    s.low = plain()  # wrong


@refused("'name' cannot be the name of a layer", "choose another name.")
def layer_reserved():
    s = Stack("s")
    s.name = plain()  # wrong


@refused("'above' cannot be the name of a layer", "choose another name.")
def layer_named_like_a_method():
    s = Stack("s")
    s.above = plain()  # wrong


@refused("the stack has no layer 'hihg'", "did you mean 'high'?")
def layer_unknown():
    s = two()
    s += (s.low >> s.hihg) + Pred(1)  # wrong


@refused("a layer is followed by a layer, not by a parser", "write stack += (stack.a >> stack.b) + Pred(...).")
def step_to_no_layer():
    s = two()
    s += (s.low >> plain()) + Pred(1)  # wrong


@refused(
    "something is added to a layer",
    "write (stack.a >> stack.b) + Pred(...), with the parentheses: '+' binds more tightly than '>>'.",
)
def step_without_parentheses():
    s = two()
    s += s.low >> s.high + Pred(1)  # wrong


@refused("a step to the next layer without a Pred", "add + Pred(condition); Pred(1) is always.")
def step_without_pred():
    s = two()
    s += s.low >> s.high  # wrong


@refused(
    "a step to the next layer needs a Pred, not an expression",
    "write (stack.a >> stack.b) + Pred(condition).",
)
def step_with_bare_condition():
    s = two()
    s += (s.low >> s.high) + (s.low.header.kind == 1)  # wrong


@refused("a second Pred for one step", "join the conditions with & or |.")
def step_with_two_preds():
    s = two()
    s += (s.low >> s.high) + Pred(1) + Pred(1)  # wrong


@refused("a stack is extended by steps, not by a Pred", "write stack += (stack.a >> stack.b) + Pred(condition).")
def step_no_step():
    s = two()
    s += Pred(s.low.header.kind == 1)  # wrong


@refused(
    "a stack is extended by steps, not by a transition",
    "write stack += (stack.a >> stack.b) + Pred(condition).",
)
def step_of_states():
    s = two()
    A, B = PSMState(start=True), PSMState()
    s += (A >> B) + Pred(1)  # wrong


def offering(name: str, **offers: object) -> Connectionless:
    p = Connectionless(name)
    p.header = small
    p.offer(**offers)
    return p


def three() -> Stack:
    """Two layers that offer something, and one above."""
    s = Stack("three")
    s.a, s.b, s.high = offering("a", next=1, what=2), offering("b", next=2, what=small.kind), plain()
    return s


@refused("a layer or 'small'", "write stack.a | stack.b, of layers of one stack.")
def any_layer_or_something_else():
    s = three()
    s += ((s.a | small) >> s.high) + Pred(1)  # wrong


@refused("layer 'high' offers no 'next'", "nothing of that kind is defined yet.")
def any_layer_that_does_not_offer():
    s = three()
    s += ((s.a | s.high) >> s.b) + Pred((s.a | s.high).offers.next == 1)  # wrong


@refused(
    "'what' is a number in one layer and bytes in another",
    "offer the same kind of value in each.",
)
def any_layer_offers_two_kinds():
    s = three()
    s.c = offering("c", what=plain().payload[:4])
    s += ((s.a | s.c) >> s.high) + Pred((s.a | s.c).offers.what == 1)  # wrong


@refused(
    "'header' is read of any of several layers",
    "ask for what their parsers all say with p.offer(...): (stack.a | stack.b).offers.x.",
)
def any_layer_asked_for_its_header():
    s = three()
    s += ((s.a | s.b) >> s.high) + Pred((s.a | s.b).header.kind == 1)  # wrong


@refused("'timeout' is set on any of several layers", "set it on a parser: p.timeout = ....")
def any_layer_set():
    s = three()
    (s.a | s.b).timeout = 3  # wrong


@refused("offer 'next' is set on layers", "say p.offer(next=...) in their parsers.")
def any_layer_offers_set():
    s = three()
    (s.a | s.b).offers.next = 3  # wrong


@refused(
    "a step from layer 'high' reads what layer 'a' or 'b' offers",
    "read it from the layer itself: stack.high.offers.next.",
)
def any_layer_asked_in_a_step_from_another():
    s = three()
    s += (s.high >> s.a) + Pred((s.a | s.b).offers.next == 1)  # wrong


@refused(
    "a layer is followed by a layer, not by any of several layers", "write stack += (stack.a >> stack.b) + Pred(...)."
)
def step_to_any_layer():
    s = three()
    s += (s.high >> (s.a | s.b)) + Pred(1)  # wrong


@refused(
    "something is added to a layer",
    "write (stack.a >> stack.b) + Pred(...), with the parentheses: '+' binds more tightly than '>>'.",
)
def step_from_any_layer_to_a_sum():
    s = three()
    s += (s.a | s.b) + Pred(1)  # wrong


@refused("a step to the next layer without a Pred", "add + Pred(condition); Pred(1) is always.")
def step_from_any_layer_without_pred():
    s = three()
    s += (s.a | s.b) >> s.high  # wrong


@refused("layer 'b' belongs to another stack", "use layers of this stack.")
def any_layer_of_another_stack():
    s, other = three(), three()
    s += ((s.a | other.b) >> s.high) + Pred(1)  # wrong


@refused("parser 'plain' reads what layers of a stack offer", "read what lies below, p.below.next.")
def any_layer_asked_in_a_parser():
    s = three()
    p = plain()
    p.require((s.a | s.b).offers.next == 1, "next")  # wrong
    s.parser = p
    s += (s.a >> s.parser) + Pred(1)
    s += (s.a >> s.b) + Pred(1)
    s += (s.b >> s.high) + Pred(1)
    return s


@refused(
    "a parser is followed by a parser, not by a layer",
    "write stack += lower >> upper with parsers, or (stack.a >> stack.b) + Pred(...) with layers.",
)
def chain_with_a_layer():
    s = three()
    s += plain() >> s.high  # wrong


@refused(
    "something is added to a chain of parsers",
    "each is always the next layer of the one before; for a condition make layers, and write "
    "(stack.a >> stack.b) + Pred(...).",
)
def chain_with_a_condition():
    s = three()
    s += (plain() >> keyed()) + Pred(1)  # wrong


@refused("layer 'high' is defined twice", "give the second one another name.")
def chain_with_a_name_that_is_taken():
    s = three()
    s += Connectionless("low") >> Connectionless("high")  # wrong


@refused("'join' cannot be the name of a layer", "choose another name.")
def chain_with_a_name_of_the_stack():
    s = three()
    s += Connectionless("low") >> Connectionless("join")  # wrong


@refused("a parser without a name in a chain", 'its layer is called like it: Connectionless("name").')
def chain_without_a_name():
    s = three()
    s += plain() >> (lambda: Connectionless())()  # wrong


@refused("layer 'high' belongs to another stack", "use layers of this stack.")
def step_of_another_stack():
    s, other = two(), two()
    s += (s.low >> other.high) + Pred(1)  # wrong


@refused(
    "a virtual packet outside a condition of the machine or of an event",
    "p.v.header.x may stand in Pred(...) of transitions and in If(...) of events.",
)
def step_by_virtual_packets():
    s = two()
    s += (s.low >> s.high) + Pred(s.low.v.header.kind == 1)  # wrong
    return s


@refused(
    "layer 'low' uses layer 'high', which is not below it",
    "a layer may ask itself and those below; build its parser with the layer that lies below it.",
)
def step_by_a_layer_that_is_not_below():
    s = two()
    s += (s.low >> s.high) + Pred(s.high.header.kind == 1)  # wrong
    return s


@refused(
    "layer 'upper' uses parser 'plain', which is not below it",
    "a layer may ask itself and those below; build its parser with the layer that lies below it.",
)
def layer_uses_one_that_is_not_below():
    other = plain()
    p = keyed()
    p.require(other.header.kind == 1, "kind")  # wrong
    return above(p)


@refused(
    "not every way to layer 'high' leads through layer 'side', which it uses",
    "let the parsers on all ways say p.offer(NAME=...), and use p.below.NAME here.",
)
def layer_uses_one_that_is_not_always_below():
    s = two()
    s.side = plain()
    s += (s.low >> s.side) + Pred(s.low.header.kind == 1)
    s += (s.low >> s.high) + Pred(1)
    s += (s.side >> s.high) + Pred(1)
    s.high.prototype.require(s.side.header.kind == 1, "kind")  # wrong
    return s


@refused(
    "no packet can reach layer 'third'",
    "write stack += (stack.lower >> stack.third) + Pred(...), or give it link_types.",
)
def layer_without_steps():
    s = two()
    s.third = plain()  # wrong
    s += (s.low >> s.high) + Pred(1)
    return s


@refused("no packet can reach layer 'a'", "write stack += (stack.lower >> stack.a) + Pred(...).")
def layers_that_lead_only_to_each_other():
    s = Stack("s")
    s.low = Connectionless("low", link_types=(1,))
    s.a = plain()  # wrong
    s.b = plain()
    s += (s.a >> s.b) + Pred(1)
    s += (s.b >> s.a) + Pred(1)
    return s


@refused(
    "no layer is the first one",
    "one layer must not be the next of another, or its parser must name its link_types.",
)
def no_first_layer():
    s = Stack("s")  # wrong
    s.a, s.b = plain(), plain()
    s += (s.a >> s.b) + Pred(1)
    s += (s.b >> s.a) + Pred(1)
    return s


@refused(
    "layers 'a' and 'b' would both be the first for any packet",
    "connect them by a step, or give their parsers different link_types.",
)
def two_first_layers():
    s = Stack("s")
    s.a = plain()
    s.b = plain()  # wrong
    s.c = plain()
    s += (s.a >> s.c) + Pred(1)
    s += (s.b >> s.c) + Pred(1)
    return s


@refused(
    "layers 'a' and 'b' would both be the first for link type 1",
    "connect them by a step, or give their parsers different link_types.",
)
def two_layers_of_one_link_type():
    s = Stack("s")
    s.a = Connectionless("a", link_types=(1,))
    s.b = Connectionless("b", link_types=(1, 113))  # wrong
    return s


@refused(
    "layers 'low' and 'high' call back with different layouts that are both called 'told'", "give one another name."
)
def two_layouts_of_callbacks_of_one_name():
    def telling(bits: int):
        class told(layout):  # wrong
            kind = Bit(bits)

        p = plain()
        p.event.tell = Assign(told.kind, p.header.kind) + Callback(told)
        return p

    s = Stack("s")
    s.low = telling(8)
    s.high = telling(16)
    s += (s.low >> s.high) + Pred(1)
    return s


@refused("'timeout' is set on layer 'high'", "set it on the parser, before it is a layer: p.timeout = ....")
def setting_of_a_layer():
    s = two()
    s.high.timeout = 5  # wrong


@refused("'selector' belongs to the parser of layer 'high'", "ask the parser, before it is a layer.")
def setting_of_a_layer_asked():
    s = two()
    s.high.selector  # wrong


@refused("layer 'high' has no setting 'timout'", "a layer is what its parser is; change that one.")
def setting_of_a_layer_misspelt():
    s = two()
    s.high.timout = 5  # wrong


@refused("layer 'high' has no 'paylod'", "did you mean 'payload'?")
def property_of_a_layer_unknown():
    s = two()
    s.high.paylod  # wrong


@refused("layer 'lower' offers no 'kin'", "did you mean 'kind'?")
def offer_unknown():
    s = above(keyed())
    If(s.lower.offers.kin == 1)  # wrong


@refused("offer 'port' is set on a layer", "say p.offer(port=...) in its parser.")
def offer_set_on_a_layer():
    s = above(keyed())
    s.lower.offers.port = 1  # wrong


@refused("transition 'go' is defined on a layer", "define it in the parser: p.psm.t = (A >> B) + Pred(...).")
def transition_set_on_a_layer():
    p = paired()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    s = Stack("s")
    s.high = p
    s.high.psm.go = (A >> B) + Pred(1)  # wrong


@refused("there is no transition 'goin'", "did you mean 'going'?")
def transition_of_a_layer_unknown():
    p = paired()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.going = (A >> B) + Pred(1)
    s = Stack("s")
    s.high = p
    Pred(s.high.psm.goin)  # wrong


@refused("parser 'plain' has no state machine yet", "write p.psm = PSM(...) first.")
def machine_of_a_layer_without():
    s = two()
    s.low.psm.go  # wrong


@refused(
    "not every way to layer 'upper' leads through a layer that offers 'kind'",
    "let a parser on each way say p.offer(kind=...).",
)
def offered_on_one_way_only():
    p = plain()
    p.require(p.below.kind == 1, "kind")  # wrong
    s = above(p)
    s.bare = plain()
    s += (s.lower >> s.bare) + Pred(1)
    s.top = Connectionless("top", link_types=(1,))
    s += (s.top >> s.upper) + Pred(1)
    return s


@refused(
    "layer 'high' looks for the next start in a stream, and layer 'low' has none",
    "leave resync= out: with the next packet messages begin again.",
)
def resync_without_a_stream():
    p = plain()
    p.message = Length(p.header.size, resync=p.header.size == 1)
    lower = keyed()
    s = Stack("s")
    s.low, s.high = lower, p
    s += (s.low >> s.high) + Pred(1)  # wrong
    return s


@refused("a PSM that belongs to no parser", "assign it first: p.psm = PSM(...).")
def machine_of_no_parser():
    A, B = PSMState(start=True), PSMState()
    machine = PSM(A, B)
    machine.go = (A >> B) + Pred(1)
    If(machine.go)  # wrong
