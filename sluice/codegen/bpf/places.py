"""The stack of a program: places for registers of graphs, and for temporary values."""

from __future__ import annotations

from sluice.codegen.bpf.assembler import FP, IMMEDIATE_MOST, MOVE, Assembler
from sluice.codegen.bpf.errors import UnsuitableError
from sluice.codegen.bpf.graphs import registers_of
from sluice.ir.expression import Reg
from sluice.ir.graph import Graph

_STACK = 512


class Places:
    """A program that grows, with its stack. A place is an offset from the end of the stack.

    reserved: bytes at the end of the stack that are no places.
    """

    def __init__(self, reserved: int) -> None:
        self.out = Assembler()
        self.places: dict[str, int] = {}
        """Of registers of the current layer, and of slots: the offset in the stack."""
        self.used = reserved
        self.temporary: int = 0
        """Bytes of the stack after `used` that are in use."""
        self.shared, self.shared_used = dict(self.places), self.used
        """The places of slots, which all layers share, and `used` with them."""

    def _slots(self, graphs: dict[str, Graph]) -> None:
        for graph in graphs.values():
            for reg in registers_of(graph):
                if reg.space == "slot":
                    self._allocate(reg)
        self.shared, self.shared_used = dict(self.places), self.used

    def _room(self) -> int:
        self.used += 8
        if self.used > _STACK:
            raise UnsuitableError("its layers have too many fields for a program of the kernel")
        return -self.used

    def _allocate(self, reg: Reg) -> None:
        for name in (reg.name, f"{reg.name} end") if reg.is_bytes else (reg.name,):
            if name not in self.places:
                self.places[name] = self._room()

    def _temporary(self) -> int:
        self.temporary += 8
        if self.used + self.temporary > _STACK:
            raise UnsuitableError("its expressions are too long for a program of the kernel")
        return -self.used - self.temporary

    def _put(self, place: int) -> None:
        self.out.store(FP, place, 0, 8)

    def _get(self, place: int, to: int) -> None:
        self.out.load(to, FP, place, 8)

    def _constant(self, to: int, value: int) -> None:
        if value <= IMMEDIATE_MOST:
            self.out.alu(MOVE, to, value)
        else:
            self.out.set(to, value)
