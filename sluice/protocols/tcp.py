"""TCP (RFC 9293), with the options of RFC 7323 and RFC 2018.

The machine is the paper's sender-side one (4.4), made whole: it advances by what each side sends, in the order in which
it was sent, and its states do not depend on how the packets of the two sides are interleaved.

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

Limits: no check of timestamps (PAWS); urgent data stay in line; the window of a connection that was picked up in its
middle is taken to be scaled by the largest factor, as its SYN was not seen.
"""

from collections.abc import Callable
from typing import Any

from sluice.lang import (
    PSM,
    AnyUntil,
    Assemble,
    Assign,
    Bit,
    Block,
    ConnectionOriented,
    Else,
    Expression,
    If,
    Pred,
    PSMState,
    Sequence,
    UInt,
    both_sides,
    internet_checksum,
    layout,
    make_psm_state,
    swap_sides,
)
from sluice.lang.choice import Choice

FAR = 1 << 30
"""Numbers so far apart belong to different streams."""

FLIGHT = 1 << 16
"""Bytes of a first flight that may have been captured before the SYN."""

LINGER = 10.0  # more: timeouts
HANDSHAKE = 30.0  # more: timeouts


class tcp_hdr(layout):
    sport = UInt(16)
    dport = UInt(16)
    seq_num = UInt(32, serial=True)
    ack_num = UInt(32, serial=True)
    hdr_len = Bit(4)
    reserved = Bit(4)
    cwr = Bit(1)
    ece = Bit(1)
    urg = Bit(1)
    ack = Bit(1)
    psh = Bit(1)
    rst = Bit(1)
    syn = Bit(1)
    fin = Bit(1)
    window_size = UInt(16)
    checksum = Bit(16)
    urgent_pointer = Bit(16)


class tcp_eol(layout):
    eol_type = Bit(8, const=0)


class tcp_nop(layout):
    nop_type = Bit(8, const=1)


class tcp_mss(layout):
    mss_type = Bit(8, const=2)
    mss_len = Bit(8, const=4)
    mss_value = Bit(16)


class tcp_ws(layout):
    ws_type = Bit(8, const=3)
    ws_len = Bit(8, const=3)
    ws_value = Bit(8)


class tcp_sack_permitted(layout):
    sack_permitted_type = Bit(8, const=4)
    sack_permitted_len = Bit(8, const=2)


class tcp_sack(layout):
    sack_type = Bit(8, const=5)
    sack_len = Bit(8)
    sack_value = Bit((sack_len - 2) << 3)


class tcp_ts(layout):
    ts_type = Bit(8, const=8)
    ts_len = Bit(8, const=10)
    ts_value = Bit(32)
    ts_echo_reply = Bit(32)


class tcp_other(layout):
    other_type = Bit(8)
    other_len = Bit(8)
    other_value = Bit((other_len - 2) << 3)


class tcp_side(layout):
    heard = Bit(1)  # more: ports used again
    syn = Bit(1)  # it sent one with its first packet; more: ports used again
    open = Bit(1)  # it sent a SYN without ACK; more: simultaneous open
    answered = Bit(1)  # it sent a SYN/ACK; more: simultaneous open
    acked = Bit(1)  # it sent an acknowledgement
    fin = Bit(1)
    first = UInt(32, serial=True)  # more: ports used again
    next = UInt(32, serial=True)  # behind the farthest that it sent; more: resets that count
    end = UInt(32, serial=True)  # behind its FIN
    ack = UInt(32, serial=True)
    window = Bit(16)
    scale = Bit(4, init=14)
    begun = Bit(1)  # it sent a packet that is no RST
    early = Bit(1)  # picked up in its middle: its byte 0 is not decided
    empty = Bit(1)  # its byte 0 is that of a packet without bytes
    double = Bit(1)  # it sent two initial numbers, and neither was acknowledged
    stray = Bit(1)  # it sent a SYN with another number in an established connection
    payloads = Bit(3)  # packets with payload while nothing was acknowledged
    base = UInt(32, serial=True)  # the number of its byte 0
    other = UInt(32, serial=True)  # with `double`: of the other byte 0; with `stray`: of the SYN


