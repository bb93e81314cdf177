"""Counts the lines of our descriptions as the paper counts its own (Table 2), and writes docs/lines.md.

.venv/bin/python scripts/count_lines.py

A line counts when it has code: no blank lines, comments and docstrings; no imports, which the paper's listings lack.
What a description does beyond the paper's parser of that protocol is marked where it stands, by a comment

    # more: WHAT IT IS FOR

at the end of a line: it stands for the statement, field, argument or term that begins there, with all its lines, or for
the statement whose brackets close there.
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
MARK = re.compile(r"#.*\bmore: (?P<what>.+)$")


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


def count(path: Path) -> Lines:
    """The lines of a file."""
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
    for number, line in enumerate(lines, 1):
        found = MARK.search(line)
        if found is None:
            continue
        first, last = _marked(tree, number, closing=line.lstrip()[0] in ")]}")
        for each in range(first, last + 1):
            marked.setdefault(each, found["what"])
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


def _marked(tree: ast.Module, number: int, closing: bool) -> tuple[int, int]:
    """First and last line of what a mark on a line stands for: what begins there or, where only brackets close there,
    the statement that ends there.
    """
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.expr, ast.keyword, ast.arg))]
    if closing:
        return max((node.lineno, number) for node in nodes if isinstance(node, ast.stmt) and node.end_lineno == number)
    return number, max((node.end_lineno or number for node in nodes if node.lineno == number), default=number)


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
    stack = count(STACKS / f"{name}.py")
    more = Counter({(name, what): number for what, number in stack.more.items()})
    total = stack.base
    for protocol in paper.protocols:
        lines = count(PROTOCOLS / f"{protocol}.py")
        total += lines.base
        more += Counter({(f"{protocol}.py", what): number for what, number in lines.more.items()})
    for protocol in sorted(_imported(STACKS / f"{name}.py") - set(paper.protocols)):
        lines = count(PROTOCOLS / f"{protocol}.py")
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
machines and events. *More* are the lines for what ours do beyond that: a comment in the description marks each,
`# more: ...`; and all lines of protocols that the paper's stack does not have. They are named below. *Composition* is
the part of the like-for-like lines that stands in the stack's own file.

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
