"""Tables of bounded size: the entries with the highest sums, and counts of the others."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Ranking(Generic[Key]):
    """Sums by key, for at least `limit` keys.

    When twice as many are stored, those with the lowest first sum are dropped. A key that occurs again begins at 0, so
    that the sums of keys that were never among the highest may be too low. `given_up` counts the entries, and
    `given_up_sums` has their sums.
    """

    def __init__(self, limit: int, sums: int) -> None:
        self._limit, self._zero = limit, [0] * sums
        self._entries: dict[Key, list[int]] = {}
        self.given_up = 0
        self.given_up_sums = list(self._zero)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: Key, *values: int) -> None:
        """Add to the sums of a key."""
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= 2 * self._limit:
                self._give_up()
            entry = self._entries[key] = list(self._zero)
        for number, value in enumerate(values):
            entry[number] += value

    def _give_up(self) -> None:
        # of equal entries the later ones are dropped
        order = sorted(self._entries.items(), key=lambda item: -item[1][0])
        for _, entry in order[self._limit :]:
            self.given_up += 1
            for number, value in enumerate(entry):
                self.given_up_sums[number] += value
        self._entries = dict(order[: self._limit])

    def sums(self, key: Key) -> list[int] | None:
        """The sums of a key; None if it is not stored."""
        return self._entries.get(key)

    def top(self, count: int, by: int = 0) -> list[tuple[Key, list[int]]]:
        """The entries with the highest sum number `by`; of equal ones the earlier first."""
        return heapq.nsmallest(count, self._entries.items(), key=lambda item: -item[1][by])

    def left_out(self, shown: int) -> int:
        """How many entries are not among the first `shown` ones; those that were dropped may count several times."""
        return max(len(self._entries) - shown, 0) + self.given_up


class Largest:
    """The items with the highest weights, at most `limit`; of equal ones the earlier."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[int, int, Any]] = []
        self.seen = 0

    def wants(self, weight: int) -> bool:
        """Whether an item of this weight would be stored."""
        return len(self._heap) < self._limit or weight > self._heap[0][0]

    def add(self, weight: int, item: Any) -> None:
        """Store an item, perhaps in place of the lightest one."""
        self.seen += 1
        entry = (weight, -self.seen, item)
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, entry)
        elif weight > self._heap[0][0]:
            heapq.heapreplace(self._heap, entry)

    def skip(self) -> None:
        """Count an item that is not stored."""
        self.seen += 1

    def items(self) -> list[Any]:
        """The heaviest first."""
        return [item for _, _, item in sorted(self._heap, key=lambda entry: (-entry[0], -entry[1]))]

    @property
    def left_out(self) -> int:
        """Items that are not stored."""
        return self.seen - len(self._heap)


class First:
    """The first items, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.items: list[Any] = []
        self.left_out = 0

    def add(self, item: Any) -> None:
        """Store an item, if there is room for it."""
        if len(self.items) < self._limit:
            self.items.append(item)
        else:
            self.left_out += 1


def ranked(ranking: Ranking[Any], count: int, names: Sequence[str], by: int = 0) -> dict[str, Any]:
    """A ranking as JSON: rows with members of these names, the key first, and counts of the others."""
    rows = [dict(zip(names, (key, *sums), strict=True)) for key, sums in ranking.top(count, by)]
    return {"rows": rows, "left_out": ranking.left_out(len(rows))}
