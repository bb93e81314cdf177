"""The model of the order in which sides, messages and contexts of native modules hold memory. The list of holders in
sluice/runtime/core/pool.h is its C.

How much memory there is, and how the pool cuts it into blocks, is not modelled: when holders give up is an input of the
interpreter (`Interpreter.give_up`). Which ones do, and what follows, is part of what a program means.
"""

from __future__ import annotations

from collections.abc import Hashable


class Holders:
    """Those that hold memory, in the order in which they began to."""

    def __init__(self) -> None:
        self._held: dict[Hashable, None] = {}

    def enter(self, holder: Hashable) -> None:
        """It holds memory. It keeps its place if it did before."""
        self._held.setdefault(holder)

    def renew(self, holder: Hashable) -> None:
        """It begins to hold, and is the newest."""
        self._held.pop(holder, None)
        self._held[holder] = None

    def leave(self, holder: Hashable) -> None:
        """It holds no memory."""
        self._held.pop(holder, None)

    @property
    def oldest(self) -> Hashable | None:
        """The one that has held memory for longest."""
        return next(iter(self._held), None)
