"""How a running box gets a new version of its functions, in the generated C (core/reload.h).

NAME_shape describes the memory of a box: where a new version's is the same, the box and its instances stay where they
are. NAME_prepare makes what the new version begins with, NAME_adopt exchanges it for what the old version had, which
NAME_retire of the old version's library ends. NAME_abandon closes what was prepared, if another box refuses.
"""

from __future__ import annotations

from sluice.codegen.c.names import identifier
from sluice.codegen.events.boxed import function_objects, open_function
from sluice.codegen.events.functions import destructors, function_states
from sluice.codegen.layer.instance_layout import Table
from sluice.codegen.stack_names import StackNames
from sluice.hooks.function import CFunction, Functions, Reload


def former_fields(table: Table, states: list[str], functions: Functions) -> list[str]:
    """The fields with the state of functions in the struct of instances, and the bytes of that of earlier versions."""
    out: list[str] = []
    for function in functions.c:
        if function.reload is not None and function.reload.former and table.name in function.reload.tables:
            out.append(f"uint8_t {function.name}_former[{function.reload.former}] __attribute__((aligned(8)));")
        if function.name in states and not function.beside:
            out.append(f"{function.name}_state_type {function.name}_state __attribute__((aligned(8)));")
    return out


def layer_indices(names: StackNames) -> list[str]:
    """The numbers of layers, if state is next to instances."""
    if not any(function.beside for function in names.functions.c):
        return []
    rows = [f"index_{identifier(name)} = {index}" for index, name in enumerate(names.program.layers)]
    return ["", f"enum {{ {', '.join(rows)} }};"]


def reload_functions(names: StackNames) -> list[str]:
    """The definitions; none without functions in C."""
    if not names.functions.c:
        return []
    return [
        "",
        "/* --- new versions of functions --- */",
        *_shape(names),
        *_retire(names),
        *_close(names),
        *_prepare(names),
        *_adopt(names),
    ]


def _shape(names: StackNames) -> list[str]:
    rows = [str(len(names.functions.c)), "sizeof(struct sl_box)", "sizeof(struct sl_stack_box)"]
    for table in names.tables.values():
        rows.append(f"sizeof({table.struct})")
        for field in former_fields(table, function_states(table, names.functions), names.functions):
            rows.append(f"offsetof({table.struct}, {field.split()[1].partition('[')[0]})")
    sizes = [f"sizeof({f.name}_state_type)" if f.state else "0" for f in names.functions.c]
    return [
        "",
        "/* Hashes that a new version must have too, and the size of each function's state. */",
        f"const uint64_t {names.prefix}_shape[] = {{{', '.join([str(len(rows)), *rows])}}};   /* the first one: their number */",
        f"const uint64_t {names.prefix}_state_sizes[] = {{{', '.join([*sizes, '0'])}}};",
    ]


def _retire(names: StackNames) -> list[str]:
    """Ends a version: its state in instances is destroyed, and it is closed."""
    out = [
        "",
        f"void {names.prefix}_retire(struct sl_box *base, uint32_t function, bool states, bool closes)",
        "{",
        "    SL_UNUSED struct sl_stack_box *box = (struct sl_stack_box *)base;",
        "    base->frame = NULL;",
        "    switch (function) {",
    ]
    for index, function in enumerate(names.functions.c):
        out.append(f"    case {index}:")
        alone = Functions((function,))
        if function.destroys:
            for table in names.tables.values():
                statements = destructors(table, alone)
                if statements:
                    out += [
                        f"        for (uint32_t slot = 0; states && slot < box->{table.variable}.high_water; slot++) {{",
                        f"            {table.struct} *inst = ({table.struct} *)sl_table_at(&box->{table.variable}, slot);",
                        "            if (inst)",
                        *(f"                {line}" for line in statements),
                        "        }",
                    ]
        if function.closes:
            out += ["        if (closes)", f"            {function.name}_close(base);"]
        out.append("        break;")
    return [*out, "    }", "    (void)states;", "    (void)closes;", "}"]


def _state(names: StackNames, function: CFunction) -> list[str]:
    """Statements that make the memory of state that is next to instances."""
    name = function.name
    tables = [table for table in names.tables.values() if name in function_states(table, names.functions)]
    size, at = f"sizeof({name}_state_type)", f"box->base.beside[{name}_index]"
    count = len(names.program.layers)
    total = " + ".join(f"(uint64_t)box->{table.variable}.max_instances" for table in tables) or "0"
    out = [
        "    {",
        f"        uint64_t head = {count} * sizeof(uint64_t) + 63 & ~UINT64_C(63), *offset;",
        f"        if (!({at} = offset = calloc(1, head + ({total}) * {size})))",
        "            goto fail;",
    ]
    for table in tables:
        out += [f"        offset[index_{identifier(layer.name)}] = head;" for layer in table.layers]
        out.append(f"        head += (uint64_t)box->{table.variable}.max_instances * {size};")
    return [*out, "    }"]


