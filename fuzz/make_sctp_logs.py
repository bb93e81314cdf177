"""Writes what fuzz_sctp_logs.c needs: `make_sctp_logs.py FOLDER CORPUS`, as make_logs.py does for fuzz_logs.c."""

from __future__ import annotations

import struct
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from fuzz.make_logs import write_program, write_secured  # noqa: E402
from tests.functions.logs.boxes import Talk  # noqa: E402
from tests.functions.logs.dtls import handshake  # noqa: E402
from tests.functions.logs.test_cuts import TALKS  # noqa: E402
from tests.functions.logs.test_http_tls import ASKED  # noqa: E402

MOST = 1000
"""Bytes of a message."""


def pieces(talk: Talk, stream: int = 0, interleaved: bool = False) -> bytes:
    """What two hosts say in a stream, as messages of a chunk each."""
    numbers = Counter[str]()
    found = b""
    for who, data in talk:
        for at in range(0, len(data), MOST):
            part = data[at : at + MOST]
            what = (who == "<") | 2 | 4 | interleaved << 4
            found += struct.pack("<BBBH", what, stream, numbers[who] % 256, len(part)) + part
            numbers[who] += 1
    return found


def main(folder: Path, corpus: Path) -> None:
    """Write all of it."""
    write_program(folder, ["httplog", "tlslog", "filelog"], "sctp")
    corpus.mkdir(parents=True, exist_ok=True)
    for number, (name, (talk, _)) in enumerate(TALKS.items()):
        (corpus / f"seed-{name}").write_bytes(b"\0" + pieces(talk, number, bool(number % 2)))
    answer: Talk = [(">", ASKED), ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]
    for name, said in write_secured(folder, {"https": ([], answer)}).items():
        (corpus / f"seed-{name}").write_bytes(b"\1" + pieces(said))
    (corpus / "seed-dtls").write_bytes(b"\0" + pieces(handshake()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
