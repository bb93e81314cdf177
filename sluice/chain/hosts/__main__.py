"""The program that an engine starts on another host, with a task as its input."""

from __future__ import annotations

import pickle
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from sluice.chain.hosts.agent import Agent, read_task


def main() -> NoReturn:
    """Run the task that the standard input has."""
    try:
        task = read_task(sys.stdin.buffer)
    except (ValueError, pickle.UnpicklingError, EOFError) as error:
        sys.exit(f"sluice: {error}")
    with tempfile.TemporaryDirectory(prefix="sluice-agent-") as folder:
        try:
            code = Agent(task, Path(folder)).run()
        except OSError as error:
            sys.exit(f"sluice: an instance of '{task.part.label}' on this host: {error}")
    sys.exit(code if code >= 0 else 1)


if __name__ == "__main__":
    main()
