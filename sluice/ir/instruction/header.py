"""Instructions on the packet and on registers."""

from __future__ import annotations

from sluice.ir.expression import Expr, Reg
from sluice.ir.instruction.declaration import Instruction, R, effects, read, write


@effects(reads=(R.PACKET,))
class Load(Instruction):
    """A number of `bits` bits at bit offset `at` from position `mark`. Needs a Check that covers it."""

    target: Reg = write()
    mark: Reg = read()
    at: int
    bits: int
    order: str


@effects(reads=(R.PACKET,))
class LoadBytes(Instruction):
    """`size` bytes at byte offset `at` from position `mark`. Needs a Check that covers them."""

    target: Reg = write()
    mark: Reg = read()
    at: int
    size: Expr = read()


@effects(reads=(R.PACKET,))
class LoadVarint(Instruction):
    """A variable-length integer (RFC 9000, 16) in the `size` bytes (1, 2, 4 or 8) at position `mark`: their value
    without the two highest bits, which encode the size. Needs a Check that covers them.
    """

    target: Reg = write()
    mark: Reg = read()
    size: Expr = read()


@effects()
class Mark(Instruction):
    """The position `offset` bytes after another one."""

    target: Reg = write()
    base: Reg = read()
    offset: Expr = read()


@effects()
class Payload(Instruction):
    """The bytes of the unit from position `mark` on (the paper's Payload())."""

    target: Reg = write()
    mark: Reg = read()


@effects()
class Assign(Instruction):
    """Set a register. A number is truncated to the register's width."""

    target: Reg = write()
    value: Expr = read()
