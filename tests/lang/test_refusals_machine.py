"""Wrong state machines and sequences."""

# pyright: reportArgumentType=false, reportUnusedExpression=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false
# ruff: noqa: B018

from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Connectionless,
    Else,
    If,
    Length,
    Pred,
    PSMState,
    Sequence,
    make_psm_state,
)
from tests.lang.refusal import Refusals, alone, assembled, keyed, paired, plain, scratch

refused = Refusals()
test_refused = refused.test()


# --- machines ----------------------------------------------------------------------------------------------


@refused("a PSM without states", "write PSM(A, B, ...).")
def no_states():
    PSM()  # wrong


@refused("'B' is not a state", "make states with PSMState() or make_psm_state(n).")
def state_no_state():
    A = PSMState(start=True)
    PSM(A, "B")  # wrong


@refused("a state stands twice in one PSM", "list every state once.")
def state_twice():
    A, B = PSMState(start=True), PSMState()
    PSM(A, B, A)  # wrong


@refused("a PSM has one start state, and this one has none", "give exactly one state start=True.")
def no_start_state():
    A, B = make_psm_state(2)
    PSM(A, B)  # wrong


@refused("a PSM has one start state, and this one has 2", "give exactly one state start=True.")
def two_start_states():
    A, B = PSMState(start=True), PSMState(start=True)
    PSM(A, B)  # wrong


@refused("a PSM with 256 states", "a machine has at most 255 states.")
def too_many_states():
    PSM(PSMState(start=True), *make_psm_state(255))  # wrong


@refused("make_psm_state(0)", "give a whole number from 1 to 255: how many states.")
def no_state_made():
    make_psm_state(0)  # wrong


@refused("make_psm_state('two')", "give a whole number from 1 to 255: how many states.")
def states_made_of_text():
    make_psm_state("two")  # wrong


@refused("start= is 'yes'", "give True or False.")
def start_no_flag():
    PSMState(start="yes")  # wrong


@refused("p.psm is a state, not a PSM", "write p.psm = PSM(state, ...).")
def machine_no_machine():
    p = keyed()
    p.psm = PSMState(start=True)  # wrong


@refused("one PSM for two parsers", "build a PSM for each parser.")
def machine_shared():
    p, other = keyed(), keyed()
    p.psm = PSM(PSMState(start=True))
    other.psm = p.psm  # wrong


@refused("parser 'keyed' has a state machine already", "list all states in one PSM(...).")
def machine_twice():
    p = keyed()
    p.psm = PSM(PSMState(start=True))
    p.psm = PSM(PSMState(start=True))  # wrong


@refused("parser 'keyed' has no state machine yet", "write p.psm = PSM(...) first.")
def machine_not_yet():
    p = keyed()
    p.psm.go  # wrong


@refused(
    "transition 'go' uses a state that is not in the machine",
    "list the state in PSM(...), and use states of this machine only.",
)
def transition_to_unlisted_state():
    p = keyed()
    A, B, C = PSMState(start=True), PSMState(), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> C) + Pred(1)  # wrong


@refused(
    "transition 'go' uses a state 'B' that is not in the machine",
    "list the state in PSM(...), and use states of this machine only.",
)
def transition_from_another_machine():
    p, other = keyed(), keyed()
    A, B = PSMState(start=True), PSMState(name="B")
    p.psm = PSM(A)
    other.psm = PSM(PSMState(start=True), B)
    p.psm.go = (A >> B) + Pred(1)  # wrong


@refused("transition 'go' has no Pred", "write (A >> B) + Pred(condition); Pred(1) is always.")
def transition_without_pred():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = A >> B  # wrong


@refused(
    "something is added to a state",
    "write (A >> B) + Pred(...), with the parentheses: '+' binds more tightly than '>>'.",
)
def transition_without_parentheses():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = A >> B + Pred(1)  # wrong


@refused("a transition needs a Pred", "write (A >> B) + Pred(condition).")
def transition_with_bare_condition():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + (p.header.kind == 1)  # wrong


@refused("a second Pred for one transition", "join the conditions with & or |.")
def transition_with_two_preds():
    A, B = PSMState(start=True), PSMState()
    (A >> B) + Pred(1) + Pred(1)  # wrong


@refused("a transition leads from a state to a state", "write (A >> B) + Pred(...).")
def transition_to_no_state():
    A = PSMState(start=True)
    A >> 5  # wrong


@refused("transition 'go' is defined twice", "give the second one another name.")
def transition_twice():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.psm.go = (B >> A) + Pred(1)  # wrong


@refused("one transition has two names, 'go' and 'leave'", "make a transition for each name.")
def transition_of_two_names():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = go = (A >> B) + Pred(1)
    p.psm.leave = go  # wrong


@refused("a transition assigned from another", "write (A >> B) + Pred(...) for each.")
def transition_copied():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.psm.leave = p.psm.go  # wrong


@refused("psm.go is a Pred, not a transition", "write p.psm.go = (A >> B) + Pred(condition).")
def transition_no_transition():
    p = keyed()
    p.psm = PSM(PSMState(start=True))
    p.psm.go = Pred(1)  # wrong


