"""A rule as it was read and checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.functions.detect import buffers
from sluice.functions.detect.errors import Place
from sluice.functions.detect.ranges import Ranges
from sluice.functions.detect.variables import Addresses

TCP, UDP, ICMP = 1, 2, 4
"""Bits of Rule.protocols."""


@dataclass
class Content:
    """A text that is searched. Offsets count bytes from the beginning of the buffer, distances from the end of the last
    match; None: there is no bound.
    """

    place: Place
    text: bytes
    negated: bool = False
    nocase: bool = False
    buffer: int = buffers.PAYLOAD
    offset: int | None = None
    depth: int | None = None
    distance: int | None = None
    within: int | None = None
    fast: bool = False
    fast_slice: tuple[int, int] | None = None
    modified: set[str] = field(default_factory=lambda: set[str]())

    @property
    def relative(self) -> bool:
        """Whether it is searched from the end of the last match on."""
        return self.distance is not None or self.within is not None


@dataclass
class Pcre:
    """A regular expression. flags: letters of Perl's and of the options' own, without those that name a buffer.

    whole: whether a match within the bytes so far might be none with the bytes that follow.
    """

    place: Place
    text: str
    negated: bool = False
    flags: str = ""
    buffer: int = buffers.PAYLOAD
    relative: bool = False
    whole: bool = False


Match = Content | Pcre

FLOW_BITS = {
    "to_server": 1, "from_client": 1, "to_client": 2, "from_server": 2, "established": 4, "not_established": 8,
    "stateless": 0, "only_stream": 16, "no_stream": 32,
}  # fmt: skip
TO_SERVER, TO_CLIENT, ESTABLISHED, NOT_ESTABLISHED, ONLY_STREAM, NO_STREAM = 1, 2, 4, 8, 16, 32

FLOWBIT_ACTIONS = ("set", "isset", "isnotset", "unset", "toggle")


@dataclass(frozen=True)
class Flowbit:
    """A bit of the flow. With several names all are meant, or, with `some`, one of them is enough (isset, isnotset)."""

    action: str
    names: tuple[str, ...]
    some: bool = False


NUMBERS = ("dsize", "ttl", "tos", "id", "seq", "ack", "window", "itype", "icode")
"""Fields of headers that are compared. The order is that of enum ids_field."""


@dataclass(frozen=True)
class Compare:
    """A field of the packet's headers: between low and high (inclusive), or, with `negated`, not there."""

    field: str
    low: int
    high: int
    negated: bool = False


@dataclass(frozen=True)
class Flags:
    """TCP's flags, without those in `ignored`. mode: "" exactly those in `value`, "+" at least, "*" any, "!" none."""

    value: int
    mode: str
    ignored: int


@dataclass(frozen=True)
class Threshold:
    """How often a rule alerts. kind: limit, threshold, both, or detection_filter. track: by_src or by_dst."""

    kind: str
    track: str
    count: int
    seconds: int


@dataclass
class Rule:
    """A rule. `place` is its first line."""

    place: Place
    protocols: int
    src: Addresses
    sports: Ranges
    dst: Addresses
    dports: Ranges
    both_ways: bool
    http: bool = False
    msg: str = ""
    sid: int = 0
    gid: int = 1
    rev: int = 0
    classtype: str = ""
    category: str = ""
    priority: int = 3
    references: list[tuple[str, str]] = field(default_factory=lambda: list[tuple[str, str]]())
    metadata: list[str] = field(default_factory=lambda: list[str]())
    flow: int = 0
    flowbits: list[Flowbit] = field(default_factory=lambda: list[Flowbit]())
    silent: bool = False
    sameip: bool = False
    compares: list[Compare] = field(default_factory=lambda: list[Compare]())
    flags: Flags | None = None
    threshold: Threshold | None = None
    matches: list[Match] = field(default_factory=lambda: list[Match]())

    @property
    def of_packets(self) -> bool:
        """Whether it says something about single packets, so that it is evaluated on these and not on streams."""
        only_header = not self.matches and not self.http
        return bool(self.compares or self.flags or self.flow & NO_STREAM or only_header)
