"""`Sequence`: the bytes of one side in the order in which they were sent (paper, 4.2; DESIGN.md section 3)."""

from __future__ import annotations

from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError
from sluice.lang.expression import BYTES, NUMBER, Expression, to_expression
from sluice.lang.where import here

POLICIES = ("first", "last", "bsd", "bsd_right", "linux", "windows", "solaris")


class Sequence:
    """How a packet's bytes find their place among those of its side.

    meta: position of the first byte, of up to 64 bits.
    data: the bytes; data_len: how much sequence space they take (default: their length; more is space behind them).
    zero_based: positions start at 0 and do not wrap; else they start at the first packet inserted and wrap at
        meta's width.
    start: a packet that fulfils it sets the base anew while nothing is held or delivered.
    window: (low, high), half open, modulo meta's width; outside, `out_of_wnd` is raised and, with enforce, the packet
        is not inserted.
    overwrite_rexmit: a retransmission replaces bytes that are held (policy "last").
    policy: which copy of overlapping held bytes wins, one of POLICIES.
    limit: bytes held and not delivered, per instance and side; limit_pieces, limit_records: their number.
    history: delivered bytes that are kept for the old copy of `rexmit`.
    whole: nothing is delivered when a part is missing; at the limit the instance ends.
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
        overwrite_rexmit: bool = False,
        policy: str = "first",
        limit: int = 1 << 20,
        limit_pieces: int = 1024,
        limit_records: int = 1024,
        history: int = 0,
        whole: bool = False,
    ) -> None:
        self.where = here()
        self.meta: Expression = to_expression(meta)
        if self.meta.kind == BYTES:
            raise DescriptionError("meta is a number of at most 64 bits", "use a field of at most 64 bits.")
        self.data: Expression = to_expression(data)
        if self.data.kind == NUMBER:
            raise DescriptionError("data= is a number", "give bytes, as in data=p.payload[:n].")
        self.data_len: Expression | None = None if data_len is None else to_expression(data_len)
        self.zero_based = zero_based
        self.start: Expression | None = None if start is None else to_expression(start)
        if self.start is not None and zero_based:
            raise DescriptionError("start= with a zero-based sequence", "its base is 0 for ever; give zero_based=False.")
        self.window: tuple[Expression, Expression] | None = None
        if window is not None:
            if not isinstance(window, tuple) or len(window) != 2:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DescriptionError("window= is a pair", "write window=(low, high).")
            self.window = (to_expression(window[0]), to_expression(window[1]))
        self.enforce = enforce
        if policy not in POLICIES:
            raise DescriptionError(f"unknown overlap policy '{policy}'", "policies: " + ", ".join(POLICIES) + ".")
        if overwrite_rexmit and policy not in ("first", "last"):
            raise DescriptionError("overwrite_rexmit and policy contradict each other", "give only policy=.")
        self.policy = "last" if overwrite_rexmit else policy
        for name, value in (("limit", limit), ("limit_pieces", limit_pieces), ("limit_records", limit_records)):
            if not 1 <= value < 1 << 31:
                raise DescriptionError(f"{name}={value}", "a limit is at least 1 and below 2^31.")
        if not 0 <= history <= 1 << 20:
            raise DescriptionError(f"history={history}", "history is 0 to 1048576 bytes.")
        self.limit = limit
        self.limit_pieces = limit_pieces
        self.limit_records = limit_records
        self.history = history
        self.whole = whole


def sequence_choice(value: object) -> tuple[Expression | None, Sequence]:
    """Condition (None: always) and sequence from what a user assigned to p.seq."""
    if isinstance(value, Sequence):
        return None, value
    if isinstance(value, Choice) and isinstance(value.body, Sequence):
        value.check_closed()
        if value.otherwise is not None:
            raise DescriptionError("p.seq with an Else()", "packets outside the condition are not inserted; leave the Else out.")
        return value.condition, value.body
    raise DescriptionError("p.seq is not a sequence", "write p.seq = Sequence(...), or If(cond) >> Sequence(...).")
