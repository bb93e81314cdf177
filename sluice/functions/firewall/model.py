"""The meaning of a file of rules: chains of rules, each a list of steps, evaluated until one does not hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.functions.detect.errors import Place
from sluice.functions.detect.ranges import Ranges


@dataclass(frozen=True)
class Match:
    """Holds if the field is in `ranges`; not if `negated`. `field`: one of names.FIELD_NUMBERS."""

    field: str
    ranges: Ranges
    negated: bool = False


@dataclass(frozen=True)
class Bits:
    """Holds if the bits `mask` of the field are `value`, or, without one, if one of them is set; not if `negated`."""

    field: str
    mask: int
    value: int | None
    negated: bool = False


@dataclass(frozen=True)
class Counter:
    """Counts packets and bytes. `name`: that of a named counter."""

    name: str | None
    place: Place


@dataclass(frozen=True)
class Limit:
    """Holds while there are tokens, or with `over` while there are none: `rate` packets or bytes per `seconds`."""

    rate: int
    seconds: int
    burst: int
    bytes: bool
    over: bool


@dataclass(frozen=True)
class Log:
    """Writes a row that begins with `prefix`."""

    prefix: str
    place: Place


@dataclass(frozen=True)
class Verdict:
    """Ends the rule. kind: accept, drop, reject, return, jump or goto. `codes`: of ICMP and ICMPv6; None: a reset."""

    kind: str
    place: Place
    chain: str = ""
    codes: tuple[int, int] | None = None


Step = Match | Bits | Counter | Limit | Log | Verdict


@dataclass(frozen=True)
class Rule:
    """The steps of a rule, in order."""

    place: Place
    steps: tuple[Step, ...]


@dataclass
class Chain:
    """A chain. `hook`: "" for one that others jump to."""

    name: str
    place: Place
    rules: list[Rule] = field(default_factory=lambda: [])
    hook: str = ""
    priority: int = 0
    policy: str = "accept"


@dataclass
class Table:
    """A table of chains. family: ip, ip6, inet or bridge."""

    family: str
    name: str
    place: Place
    chains: dict[str, Chain] = field(default_factory=lambda: {})
    counters: dict[str, Place] = field(default_factory=lambda: {})


@dataclass
class Ruleset:
    """All tables of the files, in order."""

    tables: list[Table] = field(default_factory=lambda: [])
