"""The options --format, --rotate-size and --rotate-time, and the files to which they direct the rows of logs."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path

from sluice.cli.common.errors import CommandError, UsageError
from sluice.engine.box import Outcome
from sluice.engine.functions import READY, Wanted
from sluice.hooks.parameter_text import split_parameters
from sluice.report.errors import OutputError
from sluice.report.formats.find import FORMATS, JSON, Format, format_named, format_of
from sluice.report.logs import schema_of
from sluice.report.output import Rows
from sluice.report.rotation import Limits, Rotating
from sluice.report.schema import Schema

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SPANS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that writes logs."""
    group = parser.add_argument_group("files of logs", "a file's format follows from its name, or from --format")
    names = ", ".join(f"{one.name} ({one.endings[0]})" for one in FORMATS)
    group.add_argument("--format", type=_format, metavar="FORMAT", help=f"of the rows of logs: {names}")
    group.add_argument(
        "--rotate-size",
        type=lambda text: _amount(text, _UNITS, "a size, as in 100M"),
        default=0,
        metavar="SIZE",
        help="begin a new file at this size (suffixes k, M, G); files are numbered, as in http.00001.csv",
    )
    group.add_argument(
        "--rotate-time",
        type=lambda text: _amount(text, _SPANS, "a span of time, as in 1h"),
        default=0,
        metavar="SPAN",
        help="begin a new file at each multiple of this span of packet time (seconds, or with the suffix s, m, h or d)",
    )


def _format(text: str) -> Format:
    try:
        return format_named(text)
    except OutputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _amount(text: str, units: dict[str, int], what: str) -> int:
    digits = text.rstrip("".join(units) + "".join(units).upper())
    unit = text[len(digits) :].lower()
    if not digits.isdecimal() or unit not in units or not 0 < int(digits) * units[unit] < 1 << 48:
        raise argparse.ArgumentTypeError(f"'{text}' is not {what}")
    return int(digits) * units[unit]


@dataclass
class Outputs:
    """The files of the current run that are not written by functions directly."""

    rows: list[Rows] = field(default_factory=lambda: [])
    files: list[Rotating] = field(default_factory=lambda: [])

    def begin(self) -> None:
        """Start to accept rows, if that was left to the caller."""
        for rows in self.rows:
            rows.begin()

    def failed(self) -> bool:
        """Whether a file could not be written."""
        return any(rows.failure for rows in self.rows)

    def finished(self, outcome: Outcome) -> Outcome:
        """After the run: complete the files. Returns the outcome with the first failure."""
        for rows in self.rows:
            rows.finish()
        failure = next((rows.failure for rows in self.rows if rows.failure), None)
        return replace(outcome, failure=failure, stopped=outcome.interrupted) if failure else outcome


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(options.rotate_size, options.rotate_time)


def _open(path: str, schema: Schema, format: Format, limits: Limits) -> Rotating:
    try:
        return Rotating(path, schema, format, limits)
    except OutputError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


@contextlib.contextmanager
def log_file(options: argparse.Namespace, path: str, schema: Schema) -> Generator[Rotating]:
    """The file, or the files, of rows that the caller writes; complete at the end. Raises CommandError."""
    format: Format = options.format or format_of(path)
    if path.startswith("/dev/") and not format.text:
        raise UsageError(f"--format {format.name}: needs a file: give -o FILE")
    file = _open(path, schema, format, _limits(options))
    try:
        try:
            yield file
        finally:
            file.close()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"{path}: the rows could not all be written: {error.strerror}") from error
    except OutputError as error:
        raise CommandError(str(error)) from error


@contextlib.contextmanager
def outputs(
    wanted: Wanted,
    options: argparse.Namespace,
    stdout: str | None = None,
    joined: tuple[str, ...] = (),
    begins: bool = True,
) -> Generator[Outputs]:
    """While the context is active, the logs of `wanted` go to files of the requested format.

    stdout: the path of standard output, for logs without a file. joined: key parts that `--key` added. begins: rows are
    taken from now on; else from Outputs.begin on. Raises CommandError and UsageError.
    """
    found = Outputs()
    limits = _limits(options)
    logs = 0
    try:
        for number, (function, given) in enumerate(zip(wanted.c, wanted.options, strict=True)):
            schema = schema_of(function.name, joined) if Path(function.path).parent == READY else None
            if schema is None:
                continue
            logs += 1
            texts = split_parameters(function.parameters, given) if isinstance(given, str) else dict(given)
            path = texts.get("out") or ""
            format: Format = options.format or format_of(path)
            if format is JSON and not limits:
                continue
            if not path and not format.text:
                raise UsageError(f"--format {format.name}: needs a file: give {function.name}:out=FILE, or -o FILE")
            file = _open(path or stdout or "-", schema, format, limits)
            found.files.append(file)
            found.rows.append(Rows(file, begins=begins))
            wanted.options[number] = {**texts, "out": found.rows[-1].path}
        if (options.format or limits) and not logs:
            raise UsageError("--format, --rotate-size, --rotate-time: are for logs (sluice functions lists them)")
        yield found
    finally:
        for rows in found.rows:
            rows.finish()
