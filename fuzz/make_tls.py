"""Writes what fuzz_tls.c needs: `make_tls.py FOLDER CORPUS`.

CORPUS gets an input for each connection of the captures of the tests with its secrets, and for handshakes in the clear.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from tests.functions.logs.boxes import Talk  # noqa: E402
from tests.functions.logs.test_http2 import talks  # noqa: E402
from tests.functions.logs.test_http_tls import CAPTURE, EARLY  # noqa: E402

MOST = 3000
"""Bytes of a piece that become a part of an input: what repeats does not help."""


def fuzzed(keys: bytes, talk: Talk, settings: int = 0) -> bytes:
    """An input."""
    out = struct.pack("<BH", settings, len(keys)) + keys
    for who, data in talk:
        out += struct.pack("<BH", who == "<", len(data[:MOST])) + data[:MOST]
    return out


def record(kind: int, content: bytes) -> bytes:
    """A record."""
    return struct.pack(">BHH", kind, 0x303, len(content)) + content


def message(kind: int, body: bytes) -> bytes:
    """A handshake message."""
    return struct.pack(">I", kind << 24 | len(body)) + body


def sealed(kind: int, content: bytes) -> bytes:
    """A record of TLS 1.3 that is not encrypted, with a tag of zeros."""
    return record(23, content + bytes([kind]) + bytes(16))


def hello(cipher: int, extensions: bytes, random: bytes = b"s" * 32) -> bytes:
    """A ServerHello."""
    body = b"\3\3" + random + b"\0" + struct.pack(">HBH", cipher, 0, len(extensions)) + extensions
    return record(22, message(2, body))


RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
ASKS = record(22, message(1, b"\3\3" + b"c" * 32 + b"\0\0\2\x13\1\1\0\0\0"))
IS_13 = struct.pack(">HHH", 43, 2, 0x304)
CHANGE = record(20, b"\1")


def clear() -> list[bytes]:
    """Connections whose records are not encrypted."""
    labels = ("CLIENT_EARLY_TRAFFIC_SECRET", "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET",
              "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")  # fmt: skip
    keys = "".join(f"{label} {b'c'.hex() * 32} {'22' * 32}\n" for label in labels[1:]).encode()
    early = keys + f"{labels[0]} {b'c'.hex() * 32} {'22' * 32}\n".encode()
    master = f"CLIENT_RANDOM {b'c'.hex() * 32} {'33' * 48}\n".encode()
    finished, update = message(20, b"f" * 32), message(24, b"\0")
    accepts, plain = message(8, b"\0\4\0\x2a\0\0"), message(8, b"\0\0")
    data = sealed(23, b"said") + sealed(22, update) + sealed(23, b"more")
    server = hello(0x1301, IS_13) + CHANGE
    talks: list[tuple[bytes, Talk]] = [
        (keys, [(">", ASKS), ("<", server + sealed(22, plain + finished)), (">", CHANGE + sealed(22, finished) + data),
                ("<", data)]),
        (early, [(">", ASKS + CHANGE + sealed(23, b"early")), ("<", server + sealed(22, accepts + finished)),
                 (">", sealed(22, message(5, b"")) + sealed(22, finished) + data), ("<", data)]),
        (early, [(">", ASKS + sealed(23, b"early")), ("<", hello(0x1301, IS_13, RETRY) + CHANGE), (">", ASKS + CHANGE),
                 ("<", server + sealed(22, plain + finished)), (">", sealed(22, finished) + data), ("<", data)]),
    ]  # fmt: skip
    for cipher, extensions, content in (
        (0xC02F, b"", bytes(8) + b"said" + bytes(16)),
        (0xC013, b"", bytes(16) + b"said" + bytes(20) + b"\7" * 8),
        (0xC028, b"\0\x16\0\0", bytes(16) + b"said" + b"\x0b" * 12 + bytes(48)),
    ):
        rest = CHANGE + record(22, content) + record(23, content)
        talks.append((master, [(">", ASKS), ("<", hello(cipher, extensions)), (">", rest), ("<", rest)]))
    tunnel: Talk = [(">", b"R\n"), ("<", b"R\x16ab\x16\n")]
    return [fuzzed(each, [*before, *talk], 1) for each, talk in talks for before in ([], tunnel)]


def main(folder: Path, corpus: Path) -> None:
    """Write all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus.mkdir(parents=True, exist_ok=True)
    inputs = clear()
    for capture in (CAPTURE, EARLY):
        lines = capture.with_suffix(".keys").read_bytes().splitlines(keepends=True)
        for talk in talks(capture):
            said = b"".join(data for who, data in talk if who == ">")
            own = b"".join(line for line in lines if line.strip() and bytes.fromhex(line.split()[1].decode()) in said)
            inputs += [fuzzed(own, talk), fuzzed(own, talk, 1)]
    for number, each in enumerate(inputs):
        (corpus / f"seed-{number}").write_bytes(each)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
