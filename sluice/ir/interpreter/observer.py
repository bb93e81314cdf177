"""What may be seen of a program while it is interpreted: for a trace. Without an observer nothing is slower."""

from __future__ import annotations

from typing import Protocol

from sluice.ir.instruction import Instruction, Terminator
from sluice.ir.interpreter.frame import Frame
from sluice.ir.interpreter.layer_state import LayerState
from sluice.ir.interpreter.value import Bytes


class Observer(Protocol):
    """Is notified of each step."""

    def entered(self, layer: LayerState, unit: Bytes, depth: int) -> None:
        """A unit enters the main graph of a layer."""
        ...

    def left(self, layer: LayerState) -> None:
        """It has left it."""
        ...

    def executed(self, layer: LayerState, instruction: Instruction, frame: Frame) -> None:
        """An instruction of any graph of a layer was executed."""
        ...

    def decided(self, layer: LayerState, terminator: Terminator, frame: Frame) -> None:
        """A block of any graph of a layer ends."""
        ...
