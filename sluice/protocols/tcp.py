"""TCP (RFC 9293), with the options of RFC 7323 and RFC 2018.

The state machine is the paper's sender-side one (4.4), completed: it advances by what each side sends, in the order of
sending, and its states do not depend on how the packets of the two sides are interleaved.

| state        | seen so far                         | active end  | passive end  |
|--------------|-------------------------------------|-------------|--------------|
| CLOSED       | nothing                             | CLOSED      | LISTEN       |
| SYN_SENT     | SYN of the active side              | SYN_SENT    | LISTEN       |
| SYN_ACK_SENT | SYN/ACK of the passive side only    | SYN_SENT    | SYN_RECEIVED |
| SYN_RECEIVED | SYN of both sides                   | SYN_SENT    | SYN_RECEIVED |
| ESTABLISHED  | anything but SYN                    | ESTABLISHED | ESTABLISHED  |
| FIN_WAIT_1   | FIN of the active side              | FIN_WAIT_1  | CLOSE_WAIT   |
| FIN_WAIT_2   | and its acknowledgement             | FIN_WAIT_2  | CLOSE_WAIT   |
| CLOSE_WAIT   | FIN of the passive side             | CLOSE_WAIT  | FIN_WAIT_1   |
| CLOSE_WAIT_2 | and its acknowledgement             | CLOSE_WAIT  | FIN_WAIT_2   |
| CLOSING      | FIN of both, none acknowledged      | CLOSING     | CLOSING      |
| TIME_WAIT    | both, the active side's acknowledged  | TIME_WAIT | LAST_ACK     |
| LAST_ACK     | both, the passive side's acknowledged | LAST_ACK  | TIME_WAIT    |
| TERMINATED   | both acknowledged; lingers          | TIME_WAIT   | CLOSED       |
| RESET        | a reset that counts; lingers        | CLOSED      | CLOSED       |

Limits: no check of timestamps (PAWS); urgent data stay in line; for a connection that was picked up in its middle the
largest window scale is assumed, as its SYN was not seen.
"""

from collections.abc import Callable
from typing import Any

from sluice.lang import (
    PSM,
    AnyUntil,
    Assemble,
    Assign,
    Block,
    ConnectionOriented,
    Else,
    Expression,
    If,
    Pred,
    PSMState,
    Sequence,
    both_sides,
    internet_checksum,
    make_psm_state,
    swap_sides,
)
from sluice.lang.choice import Choice
from sluice.protocols.tcp_doubts import DOUBLE, DoubtRules, while_in_doubt
from sluice.protocols.tcp_layouts import (
    tcp_both,
    tcp_eol,
    tcp_hdr,
    tcp_mss,
    tcp_nop,
    tcp_other,
    tcp_sack,
    tcp_sack_permitted,
    tcp_side,
    tcp_temp,
    tcp_ts,
    tcp_ws,
)

UNBOUNDED = 0x7FFFFFFF
"""The window of a side that has acknowledged nothing yet."""

LINGER = 10.0
HANDSHAKE = 30.0