class tcp_both(layout):  # more: who sent SYN, FIN, RST
    doubt = Bit(1, init=1)  # something is not decided: a side has not begun, or is early, double or stray
    closing = Bit(1)  # a FIN or RST came, counted or not
    syn = Bit(2)  # who sent one: 1 the active side, 2 the passive one
    fin = Bit(2)
    rst = Bit(2)


class tcp_temp(layout):
    number = UInt(32, serial=True)  # of the first byte
    units = Bit(32)  # of sequence space
    behind = UInt(32, serial=True)
    low = UInt(32, serial=True)
    high = UInt(32, serial=True)
    acknowledged = Bit(1)  # low and high are what the other side takes
    received = UInt(32, serial=True)  # of the other side: everything before it
    edge = UInt(32, serial=True)
    start = Bit(1)  # `base` is the number of this side's byte 0
    base = UInt(32, serial=True)
    decides = Bit(1)  # `decided` is the number of the other side's byte 0
    decided = UInt(32, serial=True)
    hold = Bit(1)  # nothing is delivered, as byte 0 is not decided
    outside = Bit(1)  # the packet belongs to no stream of this connection
    far = Bit(1)  # a FIN that the other side could not have taken
    another = Bit(1)  # a SYN with another number
    near = Bit(32)
    old = Bit(32)
    opens = Bit(1)  # more: simultaneous open
    reused = Bit(1)  # more: ports used again
    reset = Bit(1)  # more: resets that count


