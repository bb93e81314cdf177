"""The quick edit loop: a stack without passes and optimisation, whose functions in C are compiled separately.

The stack is generated and compiled once, as long as the declarations of its functions do not change. Its copies of the
functions are weak symbols, which the objects of the separately compiled functions override. So after an edit of a
function, only that object is compiled. The stack also contains the sizes of a function's types. Both objects export
these sizes, and if they differ, the stack is compiled again with the new text.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sluice.codegen.stack import Generated, generate
from sluice.engine.cache import cache_folder
from sluice.engine.compiler import Compiled, compile_parts
from sluice.engine.program_cache import Made, content, outline, recall, store
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.subscription import HookError
from sluice.ir.graph import Program
from sluice.lang.stack import Stack
from sluice.lower.build import build

_WEAK = "#define SL_SEPARATE_FUNCTIONS __attribute__((weak))\n"
_STRONG = "#define SL_SEPARATE_FUNCTIONS\n"


def compile_quick(
    stack: Stack, functions: Functions, options: frozenset[str], check: Callable[[Program], None]
) -> tuple[Made, Compiled, bool]:
    """The program and library of a stack, and whether the stack itself had to be generated or compiled."""
    begin = time.perf_counter()
    folder = cache_folder()
    for event in (event for event in functions.published.all if not event.expected):
        raise HookError(
            f"{event.where}: '{event.name}' is published by calls into other functions, which --quick compiles apart\n"
            "    run it without --quick."
        )
    found = content(stack, _declared(functions), "none", options | {"quick"})
    made = recall(folder, stack.name, found) if found is not None else None
    first = made is None
    if made is None:
        program = build(stack, functions.hooks(), options, functions.kept)
        check(program)
        made = Made(outline(program), generate(program, functions))
        if found is not None:
            store(folder, stack.name, found, made)
    else:
        check(made.program)
    parts = {function.name: _part(made.generated, function) for function in functions.c}
    path = compile_parts(made.generated, _WEAK + _sized(made.generated.source, functions), parts)
    if not _fits(path, functions):
        first = True
        source = _replaced(made.generated.source, functions)
        made = Made(made.program, replace(made.generated, source=source))
        if found is not None:
            store(folder, stack.name, found, made)
        path = compile_parts(made.generated, _WEAK + _sized(source, functions), parts)
    return made, Compiled(path, time.perf_counter() - begin, ""), first


def _declared(functions: Functions) -> Functions:
    """The functions without their texts: everything that the stack depends on, except the sizes of their types."""
    return replace(
        functions, c=tuple(replace(function, text="", path=Path(function.path).name) for function in functions.c)
    )


def _section(source: str, function: CFunction) -> tuple[int, int, int]:
    """Offsets in generated C: the beginning of a function's section, and the beginning and end of its text."""
    begin = source.index(f"/* --- function {function.name} --- */\n")
    text = source.index("\n", source.index("\n#line 1 ", begin) + 1) + 1
    return begin, text, source.index("\n#undef SLUICE_FUNCTION\n", text)


def _part(generated: Generated, function: CFunction) -> str:
    """The source of a function's object: the C before all functions, then its section with the current text."""
    source = generated.source
    begin, text, _ = _section(source, function)
    head = source[: source.index("/* --- function ")]
    return f"{_STRONG}{head}{source[begin:text]}{function.text.rstrip()}\n{_sizes(function, 'part')}"


def _replaced(source: str, functions: Functions) -> str:
    """Generated C with the current texts of the functions."""
    for function in functions.c:
        _, text, end = _section(source, function)
        source = source[:text] + function.text.rstrip("\n") + source[end:]
    return source


def _sized(source: str, functions: Functions) -> str:
    return source + "\n".join(_sizes(function, "stack") for function in functions.c)


def _types(function: CFunction) -> list[str]:
    """The types of a function whose sizes the stack has compiled in."""
    types = [f"{function.name}_worker_type"] if function.worker else []
    types += [f"{function.name}_common_type"] if function.common else []
    types += [f"{function.name}_state_type"] if function.state else []
    types += [item.struct for item in function.shared if item.struct]
    return types


def _size_count(function: CFunction) -> int:
    return 1 + 2 * len(_types(function))


def _sizes(function: CFunction, where: str) -> str:
    """An array of the sizes of these types."""
    sizes = "".join(f", sizeof({name}), _Alignof({name})" for name in _types(function))
    return (
        f'\n__attribute__((visibility("default"))) const unsigned sl_{where}_sizes_{function.name}[] = {{0{sizes}}};\n'
    )


def _fits(path: Path, functions: Functions) -> bool:
    library = ctypes.CDLL(str(path))
    return all(
        list((ctypes.c_uint * _size_count(function)).in_dll(library, f"sl_stack_sizes_{function.name}"))
        == list((ctypes.c_uint * _size_count(function)).in_dll(library, f"sl_part_sizes_{function.name}"))
        for function in functions.c
    )