@refused("'states' cannot be the name of a transition", "choose another name.")
def transition_reserved():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.states = (A >> B) + Pred(1)  # wrong


@refused("there is no transition 'finnish'", "did you mean 'finish'?")
def transition_unknown():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.finish = (A >> B) + Pred(1)
    If(p.psm.finnish)  # wrong


@refused("a transition has no setting 'timout'", "settings of a transition are timeout and restart.")
def transition_setting():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.psm.go.timout = 5  # wrong


@refused("a timeout of -1", "a timeout is a number of seconds, from 1e-9 to 1e9.")
def transition_timeout():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.psm.go.timeout = -1  # wrong


@refused("restart is 1", "give True or False.")
def transition_restart():
    p = keyed()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.psm.go.restart = 1  # wrong


@refused("restart transition 'go' looks at virtual packets", "use p.header in it.")
def restart_looks_at_virtual_packets():
    p = assembled()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(p.v.header.kind == 1)  # wrong
    p.psm.go.restart = True
    return alone(p)


@refused("parser 'keyed' has no state 'C'", "compare cur_state with a state of the same parser's PSM.")
def state_of_another_machine():
    p = keyed()
    A, B, C = PSMState(start=True), PSMState(), PSMState(name="C")
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(p.cur_state == C)  # wrong
    return alone(p)


@refused("'cur_state' is read before the instance is found", "use header fields here; prep comes later.")
def state_before_the_instance():
    p = keyed()
    A = PSMState(start=True)
    p.psm = PSM(A)
    p.selector = [p.cur_state]  # wrong
    return alone(p)


# --- sequences ---------------------------------------------------------------------------------------------


@refused("p.seq is an expression, not a sequence", "write p.seq = Sequence(...), or If(cond) >> Sequence(...).")
def sequence_no_sequence():
    p = paired()
    p.seq = p.payload  # wrong


@refused("p.seq with an Else()", "packets outside the condition are not inserted; leave the Else out.")
def sequence_with_else():
    p = paired()
    a = Sequence(meta=p.header.seq, data=p.payload)
    p.seq = If(p.header.kind == 1) >> a >> Else() >> a  # wrong


@refused("p.seq is an If(...), not a sequence", "write p.seq = Sequence(...), or If(cond) >> Sequence(...).")
def sequence_without_body():
    p = paired()
    p.seq = If(p.header.kind == 1)  # wrong


@refused("meta= is bytes where a number is needed", "use a field of at most 64 bits.")
def meta_bytes():
    p = paired()
    Sequence(meta=p.payload, data=p.payload)  # wrong


@refused("data= is a number", "give bytes, as in data=p.payload[:n].")
def data_number():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload_len)  # wrong


@refused("data_len= is bytes where a number is needed", "give a number, as in p.payload_len + 1.")
def data_len_bytes():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, data_len=p.payload)  # wrong


@refused("start= with a zero-based sequence", "its base is 0 for ever; give zero_based=False, or no start=.")
def start_zero_based():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, start=p.header.kind == 1)  # wrong


@refused("start= is bytes where a number is needed", "give a condition, as in p.header.syn == 1.")
def start_bytes():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, zero_based=False, start=p.payload)  # wrong


@refused("window= is not a pair", "write window=(low, high), two positions.")
def window_no_pair():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, window=p.header.size)  # wrong


@refused("window= is bytes where a number is needed", "give two positions, numbers like meta.")
def window_bytes():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, window=(p.header.seq, p.payload))  # wrong


@refused("unknown overlap policy 'newest'", "policies: first, last, bsd, bsd_right, linux, windows, solaris.")
def policy_unknown():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, policy="newest")  # wrong


@refused("overwrite_rexmit and policy contradict each other", "give only policy=.")
def policies_contradict():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, policy="bsd", overwrite_rexmit=True)  # wrong


@refused("whole= of a sequence of units", "each unit is whole by itself; leave it out.")
def units_whole():
    p = paired()
    Sequence(meta=p.header.seq, data=p.unit, units=True, whole=True)  # wrong


@refused("history= of a sequence of units", "no delivered unit is kept; leave it out.")
def units_history():
    p = paired()
    Sequence(meta=p.header.seq, data=p.unit, units=True, history=9)  # wrong


@refused("policy='last' of a sequence of units", "the first copy of a unit wins; leave it out.")
def units_policy():
    p = paired()
    Sequence(meta=p.header.seq, data=p.unit, units=True, overwrite_rexmit=True)  # wrong


@refused("skip= of a sequence of bytes", "only units can be skipped; leave it out.")
def skip_of_bytes():
    p = paired()
    Sequence(meta=p.header.seq, data=p.unit, skip=p.header.kind == 1)  # wrong


@refused("skip= is bytes where a number is needed", "give a condition, as in p.header.type == 192.")
def skip_by_bytes():
    p = paired()
    Sequence(meta=p.header.seq, data=p.unit, units=True, skip=p.unit)  # wrong


