"""Writes the C of the Memcached router for fuzz_service.c, and first inputs: make_service.py FOLDER CORPUS."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from sluice.service.build import RUNTIME  # noqa: E402
from sluice.service.load import load_file  # noqa: E402
from sluice.service.lower.program import lower  # noqa: E402


def request(key: bytes, value: bytes) -> bytes:
    head = b"\x80\1" + len(key).to_bytes(2, "big") + bytes(4) + (len(key) + len(value)).to_bytes(4, "big") + bytes(12)
    return head + key + value


def main() -> None:
    made, corpus = Path(sys.argv[1]), Path(sys.argv[2])
    made.mkdir(parents=True, exist_ok=True)
    service = load_file(str(ROOT / "examples/memcached_router/router.fk"), ["memcached_binary"])
    source = lower(service, service.process()).source
    (made / "service_program.c").write_text(source.replace('"send.h"', f'"{RUNTIME}/send.h"'))
    for number, value in enumerate((b"", b"v" * 30, b"v" * 300)):
        (corpus / f"first{number}").write_bytes(bytes([7, 20 * number]) + request(b"key", value) * 3)


main()
