"""Writes what fuzz_more_logs.c needs: `make_more_logs.py FOLDER CORPUS`, as make_logs.py does for fuzz_logs.c."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from fuzz.make_logs import piece, pieces, write_program, write_secured  # noqa: E402
from tests.functions.logs.more_boxes import LOGS  # noqa: E402
from tests.functions.logs.test_filelog_tls import MAIL, STARTTLS  # noqa: E402
from tests.functions.logs.test_ftp_tls import AUTH, END, LOGIN, TRANSFER, protection  # noqa: E402
from tests.functions.logs.test_more_logs import TALKS, dhcp, echo, ftp  # noqa: E402

PORTS = (22, 25, 21, 80)
"""The order is that of `FUZZ_PORTS`."""


def payload(frame: bytes) -> bytes:
    """What a TCP segment without options carries."""
    return frame[54:]


def main(folder: Path, corpus: Path) -> None:
    """Write all of it."""
    write_program(folder, list(LOGS))
    corpus.mkdir(parents=True, exist_ok=True)
    for name, (talk, port) in TALKS.items():
        (corpus / f"seed-{name}").write_bytes(bytes([PORTS.index(port), 7]) + pieces(talk))
    session = [*LOGIN, *protection(b"P"), *TRANSFER, *END]
    for name, said in write_secured(folder, {"starttls": (STARTTLS, MAIL), "auth": (AUTH, session)}).items():
        (corpus / f"seed-{name}").write_bytes(bytes([32 + (1 if name.startswith("starttls") else 2), 7]) + pieces(said))
    control = [frame for frame in ftp(True) if frame[34:36] == b"\x9c\x40" or frame[36:38] == b"\x9c\x40"]
    said = b"".join(piece(frame[34:36] != b"\x9c\x40", payload(frame)) for frame in control if payload(frame))
    (corpus / "seed-ftp").write_bytes(bytes([2, 7]) + said)
    (corpus / "seed-dhcp").write_bytes(bytes([0, 7]) + piece(3, dhcp(b"\x35\x01\x05\x0c\x04host\xff")[42:]))
    (corpus / "seed-ntp").write_bytes(bytes([8, 7]) + piece(2, b"\x23" + bytes(47)))
    elements = b"\x02\0\x02\0\x10\0\x57\0\x09\0\x87\0\0\0\x07\x0a\0\0\x03\x5d\0\x06\0\x02\0\x02\0\x10\0"
    (corpus / "seed-gtp2").write_bytes(bytes([16, 7]) + piece(2, b"\x48\x21\0\x27\0\0\0\1\0\0\2\0" + elements))
    first = b"\x32\x10\0\x0e\0\0\0\0\0\1\0\0\x10\0\0\0\1\x83\0\3\3abc"
    (corpus / "seed-gtp1").write_bytes(bytes([16, 7]) + piece(2, first))
    tunnelled = b"\x34\xff\0\x20\0\0\0\5\0\0\0\x85\1\0\0\0" + echo(8, 1)[14:]
    (corpus / "seed-gtpu").write_bytes(bytes([24, 7]) + piece(2, tunnelled))
    (corpus / "seed-icmp").write_bytes(bytes([0, 7]) + piece(66, echo(8, 1)[34:]) + piece(67, echo(0, 1)[34:]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
