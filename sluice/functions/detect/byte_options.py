"""Options about numbers and places in the bytes: byte_test, byte_jump, byte_extract, isdataat."""

from __future__ import annotations

import re

from sluice.functions.detect import buffers
from sluice.functions.detect.errors import RuleError
from sluice.functions.detect.lines import Option
from sluice.functions.detect.model import OPERATORS, Bytes, Content, Match, Operand, Rule

_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_OFFSET_MOST = 65535
_BASES = {"hex": 16, "dec": 10, "oct": 8}
BINARY_SIZES = (1, 2, 3, 4, 8)
STRING_MOST = 20
"""Digits of a number that is written as text."""


def _error(option: Option, what: str, advice: str = "") -> RuleError:
    return RuleError(option.place, f"option '{option.name}'", what, advice)


def _parts(option: Option, least: int, form: str) -> list[str]:
    parts = [part.strip() for part in (option.value or "").split(",")]
    if len(parts) < least or not all(parts):
        raise _error(option, f"'{(option.value or '')[:60]}' is incomplete", f"write {option.name}:{form};")
    return parts


def _integer(option: Option, text: str, low: int, high: int) -> int:
    match = re.fullmatch(r"(-?)(0x[0-9a-fA-F]+|[0-9]+)", text[:40])
    value = int(match[2], 16 if match[2].startswith("0x") else 10) * (-1 if match[1] else 1) if match else high + 1
    if not low <= value <= high:
        raise _error(option, f"'{text[:40]}' is no number from {low} to {high}")
    return value


def _operand(option: Option, text: str, low: int, high: int) -> Operand:
    return text if _NAME.fullmatch(text) else _integer(option, text, low, high)


def _begin(rule: Rule, option: Option, sticky: int) -> Bytes:
    return Bytes(option.place, option.name, buffer=sticky)


def _relative(rule: Rule, made: Bytes, sticky: int) -> None:
    """It counts from the last match, in the buffer of that, unless an option has named a buffer for later options."""
    made.relative = True
    if sticky == buffers.PAYLOAD and rule.matches:
        made.buffer = rule.matches[-1].buffer


def _bytes_read(option: Option, made: Bytes, text: str) -> None:
    made.count = _integer(option, text, 1, STRING_MOST)


def _word(rule: Rule, option: Option, made: Bytes, word: str, sticky: int) -> bool:
    """A word that all three have: how the number is written, and where it is counted from. False: it is another."""
    name, _, value = word.partition(" ")
    value = value.strip()
    if word == "relative":
        _relative(rule, made, sticky)
    elif word in ("big", "little"):
        made.little = word == "little"
    elif word == "string":
        made.base = made.base or 10
    elif word in _BASES:
        made.base = _BASES[word]
    elif name == "bitmask" and value:
        made.mask = _integer(option, value, 1, (1 << 32) - 1)
    elif word == "dce":
        raise _error(option, "'dce' is not supported", "DCE/RPC is not read: say big or little.")
    else:
        return False
    return True


def _check(option: Option, made: Bytes) -> None:
    if not made.base and made.count not in BINARY_SIZES:
        raise _error(
            option,
            f"{made.count} bytes are no binary number",
            f"it has {', '.join(map(str, BINARY_SIZES))}, or add string.",
        )


def byte_test(rule: Rule, option: Option, sticky: int) -> None:
    """byte_test:COUNT,[!]OPERATOR,VALUE,OFFSET[,relative][,big|little][,string,hex|dec|oct][,bitmask N]."""
    parts = _parts(option, 4, "4,>,1000,0,relative")
    made = _begin(rule, option, sticky)
    _bytes_read(option, made, parts[0])
    made.negated = parts[1].startswith("!")
    made.operator = parts[1][made.negated :].strip() or "="
    if made.operator not in OPERATORS:
        raise _error(
            option, f"'{parts[1][:10]}' is no operator", f"it is one of {' '.join(OPERATORS)}, with ! before it."
        )
    made.value = _operand(option, parts[2], 0, (1 << 32) - 1)
    made.offset = _operand(option, parts[3], -_OFFSET_MOST, _OFFSET_MOST)
    for word in parts[4:]:
        if not _word(rule, option, made, word, sticky):
            raise _error(option, f"'{word[:40]}' is unknown", "relative, big, little, string, hex, dec, oct, bitmask.")
    _check(option, made)
    rule.matches.append(made)


