"""Random choices that Hypothesis can shrink without trying many."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st

LENGTH = 700
"""Bytes: enough for the choices of nearly every stack."""


@dataclass(frozen=True)
class Chosen:
    """The first `count` bytes that a seed stands for.

    Hypothesis finds the least count that still fails in a dozen steps. Bytes of its own would take it hundreds, and
    each of them a compilation.
    """

    seed: int
    count: int


chosen = st.builds(Chosen, st.integers(0, 2**32), st.just(LENGTH) | st.integers(0, LENGTH))
"""Choices for stacks: half of them for all that is asked."""


class Choices(random.Random):
    """Random numbers out of bytes; after these all are 0, and what happens now and then does not.

    So fewer bytes stand for something simpler, and the same bytes always for the same.
    """

    def __new__(cls, what: Chosen) -> Choices:
        return super().__new__(cls)

    def __init__(self, what: Chosen) -> None:
        super().__init__(0)
        self._data = random.Random(what.seed).randbytes(LENGTH)[: what.count]
        self._at = 0

    def _number(self, size: int) -> int:
        found = self._data[self._at : self._at + size].ljust(size, b"\0")
        self._at += size
        return int.from_bytes(found, "big")

    def random(self) -> float:
        """From the greatest number down, as `random() < x` says that something is there."""
        return 1 - (self._number(1) + 1) / 256

    def getrandbits(self, k: int, /) -> int:
        size = (k + 7) // 8
        return self._number(size) >> (8 * size - k)
