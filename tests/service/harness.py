"""Harnesses of fuzz/ with inputs that a test makes, without libFuzzer."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from sluice.engine.compiler import compiler
from sluice.service.build import RUNTIME
from tests.service.peers import PATIENCE
from tests.service.programs import ROOT

MAIN = """
int main(void)
{
    static uint8_t data[1 << 16];
    uint16_t size;

    while (fread(&size, 2, 1, stdin) == 1 && fread(data, 1, size, stdin) == size)
        LLVMFuzzerTestOneInput(data, size);
    return 0;
}
"""


def run_harness(name: str, folder: Path, inputs: Iterable[bytes]) -> None:
    """Run fuzz/NAME.c with AddressSanitizer and UndefinedBehaviorSanitizer on inputs of less than 64 KiB each."""
    source = ROOT / "fuzz" / f"{name}.c"
    (folder / "main.c").write_text(f'#include <stdio.h>\n#include "{source}"\n{MAIN}')
    links = source.read_text().partition("\n")[0].partition("// links:")[2].split()
    flags = ["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", f"-I{RUNTIME}"]
    files = [str(folder / "main.c"), *(str(ROOT / each) for each in links)]
    program = folder / "fuzz"
    subprocess.run([*compiler(), *flags, *files, "-o", str(program)], check=True)
    data = b"".join(struct.pack("<H", len(each)) + each for each in inputs)
    done = subprocess.run([str(program)], input=data, capture_output=True, timeout=PATIENCE * 3)
    assert done.returncode == 0, done.stderr.decode()


def mutated(given: Sequence[bytes], count: int) -> list[bytes]:
    """Inputs with a changed bit, and some bytes more."""
    chance, found = random.Random(1), list[bytes]()
    for each in given:
        for _ in range(count):
            changed = bytearray(each)
            changed[chance.randrange(len(each))] ^= 1 << chance.randrange(8)
            found.append(bytes(changed) + chance.randbytes(chance.randrange(8)))
    return found
