"""Golden C: what is generated of the smallest description, whole, so that a change can be read.

tests/golden/codegen/arp.c and arp.h. With SLUICE_UPDATE_GOLDEN=1 in the environment they are written anew;
look at the difference before you believe it.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sluice.codegen.stack import Generated, generate
from sluice.engine.box import compile_stack
from sluice.engine.compiler import compile_library
from sluice.engine.functions import find_functions
from sluice.hooks.function import Functions
from sluice.ir.hook import Hook
from sluice.lang import Assign, Bit, Connectionless, Stack, layout
from sluice.lower.build import build
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack, stack_names
from tests.ir.descriptions import arp_stack
from tests.support.budget import in_matrix
from tests.support.own_cache import own_cache

FOLDER = Path(__file__).parents[1] / "golden" / "codegen"
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


def test_compiles_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_CACHE", str(own_cache(tmp_path / "cache")))
    assert compile_library(generated()).messages == ""


compilers = pytest.mark.parametrize("compiler", ["gcc", "clang"])


def use(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    monkeypatch.setenv("CC", compiler)
    monkeypatch.delenv("SLUICE_CFLAGS", raising=False)  # of another compiler's sanitizers, perhaps


@pytest.mark.parametrize(
    ("name", "compiler"),
    [("sctp", "gcc"), in_matrix("sctp", "clang")]
    + [in_matrix(name, compiler) for name in stack_names() if name != "sctp" for compiler in ("gcc", "clang")],
)
def test_every_stack_compiles_without_a_warning(name: str, compiler: str, monkeypatch: pytest.MonkeyPatch):
    """With the optimiser, which sees more than without: other tests leave it out."""
    use(compiler, monkeypatch)
    assert compile_stack(find_stack(name), fresh=True).compiled.messages == ""


@compilers
def test_what_looks_like_a_slip_compiles_without_a_warning(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What is assigned to itself, or subscribes to what no layer has; without passes, too."""
    use(compiler, monkeypatch)
    monkeypatch.setenv("SLUICE_CACHE", str(own_cache(tmp_path / "cache")))

    class head(layout):
        kind = Bit(8)

    class more(layout):
        bit = Bit(1)

    p: Any = Connectionless("p")
    p.header, p.temp, p.selector = head, more, [head.kind]
    p.prep = Assign(p.temp.bit, p.temp.bit)
    stack = Stack("slips")
    stack.p = p
    functions = tuple(find_functions(["flow_log"]).c)
    for passes in ("all", "none"):
        assert compile_stack(stack, functions, passes=passes).compiled.messages == ""
