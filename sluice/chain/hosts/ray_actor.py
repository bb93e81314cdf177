"""The program by which an engine runs an agent in an actor of a Ray cluster: `ADDRESS NAME`, with a task as its input.

It is a driver of the cluster, and ends with the agent. When it ends, Ray ends the actor. The actor does not restart by
itself: the process that takes the place of one that ended needs another task.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any, NoReturn

from sluice.chain.hosts.agent import read_bytes
from sluice.chain.hosts.engine import PROGRAM
from sluice.chain.processes.limits import end_with_controller


class Host:
    """An actor: runs one agent on its node."""

    def run(self, task: bytes) -> int:
        """Until it has ended: its exit status."""
        with subprocess.Popen(
            [sys.executable, *PROGRAM], stdin=subprocess.PIPE, preexec_fn=end_with_controller
        ) as process:
            assert process.stdin is not None
            process.stdin.write(task)
            process.stdin.flush()  # it stays open: the agent ends when it is closed
            return process.wait()


def main(address: str, name: str) -> NoReturn:
    """Run an agent, whose exit status is that of this program."""
    ray: Any = importlib.import_module("ray")
    task = read_bytes(sys.stdin.buffer)
    ray.init(address=address, log_to_driver=True, logging_level="error")
    actor = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Host).remote()
    try:
        sys.exit(ray.get(actor.run.remote(task)))
    except ray.exceptions.RayError as error:
        sys.exit(f"sluice: the actor of '{name}' is lost: {str(error).strip().splitlines()[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
