"""The tables of docs/c-reference.md, made from the headers that C functions on events include."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from sluice.lang import events

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "sluice" / "runtime"

FUNCTIONS = {
    "The packet, its path and its instance": {
        "function/current.h": (
            "sl_packet_time", "sl_packet_number", "sl_packet_frame", "sl_now", "sl_path_depth", "sl_path_layer",
            "sl_layer_at",
        ),
        "function/random.h": ("sl_random_by",),
        "core/box.h": (
            "sl_path", "sl_layer_unit", "sl_event_number", "sl_event_half", "sl_layer_field", "sl_field_value",
            "sl_flow_lost",
        ),
        "function/endpoints.h": ("sl_address_part", "sl_port_part", "sl_part_number", "sl_part_same"),
    },
    "Streams": {
        "function/peek.h": ("sl_view", "sl_peek"),
        "function/control.h": ("sl_buffer", "sl_policy"),
    },
    "What leaves the box": {
        "function/output.h": (
            "sl_is_inline", "sl_drop_by", "sl_is_dropped", "sl_redirect", "sl_rewrite", "sl_send", "sl_reset_by",
        ),
        "function/held.h": ("sl_hold_by", "sl_release_by", "sl_discard"),
    },
    "Results and failures": {"core/box.h": ("sl_report", "sl_fail"), "function/endpoints.h": ("sl_write_endpoints",)},
}  # fmt: skip
"""C functions that handlers may call, by subject and header."""

_DEFINITION = re.compile(
    r"/\* ((?:(?!\*/).)*?) \*/\n(?:static inline|SL_COLD) ([^{;]*?\b(sl_\w+)\([^{]*?\)) \{", re.DOTALL
)
_STRUCT = re.compile(r"struct sl_on_(\w+) \{ (.*?) \};(?:\s+/\* (.*?) \*/)?")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def declarations() -> str:
    """The table of declarations, from the comment at the head of sluice.h."""
    head = (RUNTIME / "function" / "sluice.h").read_text().partition("*/")[0]
    lines = [line.removeprefix(" *").removeprefix(" ") for line in head.split("\n")]
    rows: list[list[str]] = []
    for line in lines:
        found = re.match(r"((?:SLUICE|sl)_\w+.*?)(?:   +|$)(.*)", line)
        if found:
            rows.append([found[1], found[2]])
        elif rows and line.startswith("  "):
            rows[-1][1] += " " + line.strip()
        elif rows and not line.strip():
            continue
        elif rows:
            break
    return _table(("declaration", "meaning"), [(f"`{name}`", text) for name, text in rows if name.startswith("SLUICE")])


def built_in_events() -> str:
    """The table of built-in events: the C struct of each, and when it is emitted."""
    text = (RUNTIME / "driver" / "built_in_events.h").read_text()
    structs = {found[1]: (found[2], found[3] or "") for found in _STRUCT.finditer(text)}
    meanings = _meanings()
    rows = []
    for name in events.BUILT_IN:
        fields, note = structs[name]
        fields = "" if "nothing" in fields else f"`{fields}`"
        words = {field: values for (event, field), values in events.NAMED_VALUES.items() if event == name}
        causes = "".join(
            f" `{field}`: " + ", ".join(f"{number} {value}" for number, value in enumerate(values)) + "."
            for field, values in words.items()
        )
        meaning = re.sub(r",? for `(cause|reason)` \(see \w+\)", "", meanings[name])
        rows.append((f"`{name}`", fields, meaning + causes + (f" {note[0].upper()}{note[1:]}." if note else "")))
    return _table(("event", "fields of `data`", "when"), rows)


def _meanings() -> dict[str, str]:
    """What the documentation of BUILT_IN says of each event."""
    source = inspect.getsource(events)
    doc = source.partition('"""Built-in events and their fields:\n')[2].partition('"""')[0]
    found = re.findall(r"^(\w+): (.*?)(?=^\w+: |^\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    return {name: text for name, text in found if name in events.BUILT_IN}


def functions() -> str:
    """A table for each subject of FUNCTIONS: the declaration, and the comment that precedes it."""
    out: list[str] = []
    for subject, headers in FUNCTIONS.items():
        rows: list[tuple[str, str]] = []
        for header, names in headers.items():
            text = (RUNTIME / header).read_text()
            found = {match[3]: (match[2], match[1].replace("\n *", " ")) for match in _DEFINITION.finditer(text)}
            missing = [name for name in names if name not in found]
            if missing:
                raise KeyError(f"{header}: no comment precedes {', '.join(missing)}")
            rows += [(f"`{_cell(_called(found[name][0]))}`", _of_caller(found[name][1])) for name in names]
        out.append(f"### {subject}\n\n" + _table(("call", "meaning"), rows))
    return "\n\n".join(out)


def _called(declaration: str) -> str:
    """A declaration as functions call it: sl_drop for sl_drop_by, without the bit or the name of the function."""
    return re.sub(r"\b(sl_\w+)_by\((.*), (?:uint64_t |const char \*)function\)", r"\1(\2)", declaration)


def _of_caller(comment: str) -> str:
    """A comment without what it says to the macro that calls the function."""
    comment = re.sub(r"[;.] `function`: [^.]*", "", comment)
    return re.sub(r"\s+Functions\s+call\s+sl_\w+\(box\)\.", "", comment)


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join([*lines, *("| " + " | ".join(map(_cell, row)) + " |" for row in rows)])


def filled(text: str) -> str:
    """The text of docs/c-reference.md with its tables as they should be."""
    for name, table in (("declarations", declarations()), ("events", built_in_events()), ("functions", functions())):
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text = re.sub(pattern, lambda found, table=table: found[1] + table + found[2], text, flags=re.DOTALL)
    return text
