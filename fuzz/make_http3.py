"""Writes what fuzz_http3.c needs: `make_http3.py FOLDER CORPUS`.

CORPUS gets an input for each connection of the tests, as it is, with a gap, and with the streams of each side one after
the other.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from tests.functions.logs.http3 import Piece, controls  # noqa: E402
from tests.functions.logs.test_http3 import PAGE, table  # noqa: E402
from tests.functions.logs.test_http3_hostile import BODY, REFUSED, needing  # noqa: E402

STREAMS = [0, 4, 2, 3, 6, 7, 10, 11]
GAP, END = 32, 48


def steps(pieces: list[Piece], gap: int) -> bytes:
    """Pieces as steps of the fuzzer; of streams that it does not have, those that are alike."""
    out = b""
    for number, (who, stream, data, fin) in enumerate(pieces):
        which = STREAMS.index(stream if stream in STREAMS else 10 + stream % 4 % 2 if stream & 2 else 4)
        first = which | (who == "<") << 3
        if number == gap:
            out += bytes([first | GAP, 3])
        for at in range(0, len(data), 255):
            out += bytes([first, len(data[at : at + 255])]) + data[at : at + 255]
        if fin:
            out += bytes([first | END, 0])
    return out


def main(folder: Path, corpus: Path) -> None:
    """Write all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus.mkdir(parents=True, exist_ok=True)
    talks = [PAGE, table(), needing(), needing(count=2), BODY]
    talks += [[*controls(), (who, 0, data, True)] for who, data, _ in REFUSED]
    for number, talk in enumerate(talks):
        for name, pieces in (("", talk), ("-sorted", sorted(talk, key=lambda piece: piece[0]))):
            for gap in (-1, 4):
                (corpus / f"seed-{number}{name}{gap}").write_bytes(b"\6" + steps(pieces, gap))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
