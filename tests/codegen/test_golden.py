"""Golden C: what is generated of the smallest description, whole, so that a change can be read.

tests/golden/codegen/arp.c and arp.h. With SLUICE_UPDATE_GOLDEN=1 in the environment they are written anew;
look at the difference before you believe it.
"""

import os
from pathlib import Path

import pytest

from sluice.codegen.functions import Functions
from sluice.codegen.stack import Generated, generate
from sluice.engine.box import compile_stack
from sluice.engine.compiler import compile_library
from sluice.ir.build import Hook, build
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack, stack_names
from tests.ir.descriptions import arp_stack

FOLDER = Path(__file__).parent.parent / "golden" / "codegen"
UPDATE = os.environ.get("SLUICE_UPDATE_GOLDEN") == "1"


def generated() -> Generated:
    functions = Functions((), frozenset({Hook("arp", "seen")}))
    return generate(run(build(arp_stack(), functions.hooks())), functions)


def check(path: Path, text: str) -> None:
    """The file has this text (or gets it, where golden files are updated)."""
    if UPDATE:
        path.write_text(text)
    assert text == path.read_text()


def test_source():
    check(FOLDER / "arp.c", generated().source)


def test_header():
    check(FOLDER / "arp.h", generated().header)


def test_the_same_every_time():
    assert generated() == generated()


def test_compiles_without_a_warning():
    assert compile_library(generated(), fresh=True).messages == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", stack_names())
def test_every_stack_compiles_without_a_warning(name: str):
    """With the optimiser, which sees more than without: other tests leave it out."""
    assert compile_stack(find_stack(name), fresh=True).compiled.messages == ""
