"""Reads the declarations of a function in C, using the preprocessor of the compiler that will compile it."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache

from sluice.engine.compiler import INCLUDES, RUNTIME, compiler
from sluice.hooks.c_words import c_string
from sluice.hooks.function import CFunction, declared_function
from sluice.hooks.includes import with_own_includes
from sluice.hooks.marks import Mark, read_accesses, read_marks, tokens_of, without_headers
from sluice.hooks.subscription import HookError
from sluice.hooks.type_text import type_text

_RUNTIME = f"{RUNTIME}/"


def read_c_function(name: str, text: str, path: str, folders: tuple[str, ...] = ()) -> CFunction:
    """The declarations of a function in C. name: the function's name. text: its source. path: the source file, for
    messages and for headers in the same folder. folders: further include folders.

    Raises HookError if the preprocessor fails, if a declaration is invalid, or if the function would never be called.
    Raises CompilerError if there is no compiler.
    """
    whole = with_own_includes(text, path)
    return declared_function(name, whole, path, _marks(whole, path, compiler(), folders))


def declared_types(function: CFunction) -> dict[str, str]:
    """The definition of the type of each object that a function declares: "state", "worker" and "common"."""
    output = _preprocessed(function.text, function.path, compiler(), ())
    marks = [mark for mark in read_marks(tokens_of(output)) if not mark.file.startswith(_RUNTIME)]
    return {
        mark.kind: type_text(output, mark.arguments[0], _RUNTIME)
        for mark in marks
        if mark.kind in ("state", "worker", "common")
    }


@lru_cache(maxsize=256)
def _marks(text: str, path: str, command: tuple[str, ...], folders: tuple[str, ...]) -> tuple[Mark, ...]:
    """The marks in a source, excluding those of the runtime's own headers."""
    own = tokens_of(without_headers(_preprocessed(text, path, command, folders), _RUNTIME))
    return (*read_marks(own), *read_accesses(own))


def _preprocessed(text: str, path: str, command: tuple[str, ...], folders: tuple[str, ...]) -> str:
    # The generated unit includes sluice.h before the text of a function.
    source = f'#include "function/sluice.h"\n#line 1 {c_string(path)}\n{text}\n'
    further = [f"-I{folder}" for folder in folders]
    words = [*command, "-E", "-std=gnu11", "-DSLUICE_DECLARATIONS", *INCLUDES, *further]
    done = subprocess.run([*words, "-x", "c", "-"], input=source, capture_output=True, text=True)
    if done.returncode:
        raise HookError(_errors(done.stderr))
    return done.stdout


def _errors(text: str) -> str:
    """The error lines of the preprocessor's output, without its notes on the runtime's headers."""
    found = [
        re.sub(r":(\d+):\d+: (?:fatal )?error: ", r":\1: ", line) for line in text.splitlines() if "error: " in line
    ]
    return "\n".join(found or [text.strip()])[:4000]
