"""Shared objects of functions in the generated C: what each declares, and their life in a box (runtime/function/shared.h)."""

from __future__ import annotations

from sluice.codegen.c.names import boolean, c_string
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.shared import Shared


def shared_names(function: CFunction) -> list[str]:
    """What the text of a function needs: the numbers of its declarations, and their accessor."""
    if not function.shared:
        return []
    names = ", ".join(f"{function.name}_shared_{item.name}" for item in function.shared)
    return [
        f"enum {{ {names} }};",
        f"__attribute__((unused)) static inline struct sl_shared *{function.name}_shared(const struct sl_box *box) {{",
        f"    return box->shared->of[{function.name}_index];",
        "}",
    ]


def shared_tables(functions: Functions) -> list[str]:
    """What each function declares; after the texts of all, which define their structs."""
    out: list[str] = []
    for function in functions.c:
        if function.shared:
            rows = [f"    {_row(function, item)}," for item in function.shared]
            out += [f"static const struct sl_shared_info {function.name}_shared_info[] = {{", *rows, "};"]
            out += [
                f'_Static_assert(sizeof({item.struct}) <= SL_STORE_BYTES_MOST, "{item.name} is too large");'
                for item in function.shared
                if item.struct
            ]
    if functions.shares:
        counts = ", ".join(str(len(function.shared)) for function in functions.c)
        out = ["", "/* --- shared objects --- */", *out, f"static const uint32_t shared_counts[] = {{{counts}}};"]
    return out


def _row(function: CFunction, item: Shared) -> str:
    scope = {"flow": "SL_SCOPE_FLOW", "all": "SL_SCOPE_ALL"}.get(item.scope_text, "SL_SCOPE_FIELDS")
    fields = ", ".join(map(c_string, item.scope)) if isinstance(item.scope, tuple) else "NULL"
    size = f"sizeof({item.struct})" if item.struct else "0"
    return (
        f"{{{c_string(function.name)}, {c_string(item.name)}, SL_SHARED_{item.type.upper()}, {scope}, "
        f"SL_{item.access.upper()}, {boolean(item.loss == 'recover')}, {size}, {{{fields}}}}}"
    )


def shared_members(functions: Functions) -> list[str]:
    """Members of the box."""
    if not functions.shares:
        return []
    return [
        "    struct sl_shared_state shared_state;",
        f"    struct sl_shared *shared_of[{len(functions.c)}];",
        *(f"    struct sl_shared {f.name}_declared[{len(f.shared)}];" for f in functions.c if f.shared),
    ]


def open_shared(functions: Functions) -> list[str]:
    """Statements that open them, before functions open."""
    if not functions.shares:
        return []
    out = [
        "    box->shared_state = (struct sl_shared_state){.box = &box->base, .store = options->store, "
        ".file = options->state_file,",
        f"        .of = box->shared_of, .count = shared_counts, .functions = {len(functions.c)}}};",
        "    box->base.shared = &box->shared_state;",
    ]
    for index, function in enumerate(functions.c):
        if function.shared:
            out.append(f"    box->shared_of[{index}] = box->{function.name}_declared;")
        for number, _ in enumerate(function.shared):
            at = f"&box->{function.name}_declared[{number}], &{function.name}_shared_info[{number}]"
            out.append(f"    if (sl_shared_open({at}, &box->shared_state, options->max_instances, options->seed))")
            out.append("        goto fail;")
    return out


def flush_shared(functions: Functions) -> list[str]:
    """Statements at the end of a burst."""
    return ["    sl_shared_flush(&box->shared_state);"] if functions.shares else []


def finish_shared(functions: Functions) -> list[str]:
    """Statements at the end of input, after functions have closed."""
    return ["    sl_shared_finish(&box->shared_state);"] if functions.shares else []


def close_shared(functions: Functions) -> list[str]:
    """Statements that free their memory."""
    return [
        f"    sl_shared_close(&box->{function.name}_declared[{number}]);"
        for function in functions.c
        for number, _ in enumerate(function.shared)
    ]
