"""The task graph of a service (section 5 of the FLICK paper): a task for each channel that is received from, for each
rule, and for each channel that is sent to.
"""

from __future__ import annotations

from typing import Any

from sluice.cli.common.drawing.svg import Arrow, Box, graph, page
from sluice.service.lang import tree
from sluice.service.lang.check.scope import Signature
from sluice.service.load import Service, channel_types
from sluice.service.lower.program import lower


def task_graph(service: Service, process: Signature) -> dict[str, Any]:
    """Tasks and the channels between them, as data."""
    lowered = lower(service, process)
    body = process.declaration.body.expression
    rules = body.items if isinstance(body, tree.Parallel) else [body]
    channels = channel_types(process)
    tasks: list[dict[str, Any]] = []
    links: list[tuple[str, str, str]] = []
    for number, (binding, type) in enumerate(channels):
        name = f"[{binding.name}]" if type.array else binding.name
        for side, carried, which in (("input", type.receives, 0), ("output", type.sends, 1)):
            if any(number in ports[which] for ports in lowered.ports):
                tasks.append({"name": f"{side} {name}", "kind": side, "type": str(carried)})
    for number, (rule, ports) in enumerate(zip(rules, lowered.ports, strict=True)):
        how = "forwards messages as they come" if lowered.streamed[number] else "whole messages"
        task = f"line {rule.place.line}"
        tasks.append({"name": task, "kind": "compute", "type": how})
        for index, (binding, type) in enumerate(channels):
            name = f"[{binding.name}]" if type.array else binding.name
            if index in ports[0]:
                links.append((f"input {name}", task, str(type.receives)))
            if index in ports[1]:
                links.append((task, f"output {name}", str(type.sends)))
    return {"process": process.name, "tasks": tasks, "channels": [list(each) for each in links]}


def task_picture(data: dict[str, Any]) -> str:
    """The SVG of a task graph."""
    boxes = [Box(each["name"], [each["name"], each["type"]], tip=each["kind"]) for each in data["tasks"]]
    arrows = [Arrow(source, target, [carried]) for source, target, carried in data["channels"]]
    return page([(f"{data['process']}: tasks and channels", graph(boxes, arrows))])


def task_text(data: dict[str, Any]) -> str:
    """A task graph as lines."""
    out = [f"process {data['process']}"]
    out += [f"  {each['kind']:<8}{each['name']}: {each['type']}" for each in data["tasks"]]
    return "\n".join(out + [f"  {source} -> {target}: {carried}" for source, target, carried in data["channels"]])
