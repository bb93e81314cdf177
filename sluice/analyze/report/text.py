"""The report as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from sluice.analyze.report.model import Analysis, Place, Variable, common_folder

_MOST_FUNCTIONS = 4
_MOST_PLACES = 6
_MOST_LINES = 20
_MOST_FIELDS = 6
_KINDS = ("externals", "assembly", "dlopen")
"""What `--assume` may name besides functions."""
_ROLES = {
    "called": "called",
    "receives": "receives packets",
    "callback": "gets packets from the library, called",
    "thread": "thread, started",
    "signal": "signal handler, set",
}


def text_of(analysis: Analysis, everything: bool = False) -> str:
    """The report for a terminal. everything: all uses, procedures and variables, else the first of long lists."""
    folder = common_folder(analysis)

    def where(place: Place) -> str:
        file = os.path.relpath(place.file, folder) if folder and place.file.startswith(folder + os.sep) else place.file
        return f"{file}:{place.line}" if place.line else "(no line)"

    parts = [
        [f"{analysis.module}: {summary_of(analysis)}", *([f"sources are named from {folder}"] if folder else [])],
        _receive(analysis, where),
        _state(analysis, where, everything),
        _why(analysis, where, everything),
        _listed(
            "updated, and always overwritten before they are read: they carry nothing from packet to packet",
            analysis.overwritten,
            where,
            everything,
        ),
        _listed("updated on the way to the exit, or after a signal, only", analysis.other_paths, where, everything),
        _only_read(analysis, where, everything),
        _not_used(analysis, where, everything),
        _procedures(analysis, where, everything),
        _assumed(analysis, where, everything),
        _slices(analysis),
        [_totals(analysis)],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def summary_of(analysis: Analysis) -> str:
    """A sentence with the counts of the classes."""
    totals = analysis.totals
    return (
        f"{totals['variables']:,} variables, of which {totals['persistent']:,} persist from packet to packet, "
        f"packet processing uses {totals['top_level']:,} of these and may update {len(analysis.state):,}"
    )


def _receive(analysis: Analysis, where: Callable[[Place], str]) -> list[str]:
    rows = [(where(one.place), f"{one.function} in {one.place.function}", one.source) for one in analysis.receive]
    return ["receive calls", *_table(rows)]


def _state(analysis: Analysis, where: Callable[[Place], str], everything: bool) -> list[str]:
    rows: list[tuple[str, ...]] = [("variable", "type", "declared", "key", "impacts", "updated in")]
    for variable in analysis.state:
        rows.append(
            (
                _name(variable),
                variable.type,
                where(variable.declared),
                _key(variable, everything),
                " ".join(["packets"] * bool(variable.impacts_packet) + ["logs"] * bool(variable.impacts_log)) or "-",
                _updates(variable, where, everything),
            )
        )
    title = f"top-level variables that packet processing may update: {len(analysis.state)}"
    return [title, *_table(rows)] if analysis.state else [title]


def _key(variable: Variable, everything: bool) -> str:
    if not variable.key_complete:
        return "not known"
    return _some(variable.fields, len(variable.fields) if everything else _MOST_FIELDS) or "all flows"


def _updates(variable: Variable, where: Callable[[Place], str], everything: bool) -> str:
    found: dict[Place, str] = {}
    for update in variable.updates:
        found.setdefault(update.place, "" if len(update.chain) < 2 else "*")
    return _by_function(list(found.items()), where, everything)


def _why(analysis: Analysis, where: Callable[[Place], str], everything: bool) -> list[str]:
    """The chains of pointers by which lines with a star update a variable, and how output depends on it."""
    lines: list[str] = []
    for variable in analysis.state:
        chains: dict[tuple[str, ...], list[str]] = {}
        for update in variable.updates:
            if len(update.chain) > 1:
                chains.setdefault(update.chain, []).append(where(update.place))
        for chain, places in chains.items():
            some = _some(places, len(places) if everything else 3)
            lines.append(f"  {_name(variable)}: {' -> '.join(chain)}, written at {some}")
        for impact in (variable.impacts_packet, variable.impacts_log) if everything else ():
            if impact:
                steps = " <- ".join(where(place) for place in impact.path[:12])
                lines.append(f"  {_name(variable)}: {impact.function} depends on it: {steps}")
    return ["why: pointers from the variables to what is written", *_cut(lines, everything)] if lines else []


def _listed(title: str, found: list[Variable], where: Callable[[Place], str], everything: bool) -> list[str]:
    if not found:
        return []
    rows = [
        (_name(one), one.type, where(one.declared), ", ".join(sorted(one.paths)), _updates(one, where, everything))
        for one in found
    ]
    return [f"{title}: {len(found)}", *_table(rows)]


def _slices(analysis: Analysis) -> list[str]:
    """The row of table 4.13."""
    packet, log = analysis.count("packet"), analysis.count("log")
    counts = f"{'no' if packet is None else packet} / {'no' if log is None else log}"
    lines = [f"of the state, variables that impact packets / logs that packet processing puts out: {counts}"]
    if not analysis.json["outputs"]["complete"]:
        lines.append("  the slices became too large: all variables are assumed to impact output")
    elif not analysis.json["outputs"]["matched"]:
        lines.append("  the slices became too large to match calls and returns: some variables may impact no output")
    return lines


def _only_read(analysis: Analysis, where: Callable[[Place], str], everything: bool) -> list[str]:
    rows: list[tuple[str, ...]] = [("variable", "type", "declared", "used in")]
    found = [variable for variable in analysis.top_level if not variable.paths]
    for variable in found:
        uses = _by_function([(use.place, "" if use.direct else "*") for use in variable.uses], where, everything)
        rows.append((_name(variable), variable.type, where(variable.declared), uses))
    title = f"top-level variables that it only reads: {len(found)}"
    return [title, *_table(rows)] if found else [title]


def _name(variable: Variable) -> str:
    name = f"{variable.function}: {variable.name}" if variable.function else variable.name
    return name if variable.kind == "global" else f"{name} ({variable.kind})"


def _by_function(places: list[tuple[Place, str]], where: Callable[[Place], str], everything: bool) -> str:
    """Lines by function, with a mark after each: `enqueue (box.c:53, 54)`."""
    by_function: dict[str, list[str]] = {}
    for place, mark in places:
        lines = by_function.setdefault(place.function, [])
        lines.append(f"{place.line if lines else where(place)}{mark}")
    found = [
        f"{name} ({_some(lines, len(lines) if everything else _MOST_PLACES)})" for name, lines in by_function.items()
    ]
    if everything or len(found) <= _MOST_FUNCTIONS:
        return ", ".join(found)
    return f"{', '.join(found[:_MOST_FUNCTIONS])} and {len(found) - _MOST_FUNCTIONS} more functions"


def _not_used(analysis: Analysis, where: Callable[[Place], str], everything: bool) -> list[str]:
    found = [variable for variable in analysis.variables if not variable.top_level]
    if not found:
        return []
    rows = [(_name(variable), variable.type, where(variable.declared)) for variable in found]
    return [f"persistent, and not used in packet processing: {len(found)}", *_cut(_table(rows), everything)]


def _procedures(analysis: Analysis, where: Callable[[Place], str], everything: bool) -> list[str]:
    rows: list[tuple[str, ...]] = []
    for procedure in analysis.procedures:
        at = f" in {procedure.called_at.function}, {where(procedure.called_at)}" if procedure.called_at else ""
        reason = _ROLES[procedure.role] + ("" if procedure.role == "receives" else at)
        rows.append((procedure.name, where(procedure.declared) if procedure.declared else "", reason))
    return [f"packet procedures: {len(rows)}", *_cut(_table(rows), everything)] if rows else []


def _assumed(analysis: Analysis, where: Callable[[Place], str], everything: bool) -> list[str]:
    lines: list[str] = []
    if analysis.unknown_functions:
        rows = [(name, _some(map(where, calls))) for name, calls in analysis.unknown_functions.items()]
        lines += [
            f"  {len(rows)} functions outside the program are not described: they may keep, change and call what they",
            "  get (describe them in a file for --models, or narrow by --assume NAME or --assume externals):",
            *_cut([f"  {line}" for line in _table(rows)], everything),
        ]
    if analysis.inline_assembly:
        places = _some(map(where, analysis.inline_assembly))
        lines.append(f"  inline assembly may do the same: {places} (--assume assembly)")
    if analysis.unknown_code:
        places = _some(map(where, analysis.unknown_code))
        lines.append(
            f"  code that is loaded at run time may use all that the program exports: {places} (--assume dlopen)"
        )
    for place, reason in analysis.not_receive:
        lines.append(f"  {where(place)} in {place.function} {reason}: it receives no packets")
    if analysis.missing:
        lines.append(f"  the program contains what was not recorded: {_some(analysis.missing)}")
    if analysis.without_debug_info:
        lines.append(
            f"  compiled without debug info, so that variables are missing: {_some(analysis.without_debug_info)}"
        )
    for what, reason in analysis.assumed.items():
        used = what in _KINDS or what in analysis.unknown_functions
        why = reason if used else "has no effect: no function without a description has this name"
        lines.append(f"  assumed to be harmless (--assume): {what}{f' ({why})' if why else ''}")
    return ["where the analysis cannot know", *lines] if lines else []


def _totals(analysis: Analysis) -> str:
    totals, seconds = analysis.totals, analysis.seconds
    return (
        f"{totals['functions']:,} functions ({totals['functions_entered']:,} may run, {totals['packet_procedures']:,} "
        f"process packets), {totals['instructions']:,} instructions; {seconds['total']:.2f} s, "
        f"{analysis.points_to['peak_bytes'] / 1e6:.0f} MB"
    )


def _some(items: Iterable[str], most: int = 5) -> str:
    found = list(items)
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def _cut(lines: list[str], everything: bool) -> list[str]:
    if everything or len(lines) <= _MOST_LINES:
        return lines
    return [*lines[:_MOST_LINES], f"  and {len(lines) - _MOST_LINES} more (--all)"]


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows in columns that line up, except for the last."""
    if not rows:
        return ["  none"]
    widths = [min(max(len(row[i]) for row in rows), 48) for i in range(len(rows[0]) - 1)]
    return [
        "  " + "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
