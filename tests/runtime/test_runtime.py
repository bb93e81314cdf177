"""The C runtime's own tests: each test_*.c beside this file is compiled with the sanitizers and run.

The compiler is $CC, by default gcc. A program names its cases as it goes and exits with 0 when all is well;
a failed check says where.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
COMPILER = shlex.split(os.environ.get("CC") or "gcc")
FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.mark.skipif(shutil.which(COMPILER[0]) is None, reason=f"there is no {COMPILER[0]}")
@pytest.mark.parametrize("source", sorted(HERE.glob("test_*.c")), ids=lambda path: path.stem)
def test_runtime(source: Path, tmp_path: Path) -> None:
    program = tmp_path / source.stem
    compiled = subprocess.run(
        [*COMPILER, *FLAGS, *SANITIZERS, str(source), "-o", str(program)], capture_output=True, text=True
    )
    assert compiled.returncode == 0, compiled.stderr
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
