"""Builds the programs in C of this folder: those that Sluice is compared with, and those that write traces.

Says why one cannot be had here.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sluice.engine.compiler import INCLUDES, RUNTIME, compiler

HERE = Path(__file__).absolute().parent
CAPTURES = tuple(RUNTIME / "io" / name for name in ("capture.c", "pcapng.c", "writer.c", "compressor.c"))
HYPERSCAN = Path("hs/hs.h")


class MissingError(Exception):
    """Something that the machine does not have; the message says what, and what Debian calls it."""


@dataclass(frozen=True)
class Peer:
    """A program to compare with: its source in C (or a folder of Go), and the library that it stands on.

    header: that the library brings. package: its name at Debian. functions: those that the program has.
    """

    name: str
    source: str
    header: str = ""
    libraries: tuple[str, ...] = ()
    package: str = ""
    functions: tuple[str, ...] = ("none", "assemble", "search")


PEERS = (
    Peer("bound", "bound.c"),
    Peer("libnids", "peers/libnids.c", "nids.h", ("nids", "pcap"), "libnids-dev and libpcap-dev"),
    Peer("ndpi", "peers/ndpi.c", "ndpi/ndpi_api.h", ("ndpi",), "libndpi-dev", ("none",)),
    Peer("gopacket", "peers/gopacket", functions=("assemble",)),
)
"""PcapPlusPlus is not among them: Debian 12 does not have it."""


def has_header(name: str | Path) -> bool:
    """Whether the C compiler finds a header."""
    words = [*compiler(), "-E", "-x", "c", "-"]
    return subprocess.run(words, input=f"#include <{name}>\n".encode(), capture_output=True).returncode == 0


def build(peer: Peer, folder: Path, *flags: str) -> Path:
    """The peer's program in `folder`. Raises MissingError where what it stands on is not there."""
    if peer.name == "bound" and platform.machine() != "x86_64":
        raise MissingError("bound: its hash is an instruction of x86-64")
    if peer.header and not has_header(peer.header):
        raise MissingError(f"{peer.name}: {peer.header} is not there or lacks another (Debian: {peer.package})")
    if not peer.source.endswith(".c"):
        return _build_go(peer, folder / peer.name)
    hyperscan = ("hs",) if has_header(HYPERSCAN) else ()
    return _compile(peer.source, folder / peer.name, ("-O3", *flags), (*peer.libraries, *hyperscan))


def build_tool(name: str, folder: Path, *flags: str) -> Path:
    """The program `name` that writes traces (reshape, synthesize)."""
    return _compile(f"{name}.c", folder / name, ("-O2", *flags), ())


def _build_go(peer: Peer, program: Path) -> Path:
    if shutil.which("go") is None:
        raise MissingError(f"{peer.name}: there is no go, the compiler")
    program.parent.mkdir(parents=True, exist_ok=True)
    words = ["go", "build", "-o", str(program.absolute()), "."]
    done = subprocess.run(words, cwd=HERE / peer.source, capture_output=True, text=True)
    if done.returncode:
        raise MissingError(f"{peer.name}: go cannot build it: {' '.join(done.stderr.split())[-300:]}")
    return program


def _compile(source: str, program: Path, flags: tuple[str, ...], libraries: tuple[str, ...]) -> Path:
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *(*compiler(), "-std=gnu11", "-march=native", "-g1", "-Wall", "-Wextra", *flags),
            *(f"-I{HERE}", *INCLUDES, str(HERE / source), *map(str, CAPTURES)),
            *("-o", str(program), *(f"-l{library}" for library in libraries)),
        ],
        check=True,
    )
    return program
