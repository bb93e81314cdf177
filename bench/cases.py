"""What is measured: cases, each a program with a function on a trace, in the groups that make a table each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from bench.programs import PEERS
from sluice.passes.pipeline import PASSES

SLUICE = "sluice"
MAIN = ("http1k", "http32k", "http1k_mix20k")
IMPAIRED = {"http1k_loss5": "http1k", "http32k_loss1": "http32k", "http32k_loss5": "http32k"}
"""Traces with loss and reordering, and those that they come from."""
TUNNELS = {"http1k_gtp": "gtp", "http32k_gtp": "gtp", "http1k_pptp": "pptp"}
"""Traces with the stack that sees into them."""
PLAIN_GTP = "bench/stacks/plain_gtp.py"
"""GTP over a UDP that keeps no conversations, as that of the paper."""
STACKS = {**TUNNELS, "sctp": "sctp", "quic": "quic", "quic_deciphered": "quic_deciphered"}
"""All traces that are not for `tcp_ip`, with their stack."""
ATTACKS = ("ahead", "alternating", "overlaps", "collisions", "syn-flood", "fragments")
ALL_PASSES = tuple(item.name for item in PASSES)
PAPER = {
    "published": {"http32k": 2.54, "http1k_gtp": 2.63, "http1k_pptp": 2.32, "quic_deciphered": 1.95, "sctp": 1.51},
    "repaired": {"http32k": 1.52, "http1k_gtp": 2.21, "http1k_pptp": 1.80, "quic_deciphered": 1.55, "sctp": 1.62},
}
"""What all passes of Rubik buy on traces like these: by its Table 5 (throughput), and by its original with two defects
repaired (time).
"""


@dataclass(frozen=True)
class Case:
    """What a round measures once.

    program: "sluice" or a peer's name. stack, passes, prefault: of Sluice alone; passes are "all", "none", or names
    with commas; prefault: its memory is taken before the clock starts.
    """

    trace: str
    program: str
    function: str = "assemble"
    warm: bool = False
    stack: str = ""
    passes: str = ""
    prefault: bool = False

    def __str__(self) -> str:
        words = [self.trace, "warm" if self.warm else "cold", self.function, self.program, self.stack, self.passes]
        words += ["prefault"] * self.prefault
        return " ".join(word for word in words if word)


def sluice(
    trace: str, function: str = "assemble", warm: bool = False, stack: str = "tcp_ip", passes: str = "all"
) -> Case:
    """A case of Sluice's own."""
    return Case(trace, SLUICE, function, warm, stack, passes)


def prefaulted(trace: str, function: str = "assemble", warm: bool = False) -> Case:
    """The same with memory taken before the clock starts, as that of the bound is; and smaller limits, which no
    trace reaches."""
    return replace(sluice(trace, function, warm), prefault=True)


def without(name: str) -> str:
    """All passes but one, as --passes takes them."""
    return ",".join(other for other in ALL_PASSES if other != name) or "none"


def main(traces: Iterable[str] = MAIN, functions: Iterable[str] = ("none", "assemble", "search")) -> list[Case]:
    """Sluice and all others."""
    return [
        case
        for trace in traces
        for function in functions
        for warm in (False, True)
        for case in (
            *(Case(trace, peer.name, function, warm) for peer in PEERS if function in peer.functions),
            sluice(trace, function, warm),
            *([prefaulted(trace, function, warm)] if function != "search" else []),
        )
    ]


def passes(
    traces: Iterable[str] = (*MAIN, "http1k_gtp", "http1k_pptp", "sctp", "quic", "quic_deciphered"),
) -> list[Case]:
    """Sluice with all passes, with none, with each left out, and with each alone."""
    sets = ("all", "none", *map(without, ALL_PASSES), *ALL_PASSES)
    return [
        sluice(trace, stack=STACKS.get(trace, "tcp_ip"), passes=one) for trace in traces for one in dict.fromkeys(sets)
    ]


def many() -> list[Case]:
    """A million connections at once. Without libnids, which takes 12 GB for them."""
    return [Case("http1k_million", "bound"), sluice("http1k_million"), prefaulted("http1k_million")]


def beside_tcp() -> list[tuple[Case, Case]]:
    """TCP in tunnels, beside the same without."""
    stacks = [*TUNNELS.items(), *((trace, PLAIN_GTP) for trace, stack in TUNNELS.items() if stack == "gtp")]
    return [(sluice(trace, stack=stack), sluice(trace.split("_")[0])) for trace, stack in stacks]


def shapes() -> list[Case]:
    """What deviates from plain TCP in order, beside that."""
    return [
        *(sluice(trace) for trace in (*MAIN, *IMPAIRED, "small")),
        *(case for case, _ in beside_tcp()),
        *(sluice(trace, stack="everything") for trace in MAIN),
        Case("small", "bound"),
    ]


def limits() -> list[tuple[str, str, list[tuple[Case, Case]]]]:
    """What packets may cost: of what, how many times what it is compared with, and both on each trace of `MAIN`."""
    tcp = [sluice(trace) for trace in MAIN]

    def beside(function: str, warm: bool) -> list[tuple[Case, Case]]:
        return [(sluice(trace, function, warm), Case(trace, "bound", function, warm)) for trace in MAIN]

    return [
        ("`assemble`, cold : bound", "2.0", beside("assemble", warm=False)),
        ("`none`, cold : bound", "2.0", beside("none", warm=False)),
        ("`assemble`, warm : bound", "2.5", beside("assemble", warm=True)),
        ("libnids : `assemble`, cold", "at least 2 / 2.7 / 3.3", [(Case(case.trace, "libnids"), case) for case in tcp]),
        ("5% loss and reordering : in order", "2.0", [(sluice(f"{case.trace}_loss5"), case) for case in tcp]),
        ("in GTP tunnels : without", "1.4", [(sluice(f"{case.trace}_gtp", stack="gtp"), case) for case in tcp]),
        ("stack `everything` : `tcp_ip`", "1.15", [(replace(case, stack="everything"), case) for case in tcp]),
    ]


def attacks() -> list[Case]:
    """Traffic of attackers, beside plain TCP in order."""
    return [case(trace) for case in (sluice, prefaulted) for trace in ("http1k", *ATTACKS)]


EVENTS = {
    "tracked": "flow tracking",
    "unheard": "64 events defined, without a subscriber",
    "idle": "64 handlers on demand of these, none registered",
    "watching": "all 64 registered for all connections",
    "counting": "a handler for each packet",
    "turns": "one that registers another for the connection, or deregisters it",
}
"""Functions of bench/functions.py, and what they are."""
RESOURCES = {
    "read": "every byte of both sides",
    "read_active": "the bytes of the active side",
    "read_first": "the first 4,096 bytes of each side",
    "read_none": "no bytes",
}


def events() -> list[Case]:
    """What events cost that do not happen, and registering."""
    return [sluice(trace, function, warm) for trace in MAIN for function in EVENTS for warm in (False, True)]


def resources() -> list[Case]:
    """A function that reads bytes, and wants fewer and fewer of them."""
    return [sluice(trace, function) for trace in (*MAIN, "http32k_loss5") for function in ("tracked", *RESOURCES)]


GROUPS: dict[str, Callable[[], list[Case]]] = {
    "main": main,
    "passes": passes,
    "many": many,
    "shapes": shapes,
    "attacks": attacks,
    "generated": list,
    "events": events,
    "resources": resources,
}


def of_groups(names: Iterable[str]) -> list[Case]:
    """The cases of some groups, each once."""
    return list(dict.fromkeys(case for name in names for case in GROUPS[name]()))
