"""The traces that are measured, and how each is made: of real traffic where that can be captured, else not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench.programs import HERE, MissingError, build_tool

CAPTURE = HERE / "make_trace.sh"
CORPUS = HERE.parent / "tests" / "corpus"
CAPTURE_NEEDS = {
    "nginx": "nginx-light",
    "ab": "apache2-utils",
    "tcpdump": "tcpdump",
    "ethtool": "ethtool",
    "ip": "iproute2",
}


@dataclass(frozen=True)
class Trace:
    """A trace: what it is, for the tables, and the words that make it.

    made: ("capture", bytes of the file, requests), ("reshape", name of another trace or of a capture of the corpus,
    options ...), ("quic", connections, bytes of the file, how many are open, whether deciphered) or
    ("synthesize", kind, options ...).
    connections: for how many the tables of others have to have room.
    """

    name: str
    what: str
    made: tuple[str, ...]
    connections: int = 1 << 18


_IMPAIRED = ("--reorder", "0.05")

TRACES = (
    Trace("http1k", "HTTP, a file of 1 KB a connection", ("capture", "1024", "150000")),
    Trace("http32k", "HTTP, a file of 32 KB a connection", ("capture", "32768", "36000")),
    Trace(
        "http1k_mix20k",
        "http1k, 20,000 connections open at once",
        ("reshape", "http1k", "--open", "20000", "--connections", "100000"),
    ),
    Trace(
        "http1k_million",
        "http1k, 1,000,000 connections open at once",
        ("reshape", "http1k", "--open", "1000000", "--connections", "1000000"),
        2_000_000,
    ),
    Trace(
        "http1k_loss5",
        "http1k, 5% lost and sent again, 5% reordered",
        ("reshape", "http1k", "--loss", "0.05", *_IMPAIRED),
    ),
    Trace(
        "http32k_loss1",
        "http32k, 1% lost and sent again, 5% reordered",
        ("reshape", "http32k", "--loss", "0.01", *_IMPAIRED),
    ),
    Trace(
        "http32k_loss5",
        "http32k, 5% lost and sent again, 5% reordered",
        ("reshape", "http32k", "--loss", "0.05", *_IMPAIRED),
    ),
    Trace("http1k_gtp", "http1k in GTP-U tunnels", ("reshape", "http1k", "--gtp")),
    Trace("http1k_pptp", "http1k in calls of PPTP", ("reshape", "http1k", "--pptp")),
    Trace("http32k_gtp", "http32k in GTP-U tunnels", ("reshape", "http32k", "--gtp")),
    Trace(
        "sctp",
        "five associations of usrsctp, 200 copies of each, 100 open at once",
        ("reshape", "gen__sctp_v4.pcap", "--open", "100", "--connections", "1000"),
    ),
    Trace(
        "quic",
        "QUIC by aioquic, a file of 32 KB a connection, 100 open at once",
        ("quic", "2000", "32768", "100"),
    ),
    Trace("quic_deciphered", "the same, deciphered", ("quic", "2000", "32768", "100", "deciphered")),
    Trace("small", "packets of 64 bytes", ("synthesize", "small", "--packets", "2000000")),
    Trace("ahead", "a byte far ahead in every segment", ("synthesize", "ahead", "--packets", "200000")),
    Trace("alternating", "single bytes, every other one first", ("synthesize", "alternating", "--packets", "200000")),
    Trace("overlaps", "every segment over the one before", ("synthesize", "overlaps", "--packets", "200000")),
    Trace("collisions", "keys that collide under seed 0", ("synthesize", "collisions", "--packets", "200000")),
    Trace("syn-flood", "every packet a SYN of another client", ("synthesize", "syn-flood", "--packets", "1000000")),
    Trace(
        "fragments", "every packet a fragment of another datagram", ("synthesize", "fragments", "--packets", "1000000")
    ),
)
BY_NAME = {trace.name: trace for trace in TRACES}


class TraceFolder:
    """Where traces are: each is made when it is first asked for, unless it is there.

    divisor: by which the requests of captured traces are divided, for a smaller machine or less time.
    """

    def __init__(self, folder: Path, divisor: int = 1) -> None:
        self.folder = folder.absolute()
        self.divisor = divisor
        self._tools: dict[str, Path] = {}

    def path(self, trace: Trace) -> Path:
        """The file. Raises MissingError where it cannot be made."""
        out = self.folder / f"{trace.name}.pcap"
        if out.exists():
            return out
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = out.with_suffix(".making")
        words = self._words(trace, unfinished)
        done = subprocess.run(words, capture_output=True, text=True, cwd=HERE.parent)
        if done.returncode:
            unfinished.unlink(missing_ok=True)
            raise MissingError(f"{trace.name}: {words[0]} failed: {' '.join(done.stderr.split())[-300:]}")
        unfinished.replace(out)
        return out

    def _words(self, trace: Trace, out: Path) -> list[str]:
        how, first, *others = trace.made
        if how == "capture":
            missing = [package for program, package in CAPTURE_NEEDS.items() if shutil.which(program) is None]
            if missing:
                raise MissingError(f"{trace.name}: capturing real traffic needs {', '.join(missing)} (Debian's names)")
            if os.geteuid():
                raise MissingError(f"{trace.name}: capturing real traffic needs root, for network namespaces")
            return [str(CAPTURE), str(out), first, str(max(1, int(others[0]) // self.divisor))]
        if how == "quic":
            if find_spec("aioquic") is None:
                raise MissingError(f"{trace.name}: needs aioquic (scripts/setup.sh --tools)")
            return [sys.executable, "-m", "bench.quic_trace", str(out), first, *others]
        tool = self._tools.get(how) or build_tool(how, self.folder)
        self._tools[how] = tool
        if how == "reshape":
            first = str(self.path(BY_NAME[first]) if first in BY_NAME else CORPUS / first)
        return [str(tool), first, str(out), *others]
