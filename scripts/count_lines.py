"""Counts the lines of our descriptions as the paper counts its own (Table 2), and writes docs/lines.md.

.venv/bin/python scripts/count_lines.py

A line counts when it has code: no blank lines, comments and docstrings; no imports, which the paper's listings lack.
scripts/lines_beyond_paper.txt lists what a description has beyond the paper's parser of that protocol, and why: the
first line, without its comment, of a statement, field, argument or term, all of whose lines count.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PROTOCOLS = ROOT / "sluice" / "protocols"
STACKS = ROOT / "sluice" / "stacks"
PAGE = ROOT / "docs" / "lines.md"
BEYOND = ROOT / "scripts" / "lines_beyond_paper.txt"
ENTRY = re.compile(r" {4}(?:\[(?P<nth>\d+)\] )?(?P<code>.+)")

Entries = dict[tuple[int, str], str]
"""Purposes of what one file has beyond the paper's parser, by the first line of each: which of the equal lines of the
file, and its code.
"""


class Paper(NamedTuple):
    """A row of the paper's Table 2: the parse tree, lines beyond the parsers, all lines; and our files of that tree."""

    tree: str
    composition: int
    total: int
    protocols: tuple[str, ...]


TCP = ("tcp", "tcp_layouts", "tcp_doubts")

TABLE_2 = {
    "tcp_ip": Paper("ETH→IP→UDP/TCP", 14, 245, ("ethernet", "ipv4", "udp", *TCP)),
    "gtp": Paper("ETH→IP→UDP→GTP→IP→TCP", 18, 304, ("ethernet", "ipv4", "udp", "gtp", *TCP)),
    "pptp": Paper("ETH→IP→TCP→PPTP, ETH→IP→GRE→PPP→IP→TCP", 37, 586, ("ethernet", "ipv4", *TCP, "pptp", "gre", "ppp")),
    "quic": Paper("loopback→IP→UDP→QUIC", 23, 361, ("null", "ipv4", "udp", "quic", "quic_frame", "quic_stream")),
    "sctp": Paper("ETH→IP→SCTP", 9, 233, ("ethernet", "ipv4", "sctp")),
}


class Lines(NamedTuple):
    """Lines of a file: for what the paper's parser does, and beyond it, by what for."""

    base: int
    more: Counter[str]


class StaleEntryError(Exception):
    """The table has an entry whose line is not in its file; the message says which."""


def read_entries(table: Path = BEYOND) -> dict[str, Entries]:
    """The entries of the table, by file, relative to the repository."""
    found: dict[str, Entries] = {}
    entries: Entries = {}
    purpose = ""
    for line in table.read_text().splitlines():
        if match := ENTRY.fullmatch(line):
            entries[int(match["nth"] or 1), match["code"]] = purpose
        elif line.startswith("  "):
            purpose = line.strip()
        elif line and not line.startswith("#"):
            entries = found.setdefault(line, {})
    return found


def count(path: Path, entries: Entries) -> Lines:
    """The lines of a file, which has these entries. Raises StaleEntryError."""
    text = path.read_text()
    tree = ast.parse(text)
    lines = text.splitlines()
    left_out = _docstrings_and_imports(tree)
    code = [
        number
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#") and number not in left_out
    ]
    marked: dict[int, str] = {}
    last = _last_lines(tree)
    left = dict(entries)
    seen: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        stripped = line.split("  # ")[0].strip()
        seen[stripped] += 1
        if what := left.pop((seen[stripped], stripped), ""):
            for each in range(number, last.get(number, number) + 1):
                marked.setdefault(each, what)
    for nth, first in left:
        raise StaleEntryError(f"{BEYOND.name}: {path.name} has no line {nth} of '{first}' any more: update the entry")
    more = Counter(marked[number] for number in code if number in marked)
    return Lines(len(code) - more.total(), more)


def _docstrings_and_imports(tree: ast.Module) -> set[int]:
    """Lines that the paper's listings do not have."""
    found: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        spans: list[ast.stmt] = []
        if isinstance(body, list) and body and isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            spans += [
                item
                for item in node.body
                if isinstance(item, ast.Expr)
                and isinstance(item.value, ast.Constant)
                and isinstance(item.value.value, str)
            ]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            spans.append(node)
        for item in spans:
            found |= set(range(item.lineno, (item.end_lineno or item.lineno) + 1))
    return found


def _last_lines(tree: ast.Module) -> dict[int, int]:
    """For each line on which something begins, the last line of it."""
    found: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr, ast.keyword, ast.arg)):
            found[node.lineno] = max(found.get(node.lineno, 0), node.end_lineno or node.lineno)
    return found


class Row(NamedTuple):
    """A stack: the paper's figures and ours, and what more there is in which file."""

    name: str
    paper: Paper
    composition: int
    total: int
    more: Counter[tuple[str, str]]


def row(name: str) -> Row:
    """The figures of a stack of ours that the paper has, too."""
    paper = TABLE_2[name]
    table = read_entries()

    def counted(path: Path) -> Lines:
        return count(path, table.get(path.relative_to(ROOT).as_posix(), {}))

    stack = counted(STACKS / f"{name}.py")
    more = Counter({(name, what): number for what, number in stack.more.items()})
    total = stack.base
    for protocol in paper.protocols:
        lines = counted(PROTOCOLS / f"{protocol}.py")
        total += lines.base
        more += Counter({(f"{protocol}.py", what): number for what, number in lines.more.items()})
    for protocol in sorted(_imported(STACKS / f"{name}.py") - set(paper.protocols)):
        lines = counted(PROTOCOLS / f"{protocol}.py")
        more[f"{protocol}.py", "all of it"] = lines.base + lines.more.total()
    return Row(name, paper, stack.base, total, more)


def _imported(path: Path) -> set[str]:
    """The protocols that a stack's file imports."""
    return set(re.findall(r"^from sluice\.protocols\.(\w+) import", path.read_text(), re.MULTILINE))


def rows() -> list[Row]:
    """The stacks that are there."""
    return [row(name) for name in TABLE_2 if (STACKS / f"{name}.py").is_file()]


HEAD = """\
# Lines of description

How long our descriptions are beside those of the paper on Rubik (its Table 2), whose language this is. Made by
`scripts/count_lines.py`. A line counts when it has code: blank lines, comments, docstrings and imports do not.

*Like for like* are the lines for what the paper's parsers do: their headers and options, instances, sequences, state
machines and events. *More* are the lines for what ours do beyond that, which `scripts/lines_beyond_paper.txt` lists,
and all lines of protocols that the paper's stack does not have. They are named below. *Composition* is the part of the
like-for-like lines in the stack's file.

"""


def page() -> str:
    """The text of docs/lines.md."""
    out = [HEAD.rstrip("\n"), ""]
    out.append("| stack | parse tree | paper | like for like | more | composition, paper | composition |")
    out.append("|---|---|---|---|---|---|---|")
    for found in rows():
        paper = found.paper
        out.append(
            f"| `{found.name}` | {paper.tree} | {paper.total} | {found.total} | {found.more.total()} |"
            f" {paper.composition} | {found.composition} |"
        )
    out += ["", "## What the other lines are for", ""]
    for found in rows():
        out += [f"`{found.name}`:", ""]
        for where in sorted({place for place, _ in found.more}, key=lambda name: (name != found.name, name)):
            named = sorted((what, number) for (place, what), number in found.more.items() if place == where)
            out.append(f"- {where}: " + ", ".join(f"{what} ({number})" for what, number in named))
        out.append("")
    return "\n".join(out).rstrip("\n") + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
