"""Instructions on instances as C: lookup, creation and end."""

from __future__ import annotations

from sluice.codegen.burst.stages import CURRENT, table_of_each
from sluice.codegen.c.expressions import emit, number, operand, place, stored
from sluice.codegen.c.heads import HEADS
from sluice.codegen.c.names import boolean, identifier, variable
from sluice.codegen.c.writer import LayerWriter, writes
from sluice.codegen.events.control import is_controlled
from sluice.codegen.events.functions import destructors, function_states, is_on_demand, state_of
from sluice.codegen.events.timers import timers_of
from sluice.codegen.layer.instance_layout import KeyWord, key_words
from sluice.codegen.layer.lifetime import leave
from sluice.ir import instruction as ir
from sluice.ir.expression import ZERO, Expr, is_bytes
from sluice.ir.graph import alias_tables
from sluice.ir.graph_kinds import DEFERRED, KINDS, LOOKAHEAD
from sluice.lang.events import END_REASONS


def half(w: LayerWriter, name: str, key: tuple[Expr, ...]) -> list[str]:
    """Statements that pack one half of a key."""
    assert w.table is not None
    return packed(w.table.parts, name, key)


def packed(parts: list[KeyWord], name: str, key: tuple[Expr, ...]) -> list[str]:
    """Statements that store the parts of a key in its words."""
    words: dict[int, list[tuple[str, str]]] = {}  # its text as a part of a word, and as the whole word
    out: list[str] = []
    for placed, value in zip(parts, key, strict=True):
        if is_bytes(value):
            for k in range((placed.part.bits + 63) // 64):
                size = min(8, placed.part.bits // 8 - 8 * k)
                text = f"sl_key_word({emit(value)}, {8 * k}, {size})"
                words[placed.word + k] = [(text, text)]
        else:
            text = stored(value, placed.part.bits)
            # a comparison is an int in C: it cannot be shifted so far, and it binds less tightly than |
            wide = f"(uint64_t)({text})"
            words.setdefault(placed.word, []).append((f"{wide} << {placed.shift}" if placed.shift else wide, text))
    for word in sorted(words):
        alone = words[word][0][1] if len(words[word]) == 1 else ""
        out.append(f"{name}[{word}] = {alone or ' | '.join(wide for wide, _ in words[word])};")
    return out


def keyed(w: LayerWriter, i: ir.Lookup | ir.Prefetch) -> list[str]:
    """Statements that compute `key`, and `flip` if the key has two halves."""
    table = w.table
    assert table is not None
    out: list[str] = []
    if table.oriented:
        out.append(f"uint64_t from[{table.half}], to[{table.half}];")
        out += half(w, "from", i.key) + half(w, "to", i.reverse)
        flip = "flip = " if isinstance(i, ir.Lookup) else ""
        out.append(f"{flip}sl_key_pair(key, from, to, {table.half});")
    else:
        out += half(w, "key", i.key)
    return out


@writes(ir.Prefetch)
def prefetch(w: LayerWriter, i: ir.Prefetch) -> list[str]:
    table = w.table
    assert table is not None
    assert ir.Prefetch in KINDS[w.kind].restricted, "what stage 2 reads is known before it begins"
    at = f"&box->{table.variable}"
    out = [f"uint64_t key[{table.words}];", *keyed(w, i)]
    if w.layer.deferred is not None and w.kind != LOOKAHEAD:
        out.append(f"sl_lookahead_want_other(&box->base.lookahead, {at}, key, {table.words}, box->{table.wanted});")
    else:
        want = "sl_lookahead_want_each" if table is table_of_each(w.names) else "sl_lookahead_want"
        out.append(f"{want}(&box->base.lookahead, {at}, sl_table_hash({at}, key, {table.words}));")
    return ["{", *("    " + line for line in out), "}"]


@writes(ir.Lookup)
def lookup(w: LayerWriter, i: ir.Lookup) -> list[str]:
    table = w.table
    assert table is not None
    at = f"box->{table.variable}"
    out = keyed(w, i)
    out.append(f"if (SL_UNLIKELY(--box->sweep_{identifier(table.name)}.lookups == 0))")
    out.append(f"    sweep_{identifier(table.name)}(box);")
    find = [
        f"hash = sl_table_hash(&{at}, key, {table.words});",
        f"inst = ({table.struct} *)sl_table_find(&{at}, key, {table.words}, hash);",
    ]
    if table.predicted:
        confirmed = f"key, {table.words}, {boolean(table.spare)}"
        predicted = f"inst = ({table.struct} *)sl_table_find_predicted(&{at}, box->base.lookahead.packet, {confirmed});"
        out += _latest_first(w, predicted) if w.kind == DEFERRED else [predicted]
        out += [
            "if (SL_UNLIKELY(!inst))",
            f"    inst = ({table.struct} *)sl_table_confirm({at}.newest, {confirmed});",
        ]
        if w.same_key:
            out.append("if (SL_UNLIKELY(!inst)) {")
        else:
            out += ["if (SL_LIKELY(inst)) {", "    hash = inst->head.hash;", "} else {"]
        out += [*("    " + line for line in find), "}"]
    else:
        out += find
    if w.kind == DEFERRED:
        out.append(f"box->{table.latest} = (struct sl_instance *)inst;")
    out += looked_up(i, "inst ? (uint64_t)flip ^ inst->swapped : 0" if table.oriented else "0")
    return ["{", *("    " + line for line in out), "}"]


def _latest_first(w: LayerWriter, predicted: str) -> list[str]:
    """Statements that try the previous packet's instance first: if the key is the same, it was not prefetched again."""
    assert w.table is not None
    latest = f"box->{w.table.latest}"
    return [
        f"inst = ({w.table.struct} *)sl_table_confirm({latest}, key, {w.table.words}, {boolean(w.table.spare)});",
        "if (SL_UNLIKELY(!inst))",
        f"    {predicted}",
    ]


def looked_up(i: ir.Lookup | ir.FindAlias, side: str) -> list[str]:
    """Statements that assign the results of a lookup."""
    return [
        f"{variable(i.found)} = inst != NULL;",
        f"{variable(i.expired)} = inst && sl_expired(&box->base, &inst->head);",
        f"{variable(i.side)} = {side};",
    ]


@writes(ir.LayerPath)
def layer_path(w: LayerWriter, i: ir.LayerPath) -> list[str]:
    if w.kind != LOOKAHEAD:
        return [f"{variable(i.target)} = sl_path(&box->base);"]
    # The last layer of the path is this one. Stage 2 stores it again when the packet is in the layer.
    return [f"{CURRENT}.path[depth] = {w.index};", f"{variable(i.target)} = sl_path_of({CURRENT}.path, depth + 1);"]


@writes(ir.Time)
def time(w: LayerWriter, i: ir.Time) -> list[str]:
    return [f"{variable(i.target)} = box->base.now;"]


@writes(ir.FindAlias)
def find_alias(w: LayerWriter, i: ir.FindAlias) -> list[str]:
    table = w.table
    assert table is not None
    parts, words = key_words(alias_tables(w.names.program)[i.aliases])
    at = f"box->{table.variable}"
    return [
        "{",
        f"    uint64_t alias[{words}];",
        *("    " + line for line in packed(parts, "alias", i.key)),
        f"    struct sl_alias_owner owner = sl_alias_find(&box->{identifier(i.aliases)}, alias, {words});",
        f"    inst = ({table.struct} *)sl_table_at(&{at}, owner.slot);",
        "    if (inst && inst->number != owner.number)",
        "        inst = NULL;",
        *("    " + line for line in looked_up(i, "inst ? owner.side : 0")),
        "}",
    ]


@writes(ir.AddAlias)
def add_alias(w: LayerWriter, i: ir.AddAlias) -> list[str]:
    parts, words = key_words(alias_tables(w.names.program)[i.aliases])
    owner = f"(struct sl_alias_owner){{{emit(i.number)}, {stored(i.place, 32)}, {stored(i.side, 32)}}}"
    return [
        "{",
        f"    uint64_t alias[{words}];",
        *("    " + line for line in packed(parts, "alias", i.key)),
        f"    {variable(i.evicted)} = sl_alias_add(&box->{identifier(i.aliases)}, alias, {words}, {owner});",
        "}",
    ]


@writes(ir.CreateInst)
def create(w: LayerWriter, i: ir.CreateInst) -> list[str]:
    table = w.table
    assert table is not None
    at, word = f"box->{table.variable}", identifier(table.name)
    # A copy: the address of the key itself is never taken, so that it stays in registers for the many packets that
    # create nothing.
    key = ", ".join(f"key[{word}]" for word in range(table.words))
    make = f"create_{word}(box, (const uint64_t[]){{{key}}}, hash)"
    if table.busy:  # what the end of an instance delivered may have created one with this key
        make = f"sl_table_find(&{at}, key, {table.words}, hash) ? NULL : {make}"
    out = [
        f"inst = {make};",
        f"if (SL_UNLIKELY(!inst && {at}.live >= {at}.max_instances)) {{",
        f"    evict_{word}(box);",
        f"    inst = {make};",
        "}",
    ]
    if w.in_place:
        assert not table.busy
        out = ["inst->head.deadline = SL_NEVER;   /* the slot and the key of the instance that ended are used again */"]
    stored = [
        "inst->number = ++box->base.created;",
        w.count("instances"),
    ]
    if table.messages:
        stored.append("inst->messages = NULL;")
    if w.kind == DEFERRED:
        stored.append(f"box->{table.latest} = (struct sl_instance *)inst;")
    if table.busy:  # all instances may be in use by the packets that contain this one
        out.append(f"{variable(i.made)} = inst != NULL;")
        out.append("if (SL_LIKELY(inst)) {")
        out += ["    " + line for line in stored]
        out += ["} else {", *("    " + line for line in unstored(w)), "}"]
    else:
        out += [f"{variable(i.made)} = 1;", *stored]
    out.append(f"inst->swapped = {'flip' if table.oriented else '0'};")
    return out + begin_instance(w, stored_instance=True)


def begin_instance(w: LayerWriter, stored_instance: bool) -> list[str]:
    table = w.table
    assert table is not None
    own = dict(w.layer.instance.fields) if w.layer.instance is not None else {}
    # one memset for all fields that start at 0, instead of one store for each
    out = [f"memset((uint8_t *)inst + {table.fields_begin}, 0, {table.fields_size});"] if table.fields else []
    for reg, init in table.fields:
        if value := own.get(reg, init):
            out.append(f"{place(reg)} = {number(value)};")
    for side in range(table.sides):
        out.append(f"sl_sequence_reset(&inst->sequence[{side}], &rules_{w.word});")
    if is_controlled(table, w.names.functions):
        rules = f"sl_control_begin(&inst->control, &rules_{w.word});"
        out.append(rules if w.controls_stream else "inst->control = (struct sl_control){0};")
    if is_on_demand(table, w.names.functions):
        if w.names.functions.watch_words > 1:
            out.append("memset(&inst->watch, 0, sizeof inst->watch);")
        else:
            out.append("inst->watch = (struct sl_watch){0, 0};")
    if stored_instance:
        for timer in timers_of(table, w.names.functions):
            out.append(f"inst->{timer.handler} = (struct sl_timer){{SL_NEVER, SL_NEVER}};")
        stored = function_states(table, w.names.functions)
        for function in w.names.functions.c:
            if function.name in stored:
                out.append(f"memset({state_of(function, w.layer)}, 0, sizeof({function.name}_state_type));")
    return out


@writes(ir.FreshInst)
def fresh_instance(w: LayerWriter, _: ir.Instruction) -> list[str]:
    return [*unstored(w), "inst->swapped = 0;", *begin_instance(w, stored_instance=False)]


def unstored(w: LayerWriter) -> list[str]:
    """Statements that set `inst` to an instance that is not stored in the table: it is for this packet only."""
    out = [
        "inst = &fresh_instance;",
        "inst->head.slot = SL_SLOT_FRESH;",
        "inst->head.deadline = SL_NEVER;",
        "inst->number = 0;",
    ]
    if w.table is not None and w.table.messages:
        out.append("inst->messages = memset(fresh_messages, 0, sizeof fresh_messages);")
    return out


@writes(ir.DestroyInst)
def destroy(w: LayerWriter, _: ir.Instruction) -> list[str]:
    table = w.table
    assert table is not None
    out: list[str] = []
    for side in range(table.sides):
        sequence = f"&inst->sequence[{side}]"
        if w.layer.rules is not None and w.layer.rules.buffer_data:
            wanted = f"if (inst->control.buffer_data[{side}])"
            out += [wanted] if w.controls_stream else []
            out.append(w.count("bytes:discarded", f"sl_sequence_bytes({sequence}, &{w.direct}[{side}])"))
        out.append(f"sl_sequence_clear({sequence}, &rules_{w.word}, &box->base.pool);")
    if table.messages:
        drop = [f"    sl_messages_drop(&inst->messages[{side}], &box->base.pool);" for side in range(table.sides)]
        out += ["if (inst->messages) {", *drop, "}"]
    reasons = [w.names.counters.index(w.layer.name, f"ended:{reason}") for reason in END_REASONS]
    first = reasons[0]
    assert reasons == list(range(first, first + len(reasons)))
    # The caller of the end graph removes the instance from the table afterwards (`leave`).
    stored = [*destructors(table, w.names.functions), f"box->counters[{first} + reason]++;"]
    return out + _if_stored(w, stored)


def _if_stored(w: LayerWriter, statements: list[str]) -> list[str]:
    """The statements, executed only for an instance that is stored in the table."""
    if not w.may_be_fresh:
        return statements
    return ["if (inst->head.slot != SL_SLOT_FRESH) {", *("    " + line for line in statements), "}"]


@writes(ir.EndInst)
def end_inst(w: LayerWriter, i: ir.EndInst) -> list[str]:
    assert w.table is not None
    why = f"{i.reason});   /* {END_REASONS[i.reason]} */"
    end = f"end_{w.word}(box, inst, {w.direct}, (sl_bytes){{0}}, {why}"
    if w.table.shared:  # another layer may have used it last
        end = f"end_instance_{identifier(w.table.name)}(box, inst, {w.direct}, {why}"
    if w.in_place:
        return [end]
    # An instance that takes its place has its key, and so its hash.
    again = ["hash = inst->head.hash;"] if HEADS[w.kind].finds and w.same_key else []
    return [*again, end, *_if_stored(w, [leave(w.table)]), "inst = NULL;"]


@writes(ir.RecallKey)
def recall(w: LayerWriter, i: ir.RecallKey) -> list[str]:
    table = w.table
    assert table is not None
    placed = table.parts[i.part]
    half = f"{table.half} * ({operand(i.side)} ^ inst->swapped) + " if table.oriented else ""
    at = f"inst->key[{half}{placed.word}]"
    target = place(i.target)
    if i.target.is_bytes:
        out = [f"{target} = sl_key_bytes(&{at}, {placed.part.bits // 8}, &box->base.scratch);"]
    else:
        shifted = f"{at} >> {placed.shift}" if placed.shift else at
        out = [f"{target} = {shifted} & sl_mask({placed.part.bits});"]
    if w.may_be_fresh:
        return ["if (inst->head.slot != SL_SLOT_FRESH)", "    " + out[0]]
    return out


@writes(ir.Touch)
def touch(w: LayerWriter, i: ir.Touch) -> list[str]:
    base = w.names.timeouts[w.layer.name]
    index = f"{base} + {emit(i.timeout)}" if i.timeout != ZERO else str(base)
    return [f"inst->head.deadline = sl_deadline(&box->base, box->timeouts[{index}]);"]


@writes(ir.SwapSides)
def swap(w: LayerWriter, i: ir.SwapSides) -> list[str]:
    return ["inst->swapped ^= 1;", f"{variable(i.target)} = {emit(i.side)} ^ 1;"]
