"""sluice help [TOPIC]: read the manual, or the help of a command.

A topic is a page of the manual (language, functions, runtime, ...), a page about a protocol (tcp, ipv4, ...), a heading
of a page, or a command. Without a topic all pages are listed. --search TEXT lists the headings whose text has it.
--man FOLDER writes the help of all commands as pages for man.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.cli.common.errors import CommandError
from sluice.cli.common.man import write_pages
from sluice.cli.common.options import add_command
from sluice.lang.errors import did_you_mean

MANUAL = Path(__file__).resolve().parent / "manual"
"""The pages of the manual, which are installed with the package."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "help", __doc__, action)
    parser.add_argument("topic", nargs="*", metavar="TOPIC", help="a page, a heading of one, or a command")
    parser.add_argument("--search", metavar="TEXT", help="list the headings under which a text occurs")
    parser.add_argument(
        "--man", metavar="FOLDER", help="write sluice.1 and a page for each command to an existing folder"
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.set_defaults(commands=commands)


@dataclass(frozen=True)
class Section:
    """A heading of a page and its text, up to the next heading of the same or a higher level."""

    page: str
    heading: str
    text: str


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.man is not None:
        for path in write_pages(Path(options.man), options.commands.choices):
            print(path)
        return 0
    topic = " ".join(options.topic)
    text = _text(options, topic)
    if options.json:
        print(json.dumps({"topic": options.search or topic, "text": text}))
    elif topic:
        _show(text)
    else:
        print(text)
    return 0


def _text(options: argparse.Namespace, topic: str) -> str:
    """The text to show for a topic. Raises CommandError for an unknown topic."""
    pages = _pages()
    if options.search is not None:
        return _search(pages, options.search)
    if not topic:
        return "\n".join(_contents(pages))
    if topic in pages:
        return pages[topic].read_text(encoding="utf-8")
    commands: dict[str, argparse.ArgumentParser] = options.commands.choices
    if topic in commands:
        return commands[topic].format_help()
    found = [section for section in _sections(pages) if _plain(section.heading) == _plain(topic)]
    found = found or [section for section in _sections(pages) if _plain(topic) in _plain(section.heading)]
    if found:
        return "\n\n".join(f"[{section.page}]\n\n{section.text}" for section in found)
    known = [*pages, *commands, *(section.heading for section in _sections(pages))]
    raise CommandError(
        f"the manual has no page, heading or command '{topic}': {_nearest(topic, known)}\n"
        f"    sluice help lists the pages; sluice help --search {topic.split()[0]} looks into them."
    )


def _nearest(topic: str, known: Iterable[str]) -> str:
    """A suggestion of the most similar name, ignoring case."""
    return did_you_mean(topic.lower(), {name.lower().replace("`", "") for name in known})


def _pages() -> dict[str, Path]:
    """The pages by name. A protocol's page has the protocol's name, or protocols/NAME if another page has that name."""
    pages = {path.stem: path for path in sorted(MANUAL.glob("*.md")) if path.stem != "index"}
    for path in sorted(MANUAL.glob("protocols/*.md")):
        pages.setdefault(path.stem if path.stem not in pages else f"protocols/{path.stem}", path)
    if not pages:
        raise CommandError(f"{MANUAL}: the manual is not installed; it is in the folder docs of a checkout")
    return pages


def _title(text: str) -> str:
    return next((line[2:] for line in text.splitlines() if line.startswith("# ")), "")


def _contents(pages: dict[str, Path]) -> Iterator[str]:
    width = max(map(len, pages)) + 2
    yield "The manual: sluice help TOPIC shows a page, a heading of one, or the help of a command."
    for folder, heading in ((MANUAL, "pages"), (MANUAL / "protocols", "protocols")):
        yield f"\n{heading}"
        for name, path in pages.items():
            if path.parent == folder:
                yield f"  {name:<{width}}{_title(path.read_text(encoding='utf-8'))}"


def _sections(pages: dict[str, Path]) -> Iterator[Section]:
    for name, path in pages.items():
        lines = path.read_text(encoding="utf-8").splitlines()
        heads = [(at, len(match[1])) for at, line in _outside_code(lines) if (match := re.match(r"(#+) ", line))]
        for number, (at, level) in enumerate(heads):
            end = next((other for other, below in heads[number + 1 :] if below <= level), len(lines))
            yield Section(name, lines[at].lstrip("# "), "\n".join(lines[at:end]).rstrip())


def _outside_code(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, except fenced code, in which `#` starts a comment."""
    code = False
    for at, line in enumerate(lines):
        if line.startswith("```"):
            code = not code
        elif not code:
            yield at, line


def _plain(text: str) -> str:
    return re.sub(r"[^\w ]", "", text).lower().strip()


def _search(pages: dict[str, Path], text: str) -> str:
    """The smallest sections that contain the text, one line each."""
    found: list[str] = []
    for section in _sections(pages):
        own = re.split(r"\n#+ ", section.text)[0]
        if text.lower() in own.lower():
            found.append(f"{section.page}: {section.heading}")
    if not found:
        raise CommandError(f"the manual has no '{text}'")
    return "\n".join(dict.fromkeys(found))


def _show(text: str) -> None:
    """Print a text. On a terminal, use a pager, like git and man."""
    pager = shutil.which("less")
    if not sys.stdout.isatty() or pager is None:
        print(text)
        return
    subprocess.run([pager, "-FRX"], input=text.encode(), check=False)