def byte_jump(rule: Rule, option: Option, sticky: int) -> None:
    """byte_jump:COUNT,OFFSET[,multiplier N][,align][,from_beginning|from_end][,post_offset N] and as above."""
    parts = _parts(option, 2, "4,0,relative,align")
    made = _begin(rule, option, sticky)
    made.count = _integer(option, parts[0], 0, STRING_MOST)
    made.offset = _operand(option, parts[1], -_OFFSET_MOST, _OFFSET_MOST)
    for word in parts[2:]:
        name, _, value = word.partition(" ")
        if word == "align":
            made.align = 4
        elif word in ("from_beginning", "from_end"):
            made.start = word
        elif name == "multiplier" and value:
            made.multiplier = _integer(option, value.strip(), 1, 65535)
        elif name == "post_offset" and value:
            made.post = _operand(option, value.strip(), -_OFFSET_MOST, _OFFSET_MOST)
        elif not _word(rule, option, made, word, sticky):
            raise _error(option, f"'{word[:40]}' is unknown", "see docs/detect.md for the words that it has.")
    if made.count:
        _check(option, made)
    rule.matches.append(made)


def byte_extract(rule: Rule, option: Option, sticky: int) -> None:
    """byte_extract:COUNT,OFFSET,NAME[,relative][,multiplier N][,align N] and as above."""
    parts = _parts(option, 3, "4,0,length,relative")
    made = _begin(rule, option, sticky)
    _bytes_read(option, made, parts[0])
    made.offset = _operand(option, parts[1], -_OFFSET_MOST, _OFFSET_MOST)
    made.name = parts[2]
    if not _NAME.fullmatch(made.name):
        raise _error(option, f"'{made.name[:40]}' is no name", "it begins with a letter.")
    for word in parts[3:]:
        name, _, value = word.partition(" ")
        if name == "multiplier" and value:
            made.multiplier = _integer(option, value.strip(), 1, 65535)
        elif name == "align" and value.strip() in ("2", "4"):
            made.align = int(value)
        elif not _word(rule, option, made, word, sticky):
            raise _error(option, f"'{word[:40]}' is unknown", "see docs/detect.md for the words that it has.")
    _check(option, made)
    rule.matches.append(made)


def isdataat(rule: Rule, option: Option, sticky: int) -> None:
    """isdataat:[!]N[,relative][,rawbytes]."""
    parts = _parts(option, 1, "10,relative")
    made = _begin(rule, option, sticky)
    made.negated = parts[0].startswith("!")
    made.offset = _operand(option, parts[0][made.negated :].strip(), 0, _OFFSET_MOST)
    for word in parts[1:]:
        if word == "relative":
            _relative(rule, made, sticky)
        elif word != "rawbytes":
            raise _error(option, f"'{word[:40]}' is unknown", "it has relative and rawbytes.")
    rule.matches.append(made)


def operands(match: Match) -> tuple[Operand | None, ...]:
    """The numbers of an option that may be variables."""
    if isinstance(match, Content):
        return match.offset, match.depth, match.distance, match.within
    if isinstance(match, Bytes):
        return match.offset, match.value, match.post
    return ()


VARIABLES_MOST = 16
"""Variables of one rule."""


def check_variables(rule: Rule) -> None:
    """A variable is used in the buffer that it is read from, and after it. Raises RuleError."""
    known: dict[str, int] = {}
    for match in rule.matches:
        for name in operands(match):
            if isinstance(name, str) and known.get(name) != match.buffer:
                item = f"option '{match.kind}'" if isinstance(match, Bytes) else "option 'content'"
                raise RuleError(
                    match.place,
                    item,
                    f"no byte_extract before it sets '{name[:40]}' in the {buffers.NAMES[match.buffer]}",
                    "write byte_extract:2,0,NAME; before what uses NAME.",
                )
        if isinstance(match, Bytes) and match.name:
            known[match.name] = match.buffer
    if len(known) > VARIABLES_MOST:
        raise RuleError(rule.place, "rule", f"it has more than {VARIABLES_MOST} variables")


def variable_slots(matches: list[Match]) -> dict[str, int]:
    """The number of each variable of a part."""
    names = [match.name for match in matches if isinstance(match, Bytes) and match.name]
    return {name: slot for slot, name in enumerate(dict.fromkeys(names))}
