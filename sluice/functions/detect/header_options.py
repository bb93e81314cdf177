"""Options about a packet's headers: dsize, flags, ttl and other numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

from sluice.functions.detect.errors import RuleError
from sluice.functions.detect.lines import Option
from sluice.functions.detect.model import ICMP, STREAMS, TCP, Compare, Flags, Rule
from sluice.functions.ip_protocols import PROTOCOLS
from sluice.lang.errors import did_you_mean

_MOST = {
    "dsize": 65535, "ttl": 255, "itype": 255, "icode": 255, "tos": 255, "id": 65535, "window": 65535,
    "seq": (1 << 32) - 1, "ack": (1 << 32) - 1, "icmp_id": 65535, "icmp_seq": 65535, "fragoffset": 8191,
    "ip_proto": 255,
}  # fmt: skip
_ALONE = frozenset({"tos", "id", "window", "seq", "ack", "icmp_id", "icmp_seq"})
"""Options whose argument is a number, not a range."""
_PROTOCOLS = {
    "itype": ICMP, "icode": ICMP, "icmp_id": ICMP, "icmp_seq": ICMP, "window": TCP, "seq": TCP, "ack": TCP,
}  # fmt: skip

_FORMS: tuple[tuple[re.Pattern[str], Callable[[int, int], tuple[int, int | None]]], ...] = (
    (re.compile(r"([0-9]+)"), lambda a, b: (a, a)),
    (re.compile(r"=\s*([0-9]+)"), lambda a, b: (a, a)),
    (re.compile(r">\s*([0-9]+)"), lambda a, b: (a + 1, None)),
    (re.compile(r">=\s*([0-9]+)"), lambda a, b: (a, None)),
    (re.compile(r"<\s*([0-9]+)"), lambda a, b: (0, a - 1)),
    (re.compile(r"<=\s*([0-9]+)"), lambda a, b: (0, a)),
)
_BETWEEN = {
    "dsize": re.compile(r"([0-9]+)\s*<>\s*([0-9]+)"),
    "ttl": re.compile(r"([0-9]+)\s*-\s*([0-9]+)"),
    "itype": re.compile(r"([0-9]+)\s*<>\s*([0-9]+)"),
    "icode": re.compile(r"([0-9]+)\s*<>\s*([0-9]+)"),
}
_OPEN = frozenset({"itype", "icode"})
"""Options whose ranges `a<>b` do not have their ends in them, as Snort's code has it; dsize's have."""


def _error(option: Option, what: str, advice: str = "") -> RuleError:
    return RuleError(option.place, f"option '{option.name}'", what, advice)


def _compare(rule: Rule, option: Option) -> None:
    """A number, a bound, or a range. A range may be negated."""
    name, value = option.name, (option.value or "").strip()
    most = _MOST[name]
    wanted = _PROTOCOLS.get(name, 0)
    others = ~(STREAMS if wanted == TCP else wanted)  # rules on TCP are on other streams, too, without their packets
    if wanted and (not rule.protocols & wanted or rule.protocols & others):
        raise _error(option, f"the rule's protocol is not {'icmp' if _PROTOCOLS[name] == ICMP else 'tcp'}")
    negated = value.startswith("!")
    value = value[negated:].strip()
    if name == "ip_proto":
        value = _protocol_number(option, value)
    low, high = _read(option, value, most)
    if low > high or high > most:
        raise _error(option, f"'{option.value}' has no number from 0 to {most}", "it would never match.")
    rule.compares.append(Compare(name, low, high, negated))


def _protocol_number(option: Option, value: str) -> str:
    """The value with a number in place of a protocol's name: of `>tcp`, `>6`."""
    named = re.fullmatch(r"([<>=]*\s*)([a-zA-Z][\w.-]*)", value)
    if named is None:
        return value
    number = PROTOCOLS.get(named[2].lower())
    if number is None:
        raise _error(option, f"there is no protocol '{named[2][:40]}'", did_you_mean(named[2].lower(), PROTOCOLS))
    return f"{named[1]}{number}"


