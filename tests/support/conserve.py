"""The conservation law of counters: input equals output, in every layer and in the whole box.

Every test calls `check_conservation` after each run of a box.
"""

from __future__ import annotations

from sluice.engine.box import Box
from sluice.engine.workers import WorkerBoxes
from sluice.ir.graph import Program

Counters = dict[str, dict[str, int]]


def is_outcome(name: str) -> bool:
    """Whether a counter counts an outcome of packets in a layer. Each packet counts in exactly one of these."""
    return name in ("passed", "ended", "held") or name.startswith(("cut:", "malformed:", "dropped:"))


def check_conservation(program: Program, counters: Counters, held: bool = True) -> None:
    """Assert the conservation law. `held`: whether the box may still hold bytes.

    - In every layer: packets = the sum over their outcomes.
    - In every table of layers with a sequence that buffers data: bytes inserted = delivered + known already + no memory
      + discarded + held. Held bytes are 0 when the box has finished. The sum is over the table, because one layer may
      deliver bytes that another layer inserted.
    - At the bottom: packets of the box = packets of the layers at which packets enter + packets of unknown link types.
    - Between layers: a packet that a layer forwards arrives in a layer above, or is too deep (a record: one too many).
      A sequence also delivers bytes without a packet of their own (at a gap, at the end), which are not counted as
      passed. Above a layer with such a sequence, more packets may arrive than were passed. Above a stream that is split
      into messages, a packet may bring several messages or none, so nothing is checked between layers.
    """
    box = counters["box"]
    entered = {name for _, name in program.roots}
    bottom = 0
    for name in program.layers:
        found = counters[name]
        outcomes = sum(value for counter, value in found.items() if is_outcome(counter))
        assert found["packets"] == outcomes, f"{name}: {found['packets']} packets, {outcomes} outcomes: {found}"
        if name in entered:
            bottom += found["packets"]
    for table in _tables(program):
        sharing = [name for name in _sharing(program, table) if _buffers(program, name)]
        ways = ("delivered", "known already", "no memory", "discarded")
        over = sum(counters[n]["bytes:in"] - sum(counters[n][f"bytes:{way}"] for way in ways) for n in sharing)
        assert over >= 0 if held else over == 0, f"{', '.join(sharing)}: {over} bytes ended in no way"
    above = {name for layer in program.layers.values() for name in layer.above}
    if not entered & above:
        there = bottom + box["unknown link type"]
        assert box["packets"] == there, f"{box['packets']} packets of the box, {there} at the bottom"
    if any(layer.frame is not None for layer in program.layers.values()):
        return
    passed = sum(found.get("passed", 0) for name, found in counters.items() if name != "box")
    arrived = sum(found["packets"] for name, found in counters.items() if name in program.layers) - bottom
    if entered & above:
        arrived += bottom - box["packets"] + box["unknown link type"]
    arrived += box["too deep"] + box.get("too many records", 0)
    drains = any(layer.drain is not None and layer.above for layer in program.layers.values())
    if drains:
        assert passed <= arrived, f"{passed} packets passed on, {arrived} arrived"
    else:
        assert passed == arrived, f"{passed} packets passed on, {arrived} arrived"


def check_all_ended(program: Program, counters: Counters) -> None:
    """Assert that every instance that began has ended, for one reason. This holds when a box has finished."""
    for table in _tables(program):
        found = [counters[name] for name in _sharing(program, table)]
        began = sum(layer["instances"] for layer in found)
        ended = sum(value for layer in found for name, value in layer.items() if name.startswith("ended:"))
        assert began == ended, f"table {table}: {began} instances began, {ended} ended"


def check_every_box() -> None:
    """From now on, check every box when it finishes."""
    finish = Box.finish

    def checked(self: Box) -> None:
        finish(self)
        lost = isinstance(self, WorkerBoxes) and self.crashes.get("flows", 0) > 0  # with what they held
        check_conservation(self.stack.program, self.counters(), held=lost)
        if not lost:
            check_all_ended(self.stack.program, self.counters())

    Box.finish = checked


def _tables(program: Program) -> set[str]:
    return {layer.instance.table for layer in program.layers.values() if layer.instance is not None}


def _buffers(program: Program, name: str) -> bool:
    rules = program.layers[name].rules
    return rules is not None and rules.buffer_data


def _sharing(program: Program, table: str) -> list[str]:
    """The layers whose instances are in a table."""
    return [
        name for name, layer in program.layers.items() if layer.instance is not None and layer.instance.table == table
    ]
