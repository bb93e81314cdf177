"""The C runtime's own tests: each test_*.c in the folders beside this file is compiled with the sanitizers and run.

The compiler is the one that Sluice takes. A program names its cases as it goes and exits with 0 when all is well;
a failed check says where.
"""

import os
import subprocess
from pathlib import Path

import pytest

from sluice.engine.compiler import INCLUDES, compiler

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def sanitizers() -> bool:
    """Whether a program with them can be built (the compiler of the ziglang wheel comes without)."""
    words = [*compiler(), *SANITIZERS, "-x", "c", "-", "-o", os.devnull]
    return (
        subprocess.run(words, input=b"int main(void) { return 0; }", capture_output=True, timeout=300).returncode == 0
    )


@pytest.mark.skipif(not sanitizers(), reason=f"{compiler()[0]} comes without the sanitizers")
@pytest.mark.parametrize("source", sorted(HERE.rglob("test_*.c")), ids=lambda path: path.stem)
def test_runtime(source: Path, tmp_path: Path) -> None:
    program = tmp_path / source.stem
    compiled = subprocess.run(
        [*compiler(), *FLAGS, *SANITIZERS, *INCLUDES, f"-I{HERE}", str(source), "-o", str(program)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert compiled.returncode == 0, compiled.stderr
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
