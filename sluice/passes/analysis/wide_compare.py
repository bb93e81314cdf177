"""Comparisons of neighbouring bytes, as words under a mask."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.ir.expression import Binary, Const, Reg
from sluice.ir.instruction import Instruction, Load

WORD = 4
"""The maximum number of bytes of a comparison: a machine instruction cannot contain a longer mask."""


def compares(
    wanted: Mapping[int, tuple[int, int]], end: int, mark: Reg, begin: int, asked: Instruction
) -> list[tuple[Load, Binary]]:
    """Loads of words, each with the condition that its bytes have the required values.

    wanted: for bytes of the unit, the bits that are tested, and those of them that must be 1; no byte lies at or beyond
    `end`. mark: lies at byte `begin`. asked: the instruction whose line of the description the comparisons get.
    """
    found: list[tuple[Load, Binary]] = []
    for first, size in _groups(sorted(wanted), end):
        mask, ones = _little([wanted.get(byte, (0, 0)) for byte in range(first, first + size)])
        word = Reg(f"local.word.{first}.{size}", 8 * size)
        load = Load(word, mark, 8 * (first - begin), 8 * size, "little", where=asked.where)
        found.append((load, Binary("==", Binary("&", word, Const(mask)), Const(ones))))
    return found


def _little(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    """The masks and the values of these bytes as two little-endian numbers, so that the usual machines need not swap
    bytes.
    """
    masks, ones = zip(*pairs, strict=True)
    return int.from_bytes(masks, "little"), int.from_bytes(ones, "little")


def _groups(wanted: list[int], end: int) -> list[tuple[int, int]]:
    """Words that cover these bytes, none beyond `end`: the first byte and the size of each."""
    found: list[tuple[int, int]] = []
    while wanted:
        first = wanted[0]
        within = [byte for byte in wanted if byte < first + WORD]
        size = 1
        while size < within[-1] + 1 - first:
            size *= 2
        while first + size > end:
            size //= 2
        found.append((first, size))
        wanted = [byte for byte in wanted if byte >= first + size]
    return found
