"""Writes what fuzz_http2.c needs: `make_http2.py FOLDER CORPUS`.

CORPUS gets an input for each side of the connections of the tests' capture, and of the tests' frames.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from tests.functions.logs.http2 import PREFACE  # noqa: E402
from tests.functions.logs.test_cuts import HTTP2  # noqa: E402
from tests.functions.logs.test_http2 import talks  # noqa: E402


def main(folder: Path, corpus: Path) -> None:
    """Write all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, talk in enumerate([HTTP2, *talks()]):
        for who in "><":
            sent = b"".join(data for side, data in talk if side == who)
            frames = sent[sent.find(PREFACE) + len(PREFACE) :] if who == ">" else sent
            for gap in (0, 2):
                (corpus / f"seed-{number}-{'client' if who == '>' else 'server'}-{gap}").write_bytes(
                    bytes([(who == "<") + gap, 20, 9, 6]) + frames
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
