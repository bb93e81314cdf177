"""What the model of a sequence consists of: pieces, records, overlaps, gaps; arithmetic on positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sluice.ir.expression import MASK
from sluice.ir.interpreter.value import Bytes

DATA, CUT, PHANTOM = "data", "cut", "phantom"
"""Kinds of pieces: bytes; bytes that the snap length took; sequence space without bytes (SYN, FIN)."""

FARTHEST = (1 << 63) - 1
"""The farthest position of a linear sequence, and the farthest ahead that a piece may end."""

PIECE_MAX = 131072 - 48
"""Longer data is buffered as several pieces: the runtime's largest block, less the head of a piece."""

JOINED_MAX = 2048 - 48
"""Data that touches is one piece up to so many bytes: the runtime's blocks of 2 KiB, less the head of a piece."""

HISTORY_MAX = 65536

PIECE_SMALL = 256
"""The number of units below which a piece is small."""

SMALL_MOST = 1024
"""The maximum number of small pieces that a side may hold."""

FAR = 1 << 30
"""Bytes so far from all that is known of a stream belong to another one."""

EARLIER_MAX = 7
"""Ranges before the base that are remembered."""

HOLD = 1 << 24
"""Bytes that a side may hold where its sequence has no limit of its own."""

HOLD_LEAST = 1 << 20
"""Bytes that a side may hold, however small the window is that its receiver offers."""


def signed(distance: int) -> int:
    """A distance on the circle of 64 bits, the shorter way round."""
    distance &= MASK
    return distance - (1 << 64) if distance >> 63 else distance


def in_window(width: int, meta: int, length: int, low: int, high: int) -> bool:
    """Whether any of [meta, meta + max(length, 1)) lies in [low, high), all modulo 2^width."""
    mask = (1 << width) - 1
    size = (high - low) & mask
    return size != 0 and ((meta - low) & mask < size or (low - meta) & mask < max(length, 1))


def new_wins(policy: str, whole: bool, start: int, end: int, old_start: int, old_end: int) -> bool:
    """Whether a new segment [start, end) wins over a held piece [old_start, old_end) where both have bytes.

    The segment is taken as far as it has bytes and is not delivered, the piece as it stands. Systems treat the
    fragments of a datagram (`whole`) otherwise than the segments of a stream.
    """
    match policy, whole:
        case "last", _:
            return True
        case ("bsd", _) | ("windows", False):
            return start < old_start
        case "bsd_right", _:
            return start >= old_start
        case "linux", False:
            return start < old_start or (start == old_start and end > old_end)
        case "linux", True:
            return start <= old_start
        case "windows", True:
            return start < old_start and end > old_end
        case "solaris", False:
            return end >= old_end if start <= old_start else end > old_end
        case "solaris", True:
            return start < old_start and end >= old_end
        case _:
            return False


@dataclass(slots=True)
class Piece:
    """What is known of `length` units from `position` on."""

    kind: str
    position: int
    length: int
    data: bytearray = field(default_factory=bytearray)


class Record(NamedTuple):
    """What conditions on virtual ordered packets will need of a packet beyond `next`."""

    position: int
    values: tuple[int, ...]


class Overlap(NamedTuple):
    """Bytes that were known already: where in the stream, and both copies (the old bytes may be gone)."""

    offset: int
    length: int
    new: Bytes
    old: Bytes


class Gap(NamedTuple):
    """Bytes given up: where in the stream, how many, and whether the snap length took them."""

    offset: int
    length: int
    cut: bool
