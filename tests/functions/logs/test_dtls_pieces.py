"""Messages of DTLS from fragments in any order: their bytes, and the work that fragments cause."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.compiler import INCLUDES, compiler
from sluice.engine.functions import READY

HERE = Path(__file__).resolve().parent
LENGTH = 1 << 18
AMPLE = 1 << 30


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("pieces") / "pieces"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *INCLUDES, f"-I{READY}"]
    subprocess.run([*compiler(), *flags, str(HERE / "dtls_pieces.c"), "-o", str(built)], check=True, timeout=300)
    return built


def joined(program: Path, parts: Iterable[tuple[int, int]], length: int = LENGTH, memory: int = AMPLE) -> list[int]:
    """Whether a message is complete after some fragments, the bytes that were copied, and how many were refused."""
    text = f"{length} {memory}\n" + "\n".join(f"{offset} {size}" for offset, size in parts)
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@cache
def orders() -> dict[str, list[tuple[int, int]]]:
    """Fragments of a message of 256 KiB."""
    ordered = [(at, 1024) for at in range(0, LENGTH, 1024)]
    last = [(at, 1200) for at in range(60_000, LENGTH - 1200, 1200)] + [(LENGTH - 1200, 1200)]
    ends = [(at + 1, 1023) for at, _ in ordered]
    return {
        "in order": ordered,
        "in reverse": ordered[::-1],
        "in reverse, byte by byte, after its end": [*last, *((at, 1) for at in range(59_999, -1, -1))],
        "from its middle to both ends": [one for at in range(128) for one in (ordered[128 + at], ordered[127 - at])],
        "every other one, then the others in reverse": [*ordered[::2], *ordered[::-1]],
        "single bytes that join two pieces": [*ends, *((at, 1) for at, _ in ordered)],
        "single bytes that join, in reverse": [*ends, *((at, 1) for at, _ in ordered[::-1])],
        "as any": random.Random(1).sample(ordered, len(ordered)),
    }  # fmt: skip


@pytest.mark.parametrize("order", list(orders()))
def test_a_byte_is_copied_a_few_times(program: Path, order: str) -> None:
    """At most once for each time that its piece becomes twice as long, and for each time that room is taken."""
    whole, copied, refused = joined(program, orders()[order])
    assert (whole, refused) == (1, 0)
    assert copied <= LENGTH * 2 * LENGTH.bit_length()


def test_fragments_that_overlap(program: Path) -> None:
    """The pieces have the bytes of the message after each fragment, whatever memory is there."""
    for seed in range(60):
        dice = random.Random(seed)
        length = dice.choice([1, 40, 700, 5000])
        parts = [(at, dice.randint(0, min(length - at, 90))) for at in dice.choices(range(length), k=300)]
        assert joined(program, [*parts, (0, length)], length)[0] == 1, seed
        joined(program, [*parts, (0, length)], length, dice.randint(200, 12_000))
