"""Which package of Sluice may import which: what the `__init__.py` of each says in words, as one table."""

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(path.relative_to(ROOT) for path in (ROOT / "sluice").rglob("*.py"))

MAY_IMPORT: dict[str, set[str]] = {
    "lang": set(),
    "ir": {"lang"},
    "lower": {"lang", "ir"},
    "passes": {"ir"},
    "hooks": {"ir", "lang"},
    "codegen": {"hooks", "passes", "lower", "ir", "lang"},
    "runtime": set(),
    "engine": {"codegen", "hooks", "passes", "lower", "ir", "lang"},
    "protocols": {"lang"},
    "stacks": {"lang", "protocols"},
    "functions": {"lang"},
    "compat": {"lang", "protocols"},
    "isolate": {"engine"},
    "chain": {"codegen", "engine", "hooks", "ir", "lang"},
    "service": {"engine", "lang"},
    "ends": {"engine"},
    "analyze": {"engine"},
    "state": {"chain", "engine", "hooks"},
    "report": {"engine", "hooks", "ir", "lang", "stacks"},
    "cli": {
        "analyze",
        "chain",
        "service",
        "ends",
        "state",
        "isolate",
        "report",
        "lang",
        "ir",
        "lower",
        "passes",
        "hooks",
        "codegen",
        "runtime",
        "engine",
        "protocols",
        "stacks",
        "functions",
        "compat",
    },
}
"""A package may also import itself and `sluice` for its version. `sluice/__init__.py` imports lazily."""

CONSTANTS_ONLY = {("codegen", "lang")}
"""Here only constants may be imported: names that the language gives to numbers which the C must have too."""

NOTHING = {Path("sluice/functions/__init__.py")}
"""Modules that import nothing of Sluice: every user's function loads it."""

OFFERS = {Path("sluice/__init__.py"): {"report"}}
"""What a module offers by name, and imports when it is used first: tests/report/test_api.py."""


def imported(source: str, module: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of all that a module imports, wherever in it the import stands.

    A `from` import gives the name with what is imported after it: that may be a module too.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            package = list(module.parent.parts)
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join(base + ([node.module] if node.module else []))
            for alias in node.names:
                yield node.lineno, f"{start}.{alias.name}"


def violations(source: str, module: Path) -> list[str]:
    """A sentence for every import in a module (path from the root of the checkout) that the rules forbid."""
    owner = module.parts[1] if len(module.parts) > 2 else ""
    if module == Path("sluice/__main__.py"):
        owner = "cli"  # `python -m sluice` is the command line
    allowed = OFFERS.get(module) or (set[str]() if module in NOTHING else MAY_IMPORT[owner] | {owner})
    found: list[str] = []
    for line, name in imported(source, module):
        top, *rest = name.split(".")
        if top != "sluice":
            if top not in sys.stdlib_module_names:
                found.append(f"{module}:{line}: imports {top}, and Sluice has no dependencies at run time")
        elif rest and rest[0] in MAY_IMPORT and rest[0] not in allowed:
            found.append(f"{module}:{line}: {owner or 'sluice'} may not import {rest[0]}")
        elif rest and (owner, rest[0]) in CONSTANTS_ONLY and not rest[-1].isupper():
            found.append(f"{module}:{line}: {owner} may import only constants of {rest[0]}, not {rest[-1]}")
    return found


def test_imports_follow_the_rules() -> None:
    found = [one for module in MODULES for one in violations((ROOT / module).read_text(encoding="utf-8"), module)]
    assert found == []


def test_no_module_imports_itself_through_others() -> None:
    names = {".".join(module.with_suffix("").parts).removesuffix(".__init__"): module for module in MODULES}
    needs: dict[str, set[str]] = {}
    for name, module in names.items():
        found = {used for _, used in imported((ROOT / module).read_text(encoding="utf-8"), module)}
        needs[name] = {used if used in names else used.rpartition(".")[0] for used in found} & names.keys() - {name}
    TopologicalSorter(needs).prepare()  # raises CycleError, which names the modules of a cycle


def test_every_package_has_a_rule() -> None:
    packages = {module.parts[1] for module in MODULES if len(module.parts) > 2}
    assert packages == MAY_IMPORT.keys()
    assert MAY_IMPORT["cli"] | {"cli"} == packages


@pytest.mark.parametrize(
    "source",
    [
        "import sluice.engine",
        "import sluice.engine.cache as cache",
        "from sluice.engine import cache",
        "from sluice import __version__, engine",
        "from ..engine import cache",
        "from .. import engine",
        "def f():\n    from ..engine.cache import load",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sluice.engine",
        "import scapy",
    ],
)
def test_what_is_forbidden_is_found(source: str) -> None:
    assert len(violations(source, Path("sluice/ir/graph.py"))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import struct",
        "from sluice import __version__, lang",
        "from sluice.ir.effects import EFFECTS",
        "from . import effects",
        "from .effects import EFFECTS",
        "from ..lang.layout import layout",
    ],
)
def test_what_is_allowed_is_not(source: str) -> None:
    assert violations(source, Path("sluice/ir/graph.py")) == []


def test_a_packages_own_init_is_judged_like_its_modules() -> None:
    assert violations("from ..lang import layout", Path("sluice/ir/__init__.py")) == []
    assert len(violations("from ..engine import cache", Path("sluice/ir/__init__.py"))) == 1
    assert len(violations("from . import lang", Path("sluice/__init__.py"))) == 1


def test_codegen_takes_constants_of_the_language_only():
    module = Path("sluice/codegen/stack.py")
    assert violations("from sluice.lang.events import BUILT_IN, END_REASONS", module) == []
    for source in (
        "from sluice.lang.events import END_REASONS, Event",
        "from sluice.lang import sequence",
        "import sluice.lang",
    ):
        assert len(violations(source, module)) == 1


def test_what_every_function_loads_imports_nothing():
    assert len(violations("from sluice.lang import Bit", Path("sluice/functions/__init__.py"))) == 1
    assert violations("from sluice.lang import Bit", Path("sluice/functions/some.py")) == []
