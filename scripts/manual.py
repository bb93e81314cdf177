"""Writes what of the manual comes from the code: the pages of protocols and stacks, the tables of docs/ir.md and
docs/c-reference.md.

.venv/bin/python scripts/manual.py
"""

import importlib
import inspect
import re
from pathlib import Path

import c_reference
import protocol_pages

from sluice.ir.instruction import INSTRUCTIONS, Instruction
from sluice.passes.pipeline import PASSES
from sluice.stacks.find import stack_names

ROOT = Path(__file__).resolve().parents[1]

STACKS = """\
# Protocols and stacks

What comes with Sluice. Each protocol is one file in `sluice/protocols/`, each stack one in `sluice/stacks/`; this page
and that of each protocol are made from them by `scripts/manual.py`. `sluice show tcp_ip` prints all of a stack:
headers, keys, state machines, timeouts. [A protocol of your own](own-protocol.md) tells how to add one.
"""

PROTOCOLS = """\
## Protocols

Each has a page: its headers, what makes its packets malformed, its instances, states and events.
"""


def protocols_page() -> str:
    """The text of docs/protocols.md."""
    out = [STACKS, "## Stacks\n"]
    for name in stack_names():
        module = importlib.import_module(f"sluice.stacks.{name}")
        out.append(f"### {name}\n\n{inspect.cleandoc(module.__doc__ or '')}\n")
    return "\n".join([*out, PROTOCOLS, protocol_pages.index() + "\n"])


def instructions() -> str:
    """The table of instructions: what each does, and what it reads and writes besides its operands."""
    rows = ["| instruction | what it does | reads | writes |", "|---|---|---|---|"]
    for name, cls in INSTRUCTIONS.items():
        rows.append(f"| `{name}` | {_sentence(cls)} | {_resources(cls.READS)} | {_resources(cls.WRITES)} |")
    return "\n".join(rows)


def _sentence(cls: type[Instruction]) -> str:
    """The first paragraph of an instruction's docstring, in one line."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split()).replace("|", "\\|")


def _resources(resources: frozenset[object]) -> str:
    return ", ".join(sorted(getattr(item, "name", str(item)).lower() for item in resources))


def passes() -> str:
    """The table of passes, in their order."""
    rows = ["| pass | what it does |", "|---|---|"]
    for item in PASSES:
        module = inspect.getmodule(item.run)
        words = inspect.cleandoc(module.__doc__ or "").split("\n\n")[0]
        rows.append(f"| `{item.name}` | {' '.join(words.split())} |")
    return "\n".join(rows)


def ir_page(text: str) -> str:
    """The text of docs/ir.md with its tables as they should be."""
    for name, table in (("instructions", instructions()), ("passes", passes())):
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text = re.sub(pattern, lambda found, table=table: found[1] + table + found[2], text, flags=re.DOTALL)
    return text


def write_pages(folder: Path, pages: dict[str, str]) -> None:
    """Make a folder hold these files and no others."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    (ROOT / "docs" / "protocols.md").write_text(protocols_page())
    write_pages(ROOT / "docs" / "protocols", protocol_pages.pages())
    path = ROOT / "docs" / "ir.md"
    path.write_text(ir_page(path.read_text()))
    path = ROOT / "docs" / "c-reference.md"
    path.write_text(c_reference.filled(path.read_text()))
