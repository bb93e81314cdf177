"""Parses the native modules of a program in the text form, and their functions."""

from __future__ import annotations

import dataclasses

from sluice.ir.graph import NativeModule, NativeShape
from sluice.ir.text.line import IrSyntaxError, Line


def read_module(known: tuple[NativeModule, ...], line: Line) -> tuple[NativeModule, ...]:
    """The modules extended by the one that the line after `native` describes, without functions."""
    name = line.name("the name of a native module")
    if any(module.name == name for module in known):
        raise IrSyntaxError(f"there is a native module '{name}' already: give each one a name of its own")
    line.expect("of")
    path = line.name("the path of the source file, in quotes")
    libraries: tuple[str, ...] = ()
    option = ""
    while line.take(","):
        if not libraries and not option and line.take("libraries"):
            line.expect("(")
            libraries = line.names("the name of a library", ")")
        else:
            line.expect("option")
            option = line.name("the name of the module's option")
            break
    return (*known, NativeModule(name, path, libraries, option, ()))


def read_function(known: tuple[NativeModule, ...], line: Line) -> tuple[NativeModule, ...]:
    """The modules with the function of a line added to the last one."""
    if not known:
        raise IrSyntaxError("a function without a module: a line 'native NAME of PATH' comes first")
    *others, module = known
    name = line.name("the name of a function")
    if module.function(name) is not None:
        raise IrSyntaxError(f"module '{module.name}' has a function '{name}' already: tell each one once")
    function = (name, _shape(line))
    return (*others, dataclasses.replace(module, functions=(*module.functions, function)))


def _shape(line: Line) -> NativeShape:
    line.expect("(")
    kinds = line.names("the kind of an input", ")")
    for kind in kinds:
        if kind not in ("bytes", "number"):
            raise IrSyntaxError(f"an input is 'bytes' or 'number', not '{kind}'")
    line.expect("gives")
    outputs = line.number()
    line.words("numbers", ",")
    limit = line.number()
    line.words("bytes", ",", "reasons", "(")
    return NativeShape(tuple(kind == "bytes" for kind in kinds), outputs, limit, line.names("a reason", ")"))
