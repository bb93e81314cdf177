"""The report as one page of HTML, with the source: lines that use a top-level variable link to it, and back."""

from __future__ import annotations

import html
import os
from pathlib import Path

from sluice.analyze.report.model import Analysis, Place, Variable, common_folder
from sluice.analyze.report.text import summary_of, text_of

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222 }
table { border-collapse: collapse } td, th { text-align: left; vertical-align: top; padding: .2em .8em .2em 0 }
tr { border-bottom: 1px solid #ddd } code, pre { font: 12.5px/1.45 ui-monospace, monospace }
pre { margin: 0 } .number { color: #999; text-align: right; padding-right: 1em; user-select: none }
.used { background: #fff3c4 } .declared { background: #d9f2d9 } .receive { background: #ffd9d9 }
a { color: #0b57a4; text-decoration: none } a:hover { text-decoration: underline } summary { cursor: pointer }
.source td { border: 0; padding: 0 .5em 0 0 } .source tr { border: 0 } .names { color: #777; font-size: 12px }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd } tr { border-color: #444 }
.used { background: #4a4016 } .declared { background: #1e3b1e } .receive { background: #4a1f1f } a { color: #7db7f0 } }
"""


def page_of(analysis: Analysis) -> str:
    """The page. Sources that are no longer there are named, and not shown."""
    folder = common_folder(analysis)
    marks = _marks(analysis)
    files = sorted({file for file, _ in marks})
    names = {file: _short(file, folder) for file in files}
    parts = [
        "<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>State of {html.escape(analysis.module)}</title><style>{_STYLE}</style>",
        f"<h1>State of {html.escape(os.path.basename(analysis.module))}</h1>",
        f"<p>{html.escape(summary_of(analysis))}.</p>",
        _receive_table(analysis, names),
        "<h2>Top-level variables</h2>",
        _variable_table(analysis, names),
        f"<details><summary>The report as text</summary><pre>{html.escape(text_of(analysis, True))}</pre></details>",
        "<h2>Source</h2>",
        *(_source(file, names[file], marks) for file in files),
        "</html>\n",
    ]
    return "\n".join(parts)


_Marks = dict[tuple[str, int], list[tuple[str, str]]]
"""By file and line: kinds of marks (used, declared, receive), and their subjects."""


def _marks(analysis: Analysis) -> _Marks:
    marks: _Marks = {}
    for variable in analysis.top_level:
        for use in variable.uses:
            marks.setdefault((use.place.file, use.place.line), []).append(("used", _anchor(variable)))
        marks.setdefault((variable.declared.file, variable.declared.line), []).append(("declared", _anchor(variable)))
    for one in analysis.receive:
        marks.setdefault((one.place.file, one.place.line), []).append(("receive", ""))
    return {place: found for place, found in marks.items() if place[1]}


def _anchor(variable: Variable) -> str:
    return f"{variable.function}.{variable.name}.{variable.declared.line}" if variable.function else variable.name


def _short(file: str, folder: str) -> str:
    return os.path.relpath(file, folder) if folder and file.startswith(folder + os.sep) else file


def _link(place: Place, names: dict[str, str], text: str | None = None) -> str:
    name = names.get(place.file, place.file)
    shown = html.escape(text or f"{name}:{place.line}")
    return f"<a href='#{html.escape(name, quote=True)}:{place.line}'>{shown}</a>" if place.line else shown


def _receive_table(analysis: Analysis, names: dict[str, str]) -> str:
    rows = "".join(
        f"<tr><td>{_link(one.place, names)}<td><code>{html.escape(one.function)}</code> in "
        f"<code>{html.escape(one.place.function)}</code><td>{html.escape(one.source)}"
        for one in analysis.receive
    )
    return f"<h2>Receive calls</h2><table>{rows or '<tr><td>none'}</table>"


def _variable_table(analysis: Analysis, names: dict[str, str]) -> str:
    rows: list[str] = []
    for variable in analysis.top_level:
        by_function: dict[str, list[str]] = {}
        for use in variable.uses:
            text = f"{use.place.line}{'' if use.direct else '*'}"
            by_function.setdefault(use.place.function, []).append(_link(use.place, names, text))
        uses = "<br>".join(
            f"<code>{html.escape(name)}</code> {', '.join(lines)}" for name, lines in by_function.items()
        )
        scope = f"{variable.function}: " if variable.function else ""
        anchor = html.escape(_anchor(variable), quote=True)
        rows.append(
            f"<tr id='{anchor}'><td><code>{html.escape(scope + variable.name)}</code><td>{variable.kind}"
            f"<td><code>{html.escape(variable.type)}</code><td>{_link(variable.declared, names)}"
            f"<td>{_class(variable)}<td>{_keys(variable, names)}<td>{_impacts(variable, names)}<td>{uses}"
            f"<td>{_why(variable, names)}"
        )
    head = (
        "<tr><th>variable<th>kind<th>type<th>declared<th>class<th>key<th>impacts<th>used at (* through a pointer)"
        "<th>written at, and why"
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _class(variable: Variable) -> str:
    if not variable.paths:
        return "only read"
    if variable.overwritten and "packet" in variable.paths:
        return "overwritten before it is read"
    return "<b>updated</b>" if variable.is_state else f"updated on {' and '.join(sorted(variable.paths))} paths"


def _keys(variable: Variable, names: dict[str, str]) -> str:
    if not variable.key_complete:
        return "not known"
    return "<br>".join(_link(key.place, names, key.field) for key in variable.key) or "all flows"


def _impacts(variable: Variable, names: dict[str, str]) -> str:
    rows: list[str] = []
    for title, impact in (("packets", variable.impacts_packet), ("logs", variable.impacts_log)):
        if impact:
            steps = " &larr; ".join(_link(place, names, str(place.line)) for place in impact.path[:12])
            rows.append(f"{title}: <code>{html.escape(impact.function)}</code> {steps}")
    return "<br>".join(rows) or "-"


def _why(variable: Variable, names: dict[str, str]) -> str:
    by_chain: dict[tuple[str, ...], list[str]] = {}
    for update in variable.updates:
        by_chain.setdefault(update.chain, []).append(_link(update.place, names, str(update.place.line)))
    return "<br>".join(f"{html.escape(' → '.join(chain))} {', '.join(lines)}" for chain, lines in by_chain.items())


def _source(file: str, name: str, marks: _Marks) -> str:
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"<p>{html.escape(name)}: {html.escape(error.strerror or 'cannot be read')}</p>"
    rows: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        found = marks.get((file, number), [])
        kind = next((kind for kind in ("receive", "declared", "used") if any(one == kind for one, _ in found)), "")
        about = dict.fromkeys(anchor for _, anchor in found if anchor)
        links = " ".join(f"<a href='#{html.escape(one, quote=True)}'>{html.escape(one)}</a>" for one in about)
        rows.append(
            f"<tr id='{html.escape(name, quote=True)}:{number}' class='{kind}'><td class=number>{number}"
            f"<td><pre>{html.escape(line)}</pre><td class=names>{links}"
        )
    return f"<details open><summary>{html.escape(name)}</summary><table class=source>{''.join(rows)}</table></details>"