@refused("head= of a sequence of bytes", "only units have one; give units=True, or no head=.")
def head_of_bytes():
    p = paired()
    Sequence(meta=p.header.seq, data=p.unit, head=4)  # wrong


@refused("head=-1", "head is 0 to 65535 bytes.")
def head_negative():
    p = paired()
    Sequence(meta=p.header.seq, data=p.unit, units=True, head=-1)  # wrong


@refused(
    "head= reads what belongs to a packet",
    "a unit may be delivered with another packet than its own: use fields of p.perm.",
)
def head_of_a_packet():
    p = keyed()
    p.seq = Sequence(meta=p.header.size, data=p.unit, units=True, head=4 + (p.header.size & 4))  # wrong
    return alone(p)


@refused("head= is bytes where a number is needed", "give bytes, or an expression of fields of p.perm.")
def head_by_bytes():
    p = paired()
    Sequence(meta=p.header.seq, data=p.unit, units=True, head=p.unit)  # wrong


@refused("a sequence of units without their bytes", "leave p.buffer_data out.")
def units_without_bytes():
    p = keyed()
    p.seq = Sequence(meta=p.header.size, data=p.unit, units=True)  # wrong
    p.buffer_data = False
    return alone(p)


@refused("limit=0", "a limit is a whole number from 1 to 2^31 - 1.")
def limit_zero():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, limit=0)  # wrong


@refused("limit_pieces='many'", "a limit is a whole number from 1 to 2^31 - 1.")
def limit_of_pieces_text():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, limit_pieces="many")  # wrong


@refused("limit_records=2147483648", "a limit is a whole number from 1 to 2^31 - 1.")
def limit_of_records_too_large():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, limit_records=1 << 31)  # wrong


@refused("history=-1", "history is 0 to 65536 bytes.")
def history_negative():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, history=-1)  # wrong


@refused("zero_based= is 0", "give True or False.")
def flag_no_flag():
    p = paired()
    Sequence(meta=p.header.seq, data=p.payload, zero_based=0)  # wrong


@refused("'psm.go' is read before the machine makes its steps", "use header, temp and perm here.")
def sequence_of_transitions():
    p = paired()
    A, B = PSMState(start=True), PSMState()
    p.psm = PSM(A, B)
    p.psm.go = (A >> B) + Pred(1)
    p.seq = Sequence(meta=p.header.seq + p.psm.go, data=p.payload)  # wrong
    p.event.all = Assemble()
    return alone(p)


@refused(
    "a virtual packet outside a condition of the machine or of an event",
    "p.v.header.x may stand in Pred(...) of transitions and in If(...) of events.",
)
def sequence_of_virtual_packets():
    p = paired()
    p.seq = Sequence(meta=p.v.header.seq, data=p.payload)  # wrong
    p.event.all = Assemble()
    return alone(p)


@refused("'sdu' is read before the machine makes its steps", "use header, temp and perm here, and p.payload.")
def sdu_before_it_is_known():
    p = paired()
    p.prep = Assign(p.temp.count, p.sdu.length)  # wrong
    return alone(p)


@refused("'to_active' of a parser without instances", "give it p.selector = [...].")
def side_of_a_parser_without_instances():
    from sluice.lang import ConnectionOriented

    p = ConnectionOriented("p")
    p.header = plain().format
    p.temp = keyed().temp_layout
    p.prep = Assign(p.temp.count, p.to_active)  # wrong
    return alone(p)


# --- messages ----------------------------------------------------------------------------------------------


@refused("p.message is an expression, not a Length", "write p.message = Length(p.header.length).")
def message_no_length():
    p = plain()
    p.message = p.header.size  # wrong


@refused("the length of a message is bytes where a number is needed", "give a number made of fields of the header.")
def message_length_bytes():
    p = plain()
    p.message = Length(p.payload)  # wrong


@refused("resync= is bytes where a number is needed", "compare a field, as in p.header.magic == 7.")
def message_resync_bytes():
    p = plain()
    p.message = Length(p.header.size, resync=p.payload)  # wrong


@refused("limit=1048576", "a message has 1 to 131072 bytes.")
def message_limit():
    p = plain()
    p.message = Length(p.header.size, limit=1 << 20)  # wrong


@refused("half= of messages that are not bundled", "write bundled=True, half=True.")
def message_half_without_bundled():
    p = plain()
    p.message = Length(p.header.size, half=True)  # wrong


@refused("'temp.count' is read before the message is there", "use fields of the header.")
def message_length_from_temp():
    p = keyed()
    p.message = Length(p.temp.count)  # wrong
    return alone(p)


@refused("'payload_len' is read before the message is there", "use fields of the header.")
def message_length_from_payload():
    p = keyed()
    p.message = Length(p.payload_len)  # wrong
    return alone(p)


@refused("'temp.count' is read before the message is there", "use fields of the header.")
def message_length_from_bare_temp():
    p = keyed()
    p.message = Length(scratch.count)  # wrong
    return alone(p)


@refused("a message without a header", "its length must stand in one: set p.header.")
def message_without_header():
    p = Connectionless("p")
    p.message = Length(4)  # wrong
    return alone(p)
