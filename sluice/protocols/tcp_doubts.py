"""Doubts about the numbers of a TCP connection (RFC 9293, 3.10.7.4; RFC 5961, 4), for `tcp.py`.

A side whose byte 0 is unknown, two initial numbers, a stray SYN, reused ports: what the sides send and acknowledge
later decides them.

Limits: without acknowledgements seven packets with payload after the first packet settle byte 0; at most 64 KiB of a
first flight may have been captured before its SYN; numbers that are 2^30 or more apart belong to different streams.
What lies in the window counts, even if it is forged: a FIN, or bytes, that the other side never acknowledges are held,
and a gap before them is given up at the end, also if another FIN is acknowledged. The number of a packet does not
matter for its acknowledgement, which is believed up to a window from what was captured. Of two SYN/ACKs whose numbers
differ by one, nothing shows which counts until something is acknowledged that only one can mean.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluice.lang import Assign, Block, ConnectionOriented, Else, Expression, If, PSMState

FAR = 1 << 30
"""Numbers so far apart belong to different streams."""

FLIGHT = 1 << 16
"""Bytes of a first flight that may have been captured before the SYN."""

EARLY, EMPTY, DOUBLE, STRAY = 1, 2, 4, 8
"""Doubts about a side: it was picked up in its middle, and its byte 0 is not decided; its byte 0 is that of a packet
without bytes; it sent two initial numbers, and neither was acknowledged; it sent a SYN with another number in an
established connection.
"""
ALL_DOUBTS = EARLY | EMPTY | DOUBLE | STRAY


@dataclass(frozen=True)
class DoubtRules:
    """How doubts are decided: a state of the machine, and the settings `byte_0` and `reuse` of `tcp_parser`."""

    established: PSMState
    by_first: bool
    when_closed: bool


def while_in_doubt(
    tcp: ConnectionOriented,
    rules: DoubtRules,
    side: Callable[[str], dict[str, Any]],
    sent_by: Callable[[dict[str, Any], dict[str, Any], int, bool], Block],
) -> Callable[[str, str, int], Block]:
    """The state changes by a packet while something is in doubt, by its sender, its receiver and the sender's bit.

    `side` gives the stored fields of a side, `sent_by` the changes by any packet.
    """
    header, perm, temp = tcp.header, tcp.perm, tcp.temp

    def clear(mine: dict[str, Any], bits: int) -> Assign:
        """Some doubts about a side are decided."""
        return Assign(mine["doubts"], mine["doubts"] & (ALL_DOUBTS ^ bits))

    def raise_doubt(mine: dict[str, Any], bit: int) -> Block:
        """A doubt about a side, which later packets decide."""
        return Assign(mine["doubts"], mine["doubts"] | bit) + Assign(perm.doubt, 1)

    def strays(mine: dict[str, Any], its: dict[str, Any]) -> Block:
        """After a SYN with another number in an established connection: if its sender continues with the new number, or
        the other side accepts it, the ports are reused.
        """
        absolute = If(temp.near > 0x7FFFFFFF) >> Assign(temp.near, 0 - temp.near)
        absolute += If(temp.old > 0x7FFFFFFF) >> Assign(temp.old, 0 - temp.old)
        continues = (
            Assign(temp.near, header.seq_num - mine["end"] - 1)
            + Assign(temp.old, header.seq_num - mine["next"])
            # a forged packet may have moved that, and seldom what the other side has acknowledged
            + (If(its["acked"] == 1) >> Assign(temp.old, header.seq_num - its["ack"]))
            + absolute
            + Assign(temp.reused, ~header.rst & (temp.near < temp.old))
            + (If(~temp.reused) >> clear(mine, STRAY))
        )
        accepts = header.syn & header.ack & (header.ack_num == its["end"] + 1)
        x = If(~header.syn & ((mine["doubts"] & STRAY) != 0)) >> continues
        x += If(accepts & ((its["doubts"] & STRAY) != 0)) >> Assign(temp.reused, 1)
        return x

    def further_syn(mine: dict[str, Any], its: dict[str, Any], bit: int) -> Block:
        """A SYN of a side that sent other packets before."""
        # A repetition, a new connection, or a stray SYN. In an established connection the last is answered by an
        # acknowledgement (RFC 9293, 3.10.7.4; RFC 5961, 4), and only later packets show if the ports are reused.
        flight = (header.seq_num < mine["first"]) & (mine["first"] <= header.seq_num + (FLIGHT + 1))
        another = (header.seq_num != mine["first"]) & (mine["syn"] | ~flight)
        repeated = ((mine["doubts"] & STRAY) != 0) & (header.seq_num == mine["end"])
        stray = Assign(temp.outside, 1) + Assign(mine["end"], header.seq_num) + raise_doubt(mine, STRAY)
        opens = If(another | perm.closing) >> (
            Assign(temp.reused, perm.closing | (tcp.cur_state != rules.established) | repeated)
            + (If(~temp.reused) >> stray)
        )
        if rules.when_closed:
            opens = If(another) >> (Assign(temp.reused, over(mine, its)) + Assign(temp.outside, ~temp.reused))
        # A second initial number: until the other side acknowledges one, both are remembered.
        undecided = ~mine["fin"] & ~(its["acked"] & (its["ack"] > mine["first"] + 1))
        second = Assign(mine["end"], header.seq_num + 1) + raise_doubt(mine, DOUBLE)
        answers = If(mine["syn"] & (header.seq_num != mine["first"])) >> (
            Assign(temp.outside, 1) + (If(undecided) >> second)
        )
        # After packets without SYN: it decides byte 0.
        decides = (
            Assign(temp.start, 1)
            + Assign(temp.base, temp.number)
            + Assign(mine["base"], header.seq_num + 1)
            + Assign(mine["begun"], 1)
            + clear(mine, EARLY | EMPTY)
        )
        x = If(header.ack == 1) >> answers >> Else() >> opens
        return x + (If(~temp.reused & ~temp.outside & ((perm.syn & bit) == 0)) >> decides)

    def over(mine: dict[str, Any], its: dict[str, Any]) -> Expression:
        """Whether a side has sent a FIN or a reset that counts."""
        return mine["fin"] | its["fin"] | perm.closing

    def picked_up(mine: dict[str, Any], its: dict[str, Any]) -> Block:
        """The first packet of a side that was not seen from its SYN. Byte 0 is the first byte that is captured; while
        the other side has not acknowledged that one, a lower one may still come.
        """
        begins = Assign(mine["begun"], 1) + Assign(mine["base"], temp.number)
        if rules.by_first:
            return begins
        received = its["acked"] & (its["ack"] > temp.number) & (temp.units == 0)
        early = (
            Assign(mine["doubts"], mine["doubts"] | EARLY)
            + (If(temp.units == 0) >> Assign(mine["doubts"], mine["doubts"] | EMPTY))
            + Assign(temp.hold, 1)
        )
        return (
            begins
            + (If(~its["acked"] | (its["ack"] < temp.number)) >> early)
            + (
                If(received)
                >> (
                    Assign(mine["base"], its["ack"])
                    + Assign(temp.after, its["ack"])
                    + Assign(temp.start, 1)
                    + Assign(temp.base, its["ack"])
                )
            )
        )

    def lower_byte(mine: dict[str, Any], its: dict[str, Any]) -> Block:
        """A packet with sequence space of a side whose byte 0 is not decided: perhaps it has a lower byte."""
        lower = (temp.base < mine["base"]) & (header.seq_num + tcp.payload_len > temp.base)
        keep_alive = (tcp.payload_len == 1) & (temp.base == mine["base"] - 1)
        return (
            clear(mine, EMPTY)
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
                    + (If(mine["payloads"] == 7) >> (clear(mine, EARLY) + Assign(temp.hold, 0)))
                )
            )
        )

    def settled(mine: dict[str, Any], its: dict[str, Any]) -> Block:
        """What the packet decides of two initial numbers, and its acknowledgement of the other side's byte 0."""
        own = (
            clear(mine, DOUBLE)
            + Assign(mine["first"], mine["end"] - 1)
            + Assign(mine["base"], mine["end"])
            + Assign(mine["next"], mine["end"])
            + Assign(temp.start, 1)
            + Assign(temp.base, mine["end"])
        )
        adopt = (
            Assign(its["first"], its["end"] - 1)
            + Assign(its["base"], its["end"])
            + Assign(its["next"], its["end"])
            + Assign(temp.decides, 1)
            + Assign(temp.decided, its["end"])
            + clear(its, DOUBLE)
            + Assign(mine["ack"], header.ack_num)
        )
        of_two = (
            Assign(temp.near, header.ack_num - its["end"])
            + Assign(temp.old, header.ack_num - its["first"] - 1)
            + (
                If((temp.near < FAR) & (temp.near < temp.old))
                >> adopt
                >> Else()
                >> (If(temp.old < FAR) >> clear(its, DOUBLE))
            )
        )
        at_base = Assign(temp.decides, 1) + Assign(temp.decided, its["base"]) + clear(its, EARLY)
        keep_alive = Assign(its["base"], header.ack_num) + Assign(its["next"], header.ack_num)
        of_middle = (
            Assign(temp.near, header.ack_num - its["base"])
            + (If((temp.near == 1) & ((its["doubts"] & EMPTY) != 0)) >> keep_alive)
            + (If(temp.near < FAR) >> at_base)
            + clear(its, EMPTY)
        )
        continues = ~its["acked"] & (tcp.payload_len != 0) & (header.seq_num == mine["end"])
        x = If(((mine["doubts"] & DOUBLE) != 0) & continues) >> own
        return x + (
            If(header.ack & ~header.rst & (its["doubts"] != 0))
            >> (
                (If((its["doubts"] & DOUBLE) != 0) >> of_two)
                + (If(((its["doubts"] & EARLY) != 0) & its["begun"]) >> of_middle)
            )
        )

    def in_doubt(own: str, other: str, bit: int) -> Block:
        """A packet while something is not decided, or a SYN. Acknowledgements decide: the first number of a side, and
        its byte 0, is the one that the other side acknowledges.
        """
        mine, its = side(own), side(other)
        begins = Assign(mine["base"], header.seq_num + 1) + Assign(mine["begun"], 1)
        if rules.when_closed:
            begins = Assign(temp.reused, ~header.ack & over(mine, its)) + begins
        of_syn = If(mine["seen"] == 1) >> further_syn(mine, its, bit) >> Else() >> begins
        undecided = If((mine["doubts"] & EARLY) != 0) >> (
            Assign(temp.hold, 1) + (If(temp.units != 0) >> lower_byte(mine, its))
        )
        of_data = If(~header.rst) >> (If(mine["begun"] == 0) >> picked_up(mine, its) >> Else() >> undecided)
        known = its["begun"] & its["acked"] & mine["begun"] & (header.ack | mine["acked"])
        x: Block = Assign(temp.open, (mine["doubts"] | its["doubts"]) != 0) + (If(temp.open == 1) >> strays(mine, its))
        x += If(temp.reused == 0) >> (If(header.syn == 1) >> of_syn >> Else() >> of_data)
        x += If(temp.open & ~temp.reused & ~temp.outside) >> settled(mine, its)
        x += If(header.syn == 0) >> Assign(perm.doubt, ~known | ((mine["doubts"] | its["doubts"]) != 0))
        return x + (If(~temp.reused & ~temp.outside) >> sent_by(mine, its, bit, False))

    return in_doubt
