"""Functions in C that a description calls: for what the language cannot say, as to decipher or to decompress.

    seal = Native("seal.c", libraries=["crypto"], option="keys")
    unseal = seal.function("unseal", reasons=["no key", "broken"], limit=65536)

    p.sdu = unseal(p.header.number, p.payload, into=[p.temp.key_phase])

What a function gets and gives stands in runtime/native.h.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from sluice.lang.action import Action, Block
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError, described
from sluice.lang.expression import NUMBER, Expression, FieldValue, to_expression, to_number
from sluice.lang.where import here

MOST_BYTES = 1 << 20
"""No function gives more bytes at a time."""
MOST_REASONS = 60
NO_MEMORY = "no memory"
"""The reason that every function has: there was no room for what it keeps or gives."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_REASON = re.compile(r"[a-z0-9][a-z0-9 '-]*")


class Native:
    """A file in C with functions that descriptions call, compiled beside the stack.

    source: the file, beside the one that says this; it defines `const struct sl_native_module` of its own name.
    libraries: what it is linked with, as the linker's -l takes them; none where it loads its own.
    option: the name of the option whose text its `open` gets: `sluice run --keylog FILE` for "keylog".

    Raises DescriptionError for a name that no file in C has. That the file is there is seen when a stack is built.
    """

    def __init__(self, source: str, libraries: Sequence[str] = (), option: str = "") -> None:
        self.where = here()
        self.path = Path(self.where.file).parent / source
        self.name = Path(source).stem
        if Path(source).suffix != ".c" or not _NAME.fullmatch(self.name):
            raise DescriptionError(
                f"a source file called {described(source)}", "give a file in C, as in Native('my_cipher.c')."
            )
        if not _are_texts(libraries, re.compile(r"[\w.+-]+")):
            raise DescriptionError(
                f"libraries={described(libraries)}", "list their names, as in libraries=['crypto'] for -lcrypto."
            )
        if option and not re.fullmatch(r"[a-z][a-z-]*", option):
            raise DescriptionError(f"option={described(option)}", "give a word, as in option='keylog' for --keylog.")
        self.libraries = tuple(libraries)
        self.option = option
        self.functions: dict[str, NativeFunction] = {}

    def function(self, name: str, reasons: Sequence[str] = (), limit: int = 0) -> NativeFunction:
        """A function of the file.

        name: as C calls it. reasons: why it may refuse, in the order of its numbers from 1; each is counted.
        limit: bytes that it gives at most, 1 to 1 MiB; 0 for one that gives none.

        Raises DescriptionError for a name, reason or limit that cannot be.
        """
        if not _NAME.fullmatch(name) or name in self.functions:
            raise DescriptionError(
                f"a function called {described(name)}", "give each function of the file once, by its name in C."
            )
        if not _are_texts(reasons, _REASON) or len(reasons) > MOST_REASONS or len(set(reasons)) < len(reasons):
            raise DescriptionError(
                f"reasons={described(reasons)}", "list different reasons, each a few small letters, as ['no key']."
            )
        if NO_MEMORY in reasons:
            raise DescriptionError(f"reason '{NO_MEMORY}' is one that every function has", "leave it out.")
        if not isinstance(cast(object, limit), int) or not 0 <= limit <= MOST_BYTES:
            raise DescriptionError(f"limit={described(limit)}", f"a function gives 0 to {MOST_BYTES} bytes.")
        made = NativeFunction(self, name, (*reasons, NO_MEMORY), limit)
        self.functions[name] = made
        return made


class NativeFunction:
    """A function of a Native. Called in a description, it makes what is done for each packet."""

    def __init__(self, module: Native, name: str, reasons: tuple[str, ...], limit: int) -> None:
        self.module = module
        self.name = name
        self.reasons = reasons
        self.limit = limit

    def __call__(self, *inputs: object, into: Sequence[object] = (), context: object = None) -> NativeCall:
        """Call it with `inputs`, numbers and bytes: in p.prep and events as an action, or as p.sdu.

        into: fields of p.temp that its numbers go to, in order; 0 when it refuses.
        context: whose memory the function sees: that of the instance of this number (see p.instance), of any
            layer; nothing where that has none. By default that of the parser's own instance, which begins with
            the first call.

        As p.sdu, what it gives goes up; when it refuses, nothing does, and the packet is dropped, counted under the
        reason. As an action, what it refuses is counted and nothing more.
        """
        return NativeCall(self, inputs, into, context)


class NativeCall(Action):
    """A call of a function in C; see NativeFunction."""

    def __init__(self, function: NativeFunction, inputs: Sequence[object], into: object, context: object) -> None:
        super().__init__()
        self.function = function
        self.inputs: list[Expression] = [to_expression(item) for item in inputs]
        if not isinstance(into, (list, tuple)):
            raise DescriptionError(f"into={described(into)}", "list fields of temp, as in into=[p.temp.x].")
        self.into: list[FieldValue] = []
        for item in cast(list[object], into):
            if not isinstance(item, FieldValue) or item.group != "temp" or item.kind != NUMBER:
                raise DescriptionError(
                    f"into= names {described(item)}", "a function's numbers go to fields of p.temp of at most 64 bits."
                )
            self.into.append(item)
        self.context: Expression | None = None
        if context is not None:
            self.context = to_number(context, "context=", "give the number of an instance: what p.instance is.")

    def expressions(self) -> list[Expression]:
        """All that it asks for."""
        return [*self.inputs, *([] if self.context is None else [self.context])]


def _are_texts(value: object, form: re.Pattern[str]) -> bool:
    """Whether it is a list or tuple of texts of that form."""
    if not isinstance(value, (list, tuple)):
        return False
    return all(isinstance(item, str) and form.fullmatch(item) for item in cast(list[object], value))


def native_calls(action: object) -> list[NativeCall]:
    """All calls of functions in C in an action, or in a p.sdu."""
    if isinstance(action, Block):
        return [found for part in action.actions for found in native_calls(part)]
    if isinstance(action, Choice):
        return [found for branch in action.branches() for found in native_calls(branch)]
    return [action] if isinstance(action, NativeCall) else []
