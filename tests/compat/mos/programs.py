"""libsluice_mos as a user builds it, and programs compiled against it and run on captures."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.engine.compiler import compiler
from tests.support.budget import examples
from tests.support.capture import pcap, pcap_packets

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "mos"
OWN = Path(__file__).with_name("programs")
EXTRA = shlex.split(os.environ.get("SLUICE_CFLAGS", ""))
"""Of the sanitizers, where the suite runs with them."""


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sluice-mos-")


@cache
def library(*options: str) -> Path:
    """The folder of `sluice mos` with options, and what `make` builds there."""
    folder = Path(_folder().name) / "".join(["mos", *options])
    if options:
        shutil.copytree(library(), folder)
    assert main(["mos", "-o", str(folder), *options]) == 0
    if options:  # only the stack is another: no other file uses what differs in its header, so make finds their objects
        os.utime(folder / "src" / "sluice_mos.h", (0, 0))
    flags = f"CFLAGS=-O{examples(1, 0)} -g -Werror {' '.join(EXTRA)}"
    done = subprocess.run(
        ["make", "-j2", "-C", str(folder), f"CC={shlex.join(compiler())}", flags],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@cache
def program(name: str, *options: str) -> Path:
    """A program, compiled as its author would: with the headers and -lsluice_mos, and nothing else."""
    source = next(path for path in (EXAMPLES / f"{name}.c", OWN / f"{name}.c") if path.is_file())
    folder = library(*options)
    made, lib = Path(_folder().name) / "".join([name, *options]), folder / "lib"
    command = [*compiler(), "-Wall", "-Wextra", "-Werror", "-g", *EXTRA, f"-I{folder / 'include'}", str(source)]
    command += [f"-L{lib}", f"-Wl,-rpath,{lib}", "-lsluice_mos", "-pthread", "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return made


def with_thread_sanitizer(name: str, folder: Path) -> Path:
    """A program that contains the library, both with the thread sanitizer; the test is skipped where there is none."""
    source = next(path for path in (EXAMPLES / f"{name}.c", OWN / f"{name}.c") if path.is_file())
    made = folder / name
    sources = [
        path for path in (library() / "src").rglob("*.c") if path.parent.name != "dpdk"
    ]  # its headers may be missing
    command = [*compiler(), "-fsanitize=thread", "-O1", "-g", "-std=gnu11", "-pthread", "-w", "-o", str(made)]
    empty = subprocess.run(
        [*command, "-x", "c", "-"], input="int main(void) { return 0; }", capture_output=True, text=True, timeout=300
    )
    if empty.returncode:
        pytest.skip(f"no thread sanitizer: {empty.stderr[-300:]}")
    folders = [f"-I{library() / name}" for name in ("include", "src", "src/runtime", "src/runtime/function")]
    done = subprocess.run(
        [*command, *folders, *map(str, sources), str(source), "-ldl", "-lm"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return made


def configuration(folder: Path, capture: Path, output: Path | None = None, **items: int) -> Path:
    """A configuration file for a capture; items of its block `mos` as given."""
    text = (EXAMPLES / "mos.conf").read_text().replace("@CAPTURE@", str(capture))
    if output is None:
        text = text.replace(f"{capture} @OUTPUT@", "")
    for name, value in items.items():
        lines = [line for line in text.splitlines() if line.partition("=")[0].strip() != name]
        text = "\n".join(lines).replace("mos {", f"mos {{\n\t{name} = {value}", 1)
    path = folder / "run.conf"
    path.write_text(text.replace("@OUTPUT@", str(output)))
    return path


def run(name: str, arguments: Sequence[str], timeout: float = 60) -> str:
    """What a program prints on standard output."""
    command = [str(program(name)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout)
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout


def rules(
    folder: Path,
    packets: Sequence[bytes],
    *what: str,
    times: Sequence[float] | None = None,
    link_type: int = 1,
    **items: int,
) -> list[str]:
    """The lines of rules.c, told to do `what`, on packets a second apart unless times are given."""
    capture = folder / "in.pcap"
    capture.write_bytes(pcap(packets, times, link_type))
    return run("rules", [str(configuration(folder, capture, folder / "out.pcap", **items)), *what]).splitlines()


def forwarded(folder: Path) -> list[bytes]:
    """The packets that left for out.pcap."""
    return pcap_packets(folder / "out.pcap")
