"""A rule as it was read and checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.functions.detect import buffers
from sluice.functions.detect.errors import Place
from sluice.functions.detect.ranges import Ranges
from sluice.functions.detect.variables import Addresses

TCP, UDP, ICMP, SCTP, QUIC, OTHER = 1, 2, 4, 8, 16, 32
"""Bits of Rule.protocols. OTHER: other protocols over IP; only rules about IP's header match them."""
STREAMS = TCP | SCTP | QUIC
"""The protocols that carry streams or messages."""

ACTIONS = {
    "alert": "alert", "log": "log", "pass": "pass", "drop": "drop", "block": "drop", "sdrop": "sdrop",
    "reject": "reject", "rejectsrc": "reject",
}  # fmt: skip
"""The keywords of actions, and their meaning."""
ACTION_NUMBERS = ("alert", "log", "pass", "drop", "sdrop", "reject")
"""The order is that of enum ids_action."""

Operand = int | str
"""A number, or the name of a variable that byte_extract sets."""


@dataclass
class Content:
    """A text that is searched. Offsets count bytes from the beginning of the buffer, distances from the end of the last
    match; None: there is no bound. unordered: it may be anywhere, and what is relative does not follow it.
    """

    place: Place
    text: bytes
    negated: bool = False
    nocase: bool = False
    buffer: int = buffers.PAYLOAD
    offset: Operand | None = None
    depth: Operand | None = None
    distance: Operand | None = None
    within: Operand | None = None
    fast: bool = False
    fast_slice: tuple[int, int] | None = None
    unordered: bool = False
    modified: set[str] = field(default_factory=lambda: set[str]())

    @property
    def relative(self) -> bool:
        """Whether it is searched from the end of the last match on."""
        return self.distance is not None or self.within is not None


@dataclass
class Pcre:
    """A regular expression. flags: letters of Perl's and of the options' own, without those that name a buffer.

    whole: whether a match within the bytes so far might be none with the bytes that follow. steps: whether its search
    may need more steps than the bytes that it searches, so they are counted. anchored: it begins where the search
    does.
    """

    place: Place
    text: str
    negated: bool = False
    flags: str = ""
    buffer: int = buffers.PAYLOAD
    relative: bool = False
    whole: bool = False
    steps: bool = False
    anchored: bool = False


OPERATORS = ("<", ">", "=", "<=", ">=", "&", "^")
FROM = ("", "from_beginning", "from_end")


@dataclass
class Bytes:
    """An option about bytes at a place. kind: byte_test, byte_jump, byte_extract, or isdataat.

    offset counts from the beginning of the buffer, or, `relative`, from the end of the last match. count, base, little:
    how the number is written there; base 0 is binary. mask selects its bits, and shifts them to the right end.
    """

    place: Place
    kind: str
    negated: bool = False
    buffer: int = buffers.PAYLOAD
    relative: bool = False
    offset: Operand = 0
    count: int = 0
    base: int = 0
    little: bool = False
    mask: int = 0
    operator: str = "="
    value: Operand = 0
    multiplier: int = 1
    align: int = 1
    start: str = ""
    post: Operand = 0
    name: str = ""


@dataclass
class Size:
    """The number of bytes of a buffer is between low and high, inclusive (urilen)."""

    place: Place
    buffer: int
    low: int
    high: int
    negated: bool = False
    relative: bool = False


VERSIONS = ("sslv2", "sslv3", "tls1.0", "tls1.1", "tls1.2", "tls1.3")


@dataclass
class Version:
    """The version of TLS is one of those whose bits are set (ssl_version); the bits are places in VERSIONS."""

    place: Place
    bits: int
    buffer: int = buffers.TLS_VERSION
    negated: bool = False
    relative: bool = False


Match = Content | Pcre | Bytes | Size | Version

FLOW_BITS = {
    "to_server": 1, "from_client": 1, "to_client": 2, "from_server": 2, "established": 4, "not_established": 8,
    "stateless": 0, "only_stream": 16, "no_stream": 32, "no_frag": 64, "only_frag": 128,
}  # fmt: skip
TO_SERVER, TO_CLIENT, ESTABLISHED, NOT_ESTABLISHED, ONLY_STREAM, NO_STREAM = 1, 2, 4, 8, 16, 32
NO_FRAG, ONLY_FRAG = 64, 128

FLOWBIT_ACTIONS = ("set", "isset", "isnotset", "unset", "toggle")


@dataclass(frozen=True)
class Flowbit:
    """A bit of the flow. With several names all are meant, or, with `some`, one of them is enough (isset, isnotset).

    The name `any` or `all` of a group means all bits that rules name with it; `reset` without one is about all.
    """

    action: str
    names: tuple[str, ...]
    some: bool = False
    group: str = ""

    @property
    def of_group(self) -> bool:
        """Whether the bits are all of the group."""
        return self.action == "reset" or (bool(self.group) and self.names in (("any",), ("all",)))


NUMBERS = (
    "dsize", "ttl", "tos", "id", "seq", "ack", "window", "itype", "icode", "icmp_id", "icmp_seq", "fragoffset",
    "fragbits", "ipopts", "ip_proto", "rebuilt",
)  # fmt: skip
"""Fields of headers that are compared. The order is that of enum ids_field. rebuilt: 1 where the packet was reassembled
from fragments of IP, else 0.
"""
OF_FRAGMENTS = frozenset({"fragbits", "fragoffset"})
"""Fields of IP's header that rules compare in each packet, also where it is a fragment of a datagram."""


@dataclass(frozen=True)
class Compare:
    """A field of the packet's headers: between low and high (inclusive), or, with `negated`, not there.

    mask: the bits of it that are compared.
    """

    field: str
    low: int
    high: int
    negated: bool = False
    mask: int = 0xFFFFFFFF


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
    """A rule. `place` is its first line, `application` HTTP, TLS or DNS where its protocol is that."""

    place: Place
    action: str
    protocols: int
    src: Addresses
    sports: Ranges
    dst: Addresses
    dports: Ranges
    both_directions: bool
    http: bool = False
    application: str = ""
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
        """Whether it tests single packets, so that it is evaluated on these and not on streams."""
        only_header = not self.matches and not self.http
        return bool(self.compares or self.flags or self.flow & NO_STREAM or only_header)

    @property
    def of_ip(self) -> bool:
        """Whether it is evaluated on each packet of IP, with its fragments: it is about these, or about IP alone."""
        fields = {compare.field for compare in self.compares}
        return bool(fields & OF_FRAGMENTS) or bool(self.protocols & OTHER and fields & {"ipopts", "ip_proto"})
