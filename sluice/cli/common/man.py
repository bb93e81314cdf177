"""Manual pages in man's format (roff), from the help of the commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from sluice import __version__
from sluice.cli.common.errors import CommandError
from sluice.cli.common.parsers import declared


def write_pages(folder: Path, parsers: dict[str, argparse.ArgumentParser]) -> list[Path]:
    """Write sluice.1, and sluice-COMMAND.1 for each command, to an existing folder. Raises CommandError."""
    pages = {"sluice": _overview(parsers)} | {f"sluice-{name}": page(name, one) for name, one in parsers.items()}
    written: list[Path] = []
    for name, text in pages.items():
        path = folder / f"{name}.1"
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}") from error
        written.append(path)
    return written


def _head(name: str, brief: str) -> list[str]:
    return [
        f'.TH "{name.upper()}" "1" "" "Sluice {__version__}" "Sluice"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(brief)}",
    ]


def _overview(parsers: dict[str, argparse.ArgumentParser]) -> str:
    lines = [*_head("sluice", "program middleboxes"), ".SH SYNOPSIS", ".B sluice", "COMMAND ...", ".SH COMMANDS"]
    for name, parser in parsers.items():
        lines += [".TP", f".BR sluice\\-{_escaped(name)} (1)", _escaped(_brief(parser))]
    return "\n".join(lines) + "\n"


def page(name: str, parser: argparse.ArgumentParser) -> str:
    """The page of a command."""
    usage, _, rest = (parser.description or "").partition("\n")
    lines = [*_head(f"sluice-{name}", _brief(parser)), ".SH SYNOPSIS", _escaped(usage.partition(": ")[0])]
    lines.append(".SH DESCRIPTION")
    for line in rest.strip().splitlines():
        if not line:
            lines.append(".PP")
        elif line.startswith("  "):
            lines += [".nf", _escaped(line), ".fi"]
        else:
            lines.append(_escaped(line))
    lines.append(".SH OPTIONS")
    for item in declared(parser):
        names = ", ".join(f"\\fB{_escaped(text)}\\fR" for text in item.names)
        value = f"\\fI{_escaped(item.value)}\\fR" if item.value else ""
        lines += [".TP", f"{names} {value}".strip(), _escaped(item.help) or "\\&"]
    lines += [".SH SEE ALSO", ".BR sluice (1)"]
    return "\n".join(lines) + "\n"


def _brief(parser: argparse.ArgumentParser) -> str:
    return (parser.description or "").split("\n", 1)[0].partition(": ")[2].rstrip(".")


def _escaped(text: str) -> str:
    """A text as roff: backslashes and hyphens are escaped, and a leading dot or quote is no request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