def tcp_parser(
    limit: int | None = None,  # more: settings
    limit_pieces: int = 1 << 20,  # more: settings
    grace: float = 0.1,  # more: settings
    policy: str = "first",  # more: settings
    resets: str = "window",  # more: settings
    history: int = 0,  # more: settings
    enforce: bool = False,  # more: settings
    pick_up: bool = True,  # more: settings
    linger: float = LINGER,  # more: settings
) -> ConnectionOriented:
    """TCP for any layer below that offers src and dst.

    `limit`, `limit_pieces`: bytes, and segments, held out of order per side; limit=None: as many bytes as the
    receiver's
    window and the option --hold allow. `grace`: seconds after which what the receiver acknowledged, and was not
    captured, is given up. `policy`: which copy of overlapping bytes
    wins (see Sequence). `resets`: "window", or "always" to believe every one. `history`: delivered bytes kept, for the
    old copy of a retransmission. `enforce`: what lies outside the window is not only told but left out. `pick_up`:
    whether a connection may be seen from its middle on; if not, a packet of an unknown one counts only when it has a
    SYN. `linger`: seconds that a closed connection stays, for late packets.
    """
    tcp = ConnectionOriented("tcp")

    tcp.header = tcp_hdr
    tcp.needs_captured = 14  # ports, numbers and flags; more: snap lengths
    options = AnyUntil(
        [tcp_eol, tcp_nop, tcp_mss, tcp_ws, tcp_sack_permitted, tcp_sack, tcp_ts, tcp_other],
        tcp.cursor < tcp.header.hdr_len << 2,
        end=tcp.header.hdr_len << 2,
    )
    tcp.header += If(tcp_hdr.hdr_len > 5) >> options
    tcp.require(tcp.header.hdr_len >= 5, "header length")  # more: header length
    tcp.require(  # more: checksums
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

    # Data on a SYN lies at its number + 1; SYN and FIN take a place of their own.
    syn_alone = (header.syn == 1) & (tcp.payload_len == 0)
    tcp.prep = Assign(temp.number, header.seq_num + (header.syn & (tcp.payload_len != 0)))
    tcp.prep += Assign(temp.units, tcp.payload_len + header.fin + syn_alone)
    tcp.prep += Assign(temp.behind, header.seq_num + (tcp.payload_len + header.fin + header.syn))
    tcp.prep += If(tcp.created & header.syn & header.ack) >> swap_sides()  # more: picked up in its middle

    def side(name: str) -> dict[str, Any]:
        """The perm fields of one side, by name without it."""
        return {key: getattr(perm, f"{name}_{key}") for key in tcp_side.fields}

    def other_number(mine: dict[str, Any]) -> Choice:
        """A SYN of a side that was heard before: a repetition, a new connection, or a stray one. In an established
        connection it is answered by an acknowledgement (RFC 9293, 3.10.7.4; RFC 5961, 4), and only what follows shows
        whether the ports are used again.
        """
        opens = header.syn & ~header.ack & mine["heard"]
        flight = (header.seq_num < mine["first"]) & (mine["first"] <= header.seq_num + (FLIGHT + 1))
        another = (header.seq_num != mine["first"]) & (mine["syn"] | ~flight)
        established = tcp.cur_state == ESTABLISHED
        again = mine["stray"] & (header.seq_num == mine["other"])
        return If(opens) >> (
            Assign(temp.another, another)
            + Assign(temp.reused, perm.closing | (temp.another & (~established | again)))
            + (
                If(temp.another & ~temp.reused)
                >> (
                    Assign(temp.outside, 1)
                    + Assign(mine["stray"], 1)
                    + Assign(mine["other"], header.seq_num)
                    + Assign(perm.doubt, 1)
                )
            )
        )

    def doubts(mine: dict[str, Any], its: dict[str, Any], bit: int) -> Block:
        """What is not decided, and what this packet decides: the first number, and byte 0, of either side is the one
        that
        the other side acknowledges; a stray SYN begins a new connection when its sender goes on with its number, or the
        other side accepts it.
        """
        absolute = If(temp.near > 0x7FFFFFFF) >> Assign(temp.near, 0 - temp.near)
        absolute += If(temp.old > 0x7FFFFFFF) >> Assign(temp.old, 0 - temp.old)
        goes_on = (
            Assign(temp.near, header.seq_num - mine["other"] - 1)
            + Assign(temp.old, header.seq_num - mine["next"])
            + absolute
            + Assign(temp.reused, ~header.rst & (temp.near < temp.old))
            + Assign(mine["stray"], temp.reused)
        )
        x = If(mine["stray"] & ~header.syn) >> goes_on
        x += If(its["stray"] & header.syn & header.ack & (header.ack_num == its["other"] + 1)) >> Assign(temp.reused, 1)

        # A second initial number: until the other side acknowledges one, both are remembered.
        acknowledged = its["acked"] & (its["ack"] > mine["first"] + 1)
        second = If(~acknowledged) >> (Assign(mine["double"], 1) + Assign(mine["other"], header.seq_num + 1))
        s = If(header.syn & header.ack & mine["syn"] & (header.seq_num != mine["first"])) >> (
            Assign(temp.outside, 1) + second
        )
        # A SYN says what byte 0 is; in the middle it is the first byte that is captured, perhaps out of order.
        own_syn = header.syn & ((perm.syn & bit) == 0) & ~temp.outside
        s += If(own_syn) >> (
            Assign(temp.start, 1)
            + Assign(temp.base, temp.number)
            + Assign(mine["base"], header.seq_num + 1)
            + Assign(mine["begun"], 1)
            + Assign(mine["early"], 0)
        )
        received = its["acked"] & (its["ack"] > temp.number) & (temp.units == 0)
        first = (
            Assign(mine["begun"], 1)
            + Assign(mine["base"], temp.number)
            + Assign(mine["empty"], temp.units == 0)
            + Assign(mine["early"], ~(its["acked"] & (its["ack"] >= temp.number)))
            + (
                If(received)
                >> (Assign(mine["base"], its["ack"]) + Assign(temp.start, 1) + Assign(temp.base, its["ack"]))
            )
        )
        lower = (temp.base < mine["base"]) & (header.seq_num + tcp.payload_len > temp.base)
        keep_alive = (tcp.payload_len == 1) & (temp.base == mine["base"] - 1)
        later = If(mine["early"] & (temp.units != 0)) >> (
            Assign(mine["empty"], 0)
            + Assign(temp.base, header.seq_num)
            + (If(its["acked"] & (its["ack"] > temp.base)) >> Assign(temp.base, its["ack"]))
            + (
                If((tcp.payload_len != 0) & lower & ~keep_alive)
                >> (Assign(temp.start, 1) + Assign(mine["base"], temp.base))
            )
            + (
                If((tcp.payload_len != 0) & ~its["acked"])
                >> (
                    Assign(mine["payloads"], mine["payloads"] + 1)
                    + (If(mine["payloads"] == 7) >> Assign(mine["early"], 0))
                )
            )
        )
        s += If(~header.syn & ~header.rst) >> (If(~mine["begun"]) >> first >> Else() >> later)
        s += If(mine["double"] & ~its["acked"] & (tcp.payload_len != 0) & (header.seq_num == mine["other"])) >> (
            Assign(mine["double"], 0)
            + Assign(mine["first"], mine["other"] - 1)
            + Assign(mine["base"], mine["other"])
            + Assign(temp.start, 1)
            + Assign(temp.base, mine["other"])
        )

        # What the acknowledgement says of the other side.
        adopt = (
            Assign(its["first"], its["other"] - 1)
            + Assign(its["base"], its["other"])
            + Assign(its["next"], its["other"])
            + Assign(temp.decides, 1)
            + Assign(temp.decided, its["other"])
            + Assign(its["double"], 0)
            + Assign(mine["ack"], header.ack_num)
        )
        of_two = (
            Assign(temp.near, header.ack_num - its["other"])
            + Assign(temp.old, header.ack_num - its["first"] - 1)
            + (
                If((temp.near < FAR) & (temp.near < temp.old))
                >> adopt
                >> Else()
                >> (If(temp.old < FAR) >> Assign(its["double"], 0))
            )
        )
        at_base = Assign(temp.decides, 1) + Assign(temp.decided, its["base"]) + Assign(its["early"], 0)
        of_middle = (
            Assign(temp.near, header.ack_num - its["base"])
            + (If((temp.near == 1) & its["empty"]) >> Assign(its["base"], header.ack_num))
            + (If(temp.near < FAR) >> at_base)
            + Assign(its["empty"], 0)
        )
        s += If(header.ack & ~header.rst & ~temp.outside) >> (
            (If(its["double"] == 1) >> of_two) + (If(its["early"] & its["begun"]) >> of_middle)
        )
        open_ = [one[name] for one in (mine, its) for name in ("early", "double", "stray")]
        doubt = ~mine["begun"] | ~its["begun"]
        for item in open_:
            doubt = doubt | item
        s += Assign(temp.hold, mine["early"]) + Assign(perm.doubt, doubt)
        return x + (If(~temp.reused & ~temp.outside) >> s)

    def sent_by(own: str, other: str, bit: int) -> Block:
        """What a packet from one side changes; `bit` stands for that side."""
        mine, its = side(own), side(other)
        y = If(its["acked"] == 1) >> (
            Assign(temp.low, its["ack"]) + Assign(temp.high, its["ack"] + (its["window"] << its["scale"]))
        )
        y >>= Else()
        y >>= Assign(temp.low, temp.number) + Assign(temp.high, temp.number + 0x7FFFFFFF)
        # RFC 9293, 3.10.7.4 (RFC 5961): in the window or at the expected number; 3.10.7.3: it acknowledges the SYN
        in_window = (
            its["acked"] & (header.seq_num >= temp.low) & (header.seq_num < temp.high)
        )  # more: resets that count
        expected = mine["heard"] & (header.seq_num == mine["next"])  # more: resets that count
        refused = (  # more: resets that count
            ~mine["heard"] & header.ack & its["syn"] & (header.ack_num > its["first"]) & (header.ack_num <= its["next"])
        )
        believed = 1 if resets == "always" else in_window | expected | refused  # more: resets that count
        z = y + Assign(temp.reset, header.rst & believed)
        # A side that sent both kinds of SYN opened at the same time as the other, and has heard that one's SYN.
        both_kinds = (header.ack | mine["answered"]) & (~header.ack | mine["open"])  # more: simultaneous open
        z += Assign(temp.opens, ~header.rst & (~header.syn | both_kinds))
        z += If(mine["heard"] == 0) >> (  # more: ports used again
            Assign(mine["heard"], 1)
            + Assign(mine["first"], header.seq_num)
            + Assign(mine["syn"], header.syn)
            + Assign(mine["next"], temp.behind)
        )
        # A FIN before byte 0, or where the other side would not take it, is answered and dropped (RFC 9293, 3.10.7.4).
        beyond = (header.seq_num > temp.high) & (header.seq_num > mine["next"] + (temp.high - temp.low))
        z += If(header.fin == 1) >> Assign(temp.far, (its["acked"] & beyond) | (temp.behind <= mine["base"]))
        z += If((header.rst == 0) & (temp.behind > mine["next"]) & ~temp.far) >> Assign(
            mine["next"], temp.behind
        )  # more: resets that count
        z += If(header.syn == 1) >> (
            Assign(perm.syn, perm.syn | bit)  # more: who sent SYN, FIN, RST
            + Assign(mine["open"], mine["open"] | ~header.ack)  # more: simultaneous open
            + Assign(mine["answered"], mine["answered"] | header.ack)  # more: simultaneous open
            + (If(tcp.header_contain(tcp_ws) & (header.ws_value < 14)) >> Assign(mine["scale"], header.ws_value))
            + (If(~tcp.header_contain(tcp_ws)) >> Assign(mine["scale"], 0))
        )
        z += If((header.ack == 1) & (~mine["acked"] | (header.ack_num >= mine["ack"]))) >> (
            Assign(mine["acked"], 1) + Assign(mine["ack"], header.ack_num) + Assign(mine["window"], header.window_size)
        )
        known = mine["fin"] & its["acked"] & (its["ack"] >= mine["end"])
        z += If(header.fin == 1) >> (
            Assign(perm.fin, perm.fin | bit)
            + (If(~temp.far & ~known) >> (Assign(mine["fin"], 1) + Assign(mine["end"], temp.behind)))
        )
        z += (
            Assign(temp.acknowledged, its["acked"])
            + Assign(temp.received, mine["ack"])
            + Assign(temp.edge, mine["ack"] + (mine["window"] << mine["scale"]))
        )
        z += If(header.rst == 1) >> Assign(perm.rst, perm.rst | bit)  # more: who sent SYN, FIN, RST
        z += Assign(perm.closing, perm.closing | header.fin | header.rst)  # more: ports used again
        return z

    def undecided(own: str, other: str, bit: int) -> Block:
        """What is to be decided before a packet of one side changes anything."""
        mine, its = side(own), side(other)
        return other_number(mine) + doubts(mine, its, bit)

    def by_side(what: Callable[[str, str, int], Block]) -> Choice:
        """What a packet from either side changes."""
        return If(tcp.to_passive == 1) >> what("active", "passive", 1) >> Else() >> what("passive", "active", 2)

    tcp.prep += If(perm.doubt | header.syn) >> by_side(undecided)
    tcp.prep += If(~temp.reused & ~temp.outside) >> by_side(sent_by)

    counts = header.rst == 0  # more: bytes on a reset
    middle = tcp.created & ~header.syn  # more: picked up in its middle
    if not pick_up:  # more: picked up in its middle
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
        acknowledged=(temp.acknowledged, temp.low, temp.high),
        acknowledges=(header.ack & ~header.rst & ~temp.outside, temp.received, temp.edge),
        grace=grace,
        window=(temp.low, temp.high),
        enforce=enforce,  # more: settings
        policy=policy,  # more: settings
        limit=limit,  # more: settings
        limit_pieces=limit_pieces,  # more: settings
        history=history,  # more: settings
    )

    FIN_WAIT_1, FIN_WAIT_2, CLOSE_WAIT, CLOSE_WAIT_2, CLOSING, TIME_WAIT, LAST_ACK = make_psm_state(7)
    TERMINATED, RESET = PSMState(closed=True), PSMState(closed=True)
    opening = [CLOSED, SYN_SENT, SYN_ACK_SENT, SYN_RECEIVED, ESTABLISHED]
    # How far each side has closed: 0 not at all, 1 it sent its FIN, 2 that was acknowledged.
    closing = {
        (1, 0): FIN_WAIT_1,
        (2, 0): FIN_WAIT_2,
        (0, 1): CLOSE_WAIT,  # more: who closes first, and both at once
        (0, 2): CLOSE_WAIT_2,  # more: who closes first, and both at once
        (1, 1): CLOSING,  # more: who closes first, and both at once
        (2, 1): TIME_WAIT,
        (1, 2): LAST_ACK,  # more: who closes first, and both at once
        (2, 2): TERMINATED,
    }
    tcp.psm = PSM(*opening, *closing.values(), RESET)

    for state in [*opening, *closing.values(), RESET]:
        name = f"reuse_{state.name}"  # more: ports used again
        setattr(tcp.psm, name, (state >> CLOSED) + Pred(temp.reused))  # more: ports used again
        getattr(tcp.psm, name).restart = True  # more: ports used again
        if not state.closed:
            name = f"reset_{state.name}"
            setattr(tcp.psm, name, (state >> RESET) + Pred(temp.reset))
            getattr(tcp.psm, name).timeout = linger  # more: lingering

    acked = [
        perm.active_fin & perm.passive_acked & (perm.passive_ack >= perm.active_end),
        perm.passive_fin & perm.active_acked & (perm.active_ack >= perm.passive_end),
    ]
    fin = [(tcp.v.header.fin == 1) & (tcp.to_passive == 1), (tcp.v.header.fin == 1) & (tcp.to_active == 1)]

    def condition(before: tuple[int, int], after: tuple[int, int]) -> Expression | None:
        """What it takes to get from one pair of closing progress to another; None when one packet cannot."""
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
                if after == (2, 2):  # more: lingering
                    getattr(tcp.psm, name).timeout = linger

    from_active, from_passive = header.syn & (tcp.to_passive == 1), header.syn & (tcp.to_active == 1)
    tcp.psm.open = (CLOSED >> ESTABLISHED) + Pred(temp.opens)  # more: picked up in its middle
    tcp.psm.hs1 = (CLOSED >> SYN_SENT) + Pred(from_active)
    tcp.psm.hs1_missed = (CLOSED >> SYN_ACK_SENT) + Pred(from_passive)  # more: handshake out of order
    tcp.psm.hs2 = (SYN_SENT >> SYN_RECEIVED) + Pred(from_passive)
    tcp.psm.hs2_before = (SYN_ACK_SENT >> SYN_RECEIVED) + Pred(from_active)  # more: handshake out of order
    tcp.psm.hs3 = (SYN_RECEIVED >> ESTABLISHED) + Pred(temp.opens)
    tcp.psm.pick_up_1 = (SYN_SENT >> ESTABLISHED) + Pred(temp.opens)  # more: picked up in its middle
    tcp.psm.pick_up_2 = (SYN_ACK_SENT >> ESTABLISHED) + Pred(temp.opens)  # more: picked up in its middle
    for transition in (tcp.psm.hs1, tcp.psm.hs1_missed, tcp.psm.hs2, tcp.psm.hs2_before):  # more: timeouts
        transition.timeout = HANDSHAKE

    # What a reset carries (a reason in words, RFC 9293, 3.5.3) is no part of the stream, nor counted with its payload.
    tcp.sdu = If(header.rst == 0) >> tcp.payload >> Else() >> tcp.payload[:0]  # more: bytes on a reset
    tcp.event.asm = If(counts & ~temp.hold) >> Assemble()
    tcp.timeout = 300.0  # more: timeouts
    return tcp
