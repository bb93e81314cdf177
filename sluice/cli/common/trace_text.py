"""A trace as text and as JSON."""

from __future__ import annotations

import datetime
import linecache
import textwrap
from typing import Any

from sluice.cli.common.link_types import LINK_TYPES
from sluice.engine.trace import Change, Field, Seen, Step, Traced, Value, shown
from sluice.lang.where import Where

_WIDTH = 110
_BYTES_SHOWN = 24


def text_of(traced: Traced) -> str:
    """A packet and each layer that processed it, indented by nesting depth."""
    packet = traced.packet
    out: list[str] = []
    if packet is None:
        out.append("end of input")
    else:
        when = datetime.datetime.fromtimestamp(packet.time // 10**9, datetime.UTC)
        cut = "" if len(packet.data) == packet.length else f", {len(packet.data)} captured"
        kind = LINK_TYPES.get(packet.link_type, "unknown")
        out.append(
            f"packet {packet.number}: {when:%Y-%m-%d %H:%M:%S}.{packet.time % 10**9:09d} UTC, "
            f"{packet.length} bytes{cut}, link type {packet.link_type} ({kind})"
        )
    if traced.refused:
        out.append("  refused: the stack begins with no layer for this link type")
    for step in traced.steps:
        out += _step(step)
    for event in traced.events:
        out += _wrapped(f"{event.layer}: ", _event(event), 2)
    return "\n".join(out)


def _step(step: Step) -> list[str]:
    indent = 2 * step.depth
    out = [f"{'':{indent}}{step.layer.name}: {step.length} bytes"]
    if step.fields:
        texts = ", ".join(f"{item.name} {_value(_address(item))}" for item in step.fields)
        out += _wrapped("header    ", texts, indent + 2)
    if step.has_instance:
        what = ("created" if step.number else "of this packet alone") if step.created else "known"
        which = f"{step.number} " if step.number else ""
        key = ", ".join(f"{name} {_value(value)}" for name, value in step.key.items())
        side = f", side {step.side}" if step.layer.instance is not None and step.layer.instance.oriented else ""
        out += _wrapped("instance  ", f"{which}({what}{side}){': ' if key else ''}{key}", indent + 2)
    if step.state is not None:
        out += _wrapped("state     ", step.state, indent + 2)
    for change in step.changes:
        text = f"{change.name}: {_value(change.before)} -> {_value(change.after)}   ({change.where.short})"
        out += _wrapped("change    ", text, indent + 2)
    for event in step.events:
        out += _wrapped("event     ", _event(event), indent + 2)
    for name, where in step.above:
        out += _wrapped("forwarded ", f"to {name}   ({where.short})", indent + 2)
    what, _, why = step.outcome.partition(":")
    out += _wrapped("outcome   ", f"{what}{f' ({why})' if why else ''}{_line(step)}", indent + 2)
    return out


def _address(item: Field) -> Value:
    """The value of a field; an address in its usual notation."""
    return item.value if isinstance(item.value, str) else shown(item.name, item.bits, item.value)


def _line(step: Step) -> str:
    """The line that decided to stop processing of the packet, as text; empty for outcomes without a reason."""
    if step.where is None or not step.outcome.partition(":")[2]:
        return ""
    text = source_line(step.where)
    return f"   ({step.where.short}{': ' if text else ''}{text})"


def source_line(where: Where) -> str:
    """The source text of a line of the description."""
    return linecache.getline(where.file, where.line).strip()


def _event(event: Seen) -> str:
    values = ", ".join(f"{name} {_value(value)}" for name, value in event.values.items())
    of = f" of instance {event.instance}" if event.instance else ""
    return f"{event.name}{of}{': ' if values else ''}{values}   ({event.where.short})"


def _value(value: Value) -> str:
    if isinstance(value, bytes):
        more = f"... ({len(value)} bytes)" if len(value) > _BYTES_SHOWN else ""
        return (value[:_BYTES_SHOWN].hex() or "(no bytes)") + more
    return str(value)


def _wrapped(head: str, text: str, indent: int) -> list[str]:
    lines = textwrap.wrap(text, max(_WIDTH - indent - len(head), 40), break_on_hyphens=False) or [""]
    return [f"{'':{indent}}{head if not n else ' ' * len(head)}{line}".rstrip() for n, line in enumerate(lines)]


def json_of(traced: Traced) -> dict[str, Any]:
    """The same as data for JSON: bytes as hexadecimal digits, times in nanoseconds since 1970."""
    packet = traced.packet
    about: dict[str, Any] = {"packet": None}
    if packet is not None:
        about = {
            "packet": packet.number,
            "time": packet.time,
            "length": packet.length,
            "captured": len(packet.data),
            "link_type": packet.link_type,
            "refused": traced.refused,
        }
    return {
        **about,
        "layers": [_json_step(step) for step in traced.steps],
        "events": list(map(_json_event, traced.events)),
    }


def _json_step(step: Step) -> dict[str, Any]:
    what, _, why = step.outcome.partition(":")
    return {
        "layer": step.layer.name,
        "parser": step.layer.prototype,
        "depth": step.depth,
        "length": step.length,
        "fields": [_json_field(item) for item in step.fields],
        "instance": {
            "number": step.number,
            "created": step.created,
            "side": step.side,
            "key": {name: _plain(value) for name, value in step.key.items()},
        }
        if step.has_instance
        else None,
        "state": step.state,
        "changes": [_json_change(item) for item in step.changes],
        "events": [_json_event(item) for item in step.events],
        "above": [{"layer": name, "where": str(where)} for name, where in step.above],
        "outcome": what,
        "reason": why or None,
        "where": None if step.where is None else str(step.where),
        "line": None if step.where is None else source_line(step.where),
    }


def _json_field(item: Field) -> dict[str, Any]:
    return {"name": item.name, "bits": item.bits, "value": _plain(item.value), "where": str(item.where)}


def _json_change(item: Change) -> dict[str, Any]:
    return {"name": item.name, "from": _plain(item.before), "to": _plain(item.after), "where": str(item.where)}


def _json_event(item: Seen) -> dict[str, Any]:
    values = {name: _plain(value) for name, value in item.values.items()}
    return {
        "layer": item.layer,
        "event": item.name,
        "instance": item.instance,
        "values": values,
        "where": str(item.where),
    }


def _plain(value: Value) -> int | str:
    return value.hex() if isinstance(value, bytes) else value
