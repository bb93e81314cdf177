"""What functions in C put into a generated program: their text, members of the box, and what opens and ends them.

The program is that of a whole stack, or that of some functions of an isolated chain.
"""

from __future__ import annotations

from collections.abc import Callable

from sluice.codegen.c.names import c_string
from sluice.codegen.events.declared_storage import counter_struct, parameter_struct
from sluice.codegen.events.functions import data_names
from sluice.codegen.events.published import publish_names_end
from sluice.codegen.events.shared import shared_names
from sluice.codegen.events.timers import timer_numbers
from sluice.codegen.stack_names import StackNames
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.keep import NAME as KEEPER
from sluice.hooks.keep import is_kept, kept_streams
from sluice.hooks.subscription import handler

HERE = "#line HERE"
"""A line of the generated text after that of a function; `numbered` gives it its number."""


OPAQUE = ("#pragma GCC diagnostic push", '#pragma GCC diagnostic warning "-Wdeprecated-declarations"')
"""Lines before the text of a user's function: the compiler warns of members of struct sl_box in it (core/box.h)."""


def numbered(text: str, file: str) -> str:
    """Restore the line numbers of the generated file after the text of each function, by #line."""
    lines = text.split("\n")
    return "\n".join(f'#line {n + 1} "{file}"' if line == HERE else line for n, line in enumerate(lines, 1)) + "\n"


def function_texts(names: StackNames, publishing: Callable[[CFunction], list[str]]) -> list[str]:
    """The text of each function, unchanged, with the definitions that it needs. publishing: those by which it publishes
    events.
    """
    out: list[str] = []
    for index, function in enumerate(names.functions.c):
        out += [
            "",
            f"/* --- function {function.name} --- */",
            f"#define SLUICE_FUNCTION {function.name}",
            *data_names(names.program, names.functions, function),
            *publishing(function),
            *_bits_of(names.functions, function),
            *timer_numbers(names.functions, function.name),
            f"enum {{ {function.name}_index = {index} }};",
            *(["#undef SL_STATE_BESIDE", "#define SL_STATE_BESIDE 1"] if function.beside else []),
            *parameter_struct(function.name, function.parameters),
            *counter_struct(function.name, function.counters),
            *shared_names(function),
            *([] if function.generated else OPAQUE),
            f"#line 1 {c_string(function.path)}",
            function.text.rstrip("\n"),
            "#undef SLUICE_FUNCTION",
            *([] if function.generated else ["#pragma GCC diagnostic pop"]),
            *(["#undef SL_STATE_BESIDE", "#define SL_STATE_BESIDE 0"] if function.beside else []),
            *publish_names_end(function),
            HERE,
        ]
    return out


def _bits_of(functions: Functions, function: CFunction) -> list[str]:
    """The numbers of a function's on-demand handlers, and what registers them for a flow."""
    bits = functions.bits()
    values = [f"{handler(function.name, hook)}_bit = {bits[function.name, hook]}" for hook in function.on_demand]
    out = [f"enum {{ {', '.join(values)} }};"] if values else []
    out += kept_streams(functions.c, function)
    for hook in function.on_demand:
        name = handler(function.name, hook)
        lines = [f"sl_watch(event, {name}_bit, true);"]
        if is_kept(functions.c, hook):
            word = f"sl_watched_word(event, {name}_bit / 64)"
            registers = f"bool registers = event->instance && !({word} >> {name}_bit % 64 & 1);"
            lines = [registers, *lines, "if (registers)", f"    {KEEPER}_again(event, NULL, {name}_again);"]
        head = f"SL_UNUSED static inline void {name}_register(const struct sl_event *event)"
        out += [head, "{", *("    " + line for line in lines), "}"]
    return out


def watch_words(functions: Functions) -> list[str]:
    """The definition of the number of words for on-demand handlers, if it is not 1; it precedes the runtime's headers."""
    return [f"#define SL_WATCH_WORDS {functions.watch_words}"] if functions.watch_words > 1 else []


def further_words(functions: Functions) -> list[str]:
    """The member of the box with the words after the first."""
    words = functions.watch_words
    return [f"    uint64_t registered_further[{words - 1}];"] if words > 1 else []


def function_objects(function: CFunction) -> list[tuple[str, str]]:
    """What a box has of a function: the array of struct sl_box that points to it, and its type in C.

    They are no members of the box, whose layout so stays the same when a new version of a function declares others.
    """
    name = function.name
    return [
        *([("workers", f"{name}_worker_type")] if function.worker else []),
        *([("parameters", f"struct {name}_parameters")] if function.parameters else []),
        *([("function_counters", f"struct {name}_counters")] if function.counters else []),
    ]


def open_functions(functions: Functions) -> list[str]:
    """Statements that connect these members with the box and open each function. They go to the label `fail` if
    `can_fail`.
    """
    out: list[str] = []
    if functions.watch_words > 1:
        out.append("    box->base.registered_further = box->registered_further;")
    for index, function in enumerate(functions.c):
        for array, kind in function_objects(function):
            out.append(f"    if (!(box->base.{array}[{index}] = calloc(1, sizeof({kind}))))")
            out.append("        goto fail;")
        if function.common:
            size = f"sizeof *{function.name}_common(&box->base)"
            group = f"sl_group_common(options->group, {index}, {size})"
            out.append(f"    box->base.common[{index}] = options->group ? {group} : calloc(1, {size});")
            out.append(f"    if (!box->base.common[{index}])")
            out.append("        goto fail;")
        out += open_function(index, function)
    return out


def open_function(index: int, function: CFunction, reads: bool = True) -> list[str]:
    """Statements that set a function's parameters (if it `reads` them) and open it, once its objects exist."""
    out: list[str] = []
    text = f'options->function_options ? options->function_options[{index}] : ""'
    if function.parameters and reads:
        table = f'"{function.name}", {function.name}_parameter, {len(function.parameters)}'
        kept, given = f"&box->base.texts[{index}]", f"box->base.parameters[{index}]"
        out.append(f"    if (options->function_values && options->function_values[{index}]")
        out.append(f"            ? sl_parameters_set({table}, {given}, options->function_values[{index}], {kept})")
        out.append(f"            : sl_parameters_read({table}, {given}, {text}, {kept}))")
        out.append("        goto fail;")
    if function.opens:
        out.append(f"    if ({function.name}_open(&box->base, {text}))")
        out.append("        goto fail;")
    return out


def can_fail(functions: Functions) -> bool:
    """Whether the statements of `open_functions` go to the label `fail`."""
    return any(function.opens or function.common or function_objects(function) for function in functions.c)


def end_functions(functions: Functions) -> list[str]:
    """Statements by which each function ends and reports its counters."""
    out: list[str] = []
    for function in functions.c:
        if function.label:
            out.append(f"    base->reporter = {c_string(function.label)};")
        if function.closes:
            out.append(f"    {function.name}_close(base);")
        counted = f"{function.name}_counters(base)"
        out += [f'    sl_report(base, "{name}", {counted}->{name});' for name, _ in function.counters]
    if any(function.label for function in functions.c):
        out.append("    base->reporter = NULL;")
    return out
