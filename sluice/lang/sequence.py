"""`Sequence`: the bytes, or units, of one side in the order in which they were sent (paper, 4.2)."""

from __future__ import annotations

from typing import cast

from sluice.lang.choice import Choice, joined_by_comma
from sluice.lang.errors import DescriptionError, described, to_flag
from sluice.lang.expression import NUMBER, Expression, to_expression, to_number
from sluice.lang.where import here

POLICIES = ("first", "last", "bsd", "bsd_right", "linux", "windows", "solaris")
"""Which copy of overlapping undelivered bytes is used: the first or the last to arrive, or as the named system does it
for the fragments of a datagram (`whole`) or the segments of a stream.
"""


Received = tuple[tuple[Expression | None, tuple[Expression, ...]], ...]
"""What a receiver has received: conditions, each with (condition, received, edge). The first that holds selects; None
always holds.
"""


class Sequence:
    """The position of a packet's bytes among those of its side; assigned to `p.seq`.

    meta: position of the first byte, a number of up to 64 bits.
    data: the bytes.
    data_len: how much sequence space they take, in bytes (default: their length). Any excess is space after them.
    zero_based: positions start at 0 and do not wrap. Otherwise they start at the first packet inserted and wrap at
        meta's width.
    start: if it is not 0 for a packet, the packet sets the base again, provided that nothing is held or delivered (not
        with zero_based).
    skip: if it is not 0 for a packet, what is missing before the packet's position will not come. It is given up at
        once, and held units after it are delivered (only with units).
    base: with start=, the position that becomes the base, of meta's width (default: the packet's own), provided that
        nothing was delivered. Held bytes after it stay; bytes before it have no position (event `unplaced`).
    outside: if it is not 0 for a packet, the packet is not inserted, and its bytes have no position.
    acknowledged: (condition, received, edge): if the condition holds, the receiver of this packet's side has received
        everything before position `received` and accepts what is before `edge`, both of meta's width. A hole before
        `received` is given up after `grace` seconds if something after it is held (cause `acknowledged`). Held bytes
        after the highest `edge` have no position. With limit=None, the window bounds what is held.
        `If(c) >> (...) >> Else() >> (...)` selects one of several.
    acknowledges: the same for the other side, as stated by this packet (only in connection-oriented parsers).
    decides: (condition, base): a packet for which the condition holds sets the base of the other side, as start and
        base do for its own, and bytes waiting there are delivered (only in connection-oriented parsers).
    grace: seconds of packet time, 0 to 3600, since an acknowledgement may be captured before the bytes that it covers.
    wait: seconds of packet time, more than 0 and at most 3600, for which bytes are held after a hole: a time bound on
        reordering. Then the hole is given up (cause `timeout`); bytes
        that came while others waited wait at most twice as long. Tested with each packet of the instance. By default
        they wait until a limit is reached or the instance ends.
    window: (low, high), positions, half open, modulo meta's width. A packet outside emits `out_of_wnd` and, with
        `enforce`, is not inserted.
    overwrite_rexmit: a retransmission replaces bytes that are held; the same as policy="last".
    policy: which copy of overlapping held bytes is used, one of POLICIES.
    limit, limit_pieces, limit_records: the maximum numbers of bytes, of pieces, and of records (packets out of order
        that virtual packets need) that are held and not delivered, per instance and side: 1 to 2^31 - 1. At a limit, a
        hole is given up. limit=None: as many bytes as the box's setting `hold` and the receiver's window allow. A
        piece is the data of a segment, or of several small ones that touch.
    history: the number of delivered bytes stored for the old copy of `rexmit`: 0 to 2^16.
    whole: nothing is delivered if a part is missing, and at a limit the instance ends.
    units: meta numbers whole units of any length, not bytes. A packet carries one unit, which is its data; if data_len
        is 0, it carries none and only sets the base. Each unit is delivered separately, in its first copy. Offsets and
        lengths in events count units; limits of bytes still count bytes. A unit without bytes is not delivered.
    head: the number of bytes at the beginning of each unit that describe the unit to the layer above; event `data`
        carries the bytes after them. 0 to 65535, or an expression of values that the instance stores: only p.perm,
        because held units are delivered during other packets than their own.

    Raises DescriptionError for a value out of range, and for settings that contradict each other.
    """

    def __init__(
        self,
        meta: object,
        data: object,
        data_len: object = None,
        zero_based: bool = True,
        window: tuple[object, object] | None = None,
        enforce: bool = True,
        start: object = None,
        base: object = None,
        outside: object = None,
        acknowledged: tuple[object, object, object] | Choice | None = None,
        acknowledges: tuple[object, object, object] | Choice | None = None,
        decides: tuple[object, object] | None = None,
        grace: float = 0.1,
        wait: float | None = None,
        skip: object = None,
        overwrite_rexmit: bool = False,
        policy: str = "first",
        limit: int | None = 1 << 20,
        limit_pieces: int = 1024,
        limit_records: int = 1024,
        history: int = 0,
        whole: bool = False,
        units: bool = False,
        head: object = 0,
    ) -> None:
        self.where = here()
        self.meta: Expression = to_number(meta, "meta=", "use a field of at most 64 bits.")
        self.data: Expression = to_expression(data)
        if self.data.kind == NUMBER:
            raise DescriptionError("data= is a number", "give bytes, as in data=p.payload[:n].")
        self.data_len: Expression | None = None
        if data_len is not None:
            self.data_len = to_number(data_len, "data_len=", "give a number, as in p.payload_len + 1.")
        self.zero_based = to_flag(zero_based, "zero_based= is ")
        self.enforce = to_flag(enforce, "enforce= is ")
        self.whole = to_flag(whole, "whole= is ")
        self.units = to_flag(units, "units= is ")
        self.start: Expression | None = None
        if start is not None:
            self.start = to_number(start, "start=", "give a condition, as in p.header.syn == 1.")
            if zero_based:
                raise DescriptionError(
                    "start= with a zero-based sequence",
                    "its base is 0 for ever; give zero_based=False, or no start=.",
                )
        self.skip: Expression | None = None
        if skip is not None:
            self.skip = to_number(skip, "skip=", "give a condition, as in p.header.type == 192.")
            if not units:
                raise DescriptionError("skip= of a sequence of bytes", "only units can be skipped; leave it out.")
        self.window: tuple[Expression, Expression] | None = None
        if window is not None:
            if not isinstance(window, tuple) or len(window) != 2:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DescriptionError("window= is not a pair", "write window=(low, high), two positions.")
            advice = "give two positions, numbers like meta."
            self.window = (to_number(window[0], "window=", advice), to_number(window[1], "window=", advice))
        self.base = None if base is None else to_number(base, "base=", "give a position, a number like meta.")
        if base is not None and start is None:
            raise DescriptionError("base= without start=", "say with start= which packets set it.")
        self.outside = None if outside is None else to_number(outside, "outside=", "give a condition.")
        self.acknowledged = self._received("acknowledged", acknowledged)
        self.acknowledges = self._received("acknowledges", acknowledges)
        self.decides = None if decides is None else self._numbers("decides", decides, 2)
        if not isinstance(grace, int | float) or not 0 <= grace <= 3600:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DescriptionError(f"grace={described(grace)}", "grace is 0 to 3600 seconds.")
        self.grace = round(grace * 10**9)
        if wait is not None and not (isinstance(wait, int | float) and 1e-6 <= wait <= 3600):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DescriptionError(f"wait={described(wait)}", "wait is 0.000001 to 3600 seconds.")
        if wait is not None and whole:
            raise DescriptionError(
                "wait= of a sequence that delivers only the whole", "give the instance p.lifetime = seconds."
            )
        self.wait = None if wait is None else round(wait * 10**9)
        if policy not in POLICIES:
            raise DescriptionError(f"unknown overlap policy {policy!r}", "policies: " + ", ".join(POLICIES) + ".")
        if overwrite_rexmit and policy not in ("first", "last"):
            raise DescriptionError("overwrite_rexmit and policy contradict each other", "give only policy=.")
        self.policy = "last" if overwrite_rexmit else policy
        for name, value in (
            ("limit", 1 if limit is None else limit),
            ("limit_pieces", limit_pieces),
            ("limit_records", limit_records),
        ):
            if not isinstance(value, int) or not 1 <= value < 1 << 31:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DescriptionError(f"{name}={described(value)}", "a limit is a whole number from 1 to 2^31 - 1.")
        if not isinstance(history, int) or not 0 <= history <= 1 << 16:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DescriptionError(f"history={described(history)}", "history is 0 to 65536 bytes.")
        self.head: Expression = to_number(head, "head=", "give bytes, or an expression of fields of p.perm.")
        if not isinstance(head, Expression) and not (isinstance(head, int) and 0 <= head < 1 << 16):
            raise DescriptionError(f"head={described(head)}", "head is 0 to 65535 bytes.")
        if units:
            self._check_units(whole, history)
        elif not isinstance(head, int) or head:
            raise DescriptionError("head= of a sequence of bytes", "only units have one; give units=True, or no head=.")
        if self.bounded and (zero_based or units or whole):
            raise DescriptionError(
                "acknowledged=, acknowledges=, decides= or base= of a sequence that is zero-based, of units or whole",
                "they are for a stream whose numbers begin anywhere: zero_based=False.",
            )
        self.limit = limit or 0
        self.limit_pieces = limit_pieces
        self.limit_records = limit_records
        self.history = history

    @property
    def bounded(self) -> bool:
        """Whether it knows what the receiver has, or what its base is."""
        return any(item is not None for item in (self.acknowledged, self.acknowledges, self.decides, self.base))

    @staticmethod
    def _numbers(name: str, value: object, count: int) -> tuple[Expression, ...]:
        """The numbers of an option that is a tuple of `count` of them."""
        if not isinstance(value, tuple) or len(cast("tuple[object, ...]", value)) != count:
            raise DescriptionError(f"{name}= is not {count} numbers", f"write {name}=(condition, position, ...).")
        return tuple(to_number(item, f"{name}=", "give numbers.") for item in cast("tuple[object, ...]", value))

    @classmethod
    def _received(cls, name: str, value: object) -> Received | None:
        """What a receiver has received, perhaps under conditions."""
        if not isinstance(value, Choice):
            return None if value is None else ((None, cls._numbers(name, value, 3)),)
        value.check_closed()
        first: Received = ((value.condition, cls._numbers(name, value.body, 3)),)
        return first + (cls._received(name, value.otherwise) or ())

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that it is made of, but for the bytes of a head."""
        received = [item for said in (self.acknowledged, self.acknowledges) for item in said or ()]
        several = (self.window, self.decides, *((condition, *numbers) for condition, numbers in received))
        found = (self.meta, self.data, self.data_len, self.start, self.base, self.outside, self.skip)
        return tuple(
            item for item in (*found, *(item for group in several for item in group or ())) if item is not None
        )

    def _check_units(self, whole: bool, history: int) -> None:
        """Refuse settings that do not apply to a sequence of units."""
        if whole:
            raise DescriptionError("whole= of a sequence of units", "each unit is whole by itself; leave it out.")
        if history:
            raise DescriptionError("history= of a sequence of units", "no delivered unit is kept; leave it out.")
        if self.policy != "first":
            raise DescriptionError(
                f"policy={self.policy!r} of a sequence of units", "the first copy of a unit wins; leave it out."
            )

    def __repr__(self) -> str:
        return "Sequence(...)"


def sequence_choice(value: object) -> tuple[Expression | None, Sequence]:
    """The condition (None: always) and the sequence from a value that a user assigned to p.seq."""
    if isinstance(value, Sequence):
        return None, value
    if isinstance(value, Choice) and isinstance(value.body, Sequence):
        value.check_closed()
        if value.otherwise is not None:
            raise DescriptionError(
                "p.seq with an Else()", "packets outside the condition are not inserted; leave the Else out."
            )
        return value.condition, value.body
    raise DescriptionError(
        f"p.seq is {described(value)}, not a sequence",
        joined_by_comma(value) or "write p.seq = Sequence(...), or If(cond) >> Sequence(...).",
    )
