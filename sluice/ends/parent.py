"""The parent of a server that CRIU has restored: the first process of the PID namespace. It prints a line, passes on
the signals that end a server, and ends when it does, with its status.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from sluice.ends.moves import children


def main() -> int:
    """Run until the server ends."""
    server, *_ = children(os.getpid())

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(server, number)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, pass_on)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    print("restored", flush=True)
    while True:
        process, status = os.wait()  # also those that the server left to this process
        if process == server:
            return abs(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    sys.exit(main())
