"""Shared objects: state that a function declares so that a store can hold it (runtime/function/shared.h).

A declaration has a name, a type, the scope that keys its objects, how they are accessed, and what the loss of an update
means. Functions in C declare by SLUICE_SHARED, functions in Python by `shared`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sluice.hooks.c_words import C_WORDS
from sluice.hooks.marks import Mark

TYPES = ("counter", "number", "struct", "list", "set", "map")
ACCESSES = ("write_mostly", "read_mostly", "read_write")
LOSSES = ("recover", "zero")
FLOW, ALL = "flow", "all"
FIELDS_MOST = 4
"""Header fields of a scope: SL_SHARED_FIELDS."""


class SharedError(ValueError):
    """A declaration of a shared object that makes no sense; the message says what to do."""


@dataclass(frozen=True)
class Shared:
    """A declaration of shared objects.

    type: one of TYPES. struct: the C type of a struct, else "". scope: FLOW (an object for each instance), ALL (one),
    or the header fields that key it. access: one of ACCESSES. loss: `recover` (no update may be lost) or `zero` (it may
    begin again from nothing). Raises SharedError for what is none of these.
    """

    name: str
    type: str
    scope: str | tuple[str, ...]
    access: str
    loss: str
    help: str
    struct: str = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name in C_WORDS:
            raise SharedError(f"'{self.name}' is no name of an object: write a word of letters, digits and _")
        for what, given, known in (
            ("type", self.type, TYPES),
            ("access", self.access, ACCESSES),
            ("loss", self.loss, LOSSES),
        ):
            if given not in known:
                raise SharedError(f"'{given}' is no {what} of a shared object: it is one of {', '.join(known)}")
        if isinstance(self.scope, tuple) and not 0 < len(self.scope) <= FIELDS_MOST:
            raise SharedError(f"a scope has at most {FIELDS_MOST} header fields, as in dst+dport")
        if (
            self.type != "struct"
            and self.access == "write_mostly"
            and self.type not in ("counter", "map", "set", "list")
        ):
            raise SharedError(f"'{self.name}' is a {self.type}, whose value is read: declare read_write, or a counter")

    @property
    def scope_text(self) -> str:
        """The scope as it is declared."""
        return self.scope if isinstance(self.scope, str) else "+".join(self.scope)


@dataclass(frozen=True)
class Stored:
    """That a store may hold the state of a function in instances (SLUICE_STORED). loss: as of Shared."""

    loss: str
    help: str

    @property
    def row(self) -> Shared:
        """As it is listed among the declarations of shared objects."""
        return Shared("state", "struct", FLOW, "read_write", self.loss, self.help)


def read_stored(marks: Sequence[Mark]) -> Stored | None:
    """What SLUICE_STORED declares; None: nothing. Raises SharedError, with the line."""
    found: Stored | None = None
    for mark in marks:
        if mark.kind != "stored":
            continue
        if len(mark.arguments) != 2 or mark.arguments[0] not in LOSSES:
            raise SharedError(
                f'{mark.where}: write SLUICE_STORED(loss, "what it is") {{ ... }}, of which the loss is one of '
                f"{', '.join(LOSSES)}"
            )
        if found is not None:
            raise SharedError(f"{mark.where}: a function has one SLUICE_STORED: store all of its state there")
        if not any(other.kind == "state" for other in marks):
            raise SharedError(f"{mark.where}: SLUICE_STORED without SLUICE_STATE(type): there is no state to store")
        found = Stored(*mark.arguments)
    return found


def read_scope(text: str) -> str | tuple[str, ...]:
    """A scope from its text: flow, all, or header fields with + between them. Raises SharedError."""
    text = text.replace(" ", "")
    if text in (FLOW, ALL):
        return text
    fields = tuple(text.split("+"))
    for field in fields:
        if not re.fullmatch(r"[A-Za-z_]\w*", field):
            raise SharedError(f"'{text}' is no scope: write flow, all, or header fields, as in src or dst+dport")
    return fields


@dataclass(frozen=True)
class Operation:
    """An operation of a function on a number: its body in Lua, for the store; in C it is the function `c_name`.

    Both calculate the new value from `value`, `argument` and `other`.
    """

    function: str
    name: str
    lua: str

    @property
    def full_name(self) -> str:
        """Its name in the store: unique among all functions."""
        return f"{self.function}_{self.name}"


def read_shared(marks: Sequence[Mark]) -> tuple[Shared, ...]:
    """The objects that SLUICE_SHARED declares. Raises SharedError, with the line."""
    found: dict[str, Shared] = {}
    for mark in marks:
        if mark.kind != "shared":
            continue
        if len(mark.arguments) != 6:
            raise SharedError(
                f'{mark.where}: a shared object is SLUICE_SHARED(name, type, scope, access, loss, "what it is")'
            )
        name, kind, scope, access, loss, help = mark.arguments
        if name in found:
            raise SharedError(f"{mark.where}: there is an object '{name}' already: give this one another name")
        try:
            struct = kind if kind.startswith("struct ") else ""
            kind = "struct" if struct else kind
            if kind == "struct" and not struct:
                raise SharedError("name the struct: struct NAME")
            found[name] = Shared(name, kind, read_scope(scope), access, loss, help, struct)
        except SharedError as error:
            raise SharedError(f"{mark.where}: {error}") from None
    return tuple(found.values())


def read_operations(function: str, marks: Sequence[Mark]) -> tuple[Operation, ...]:
    """The operations that SLUICE_OPERATION defines. Raises SharedError, with the line."""
    found: dict[str, Operation] = {}
    for mark in marks:
        if mark.kind != "operation":
            continue
        if len(mark.arguments) != 2:
            raise SharedError(
                f'{mark.where}: an operation is SLUICE_OPERATION(name, "its body in Lua") {{ its body in C }}'
            )
        name, lua = mark.arguments
        if name in found:
            raise SharedError(f"{mark.where}: there is an operation '{name}' already: give this one another name")
        found[name] = Operation(function, name, lua)
    return tuple(found.values())
