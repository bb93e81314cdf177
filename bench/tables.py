"""Tables in Markdown from results, one for each group, and the page that they stand in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from bench import cases
from bench.cases import ALL_PASSES, SLUICE, Case, prefaulted, sluice, without
from bench.measuring import Results, disagreements
from bench.programs import PEERS
from bench.traces import BY_NAME

FRAME = 40
"""Bytes of memory of sl_frame, of which `sluice bench` has one for each packet beside the trace."""
NOTHING = "-"


def table(head: list[str], rows: list[list[str]], texts: int) -> str:
    """A table whose first `texts` columns are texts, and the others numbers."""
    rules = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rules, *rows)) + "\n"


def cell(results: Results, case: Case) -> str:
    """The median and, in small print after it, the span of the rounds."""
    found = results.ns(case)
    if not found:
        return NOTHING
    middle = results.middle(case)
    assert middle is not None
    digits = 1 if middle < 1000 else 0
    return f"{middle:,.{digits}f} <sub>{min(found):,.{digits}f}-{max(found):,.{digits}f}</sub>"


def times(value: float | None) -> str:
    """A ratio."""
    return NOTHING if value is None else f"{value:.2f}"


def heat(case: Case) -> str:
    """How a table calls where packets lie."""
    return "warm" if case.warm else "cold"


def main(results: Results) -> str:
    """Sluice beside the others."""
    ours = [case for case in results.rounds if case.program == SLUICE and not case.prefault and case in cases.main()]
    names = [peer.name for peer in PEERS]
    head = ["trace", "function", "packets in memory", *names, SLUICE, "Sluice : bound", "libnids : Sluice"]
    head += ["Sluice, `--prefault`", "that : bound"]
    rows: list[list[str]] = []
    for case in sorted(ours, key=cases.main().index):
        others = {name: replace(case, program=name, stack="", passes="") for name in names}
        rows.append(
            [
                *(f"`{case.trace}`", f"`{case.function}`", heat(case)),
                *(cell(results, other) for other in others.values()),
                cell(results, case),
                times(results.ratio(case, others["bound"])),
                times(results.ratio(others["libnids"], case)),
                cell(results, replace(case, prefault=True)),
                times(results.ratio(replace(case, prefault=True), others["bound"])),
            ]
        )
    return table(head, rows, 3)


def limits(results: Results) -> str:
    """What packets may cost at most, and what they do."""
    head = ["times what it is compared with", "limit", *(f"`{trace}`" for trace in cases.MAIN)]
    rows = [
        [what, most, *(times(results.ratio(one, other)) for one, other in pairs)]
        for what, most, pairs in cases.limits()
    ]
    return table(head, rows, 2)


def passes(results: Results) -> str:
    """What each pass buys: how many times longer a packet takes without it."""
    traces = [
        case for case in cases.passes() if case.passes == "all" and case in results.rounds and results.rounds[case]
    ]
    head = ["", *(f"`{case.trace}`" for case in traces)]
    rows = [
        ["all passes, ns a packet", *(cell(results, case) for case in traces)],
        ["no pass, ns a packet", *(cell(results, replace(case, passes="none")) for case in traces)],
        ["no pass : all", *(times(results.ratio(replace(case, passes="none"), case)) for case in traces)],
    ]
    for what, ratios in cases.PAPER.items():
        rows.append([f"the same of Rubik, {what}", *(times(ratios.get(case.trace)) for case in traces)])
    for name in ALL_PASSES:
        left_out = [times(results.ratio(replace(case, passes=without(name)), case)) for case in traces]
        alone = [times(results.ratio(replace(case, passes="none"), replace(case, passes=name))) for case in traces]
        if {*left_out, *alone} == {NOTHING}:
            continue  # not measured
        rows.append([f"without `{name}` : all", *left_out])
        rows.append([f"no pass : `{name}` alone", *alone])
    return table(head, rows, 1)


def many(results: Results) -> str:
    """A million connections at once: time and memory."""
    head = ["", "ns a packet", "times the bound", "bytes a connection"]
    bound = Case("http1k_million", "bound")
    rows: list[list[str]] = []
    for case in cases.many():
        flows, peak = results.figure(case, "flows"), results.figure(case, "peak_rss_bytes")
        packets, octets = results.figure(case, "packets"), results.figure(case, "bytes")
        memory = NOTHING
        if case.program == SLUICE and not case.prefault and flows and peak and packets and octets:
            trace = octets + packets * (16 + FRAME)
            memory = f"{(peak - trace) / 1_000_000:,.0f}"
        name = case.program + ", `--prefault`" * case.prefault
        rows.append([name, cell(results, case), times(results.ratio(case, bound)), memory])
    return table(head, rows, 1)


def shapes(results: Results) -> str:
    """What deviates from plain TCP in order, and how much longer it takes."""
    head = ["trace", "stack", "ns a packet", "beside", "times that"]
    wanted = [
        *((sluice(trace), sluice(base)) for trace, base in cases.IMPAIRED.items()),
        *cases.beside_tcp(),
        *((sluice(trace, stack="everything"), sluice(trace)) for trace in cases.MAIN),
        (sluice("small"), Case("small", "bound")),
    ]
    rows = [
        [
            f"`{case.trace}`",
            f"`{case.stack}`",
            cell(results, case),
            f"`{base.trace}`, {f'`{base.stack}`' if base.stack else base.program}",
            times(results.ratio(case, base)),
        ]
        for case, base in wanted
    ]
    return table(head, rows, 2)


def attacks(results: Results) -> str:
    """Traffic of attackers beside plain TCP in order, that with memory taken first beside the same of it."""
    head = [
        "trace",
        "what it is",
        "ns a packet",
        "times `http1k`",
        "`--prefault`",
        "times `http1k`, `--prefault`",
        "memory, with the trace",
    ]
    rows: list[list[str]] = []
    for trace in cases.ATTACKS:
        peak = results.figure(sluice(trace), "peak_rss_bytes")
        rows.append(
            [
                f"`{trace}`",
                BY_NAME[trace].what,
                *(
                    text
                    for case in (sluice(trace), prefaulted(trace))
                    for text in (cell(results, case), times(results.ratio(case, replace(case, trace="http1k"))))
                ),
                f"{peak / 1e6:,.0f} MB" if peak else NOTHING,
            ]
        )
    return table(head, rows, 2)


def generated(results: Results) -> str:
    """What stacks become, and how long that takes."""
    head = ["stack", "passes", "lines of C", "bytes of code", "Sluice, s", "C compiler, s", "a run when it is kept, s"]
    rows = [
        [
            *(f"`{one['stack']}`", one["passes"], f"{one['lines']:,}", f"{one['code_bytes']:,}"),
            *(f"{one[key]:.2f}" for key in ("sluice", "cc", "kept")),
        ]
        for one in results.generated
    ]
    return table(head, rows, 2)


def events(results: Results) -> str:
    """What events cost, beside flow tracking."""
    head = ["", *(f"`{trace}`, {heat}" for trace in cases.MAIN for heat in ("cold", "warm"))]
    rows: list[list[str]] = []
    for function, what in cases.EVENTS.items():
        found = [sluice(trace, function, warm) for trace in cases.MAIN for warm in (False, True)]
        rows.append([f"{what}, ns a packet", *(cell(results, case) for case in found)])
        if function != "tracked":
            beside = [replace(case, function="tracked") for case in found]
            pairs = zip(found, beside, strict=True)
            rows.append(["times flow tracking", *(times(results.ratio(one, other)) for one, other in pairs)])
    return table(head, rows, 1)


def resources(results: Results) -> str:
    """What a function pays that wants fewer bytes."""
    traces = (*cases.MAIN, "http32k_loss5")
    rows: list[list[str]] = []
    for function, what in {**cases.RESOURCES, "tracked": "no function: flow tracking"}.items():
        found = [sluice(trace, function) for trace in traces]
        rows.append([f"{what}, ns a packet", *(cell(results, case) for case in found)])
        if function != "read":
            ratios = [results.ratio(case, replace(case, function="read")) for case in found]
            rows.append(["times that of all bytes", *map(times, ratios)])
    return table(["", *(f"`{trace}`" for trace in traces)], rows, 1)


def machine(results: Results) -> str:
    """Where it was measured, and what there was not."""
    said = results.machine
    rows = [f"{said['processor']}, {said['cores']} cores, {said['caches']}; {said['system']}; {said['compiler']}."]
    rows.append(
        f"Medians of {said['rounds']} rounds in random order, {said['date']}; in small print the span of the rounds."
    )
    rows += [f"Missing: {why}." for why in dict.fromkeys(results.missing.values())]
    rows += [f"Note: {what}." for what in disagreements(results)]
    return "\n".join(f"- {row}" for row in rows) + "\n"


TABLES: dict[str, Callable[[Results], str]] = {
    "main": main,
    "limits": limits,
    "passes": passes,
    "many": many,
    "shapes": shapes,
    "attacks": attacks,
    "generated": generated,
    "events": events,
    "resources": resources,
    "machine": machine,
    "attacks_machine": machine,
    "events_machine": machine,
}


def page(text: str, of_table: Mapping[str, Results]) -> str:
    """The page with new tables between its marks `<!-- bench NAME -->` and `<!-- end -->`, each from its results;
    all else stays.
    """

    def new(found: re.Match[str]) -> str:
        return f"{found[1]}\n{TABLES[found[2]](of_table[found[2]])}{found[3]}"

    return re.sub(r"(<!-- bench (\w+) -->)\n.*?(<!-- end -->)", new, text, flags=re.DOTALL)
