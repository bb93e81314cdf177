"""The progress of a function's process in shared memory: its values, and where the next process in its
place continues.

A process that crashes may have written anything, so figures that cannot be true are not believed.
"""

from __future__ import annotations

from sluice.chain.processes.memory import QUEUE, SLOTS, FunctionSide, Memory
from sluice.chain.processes.process import Process

_FIGURES = ("skipped", "flows_lost", "not_published", "not_decided")
_FIGURE_MOST = 1 << 53
"""A function that has written a higher figure of its progress has written anything."""


def is_whole(side: FunctionSide, given: int, batches: int) -> bool:
    """Whether the progress that a function has written is plausible. given: batches in its queue so far. batches: of
    the stack so far.
    """
    near = (given - side.done) % (1 << 32) <= QUEUE and (batches - side.done_batch) % (1 << 32) < 1 << 31
    return near and max(side.begun, side.flows, *(getattr(side, name) for name in _FIGURES)) < _FIGURE_MOST


def credible(side: FunctionSide) -> dict[str, int]:
    """The figures of a function that can be true, by name."""
    return {name: value for name in _FIGURES if (value := getattr(side, name)) < _FIGURE_MOST}


def resumed(memory: Memory, number: int) -> int:
    """The last event that a function had begun with, if it is not done with the batch."""
    side, queue = memory.functions[number], memory.stack.queue[number]
    working = queue.count != side.done
    return min(side.begun, memory.slot(queue.entry[side.done % QUEUE]).last) if working else 0


def skip(memory: Memory, process: Process) -> None:
    """A function continues with the next batch. Its counters remain, or are the last plausible ones."""
    number = process.part.number
    side, control, stack = memory.functions[number], memory.control, memory.stack
    count = stack.queue[number].count
    control.unseen_to[number] = stack.batches
    control.unseen |= 1 << number
    for name in _FIGURES:
        if getattr(side, name) >= _FIGURE_MOST:
            setattr(side, name, process.known.get(name, 0))
    side.sleeping = side.running = side.begun = side.flows = 0
    side.done, side.done_batch = count, control.unseen_to[number]


def newest(memory: Memory) -> int:
    """The number of the newest instance that a function may have missed."""
    return max(memory.slot(place).created for place in range(SLOTS))


def at_end(memory: Memory, process: Process) -> bool:
    """Whether a function has nothing to do any more."""
    side = memory.functions[process.part.number]
    return bool(side.running) and side.done == memory.stack.queue[process.part.number].count
