"""Checks the files that a command reads and writes, before anything is compiled or written."""

from __future__ import annotations

import os
from pathlib import Path

from sluice.cli.common.errors import CommandError
from sluice.engine.functions import Wanted
from sluice.engine.new_file import OF_THE_KERNEL, create


def check_input(path: str) -> None:
    """Raise CommandError if a capture cannot be read. Call before anything is compiled or written."""
    if os.path.isdir(path):
        raise CommandError(f"{path}: is a directory; give a capture file (pcap or pcapng)")
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):  # opening a FIFO may block
        raise CommandError(f"{path}: captures are read from files: write what comes through the pipe to one first")
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def check_output(path: str, *inputs: str) -> None:
    """Raise CommandError if a file cannot be written, or is one of the inputs."""
    for given in inputs:
        if os.path.exists(path) and os.path.exists(given) and os.path.samefile(path, given):
            raise CommandError(f"{path}: is the input as well, and would be overwritten; write to another file")
    if os.path.islink(path) and not path.startswith(OF_THE_KERNEL):
        raise CommandError(f"{path}: is a symbolic link; give the file that it leads to ({os.path.realpath(path)})")
    if os.path.isdir(path):
        raise CommandError(f"{path}: is a directory; give the name of a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"{path}: there is no directory {folder}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise CommandError(f"{path}: cannot be written")


def check_function_outputs(wanted: Wanted, *inputs: str) -> None:
    """The same for the output files of functions: their parameter `out`."""
    for parameters in wanted.parameters():
        path = parameters.get("out")
        if isinstance(path, str) and path:
            check_output(path, *inputs)


def write_text(path: str | Path, text: str) -> None:
    """Write a file. Raises CommandError with the reason if writing fails."""
    try:
        with open(create(str(path)), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
