"""Native functions: C functions that a description calls for what the language cannot express, such as decryption or
decompression.

    seal = Native("seal.c", libraries=["crypto"], option="keys")
    unseal = seal.function("unseal", reasons=["no key", "broken"], limit=65536)

    p.sdu = unseal(p.header.number, p.payload, into=[p.temp.key_phase])

runtime/native.h documents the C interface.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from sluice.lang.action import Action, Block
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError, described
from sluice.lang.expression import NUMBER, Expression, to_expression, to_number
from sluice.lang.field_value import FieldValue
from sluice.lang.where import here

MOST_BYTES = 1 << 20
"""The maximum number of bytes that a function returns."""
MOST_REASONS = 60
NO_MEMORY = "no memory"
"""The reason that every function has: there was no memory for its state or its result."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_REASON = re.compile(r"[a-z0-9][a-z0-9 '-]*")


class Native:
    """A C file with functions that descriptions call. It is compiled with the stack.

    source: the path of the file, relative to the file with this call. It defines `const struct sl_native_module` of its
        own name.
    libraries: the libraries to link, as for the linker's -l; none if the file loads its own.
    option: the name of the option whose text is passed to its `open`: `sluice run --keylog FILE` for "keylog".

    Raises DescriptionError for an invalid file name. Whether the file exists is checked when a stack is built.
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

        name: its name in C.
        reasons: why it may refuse, by number from 1. Each is counted.
        limit: the maximum number of bytes that it returns, 1 to 1 MiB; 0 if it returns none.

        Raises DescriptionError for an invalid name, reason or limit.
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
    """A function of a Native. A call of it in a description is an action or an SDU, executed for each packet."""

    def __init__(self, module: Native, name: str, reasons: tuple[str, ...], limit: int) -> None:
        self.module = module
        self.name = name
        self.reasons = reasons
        self.limit = limit

    def __call__(self, *inputs: object, into: Sequence[object] = (), context: object = None) -> NativeCall:
        """Call the function with `inputs`, numbers and bytes: in p.prep and events as an action, or as p.sdu.

        into: fields of p.temp for its number outputs, in order. They are 0 if it refuses.
        context: whose state the function gets: that of the instance with this number (see p.instance), of any layer;
            none if that instance has no state. By default, the state of the parser's own instance, which the first call
            creates.

        In p.sdu, its bytes are the SDU. If it refuses, there is no SDU, and the packet is dropped and counted under the
        reason. As an action, a refusal is only counted.
        """
        return NativeCall(self, inputs, into, context)


class NativeCall(Action):
    """A call of a native function; see NativeFunction."""

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
        """All expressions that the call evaluates."""
        return [*self.inputs, *([] if self.context is None else [self.context])]


def _are_texts(value: object, form: re.Pattern[str]) -> bool:
    """Whether the value is a list or tuple of strings that match `form`."""
    if not isinstance(value, (list, tuple)):
        return False
    return all(isinstance(item, str) and form.fullmatch(item) for item in cast(list[object], value))


def native_calls(action: object) -> list[NativeCall]:
    """All calls of native functions in an action or in a p.sdu."""
    if isinstance(action, Block):
        return [found for part in action.actions for found in native_calls(part)]
    if isinstance(action, Choice):
        return [found for branch in action.branches() for found in native_calls(branch)]
    return [action] if isinstance(action, NativeCall) else []
