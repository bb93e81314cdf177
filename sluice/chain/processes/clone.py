"""Clones of stragglers (CHC, 3.4.3): a process that continues the work of an instance that is slower than the others.

The straggler works while its clone is prepared. The clone begins with the state in the store, and handles the batches
again that the straggler has not committed. Its partial work on them has no effect twice: the store has the results of
its updates by their clocks, and its decisions about packets are in the packet log.
"""

from __future__ import annotations

import os
import signal

from sluice.chain.processes.process import Clone, Process
from sluice.chain.processes.running import Running
from sluice.engine.box import RunError


def clone(controller: Running, process: Process) -> bool:
    """Let a clone continue the work of a straggler. False: meanwhile that has handled its batches, and continues.
    Raises RunError for a process without state in a store, OSError.
    """
    part, number = process.part, process.part.number
    if not controller.memory.control.stateful >> number & 1 or not process.pid or process.clone is not None:
        raise RunError(f"'{part.label}' has no state in a store, or does not run: it cannot be cloned")
    read, go = os.pipe()
    given = controller.memory.stack.queue[number].count
    try:
        pid, result = controller.fork(process, read)
    finally:
        os.close(read)
    made = Clone(pid, os.pidfd_open(pid), result, go)
    if (controller.memory.functions[number].done - given) % (1 << 32) < 1 << 31:
        made.end()
        return False
    process.clone = made
    os.kill(process.pid, signal.SIGKILL)
    return True
