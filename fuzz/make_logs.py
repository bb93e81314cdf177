"""Writes what fuzz_logs.c needs: `make_logs.py FOLDER CORPUS`.

FOLDER gets tcp_ip.c and tcp_ip.h, generated with httplog, tlslog and dnslog; what they are linked with is included.
CORPUS gets one input for each talk of the tests.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from sluice.codegen.stack import generate  # noqa: E402
from sluice.engine.functions import find_functions  # noqa: E402
from sluice.hooks.function import Functions  # noqa: E402
from sluice.lower.build import build  # noqa: E402
from sluice.passes.pipeline import run  # noqa: E402
from sluice.stacks.find import find_stack  # noqa: E402
from tests.functions.logs.test_cuts import ANSWERED, ASKED, TALKS  # noqa: E402

ROWS = ("sluice/runtime/driver/group.c", "sluice/runtime/driver/row_file.c")
"""The files of rows, which functions refer to."""

PORTS = (80, 443, 53, 3128)
"""The order is that of `ports` in fuzz_logs.c."""


def piece(what: int, data: bytes) -> bytes:
    """A piece of an input: see fuzz_logs.c."""
    return struct.pack("<BH", what, len(data)) + data


def write_program(folder: Path, logs: list[str]) -> None:
    """Write tcp_ip with some logs, and what it is linked with."""
    functions = Functions(tuple(find_functions(logs).c))
    generated = generate(run(build(find_stack("tcp_ip"), functions.hooks()), "all"), functions)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tcp_ip.c").write_text(generated.source)
    (folder / "tcp_ip.h").write_text(generated.header)
    (folder / "links").write_text("\n".join([*ROWS, *generated.sources]))


def main(folder: Path, corpus: Path) -> None:
    """Write all of it."""
    write_program(folder, ["httplog", "tlslog", "dnslog"])
    corpus.mkdir(parents=True, exist_ok=True)
    for name, (talk, port) in TALKS.items():
        said = b"".join(piece(32 + (who == "<"), data) for who, data in talk)
        (corpus / f"seed-{name}").write_bytes(bytes([PORTS.index(port), 7]) + said)
    (corpus / "seed-datagrams").write_bytes(bytes([0, 7]) + piece(2, ASKED) + piece(3, ANSWERED))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
