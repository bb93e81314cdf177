"""The words that dnslog has for types and codes, as its own source lists them."""

from __future__ import annotations

import re

from sluice.engine.functions import READY

_TEXT = (READY / "dns_message.h").read_text()


def _words(table: str) -> dict[str, int]:
    body = _TEXT[_TEXT.index(f"{table}[]") :]
    return {word: int(number) for number, word in re.findall(r'\{(\d+), "(\w+)"\}', body[: body.index("};")])}


TYPES, CODES = _words("dns_types"), _words("dns_codes")
