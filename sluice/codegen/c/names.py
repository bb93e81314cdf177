"""Names in the generated C: each register, block and layer has the same name as in the description and the IR."""

from __future__ import annotations

import re
from functools import cache

from sluice.hooks.c_words import C_WORDS
from sluice.hooks.c_words import c_string as c_string  # what is written in C is imported from here
from sluice.ir.expression import Reg
from sluice.ir.graph import INSTANCE_NUMBER, INSTANCE_PLACE

_OURS = frozenset("box inst unit direct key hash flip instance layer event stream".split())


@cache
def identifier(name: str) -> str:
    """A C identifier for a name of any characters."""
    word = re.sub(r"\W+", "_", name).strip("_")
    if not word or word[0].isdigit():
        word = "n" + word
    return word


@cache
def _joined(name: str) -> str:
    """A C identifier for a name of several parts. Parts have single underscores of their own, so two stand between them:
    the value `length` of event `gap` and a register called `gap_length` are two variables.
    """
    return "__".join(identifier(part) if "__" not in part else part.replace("_", "_1") for part in name.split("."))


def variable(register: Reg) -> str:
    """The C variable of a register that belongs to the current packet."""
    return _variable(register.name)


@cache
def _variable(name: str) -> str:
    space, _, rest = name.partition(".")
    word = _joined(rest) if space == "local" else identifier(f"{space}_{_joined(rest)}")
    return word + "_" if (word in C_WORDS or word in _OURS) and name != "local.unit" else word


def member(register: Reg) -> str:
    """The member of the instance's struct, or of the slots, that stores a register."""
    if register == INSTANCE_NUMBER:
        return "number"
    if register == INSTANCE_PLACE:
        return "head.slot"
    space, _, rest = register.name.partition(".")
    return identifier(rest if space == "slot" else register.name)


def pair_member(first: Reg) -> str:
    """The member of the instance's struct that holds a pair of fields, one for each side, by the first of them."""
    return identifier(f"pair.{first.name.partition('.')[2]}")


def data_member(field: str) -> str:
    """The member of an event's struct that holds a field of the user's layout."""
    return field + "_" if field in C_WORDS else field


def storage(bits: int) -> int:
    """Bytes of the smallest C integer that holds `bits` bits."""
    for size in (1, 2, 4, 8):
        if bits <= 8 * size:
            return size
    raise ValueError(f"{bits} bits")


def boolean(value: bool) -> str:
    """The C literal of a truth value."""
    return "true" if value else "false"


def comment(text: str) -> str:
    """A text of the user's, such as the name of a file, as it may be in a comment of C: it does not end it."""
    return "".join(letter if letter.isprintable() and letter != "\\" else "?" for letter in text).replace("*/", "* /")