def tcp_parser(
    limit: int | None = None,
    limit_pieces: int = 1 << 20,
    grace: float | None = 0.1,
    policy: str = "first",
    resets: str = "window",
    history: int = 0,
    enforce: bool = False,
    pick_up: bool = True,
    linger: float = LINGER,
    byte_0: str = "acknowledged",
    reuse: str = "syn",
) -> ConnectionOriented:
    """TCP for any layer below that offers src and dst.

    `limit`, `limit_pieces`: bytes, and segments, held out of order per side; limit=None: as many bytes as the
    receiver's window and the option --hold allow. `grace`: seconds after which a hole that the receiver acknowledged
    becomes a gap; None: never. `policy`: which copy of overlapping bytes wins (see Sequence). `resets`: "window", or
    "always" to accept every reset. `history`: delivered bytes that are stored, for the old copy of a retransmission.
    `enforce`: bytes outside the window are not only reported but left out. `pick_up`: whether connections may be picked
    up in their middle; if not, a packet of an unknown one counts only if it has a SYN. `linger`: seconds that a closed
    connection remains, for delayed packets. `byte_0`: of a side whose SYN was not seen; "acknowledged": the other's
    acknowledgements decide it; "first": its first packet has it, and is delivered at once. `reuse`: "syn": the rules of
    RFC 5961 decide whether a SYN begins another connection on the same ports; "closed": one with a new number does so
    after a FIN or a reset that counts, and otherwise belongs to no stream.
    """
    tcp = ConnectionOriented("tcp")

    tcp.header = tcp_hdr
    tcp.needs_captured = 14  # ports, numbers and flags
    options = AnyUntil(
        [tcp_eol, tcp_nop, tcp_mss, tcp_ws, tcp_sack_permitted, tcp_sack, tcp_ts, tcp_other],
        tcp.cursor < tcp.header.hdr_len << 2,
        end=tcp.header.hdr_len << 2,
    )
    tcp.header += If(tcp_hdr.hdr_len > 5) >> options
    tcp.require(tcp.header.hdr_len >= 5, "header length")
    tcp.require(
        internet_checksum(tcp.unit, tcp.below.src, tcp.below.dst, 6, tcp.unit.length) == 0,
        "checksum",
        option="checksums",
    )
    tcp.selector = (
        [tcp.below.src, tcp.header.sport],
        [tcp.below.dst, tcp.header.dport],
    )
    tcp.perm = both_sides(tcp_side, tcp_both)
    tcp.temp = tcp_temp
    header, perm, temp = tcp.header, tcp.perm, tcp.temp

    CLOSED = PSMState(start=True)
    SYN_SENT, SYN_ACK_SENT, SYN_RECEIVED, ESTABLISHED = make_psm_state(4)

    # Data on a SYN has the number after it; SYN and FIN each occupy one sequence number.
    syn_alone = (header.syn == 1) & (tcp.payload_len == 0)
    tcp.prep = Assign(temp.number, header.seq_num + (header.syn & (tcp.payload_len != 0)))
    tcp.prep += Assign(temp.units, tcp.payload_len + header.fin + syn_alone)
    tcp.prep += Assign(temp.after, header.seq_num + (tcp.payload_len + header.fin + header.syn))
    tcp.prep += If(tcp.created & header.syn & header.ack) >> swap_sides()

    def side(name: str) -> dict[str, Any]:
        """The perm fields of one side, by name without its prefix."""
        return {key: getattr(perm, f"{name}_{key}") for key in tcp_side.fields}

    def scaled(mine: dict[str, Any], its: dict[str, Any], bit: int) -> Block:
        """The window scale of a SYN. Windows are scaled if SYNs of both sides have the option (RFC 7323, 2.2), and not
        if a SYN/ACK does without it. An acknowledged SYN cannot be taken back: a copy of it is answered and dropped
        (RFC 9293, 3.10.7.4; RFC 5961, 4).
        """
        counts = ((perm.syn & bit) == 0) | ~its["acked"] | (its["ack"] <= mine["first"])
        refused = ((perm.syn & (3 - bit)) != 0) & ~its["scales"]
        neither = Assign(mine["scale"], 0) + Assign(its["scale"], 0)
        value = Assign(mine["scales"], 1) + (
            If(~refused & (header.ws_value < 14)) >> Assign(mine["scale"], header.ws_value)
        )
        has = tcp.header_contain(tcp_ws)
        return (If(counts & has) >> value) + (If(counts & ~has & (header.ack | ~mine["scales"])) >> neither)

    def certain(own: str, other: str, bit: int) -> Block:
        """A packet while nothing is in doubt: both sides have sent packets and acknowledged something."""
        return sent_by(side(own), side(other), bit, certain=True)

    def sent_by(mine: dict[str, Any], its: dict[str, Any], bit: int, certain: bool) -> Block:
        """The state changes by a packet of a side; `bit` is that side's."""
        low, high = its["ack"], its["ack"] + its["window"]
        # RFC 9293, 3.10.7.4 (RFC 5961): in the window or at the expected number; 3.10.7.3: it acknowledges the SYN
        in_window = (header.seq_num >= low) & (header.seq_num < high)
        believed = in_window | (header.seq_num == mine["next"])
        if not certain:
            in_window = its["acked"] & in_window
            expected = mine["seen"] & (header.seq_num == mine["next"])
            syn_acked = its["syn"] & (header.ack_num > its["first"]) & (header.ack_num <= its["next"])
            believed = in_window | expected | (~mine["seen"] & header.ack & syn_acked)
        # A side that sent both kinds of SYN opened simultaneously with the other, and received its SYN.
        both_kinds = (header.ack | mine["answered"]) & (~header.ack | mine["open"])
        opens = ~header.rst if certain else ~header.rst & (~header.syn | both_kinds)
        z = Assign(temp.reset, header.rst if resets == "always" else header.rst & believed) + Assign(temp.opens, opens)
        if not certain:
            z += If(mine["seen"] == 0) >> (
                Assign(mine["seen"], 1)
                + Assign(mine["first"], header.seq_num)
                + Assign(mine["syn"], header.syn)
                + Assign(mine["next"], temp.after)
            )
        # A FIN before byte 0, or outside the other side's window, is answered and dropped (RFC 9293, 3.10.7.4).
        # One that the other side has acknowledged remains the end of the stream.
        beyond = (header.seq_num > high) & (header.seq_num > mine["next"] + its["window"])
        if not certain:
            beyond = its["acked"] & beyond
        far = (header.seq_num != mine["next"]) & (beyond | (temp.after <= mine["base"]))
        known = mine["fin"] & (its["ack"] >= mine["end"])
        if not certain:
            known = (known & its["acked"]) | ((mine["doubts"] & DOUBLE) != 0)
        ends = Assign(mine["fin"], 1) + Assign(mine["end"], temp.after)
        another = If(far) >> Assign(temp.after, mine["next"]) >> Else() >> (If(~known) >> ends)
        z += If(header.fin == 1) >> (
            Assign(perm.fin, perm.fin | bit) + (If(~mine["fin"] | (temp.after != mine["end"])) >> another)
        )
        z += If((header.rst == 0) & (temp.after > mine["next"])) >> Assign(mine["next"], temp.after)
        if not certain:
            z += If(header.syn == 1) >> (
                scaled(mine, its, bit)
                + Assign(perm.syn, perm.syn | bit)
                + Assign(mine["open"], mine["open"] | ~header.ack)
                + Assign(mine["answered"], mine["answered"] | header.ack)
            )
        acknowledges = Assign(mine["ack"], header.ack_num)
        acknowledges += Assign(mine["window"], header.window_size << mine["scale"])
        if certain:
            z += If(header.ack & (header.ack_num >= mine["ack"])) >> acknowledges
        else:
            news = header.ack & (~mine["acked"] | (header.ack_num >= mine["ack"]))
            z += If(news) >> (Assign(mine["acked"], 1) + acknowledges)
        z += If(header.rst == 1) >> Assign(perm.rst, perm.rst | bit)
        closes = temp.reset if reuse == "closed" else header.fin | header.rst
        z += Assign(perm.closing, perm.closing | closes)
        bounds = Assign(temp.low, low) + Assign(temp.high, high)
        unknown = Assign(temp.low, temp.number) + Assign(temp.high, temp.number + UNBOUNDED)
        return z + (bounds if certain else If(its["acked"] == 1) >> bounds >> Else() >> unknown)

    def by_side(what: Callable[[str, str, int], Block]) -> Choice:
        """The state changes by a packet from either side."""
        return If(tcp.to_passive == 1) >> what("active", "passive", 1) >> Else() >> what("passive", "active", 2)

    rules = DoubtRules(ESTABLISHED, by_first=byte_0 == "first", when_closed=reuse == "closed")
    in_doubt = while_in_doubt(tcp, rules, side, sent_by)
    # One bit summarises all doubts, so that a packet of an established connection tests only this bit.
    tcp.prep += If(perm.doubt | header.syn) >> by_side(in_doubt) >> Else() >> by_side(certain)

    def has(name: str) -> tuple[Expression, Expression, Expression]:
        """What a side has received."""
        its = side(name)
        return its["acked"], its["ack"], its["ack"] + its["window"]

    def says(name: str) -> tuple[Expression, Expression, Expression]:
        """What a side has received according to its packet."""
        return header.ack & ~header.rst & ~temp.outside, header.ack_num, header.ack_num + side(name)["window"]

    acknowledgements: dict[str, Any] = {}
    if grace is not None:
        acknowledgements = {
            "acknowledged": If(tcp.to_passive == 1) >> has("passive") >> Else() >> has("active"),
            "acknowledges": If(tcp.to_passive == 1) >> says("active") >> Else() >> says("passive"),
            "grace": grace,
        }
    counts = header.rst == 0
    middle = tcp.created & ~header.syn
    if not pick_up:
        tcp.creates = header.syn
        counts = counts & ~middle
    tcp.seq = If(counts) >> Sequence(
        meta=temp.number,
        zero_based=False,
        data=tcp.payload,
        data_len=temp.units,
        start=temp.start,
        base=temp.base,
        outside=temp.outside,
        decides=(temp.decides, temp.decided),
        **acknowledgements,
        window=(temp.low, temp.high),
        enforce=enforce,
        policy=policy,
        limit=limit,
        limit_pieces=limit_pieces,
        history=history,
    )

    FIN_WAIT_1, FIN_WAIT_2, CLOSE_WAIT, CLOSE_WAIT_2, CLOSING, TIME_WAIT, LAST_ACK = make_psm_state(7)
    TERMINATED, RESET = PSMState(closed=True), PSMState(closed=True)
    opening = [CLOSED, SYN_SENT, SYN_ACK_SENT, SYN_RECEIVED, ESTABLISHED]
    # How far each side has closed: 0 it is open, 1 it sent its FIN, 2 its FIN was acknowledged.
    closing = {
        (1, 0): FIN_WAIT_1,
        (2, 0): FIN_WAIT_2,
        (0, 1): CLOSE_WAIT,
        (0, 2): CLOSE_WAIT_2,
        (1, 1): CLOSING,
        (2, 1): TIME_WAIT,
        (1, 2): LAST_ACK,
        (2, 2): TERMINATED,
    }
    tcp.psm = PSM(*opening, *closing.values(), RESET)

    for state in [*opening, *closing.values(), RESET]:
        name = f"reuse_{state.name}"
        setattr(tcp.psm, name, (state >> CLOSED) + Pred(temp.reused))
        getattr(tcp.psm, name).restart = True
        if not state.closed:
            name = f"reset_{state.name}"
            setattr(tcp.psm, name, (state >> RESET) + Pred(temp.reset))
            getattr(tcp.psm, name).timeout = linger

    acked = [
        perm.active_fin & perm.passive_acked & (perm.passive_ack >= perm.active_end),
        perm.passive_fin & perm.active_acked & (perm.active_ack >= perm.passive_end),
    ]
    # Of a side that has sent a FIN that counts: one before byte 0 lies before the next expected position, too.
    fin = [
        (tcp.v.header.fin == 1) & (tcp.to_passive == 1) & perm.active_fin,
        (tcp.v.header.fin == 1) & (tcp.to_active == 1) & perm.passive_fin,
    ]

    def condition(before: tuple[int, int], after: tuple[int, int]) -> Expression | None:
        """The condition to advance from one pair of closing progress to another; None if one packet cannot."""
        needs: list[Expression] = []
        for which in (0, 1):
            if before[which] == 0 < after[which]:
                needs.append(fin[which])
            if before[which] < 2 == after[which]:
                needs.append(acked[which])
        if not needs or any(a < b for a, b in zip(after, before, strict=True)) or (before == (0, 0) and 0 not in after):
            return None
        result = needs[0]
        for need in needs[1:]:
            result = result & need
        return result

    for before in [(0, 0), *closing]:
        for after in sorted(closing, key=sum, reverse=True):
            needed = condition(before, after)
            if needed is None:
                continue
            for state in opening if before == (0, 0) else [closing[before]]:
                name = f"{state.name}_to_{closing[after].name}"
                setattr(tcp.psm, name, (state >> closing[after]) + Pred(needed))
                if after == (2, 2):
                    getattr(tcp.psm, name).timeout = linger

    from_active, from_passive = header.syn & (tcp.to_passive == 1), header.syn & (tcp.to_active == 1)
    tcp.psm.open = (CLOSED >> ESTABLISHED) + Pred(temp.opens)
    tcp.psm.hs1 = (CLOSED >> SYN_SENT) + Pred(from_active)
    tcp.psm.hs1_missed = (CLOSED >> SYN_ACK_SENT) + Pred(from_passive)
    tcp.psm.hs2 = (SYN_SENT >> SYN_RECEIVED) + Pred(from_passive)
    tcp.psm.hs2_before = (SYN_ACK_SENT >> SYN_RECEIVED) + Pred(from_active)
    tcp.psm.hs3 = (SYN_RECEIVED >> ESTABLISHED) + Pred(temp.opens)
    tcp.psm.pick_up_1 = (SYN_SENT >> ESTABLISHED) + Pred(temp.opens)
    tcp.psm.pick_up_2 = (SYN_ACK_SENT >> ESTABLISHED) + Pred(temp.opens)
    for transition in (tcp.psm.hs1, tcp.psm.hs1_missed, tcp.psm.hs2, tcp.psm.hs2_before):
        transition.timeout = HANDSHAKE

    # Data on a reset (a reason in words, RFC 9293, 3.5.3) is not part of the stream, nor counted as its payload.
    tcp.sdu = If(header.rst == 0) >> tcp.payload >> Else() >> tcp.payload[:0]
    tcp.offer(sport=header.sport, dport=header.dport)
    tcp.offer(connection=tcp.instance, direction=tcp.to_active)
    tcp.event.asm = If(counts & ~temp.hold) >> Assemble()
    tcp.timeout = 300.0
    return tcp