def _read(option: Option, value: str, most: int) -> tuple[int, int]:
    if len(value) > 32:
        raise _error(option, f"'{value[:40]}' is no number")
    if option.name == "ttl" and (half := re.fullmatch(r"([0-9]+)-|-([0-9]+)", value)):
        return int(half[1] or 0), int(half[2] or most)
    if option.name in _ALONE:
        if not re.fullmatch(r"[0-9]+|0x[0-9a-fA-F]+", value):
            raise _error(option, f"'{value}' is no number", f"write {option.name}:64;")
        number = int(value, 16 if value.startswith("0x") else 10)
        return number, number
    if (pattern := _BETWEEN.get(option.name)) and (between := pattern.fullmatch(value)):
        inner = option.name in _OPEN
        return int(between[1]) + inner, int(between[2]) - inner
    for form, bounds in _FORMS:
        if match := form.fullmatch(value):
            low, high = bounds(int(match[1]), 0)
            return low, most if high is None else high
    raise _error(option, f"'{value}' is no number or range", f"write {option.name}:64; {option.name}:<64; or a range.")


_BITS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16, "U": 32, "E": 64, "C": 128, "2": 64, "1": 128, "0": 0}


def _letters(option: Option, text: str) -> int:
    bits = 0
    for letter in text.upper():
        if letter not in _BITS:
            raise _error(option, f"there is no flag '{letter}'", "flags are F S R P A U C E, or 0 for none.")
        bits |= _BITS[letter]
    return bits


def _flags(rule: Rule, option: Option) -> None:
    if not rule.protocols & TCP or rule.protocols & ~STREAMS:
        raise _error(option, "the rule's protocol is not tcp", "only TCP has flags.")
    text, comma, ignored = (option.value or "").replace(" ", "").partition(",")
    mode = text[:1] if text[:1] in ("+", "*", "!") and text[:1] else ""
    mode = mode or (text[-1:] if text[-1:] in ("+", "*", "!") and text[-1:] else "")
    letters = text.strip("+*!") if mode else text
    if not letters or (comma and not ignored):
        raise _error(option, f"'{(option.value or '')[:40]}' names no flag", "write flags:S; flags:+SA; or flags:S,CE;")
    rule.flags = Flags(_letters(option, letters), mode, _letters(option, ignored))


_FRAGBITS = {"R": 4, "D": 2, "M": 1}
"""Bits of the flags of IPv4 (RFC 791, 3.1), with the right one as 1."""


def _fragbits(rule: Rule, option: Option) -> None:
    """`M` or `=M` exactly these, `+M` at least, `*MD` any, `!M` none of them."""
    text = (option.value or "").replace(" ", "")
    mode = text[:1] if text[:1] in ("+", "*", "!", "=") and text[:1] else ""
    mode = mode or (text[-1:] if text[-1:] in ("+", "*", "!") and text[-1:] else "")
    letters = text.strip("+*!=").upper()
    if not letters or set(letters) - _FRAGBITS.keys():
        raise _error(option, f"'{(option.value or '')[:40]}' names no bit", "bits are R, D and M: fragbits:M; or +D;")
    bits = sum({_FRAGBITS[letter] for letter in letters})
    if mode == "+":
        rule.compares.append(Compare("fragbits", bits, bits, mask=bits))
    elif mode in ("*", "!"):
        rule.compares.append(Compare("fragbits", 0, 0, negated=mode == "*", mask=bits))
    else:
        rule.compares.append(Compare("fragbits", bits, bits, mask=7))


_IPOPTS = {
    "rr": 7,
    "eol": 0,
    "nop": 1,
    "ts": 68,
    "sec": 130,
    "esec": 133,
    "lsrr": 131,
    "lsrre": 131,
    "ssrr": 137,
    "satid": 136,
}
IPOPT_NUMBERS = (7, 0, 1, 68, 130, 133, 131, 137, 136)
"""Numbers of IPv4's options, by the bit of each in the field `ipopts` (ids_packet.h); `any` is the next one."""


def _ipopts(rule: Rule, option: Option) -> None:
    name = (option.value or "").strip().lower()
    if name not in _IPOPTS and name != "any":
        raise _error(option, f"'{name[:40]}' is no option of IPv4", f"it is one of any, {', '.join(_IPOPTS)}.")
    bit = 1 << (len(IPOPT_NUMBERS) if name == "any" else IPOPT_NUMBERS.index(_IPOPTS[name]))
    rule.compares.append(Compare("ipopts", bit, bit, mask=bit))


HEADER_OPTIONS: dict[str, Callable[[Rule, Option], None]] = {
    **dict.fromkeys(_MOST, _compare),
    "flags": _flags,
    "fragbits": _fragbits,
    "ipopts": _ipopts,
}
