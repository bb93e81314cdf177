"""More or fewer instances of a function share its traffic, while the chain runs."""

from __future__ import annotations

from sluice.chain.processes.figures import counted
from sluice.chain.processes.instances import StateError
from sluice.chain.processes.process import Process
from sluice.chain.processes.program import Part
from sluice.chain.processes.running import Running
from sluice.engine.box import RunError

OPENING = 10.0
"""Seconds within which a further instance opens: all else waits for it."""


def scale(controller: Running, name: str, instances: int) -> int:
    """Let so many instances share the traffic of a function; others have none any more. Returns how many parts
    move. Raises OSError, StateError, and RunError where a further process cannot start: the chain is then as before it.
    """
    vertex, found = controller.instances.places(name)
    for _ in range(len(found), instances):
        taken = {process.part.number for process in controller.processes if not process.removed}
        free = [number for number in range(controller.memory.count) if number not in taken]
        if not free:
            raise RunError("there is no place for a further process; start the chain with more instances")
        part = controller.chain.add_instance(name, free[0])
        try:
            _add_instance(controller, part, vertex)
        except (RunError, StateError, OSError):
            _remove_instance(controller, part, vertex)
            raise
    return controller.instances.assign(name, controller.instances.spread(name, instances))


def _add_instance(controller: Running, part: Part, vertex: int) -> None:
    """Start the process of a further instance."""
    process = Process(part)
    process.before = counted(controller.memory, part.number)
    controller.processes.append(process)
    control, side = controller.memory.control, controller.memory.functions[part.number]
    queue = controller.memory.stack.queue[part.number]
    side.done, side.settled = queue.count, queue.count
    side.done_batch = side.settled_batch = controller.memory.stack.batches
    for one in controller.chain.parts:
        control.before[one.number], control.drops[one.number] = one.before, one.drops
    controller.describe(part)
    if controller.stores is not None and part.shares:
        controller.stores.admit(part, ())
        controller.instances.rows.open(part)
    controller.instances.describe(part, vertex)
    controller.start(process)
    controller.await_start(process, OPENING)
    control.absent &= ~(1 << part.number)


def _remove_instance(controller: Running, part: Part, vertex: int) -> None:
    """An instance could not start: it gets no traffic, and its place is free."""
    controller.processes[:] = [process for process in controller.processes if process.part is not part]
    controller.chain.parts[:] = [one for one in controller.chain.parts if one is not part]
    controller.chain.set_orders()
    control, bit = controller.memory.control, 1 << part.number
    control.absent |= bit
    control.vertices[vertex].instances &= ~bit
    control.stateful &= ~bit
    for one in controller.chain.parts:
        control.before[one.number], control.drops[one.number] = one.before, one.drops
    controller.instances.rows.remove(part)
