"""Writes what fuzz_splice.c needs: `make_splice.py FOLDER CORPUS`.

FOLDER gets tcp_ip.c and tcp_ip.h, generated with splice. CORPUS gets connections as piece() writes them.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from fuzz.make_logs import write_program  # noqa: E402

SYN, ACK, FIN, RST, PSH = 2, 16, 1, 4, 8
SERVER, ICMP = 1, 8
REQUEST = b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n"


def piece(what: int, flags: int, data: bytes = b"", options: int = 0, step: int = 1) -> bytes:
    """A piece of an input, with the numbers that are expected: see fuzz_splice.c."""
    return struct.pack("<BBbbBBH", what, flags, 0, 0, options, step, len(data)) + data


def opened(client: int, options: int, *, split: int = 0) -> bytes:
    """A handshake of a client, its request, and its server's SYN/ACK."""
    who = client << 1
    asked = [REQUEST[:split], REQUEST[split:]] if split else [REQUEST]
    said = b"".join(piece(who, ACK, part, options & 4) for part in asked)
    return (
        piece(who, SYN, options=options)
        + piece(who, ACK, options=options & 4)
        + said
        + piece(who | SERVER, SYN | ACK, options=options)
    )


def main(folder: Path, corpus: Path) -> None:
    """Write all of it."""
    write_program(folder, ["splice"])
    links = folder / "links"
    links.write_text(links.read_text() + "\nsluice/runtime/driver/embed.c")
    corpus.mkdir(parents=True, exist_ok=True)
    for name, settings in (("stored", 0), ("cookies", 1)):
        for options in (0, 7):
            talk = opened(0, options) + piece(1, ACK, b"answer", options & 4) + piece(0, ACK, b"more", options & 4)
            talk += piece(1, ACK | PSH, b"further", options & 4) + piece(0, ACK | PSH, b"still more", options & 4)
            ends = piece(0, ACK | FIN) + piece(1, ACK | FIN) + piece(0, ACK)
            (corpus / f"seed-{name}-{options}").write_bytes(bytes([settings, 0]) + talk + ends)
        late = opened(1, 7, split=9) + piece(3, ACK, bytes(200)) + piece(2 | ICMP, 0) + piece(3 | ICMP, 0)
        (corpus / f"seed-{name}-icmp").write_bytes(bytes([settings, 0]) + late + piece(3, RST))
        silent = piece(0, SYN) + piece(0, ACK) + b"".join(piece(0, ACK, step=30) for _ in range(8))
        (corpus / f"seed-{name}-silent").write_bytes(
            bytes([settings, 0]) + silent + opened(2, 3) + piece(4, ACK, step=33)
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