def _close(names: StackNames) -> list[str]:
    """Closes the first new versions that were opened, and gives up what was made for all."""
    closed: list[str] = []
    opened = [each for each in names.functions.c if each.reload is not None and each.reload.fresh and _opens(each)]
    for number, function in enumerate(opened):
        if function.closes:
            closed += [f"    if (count > {number})", f"        {function.name}_close(base);"]
    return [
        "",
        "/* Frees the states that NAME_prepare made. The first `count` new versions were opened. */",
        f"static void {names.prefix}_give_up(struct sl_box *base, struct sl_adoption *made, SL_UNUSED uint32_t count)",
        "{",
        "    sl_adoption_swap(made, base);",
        "    base->frame = NULL;",
        *closed,
        "    sl_adoption_swap(made, base);",
        "    sl_adoption_discard(made, base);",
        "}",
        "",
        "/* Discards the new versions, because another box of the group refused them. */",
        f"void {names.prefix}_abandon(struct sl_box *base, struct sl_adoption *made)",
        "{",
        f"    {names.prefix}_give_up(base, made, UINT32_MAX);",
        "}",
    ]


def _prepare(names: StackNames) -> list[str]:
    out = [
        "",
        "/* Makes the initial states of the new versions, and opens these. The box uses them only while they open. False: one refused. */",
        f"bool {names.prefix}_prepare(struct sl_box *base, const struct sl_options *options, struct sl_adoption *made)",
        "{",
        "    SL_UNUSED struct sl_stack_box *box = (struct sl_stack_box *)base;",
        "    bool done = false;",
        "    uint32_t opened = 0;",
        "    if (!sl_adoption_begin(made, base)) {",
        "        sl_adoption_discard(made, base);",
        "        return false;",
        "    }",
        "    sl_adoption_swap(made, base);",
        "    base->frame = NULL;",
    ]
    for index, function in enumerate(names.functions.c):
        reload = function.reload
        if reload is None or not reload.fresh:
            continue
        kinds = dict(function_objects(function))
        for array in ("workers", "parameters", "function_counters"):
            if array in reload.fresh and array in kinds:
                out += [
                    f"    if (!(base->{array}[{index}] = calloc(1, sizeof({kinds[array]}))))",
                    "        goto fail;",
                ]
            elif array in reload.fresh:
                out.append(f"    base->{array}[{index}] = NULL;")
        if "parameters" in reload.fresh:
            out.append(f"    base->texts[{index}] = NULL;")
        if "state" in reload.fresh and function.state:
            out += _state(names, function)
        elif "state" in reload.fresh:
            out.append(f"    base->beside[{index}] = NULL;")
        opened = open_function(index, function, reads="parameters" in reload.fresh)
        out += [*opened, "    opened++;"] if _opens(function) else opened[: len(opened) - 2 * function.opens]
    out.append("    done = true;")
    if any(line.strip() == "goto fail;" for line in out):
        out.append("fail:")
    return [
        *out,
        "    (void)options;",
        "    sl_adoption_swap(made, base);",
        "    if (!done)",
        f"        {names.prefix}_give_up(base, made, opened);",
        "    return done;",
        "}",
    ]


def _opens(function: CFunction) -> bool:
    """Whether a new version is opened: not if it gets the objects of a worker that the old one opened."""
    reload = function.reload or Reload()
    return "workers" in reload.fresh or not function.worker


def _adopt(names: StackNames) -> list[str]:
    out = [
        "",
        "/* Replaces the versions of the box by the new ones. `retire` is NAME_retire of the version before. */",
        f"void {names.prefix}_adopt(struct sl_box *base, struct sl_adoption *made,",
        "        void (*retire)(struct sl_box *base, uint32_t function, bool states, bool closes))",
        "{",
        "    SL_UNUSED struct sl_stack_box *box = (struct sl_stack_box *)base;",
    ]
    for index, function in enumerate(names.functions.c):
        if function.reload is not None and function.reload.fresh:
            states = "true" if "state" in function.reload.fresh else "false"
            out.append(f"    retire(base, {index}, {states}, {'true' if _opens(function) else 'false'});")
            if function.inline:
                bit = f"~(UINT64_C(1) << {index})"
                out += [f"    base->output.failed &= {bit};", f"    base->output.off &= {bit};"]
    return [
        *out,
        "    sl_adoption_swap(made, base);",
        "    sl_adoption_discard(made, base);",
        "    base->layers = layers;",
        *(["    base->timers.find = find_timer;"] if names.functions.timers else []),
        "    (void)retire;",
        "}",
    ]
