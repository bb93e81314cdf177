"""Options about messages: urilen of HTTP, ssl_version of TLS."""

from __future__ import annotations

import re

from sluice.functions.detect import buffers
from sluice.functions.detect.errors import RuleError
from sluice.functions.detect.lines import Option
from sluice.functions.detect.model import VERSIONS, Rule, Size, Version
from sluice.lang.errors import did_you_mean

_LENGTH_MOST = 65535
_WORDS = {
    "tls1": "tls1.0",
    "tls1.0": "tls1.0",
    "tls10": "tls1.0",
    "tls11": "tls1.1",
    "tls12": "tls1.2",
    "tls13": "tls1.3",
    **{name: name for name in VERSIONS},
}


def _error(option: Option, what: str, advice: str = "") -> RuleError:
    return RuleError(option.place, f"option '{option.name}'", what, advice)


def urilen(rule: Rule, option: Option) -> None:
    """urilen:N, <N, >N or A<>B (without its ends), of the request target unchanged, or with `,norm` normalised."""
    text, _, which = (option.value or "").replace(" ", "").partition(",")
    if which not in ("", "raw", "norm"):
        raise _error(option, f"'{which[:40]}' is unknown", "write urilen:5,raw; or urilen:5,norm;")
    match = re.fullmatch(r"([<>]?)([0-9]{1,5})(?:<>([0-9]{1,5}))?", text)
    if match is None or (match[1] and match[3]):
        raise _error(option, f"'{text[:40]}' is no length", "write urilen:5; urilen:<5; urilen:>5; or urilen:5<>10;")
    number = int(match[2])
    low, high = {"<": (0, number - 1), ">": (number + 1, _LENGTH_MOST)}.get(match[1], (number, number))
    if match[3]:
        low, high = number + 1, int(match[3]) - 1
    if low > high:
        raise _error(option, f"'{text}' has no length", "it would never match.")
    rule.matches.append(Size(option.place, buffers.URI if which == "norm" else buffers.RAW_URI, low, high))


def ssl_version(rule: Rule, option: Option) -> None:
    """ssl_version:[!]VERSION[,[!]VERSION...]: one of those, or none of the negated ones."""
    with_, but = 0, 0
    for word in (option.value or "").lower().split(","):
        word = word.strip()
        negated = word.startswith("!")
        name = word[negated:].strip()
        if name not in _WORDS:
            raise _error(option, f"'{name[:40]}' is no version", did_you_mean(name, _WORDS))
        bit = 1 << VERSIONS.index(_WORDS[name])
        with_, but = (with_, but | bit) if negated else (with_ | bit, but)
    bits = (with_ or (1 << len(VERSIONS)) - 1) & ~but
    if not bits:
        raise _error(option, f"'{option.value}' contradicts itself", "it would never match.")
    rule.matches.append(Version(option.place, bits))
