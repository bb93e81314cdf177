"""Writes docs/protocols.md from the files of sluice/protocols and sluice/stacks: their first words are the manual.

.venv/bin/python scripts/manual.py
"""

import ast
import inspect
import re
from pathlib import Path

from sluice.ir.instruction import INSTRUCTIONS, Instruction
from sluice.passes.pipeline import PASSES

ROOT = Path(__file__).resolve().parents[1]

HEAD = """\
# Protocols and stacks

What comes with Sluice. Each protocol is one file in `sluice/protocols/`, each stack one in `sluice/stacks/`; this page
is made from their first words by `scripts/manual.py`. `sluice show tcp_ip` prints all of a stack: headers,
keys, state machines, timeouts.

"""


def documented(folder: str) -> list[tuple[Path, ast.Module]]:
    """The modules of a folder that describe something, by name."""
    paths = sorted((ROOT / "sluice" / folder).glob("*.py"))
    return [(p, ast.parse(p.read_text())) for p in paths if p.name not in ("__init__.py", "find.py")]


def makers(module: ast.Module) -> list[str]:
    """Signatures of the functions that make parsers, with their defaults."""
    found: list[str] = []
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_parser"):
            found.append(f"{node.name}({ast.unparse(node.args)})")
    return found


def words(module: ast.Module) -> str:
    """A module's docstring."""
    return inspect.cleandoc(ast.get_docstring(module) or "")


def protocols_page() -> str:
    """The text of docs/protocols.md."""
    out = [HEAD, "## Stacks\n"]
    for path, module in documented("stacks"):
        out.append(f"### {path.stem}\n\n{words(module)}\n")
    out.append("## Protocols\n")
    for path, module in documented("protocols"):
        made = "".join(f"    {line}\n" for line in makers(module))
        imported = f"`from sluice.protocols.{path.stem} import ...`\n\n{made}\n" if made else ""
        out.append(f"### {path.stem}\n\n{words(module)}\n\n{imported}".rstrip() + "\n")
    return "\n".join(out)


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


if __name__ == "__main__":
    (ROOT / "docs" / "protocols.md").write_text(protocols_page())
    path = ROOT / "docs" / "ir.md"
    path.write_text(ir_page(path.read_text()))
