"""A layer of a box that the interpreter runs: its program, compiled to Python, its table and its counters."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.ir.graph import LayerProgram
from sluice.ir.interpreter.frame import Code
from sluice.ir.interpreter.table import Table


@dataclass(slots=True)
class LayerState:
    """A layer of the running box. `lifetimes`: its timeouts in nanoseconds, 0 for never."""

    program: LayerProgram
    counters: dict[str, int]
    table: Table | None
    lifetimes: list[int]
    main: Code
    drain: Code | None = None
    end: Code | None = None
    frame: Code | None = None
    lost: Code | None = None
