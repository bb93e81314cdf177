"""How long the slowest single packet takes (bench/pause.c)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from bench.programs import HERE
from sluice.engine.box import compile_stack
from sluice.engine.compiler import INCLUDES, compiler
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack


def pauses(stack: str, traces: list[Path], rounds: int, max_instances: int) -> str:
    """For each trace the slowest packet with `assemble`: the least of the rounds, since others only add to it."""
    wanted = find_functions(["assemble"])
    library = compile_stack(find_stack(stack), tuple(wanted.c))
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder, "pause"))
        source = str(HERE / "pause.c")
        includes = INCLUDES
        subprocess.run([*compiler(), "-O2", *includes, source, "-o", program, "-ldl"], check=True)
        for trace in traces:
            words = [
                *(program, str(library.compiled.path), library.generated.name),
                *(str(trace), str(max_instances)),
            ]
            found = [json.loads(subprocess.run(words, check=True, capture_output=True).stdout) for _ in range(rounds)]
            cpu, wall = (min(one[f"slowest_{kind}_ns"] for one in found) / 1e6 for kind in ("cpu", "wall"))
            lines.append(f"{trace.stem}: slowest packet {cpu:.3f} ms of CPU, {wall:.3f} ms by the clock")
    return "\n".join(lines)
