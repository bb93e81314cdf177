"""The parts of a program: its types, functions, processes and units, and the memory of an instance."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sluice.service.bounds import Bounds
from sluice.service.lang import tree
from sluice.service.lang.check.scope import Signature
from sluice.service.lang.types import Named
from sluice.service.load import Service
from sluice.service.lower.forwarding import forwarded
from sluice.service.lower.named import read_fields
from sluice.service.lower.streams import streams


def describe(service: Service, process: Signature | None, bounds: Bounds | str | None) -> dict[str, Any]:
    """All of it, for JSON; `text` has it as lines."""
    checked = service.checked
    types = {name: _type(type) for name, type in checked.types.items()}
    functions = {name: f"{_parameters(each)} -> ({each.result})" for name, each in checked.functions.items()}
    processes = {name: _parameters(each) for name, each in checked.processes.items()}
    units: dict[str, Any] = {}
    read = read_fields(checked)
    for name, unit in service.units.items():
        record = checked.types[name]
        named = set(service.fields(record)) if isinstance(record, Named) else set[str]()
        parsed = unit.needed(read.get(name, named) & named)
        units[name] = {"named": sorted(named), "parsed": sorted(parsed), "limit": unit.limit}
    rules: list[dict[str, Any]] = []
    some = bool(forwarded(checked).wants)
    if process is not None:
        body = process.declaration.body.expression
        for each in body.items if isinstance(body, tree.Parallel) else [body]:
            all_of_them = streams(each, checked)
            rules.append({"line": each.place.line, "forwards": all_of_them, "forwards_some": all_of_them or some})
    memory = asdict(bounds) if isinstance(bounds, Bounds) else bounds
    found: dict[str, Any] = {
        "types": types, "functions": functions, "processes": processes,
        "units": units, "rules": rules, "memory": memory,
    }  # fmt: skip
    return {**found, "text": list(_lines(found))}


def _type(type: Any) -> str:
    if not isinstance(type, Named):
        return str(type)
    kind = "variant" if type.variant else "record"
    return f"{kind} " + ", ".join(f"{name} : {item}" for name, item in type.fields.items())


def _parameters(each: Signature) -> str:
    channels = [f"{binding.type} {binding.name}" for binding in each.channels]
    values = [f"{binding.name} : {binding.type}" for binding in each.values]
    return f"({', '.join(channels + values)})"


def _lines(found: dict[str, Any]) -> list[str]:
    out = [f"type {name}: {text}" for name, text in found["types"].items()]
    for name, unit in found["units"].items():
        out.append(f"unit {name}: reads {', '.join(unit['parsed'])}; at most {unit['limit']:,} bytes")
    out += [f"fun {name}: {text}" for name, text in found["functions"].items()]
    out += [f"process {name}: {text}" for name, text in found["processes"].items()]
    for rule in found["rules"]:
        how = "needs messages as a whole"
        if rule["forwards_some"]:
            how = f"forwards {'' if rule['forwards'] else 'some '}messages as they come"
        out.append(f"rule of line {rule['line']}: {how}")
    memory = found["memory"]
    if isinstance(memory, str):
        out.append(f"memory: {memory}")
    elif memory is not None:
        out.append(
            f"memory: an instance takes {memory['instance']:,} bytes, with all buffers {memory['busy']:,}; "
            f"all of them at most {memory['total']:,}"
        )
    return out
