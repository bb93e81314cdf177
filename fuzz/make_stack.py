"""Writes what fuzz_stack.c needs: `make_stack.py FOLDER CORPUS`.

FOLDER gets tcp_ip.c and tcp_ip.h, generated with a function that reads every byte that events hand over.
CORPUS gets one input for each of the repository's smaller captures, in the form that fuzz_stack.c reads.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from sluice.codegen.stack import generate  # noqa: E402
from sluice.engine.box import compile_stack  # noqa: E402
from sluice.engine.c_function import read_c_function  # noqa: E402
from sluice.hooks.function import Functions  # noqa: E402
from sluice.lower.build import build  # noqa: E402
from sluice.passes.pipeline import run  # noqa: E402
from sluice.stacks.find import find_stack  # noqa: E402
from tests.support.capture import Packet, read_packets  # noqa: E402

TOUCH = ROOT / "tests" / "support" / "touch.c"
LINK_TYPES = (1, 113, 276, 0, 108, 101, 12, 228)
"""The order is that of `link_types` in fuzz_stack.c."""

PACKETS, LONGEST = 24, 400


def seed(packets: list[Packet]) -> bytes:
    """An input of the first packets, cut to LONGEST: see fuzz_stack.c."""
    out = bytearray((4, 3, 1, 0))
    for packet in packets[:PACKETS]:
        data = packet.data[:LONGEST]
        kind = LINK_TYPES.index(packet.link_type) if packet.link_type in LINK_TYPES else 0
        out += struct.pack("<BBHH", kind, 1, len(data), packet.length - len(data) & 0xFFFF) + data
    return bytes(out)


def main(folder: Path, corpus: Path) -> None:
    """Write all of it."""
    functions = Functions((read_c_function("touch", TOUCH.read_text(), str(TOUCH)),), frozenset())
    generated = generate(run(build(find_stack("tcp_ip"), functions.hooks()), "all"), functions)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tcp_ip.c").write_text(generated.source)
    (folder / "tcp_ip.h").write_text(generated.header)
    library = compile_stack(find_stack("tcp_ip")).compiled.path
    corpus.mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "tests" / "corpus").glob("*.pcap*")):
        if path.stat().st_size < 100_000:
            (corpus / f"seed-{path.stem}").write_bytes(seed(read_packets(library, path)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
