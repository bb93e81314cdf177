"""The library against the one that it replaces, which is in the history: the same program on the same capture gives the
same output, callback by callback, and the same packets.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.compiler import compiler
from tests.compat.mos.programs import EXAMPLES, ROOT, configuration, library, program
from tests.support.corpus import captures

BEFORE = "d1f112c"
"""The commit of the library with a TCP of its own and all contexts in one thread."""
RESETS = "a reset below what the receiver has acknowledged does not count, one in its window does (RFC 9293, 3.10.7.4)"
HALF_OPEN = "an end in SYN_SENT stays so when it answers another connection's segment by a reset (RFC 9293, 3.5.1)"
AFTER_FIN = "a FIN takes its number: a byte with that number is none of the stream"
DIFFERENT = {
    "OISF_suricata-verify__tls-tls-subjectaltname-input.pcap": HALF_OPEN,
    "ntop_nDPI__heuristic_tcp_ack_payload.pcap": AFTER_FIN,
    "OISF_suricata-verify__output-eve-ftp-data-input.pcap": RESETS,
    "OISF_suricata-verify__tcp-fastopen-07-tcp_fastopen_segmentation.pcap": RESETS,
    "gen__tcp_loss_reorder.pcap": RESETS,
    "gen__tcp_over_ipfrag.pcap": RESETS,
    "gen__tcp_seqwrap.pcap": RESETS,
    "gen__tun_qinq.pcap": RESETS,
    "ntop_nDPI__ethereum.pcap": RESETS,
    "ntop_nDPI__ocs.pcap": RESETS,
    "ntop_nDPI__sites.pcapng": RESETS,
    "ntop_nDPI__zoom.pcapng": RESETS,
}
"""Captures on which callbacks differ, and why: the stack's TCP decides what an end accepts."""
PROGRAMS = (
    "midstat -f @",
    "bytes -f @",
    "orphan -f @ -p 80",
    "nat -f @ -e 203.0.113.1",
    f"firewall -f @ -r {EXAMPLES / 'rules.txt'}",
    "order -f @ -c 2",
    "rules @ snd rcv raw orphan data two user timer",
    "rules @ snd rcv drop chomp",
    "rules @ rcv data drain enlarge insert contexts timer",
)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sluice-mos-before-")


def in_history() -> bool:
    words = ["git", "-C", str(ROOT), "cat-file", "-e", f"{BEFORE}^{{commit}}"]
    return subprocess.run(words, capture_output=True, timeout=300).returncode == 0


@cache
def before() -> Path:
    """The folder with the earlier libsluice_mos.so."""
    tree, made = Path(_folder().name) / "tree", Path(_folder().name) / "mos"
    tree.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", BEFORE], check=True, capture_output=True, timeout=300
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True, timeout=300)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    subprocess.run(
        [sys.executable, "-m", "sluice", "mos", "-o", str(made)], check=True, cwd=tree, env=environment, timeout=300
    )
    flags = [f"CC={' '.join(compiler())}", "CFLAGS=-O1"]
    subprocess.run(["make", "-s", "-C", str(made), *flags], check=True, capture_output=True, timeout=300)
    return made / "lib"


def output(lib: Path, words: list[str], capture: Path, folder: Path) -> tuple[int, list[bytes], bytes]:
    """The lines that a program prints, and the packets that it forwards, over a library."""
    forwarded = folder / "out.pcap"
    forwarded.unlink(missing_ok=True)
    config = str(configuration(folder, capture, forwarded))
    command = [str(program(words[0])), *[config if word == "@" else word for word in words[1:]]]
    environment = {**os.environ, "LD_PRELOAD": str(lib / "libsluice_mos.so")}
    done = subprocess.run(command, capture_output=True, timeout=120, env=environment)
    lines = done.stdout.replace(b"errno=107 errno=107", b"errno=88 errno=88").splitlines()  # of no flow: as in mOS
    if "rcv" in words or words[0] == "order":  # since then the receiver's set comes when its buffer has the payload
        lines = sorted(re.sub(rb"^cb +\d+", b"cb", line) for line in lines)  # their number among all callbacks
    return done.returncode, lines, forwarded.read_bytes() if forwarded.is_file() else b""


@pytest.mark.slow_matrix
@pytest.mark.skipif(not in_history(), reason=f"commit {BEFORE} is not in the history")
@pytest.mark.parametrize("words", PROGRAMS)
def test_callbacks_are_the_same(words: str, tmp_path: Path) -> None:
    different = [
        path.name
        for path in captures()
        if path.is_file()
        and output(before(), words.split(), path, tmp_path) != output(library() / "lib", words.split(), path, tmp_path)
    ]
    assert set(different) <= set(DIFFERENT)
