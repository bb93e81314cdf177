"""Writes what fuzz_logs.c needs: `make_logs.py FOLDER CORPUS`.

FOLDER gets tcp_ip.c and tcp_ip.h, generated with httplog, tlslog and dnslog; what they are linked with is included.
CORPUS gets one input for each talk of the tests.
"""

from __future__ import annotations

import json
import ssl
import struct
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from sluice.codegen.stack import generate  # noqa: E402
from sluice.engine.functions import find_functions  # noqa: E402
from sluice.hooks.function import Functions  # noqa: E402
from sluice.lower.build import build  # noqa: E402
from sluice.passes.pipeline import run  # noqa: E402
from sluice.stacks.find import find_stack  # noqa: E402
from tests.functions.logs.boxes import Talk  # noqa: E402
from tests.functions.logs.dtls import fragments, hello_of, record  # noqa: E402
from tests.functions.logs.test_cuts import ANSWERED, ASKED, TALKS  # noqa: E402
from tests.functions.logs.test_http_tls import ASKED as REQUEST  # noqa: E402
from tests.functions.logs.test_http_tls import secured_talk  # noqa: E402

ROWS = ("sluice/runtime/driver/group.c", "sluice/runtime/driver/row_file.c")
"""The files of rows, which functions refer to."""

MOST = 1400
"""Bytes of a piece."""
PORTS = (80, 443, 53, 3128)
"""The order is that of `ports` in fuzz_logs.c."""


def piece(what: int, data: bytes) -> bytes:
    """A piece of an input: see fuzz_logs.c."""
    return struct.pack("<BH", what, len(data)) + data


def pieces(talk: Talk) -> bytes:
    """What two hosts say, as pieces that are short enough."""
    parts = [(who, data[at : at + MOST]) for who, data in talk for at in range(0, len(data), MOST)]
    return b"".join(piece(who == "<", data) for who, data in parts)


def write_secured(folder: Path, talks: dict[str, tuple[Talk, Talk]]) -> dict[str, Talk]:
    """Write keys.h, and return what is said in the clear and then in TLS, by name."""
    keys, secured = "", dict[str, Talk]()
    for name, (clear, inner) in talks.items():
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with tempfile.TemporaryDirectory() as own:
                said, log = secured_talk(Path(own), version, inner)
                keys += log.read_text()
            secured[f"{name}-{version.name}"] = [*clear, *said]
    (folder / "keys.h").write_text(f"static const char fuzz_keys[] = {json.dumps(keys)};\n")
    return secured


def write_program(folder: Path, logs: list[str], stack: str = "tcp_ip") -> None:
    """Write a stack with some logs, and what it is linked with."""
    functions = Functions(tuple(find_functions(logs).c))
    generated = generate(run(build(find_stack(stack), functions.hooks()), "all"), functions)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stack}.c").write_text(generated.source)
    (folder / f"{stack}.h").write_text(generated.header)
    (folder / "links").write_text("\n".join([*ROWS, *generated.sources]))


def main(folder: Path, corpus: Path) -> None:
    """Write all of it."""
    write_program(folder, ["httplog", "tlslog", "dnslog"])
    corpus.mkdir(parents=True, exist_ok=True)
    for name, (talk, port) in TALKS.items():
        said = b"".join(piece(32 + (who == "<"), data) for who, data in talk)
        (corpus / f"seed-{name}").write_bytes(bytes([PORTS.index(port), 7]) + said)
    answer: Talk = [(">", REQUEST), ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]
    for name, said in write_secured(folder, {"https": ([], answer)}).items():
        (corpus / f"seed-{name}").write_bytes(bytes([32 + 1, 7]) + pieces(said))
    hellos = [(2, fragments(hello_of(), 0, 30)), (3, fragments(hello_of(server=True), 0, 20))]
    sealed = piece(2, record(b"x", 9, 23, 1)) + piece(3, record(b"x", 9, 23, 1))
    datagrams = b"".join(piece(side, one) for side, parts in hellos for one in parts) + sealed
    (corpus / "seed-dtls").write_bytes(bytes([0, 7]) + datagrams)
    (corpus / "seed-datagrams").write_bytes(bytes([0, 7]) + piece(2, ASKED) + piece(3, ANSWERED))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
