"""What runs a chain, as far as decisions about its instances need it: scaling (scale.py) and clones (clone.py).

The controller is one (controller.py). It calls these modules, so they do not import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sluice.chain.processes.instances import Instances, Stores
from sluice.chain.processes.memory import Memory
from sluice.chain.processes.process import Process
from sluice.chain.processes.program import IsolatedChain, Part


class Running(Protocol):
    """A chain that runs, the processes of its functions, and the memory that they share."""

    chain: IsolatedChain
    memory: Memory
    processes: list[Process]
    instances: Instances
    stores: Stores | None
    notify: Callable[[str], None]

    def describe(self, part: Part) -> None:
        """Enter a part into the shared memory."""
        ...

    def start(self, process: Process) -> None:
        """Start the process of a part."""
        ...

    def await_start(self, process: Process, seconds: float) -> None:
        """Wait until a process is open. Raises RunError if it is not within so many seconds."""
        ...

    def fork(self, process: Process, go: int = -1) -> tuple[int, int]:
        """Another process of the same part: its number, and the file of its result. It waits for the event `go`."""
        ...
