"""Runs tcp_ip in a process of its own: `python -m tests.scale.measure CAPTURE INSTANCES FUNCTION`.

Prints as JSON the counters, what the functions reported, and by how many bytes the run made the memory of the
process grow (anonymous pages: not those of the file, which is mapped).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack


def anonymous() -> int:
    """Bytes of anonymous memory that the process has in RAM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status says nothing of RssAnon")


def main(path: str, max_instances: int, function: str) -> None:
    """Run and print."""
    wanted = find_functions([function])
    compiled = compile_stack(find_stack("tcp_ip"), tuple(wanted.c))
    with Box(compiled, Settings(max_instances=max_instances, seed=1), [], wanted.options) as box:
        before = anonymous()
        outcome = box.run(path)
        grown = anonymous() - before
    print(json.dumps({"counters": outcome.counters, "reports": outcome.reports, "grown": grown}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
