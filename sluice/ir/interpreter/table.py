"""The model of a table of instances. sluice/runtime/core/table.h does the same in C, with an index of its own.

Which slot a new instance gets, which slots the sweep looks at and which instance is evicted are part of what
a program means, because the order of events depends on them.
"""

from __future__ import annotations

from typing import Any

from sluice.ir.interpreter.messages import Messages
from sluice.ir.interpreter.sequence import Sequence
from sluice.ir.interpreter.value import Registers

NEVER = (1 << 64) - 1
"""The deadline of an instance that time does not end."""

SWEEP_EVERY = 32
"""Look-ups from one step of the sweep to the next."""

SWEEP_SLOTS = 8
EVICT_AMONG = 8

Key = tuple[Any, ...]


class Instance:
    """What a layer keeps from packet to packet.

    number: from 1 in order of creation, 0 when it is not stored. key: what it is found by; of an oriented
    layer a pair of halves, and `swapped` says that the active side sends the second one. ending: its end has
    begun, and does not begin again.
    """

    __slots__ = ("deadline", "ending", "fields", "key", "messages", "number", "sequences", "slot", "swapped")

    def __init__(self, fields: Registers[int], sequences: list[Sequence], key: Key = (), swapped: bool = False) -> None:
        self.number = 0
        self.key = key
        self.swapped = swapped
        self.fields = fields
        self.sequences = sequences
        self.messages = [Messages() for _ in sequences]
        self.deadline = NEVER
        self.slot = -1
        self.ending = False

    @property
    def in_use(self) -> bool:
        """Whether its end has begun, or a packet that came through it is in the layers above."""
        return self.ending or bool(self.fields.get("inst.busy"))

    def expired(self, now: int) -> bool:
        """Whether its time is over; NEVER does not come, not even when packets say that it has."""
        return self.deadline <= now and self.deadline != NEVER

    @property
    def stored(self) -> bool:
        """Whether it is, or was, in a table."""
        return self.number > 0


class Table:
    """Instances by key, each in a slot that it keeps.

    shortest: the shortest timeout of the layers that use the table, in nanoseconds; NEVER where none has any. rests: no
    instance expires before this time, and the sweep looks at none.
    """

    def __init__(self, max_instances: int) -> None:
        self.max_instances = max_instances
        self.shortest = NEVER
        self.slots: list[Instance | None] = []
        self.free: list[int] = []
        self.index: dict[Key, Instance] = {}
        self.live = 0
        self.lookups = 0
        self.sweep_cursor = 0
        self.soonest = 0
        self.rests = 0
        self.evict_cursor = 0

    def find(self, key: Key) -> Instance | None:
        """The instance with this key."""
        return self.index.get(key)

    def add(self, instance: Instance) -> bool:
        """Store an instance in the slot freed last, else in one never used. False when the table is full or
        its key is taken.
        """
        if self.live >= self.max_instances or instance.key in self.index:
            return False
        if self.free:
            instance.slot = self.free.pop()
            self.slots[instance.slot] = instance
        else:
            instance.slot = len(self.slots)
            self.slots.append(instance)
        self.index[instance.key] = instance
        self.live += 1
        return True

    def remove(self, instance: Instance) -> None:
        """Forget an instance and free its slot."""
        del self.index[instance.key]
        self.slots[instance.slot] = None
        self.free.append(instance.slot)
        self.live -= 1

    def sweep_due(self) -> bool:
        """Count a look-up; whether the sweep makes a step before it."""
        self.lookups += 1
        return self.lookups % SWEEP_EVERY == 0

    def examine(self, now: int) -> Instance | None:
        """The instance in the next slot of the sweep, when there is one whose time is over and that is not in use.

        All slots are a round. The next round begins when something can have expired: an instance that this one has
        passed, at its deadline; one that has got a deadline since, not before the shortest timeout from its beginning.
        """
        if not self.slots or now < self.rests:
            return None
        if self.sweep_cursor >= len(self.slots):
            self.sweep_cursor = 0
            self.rests, self.soonest = self.soonest, min(now + self.shortest, NEVER)
            if now < self.rests:
                return None
        instance = self.slots[self.sweep_cursor]
        self.sweep_cursor += 1
        if instance is None:
            return None
        self.soonest = min(self.soonest, instance.deadline)
        return instance if instance.expired(now) and not instance.in_use else None

    def victim(self) -> Instance | None:
        """Of the next live instances that are not in use, the one with the earliest deadline, the first
        of equals; the search goes on after it. None when there is none in one round.
        """
        best: Instance | None = None
        seen, after = 0, 0
        for _ in range(len(self.slots)):
            slot = self.evict_cursor % len(self.slots)
            self.evict_cursor = slot + 1
            instance = self.slots[slot]
            if instance is None or instance.in_use:
                continue
            if best is None or instance.deadline < best.deadline:
                best, after = instance, self.evict_cursor
            seen += 1
            if seen == EVICT_AMONG:
                break
        if best is not None:
            self.evict_cursor = after
        return best


class Aliases:
    """Further keys, each with the instance that it leads to (number and place) and the side of packets found so.

    Those of instances that have ended stay until their turn comes to make room: the oldest goes first.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.index: dict[Key, tuple[int, int, int]] = {}
        self.keys: list[Key] = []
        self.oldest = 0

    def find(self, key: Key) -> tuple[int, int, int]:
        """Number, place and side; number 0, which no stored instance has, where none has the key."""
        return self.index.get(key, (0, 0, 0))

    def add(self, key: Key, number: int, place: int, side: int) -> bool:
        """Give a key to an instance; whether another key had to make room."""
        full = key not in self.index and len(self.keys) >= self.most
        if full:
            del self.index[self.keys[self.oldest]]
            self.keys[self.oldest] = key
            self.oldest = (self.oldest + 1) % self.most
        elif key not in self.index:
            self.keys.append(key)
        self.index[key] = (number, place, side)
        return full
