"""Changes of an isolated chain while it runs: functions are replaced, added, removed, and get more instances."""

from __future__ import annotations

from sluice.chain.processes.functions import FunctionProcesses
from sluice.chain.processes.limits import group_name
from sluice.chain.processes.memory import TYPES
from sluice.chain.processes.process import Process
from sluice.chain.processes.program import Part
from sluice.engine.box import RunError


class ChangedProcesses(FunctionProcesses):
    """The processes of functions, which may become others."""

    def change(self, process: Process, part: Part | None) -> None:
        """End the process of a function after its current batch; `part` runs in its place, or nothing."""
        control, bit = self.memory.control, 1 << process.part.number
        process.following = (part,)
        for number in range(TYPES) if part is None else ():
            control.subscribed[number] &= ~bit
        if not process.pid:
            self._change(process)
            return
        control.leave |= bit

    def _change(self, process: Process) -> None:
        """The process of a function has left, or there was none."""
        assert process.following is not None
        (part,), process.following = process.following, None
        control, bit = self.memory.control, 1 << process.part.number
        control.leave &= ~bit
        number, stack = process.part.number, self.memory.stack
        side, queue = self.memory.functions[number], stack.queue[number]
        if control.absent & bit or not self._is_whole(side, queue.count, stack.batches):
            self._skip(process)  # batches that it was not waited for: their memory has others by now
        control.resume[number] = self._resumed(number)
        control.lost_before[number] = self._newest()
        side.running = side.sleeping = side.flows = 0
        if part is None:
            control.closed &= ~bit
            control.absent |= bit
            for other in range(len(control.before)):  # a later function in this place is after all others
                control.before[other] &= ~bit
                control.drops[other] &= ~bit
            if process.part in self.chain.parts:
                self.chain.parts.remove(process.part)
            process.last = self.figures(process)
            process.ended = process.removed = True
            self.cgroups.remove(group_name(process.part))
            return
        for number in range(TYPES):
            control.subscribed[number] &= ~bit
        self.chain.parts[:] = [part if one.number == number else one for one in self.chain.parts]
        process.part, process.in_batch, process.ended = part, 0, False
        self._describe(part)
        self._start(process)
        control.absent &= ~bit

    def add(self, part: Part) -> None:
        """Run a further function, in a place that is free."""
        process = Process(part)
        process.before = self._counted(part.number)
        for removed in [one for one in self.processes if one.removed]:
            if removed.part.number == part.number or removed.part.name == part.name:
                self.processes.remove(removed)
                self._former.append(removed)
        self.processes.append(process)
        self.chain.parts.append(part)
        control = self.memory.control
        control.changed[part.number] = control.changes + 1
        control.changes += 1
        process.following = (part,)
        self._change(process)

    def scale(self, name: str, instances: int) -> int:
        """Let so many instances share the traffic of a function; others have none any more. Returns how many parts
        move. Raises OSError, and RunError where a further process cannot start.
        """
        vertex, found = self.instances.places(name)
        for _ in range(len(found), instances):
            taken = {process.part.number for process in self.processes if not process.removed}
            free = [number for number in range(self.memory.count) if number not in taken]
            if not free:
                raise RunError("there is no place for a further process; start the chain with more instances")
            part = self.chain.add_instance(name, free[0])
            self._add_instance(part, vertex)
        return self.instances.assign(name, self.instances.spread(name, instances))

    def _add_instance(self, part: Part, vertex: int) -> None:
        """Start the process of a further instance."""
        process = Process(part)
        process.before = self._counted(part.number)
        self.processes.append(process)
        control, side = self.memory.control, self.memory.functions[part.number]
        queue = self.memory.stack.queue[part.number]
        side.done, side.settled = queue.count, queue.count
        side.done_batch = side.settled_batch = self.memory.stack.batches
        for one in self.chain.parts:
            control.before[one.number], control.drops[one.number] = one.before, one.drops
        self._describe(part)
        if self.stores is not None and part.shares:
            self.stores.admit(part, ())
            self.instances.rows.open(part)
        self.instances.describe(part, vertex)
        self._start(process)
        self._await_start(process)
        control.absent &= ~(1 << part.number)
