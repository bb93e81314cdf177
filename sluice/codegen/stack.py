"""The C of a whole stack: one source file, and the header for programs that embed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sluice.codegen.bpf.errors import UnsuitableError
from sluice.codegen.bpf.fanout import Fanout, fanout
from sluice.codegen.burst.arrive import context, waiting
from sluice.codegen.c.names import boolean, identifier
from sluice.codegen.events.boxed import function_texts, further_words, numbered, watch_words
from sluice.codegen.events.columns import columns
from sluice.codegen.events.control import check_controls, is_controlled
from sluice.codegen.events.functions import function_states, is_on_demand
from sluice.codegen.events.metadata import information
from sluice.codegen.events.published import publish_functions, publish_names, published_structs
from sluice.codegen.events.records import records
from sluice.codegen.events.reload import former_fields, layer_indices, reload_functions
from sluice.codegen.events.shared import shared_members, shared_tables
from sluice.codegen.events.timers import timer_fields, timers
from sluice.codegen.interface import callback_structs, header, interface, weak_functions
from sluice.codegen.layer.instance_layout import struct_text, tables
from sluice.codegen.layer.layer import Counters, LayerWriter, StackNames, layer_text
from sluice.codegen.layer.lifetime import lifetimes, timeouts
from sluice.codegen.layer.on_demand import find_instance, watch
from sluice.codegen.layer.relief import relief
from sluice.hooks.function import Functions
from sluice.ir.graph import (
    CONTEXTS_GAVE_UP,
    COSTLY,
    PLAIN,
    TOO_DEEP,
    TOO_MANY_RECORDS,
    NativeModule,
    Program,
    Rules,
    alias_tables,
    depth_counters,
)
from sluice.lang.events import END_REASONS
from sluice.passes.analysis.fast_path import counted_per_burst


@dataclass
class Generated:
    """The C text, and what the Python side needs to communicate with the compiled code.

    counters: (layer, name) by number. events: (layer, event) by number, for batches. roots: by the same number, the
    event of the stack that the event is based on. columns, column_roots: the same for events that Python takes many at
    once. timeouts: seconds by number. natives: modules to compile and link with the text. sources: paths of C files of
    functions, also to be compiled and linked. libraries: that functions are linked with. fanout: the choice of workers for
    the kernel, or why it cannot choose them.
    """

    name: str
    source: str
    header: str
    counters: list[tuple[str, str]]
    events: list[tuple[str, str]]
    roots: list[str]
    columns: list[tuple[str, str]]
    column_roots: list[str]
    timeouts: list[float]
    natives: tuple[NativeModule, ...] = ()
    sources: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    fanout: Fanout | str = "it has no key of packets"


def generate(program: Program, functions: Functions, weak: bool = False) -> Generated:
    """C for a program. With `weak` every Callback calls a weak function that the user may define.

    Raises HookError if a C function hooks events of one name that carry different data.
    """
    check_controls(functions, list(program.layers.values()))
    names = stack_names(program, functions, weak)
    writers = [LayerWriter(layer, names) for layer in program.layers.values()]
    bodies: list[str] = []
    for writer in writers:  # first: counters are numbered in the order of first use
        layer = writer.layer
        bodies += ["", f"/* --- layer {layer.name} (parser {layer.prototype}) --- */", *layer_text(writer)]
    event_records = [*records(names), *columns(names)]  # events are numbered here
    entries = interface(names)
    counted = len(names.counters.names)  # all counters: the box has an array of this size
    counts_units = any(layer.rules is not None and layer.rules.units for layer in program.layers.values())
    out = [
        *_contract(names),
        *watch_words(functions),
        '#include "core/tuning.h"',
        f'#include "{names.prefix}.h"',
        '#include "core/dispatch.h"',
        '#include "core/tables.h"',
        '#include "function/records.h"',
        '#include "function/sluice.h"',
        *(['#include "core/reload.h"'] if functions.c and not weak else []),
        *(['#include "function/columns.h"'] if functions.many else []),
        *(['#include "stream/sequence_units.h"'] if counts_units else []),
        *_natives(program),
        *(callback_structs(names) if weak and functions.c else []),
        *published_structs(names),
        *function_texts(names, partial(publish_names, names)),
        *shared_tables(functions),
        *instances(names, "instances"),
        *context(names),
        *_box(names),
        *information(names),
        *_shared_by_layers(names),
        "",
        "/* --- functions of the layers --- */",
        "",
        *(line for writer in writers for line in writer.prototypes()),
        *waiting(names),
        *lifetimes(names),
        *timeouts(names),
        *relief(names),
        *event_records,
        *publish_functions(names),
        *find_instance(names),
        *watch(names),
        *timers(names),
        *bodies,
        *entries,
        *(weak_functions(names) if weak else reload_functions(names)),
    ]
    assert len(names.counters.names) == counted
    return Generated(
        name=names.prefix,
        source=numbered("\n".join(out), f"{names.prefix}.c"),
        header=header(names),
        counters=list(names.counters.names),
        events=list(names.events),
        roots=[functions.events.root(names.layer(layer), event) for layer, event in names.events],
        columns=list(names.columns),
        column_roots=[functions.events.root(program.layers[layer], event) for layer, event in names.columns],
        timeouts=names.seconds,
        natives=program.natives,
        sources=functions.sources,
        libraries=functions.libraries,
        fanout=_fanout(program),
    )


def _fanout(program: Program) -> Fanout | str:
    try:
        return fanout(program)
    except UnsuitableError as error:
        return str(error)


def stack_names(program: Program, functions: Functions, weak: bool = False) -> StackNames:
    """The names and numbers of a program."""
    seconds: list[float] = []
    first: dict[str, int] = {}
    for layer in program.layers.values():
        first[layer.name] = len(seconds)
        seconds += layer.timeouts
    counters = Counters()
    for name in ("packets", "bytes", "unknown link type", *depth_counters(program)):
        counters.index("box", name)
    if program.natives:
        counters.index("box", CONTEXTS_GAVE_UP)
    for layer in program.layers.values():
        for name in ("packets", "bytes", *layer.outcomes(), *layer.counters()):
            counters.index(layer.name, name)
        if layer.instance is not None:
            for name in ("instances", *(f"ended:{reason}" for reason in END_REASONS)):
                counters.index(layer.name, name)
    return StackNames(program, functions, tables(program), counters, [], [], seconds, first, weak)


def _contract(names: StackNames) -> list[str]:
    """The comment at the head of the file."""
    prefix = names.prefix
    return [
        f"/* Stack {names.program.name}, generated by Sluice. Comments name the lines of the description.",
        " *",
        f" * {prefix}_process takes packets in groups of up to SL_GROUP. Stage 1 takes each packet of a group through its",
        " * stateless layers, prefetches what stage 2 reads, and leaves no trace in instances. Stage 2 processes the packets",
        " * in order. A box belongs to one thread and is the only state. Every byte of a packet is read after a check that it",
        " * was captured. No input allocates beyond the options of the box.",
        " *",
        " * For layer x there are, as far as it needs them: layer_x, its main graph; stateless_x, template_x and lookahead_x,",
        " * stage 1; deferred_x, the work that stage 1 leaves to stage 2; drain_x and end_x, for an instance; frame_x and",
        " * lost_x, for messages; dispatch_x and path_x, the choice of a packet's worker. `sluice explain` prints these graphs.",
        " */",
    ]


def _natives(program: Program) -> list[str]:
    """Declarations of what native modules define in their own files."""
    if not program.natives:
        return []
    out = ['#include "native/contexts.h"', "", "/* --- native modules --- */"]
    for module in program.natives:
        out.append(f"extern const struct sl_native_module {module.name};")
        out += [f"sl_native_function {name};" for name, _ in module.functions]
    return out


def instances(names: StackNames, heading: str) -> list[str]:
    """The structs of the instances of each table, and the rules of their sequences."""
    out = ["", f"/* --- {heading} --- */", *layer_indices(names)]
    for table in names.tables.values():
        states = function_states(table, names.functions)
        watched = names.functions.watch_words if is_on_demand(table, names.functions) else 0
        controlled = is_controlled(table, names.functions)
        last = former_fields(table, states, names.functions)
        out += ["", *struct_text(table, last, watched, controlled, timer_fields(table, names.functions))]
    return [*out, *_sequence_rules(names)]


def _sequence_rules(names: StackNames) -> list[str]:
    """The rules of each layer's sequences."""
    out: list[str] = []
    for layer in names.program.layers.values():
        rules = layer.rules
        if rules is None:
            continue
        out += [
            "",
            f"static const struct sl_sequence_rules rules_{identifier(layer.name)} = {{",
            f"    .width = {rules.width}, .linear = {boolean(rules.linear)}, .policy = {_policy(rules)},",
            f"    .whole = {boolean(rules.whole)}, .buffer_data = {boolean(rules.buffer_data)}, .limit_bytes = {rules.limit},",
            f"    .accounts = {boolean(rules.accounts)}, .bounded = {boolean(rules.bounded)},",
            f"    .limit_pieces = {rules.limit_pieces}, .limit_records = {rules.limit_records if rules.record else 0},",
            f"    .history = {rules.history}, .record_words = {len(rules.record)},",
            "};",
        ]
    return out


def _policy(rules: Rules) -> str:
    """The runtime's name of an overlap policy. Some policies have a variant for the fragments of a datagram."""
    own = rules.whole and rules.policy in ("linux", "windows", "solaris")
    return f"SL_POLICY_{rules.policy.upper()}{'_FRAGMENTS' if own else ''}"


def _otherwise(names: StackNames) -> list[str]:
    """The member of the box for counting per group, if templates are counted per group."""
    count = len(counted_per_burst(names.program))
    what = f"    struct {{ uint64_t packets, bytes; }} otherwise[{count}];   /* by template: packets of the group that did not match it */"
    return [what] if count else []


def _shared_by_layers(names: StackNames) -> list[str]:
    """Functions that the functions of all layers call."""
    costly = [number for number, layer in enumerate(names.program.layers.values()) if layer.costly]
    records: list[str] = []
    if names.program.records:
        forget = "    box->base.counted_at = 0;   /* of nests_further, which does not count records */"
        records = [
            "",
            "/* Whether a packet may enter one more layer that is a record. */",
            "SL_UNUSED static inline bool adds_record(const struct sl_stack_box *box)",
            "{",
            "    return box->base.depth < box->base.deepest && box->base.bundle_credit;",
            "}",
            "",
            "/* The same for a layer that is a record. */",
            *_may_enter(names, "may_add_record", "adds_record(box)", TOO_MANY_RECORDS, [forget] if costly else []),
        ]
    return [
        "",
        "/* Counts a packet that leaves a layer in stage 1. The counter of its bytes follows that of its packets. */",
        "SL_UNUSED static inline void count_packet(struct sl_stack_box *box, unsigned packets, unsigned outcome, "
        "uint64_t bytes)",
        "{",
        "    box->counters[packets]++;",
        "    box->counters[packets + 1] += bytes;",
        "    box->counters[outcome]++;",
        "}",
        *_nests(costly),
        "",
        "/* The same. If not, it is counted. */",
        *_may_enter(names, "may_nest", "nests(box)", TOO_DEEP),
        *records,
    ]


def _nests(costly: list[int]) -> list[str]:
    """The function that says whether a packet may enter one more layer that is no record. costly: numbers of layers."""
    bound = "box->base.depth < box->base.depth_most"
    further: list[str] = []
    if costly:
        is_costly = " || ".join(f"last == {number}" for number in costly)
        bound = "SL_LIKELY(box->base.depth < box->base.depth_plain) || nests_further(box)"
        further = [
            "/* The same for a packet in many layers, of which some count for several. How many those count for that it has",
            " * entered so far is known from the last call, unless it was in another layer then. */",
            "SL_COLD bool nests_further(struct sl_stack_box *box)",
            "{",
            "    const uint32_t depth = box->base.depth;",
            "    if (depth >= box->base.depth_most)",
            "        return false;",
            f"    uint32_t from = box->base.counted_at + 1 == depth ? depth - 1 : {PLAIN};",
            f"    uint32_t counted = from > {PLAIN} ? box->base.counted : {PLAIN};",
            "    for (; from < depth; from++) {",
            "        const uint32_t last = box->base.path[from];",
            f"        counted += {is_costly} ? {COSTLY} : 1;",
            "    }",
            "    box->base.counted_at = depth;",
            "    box->base.counted = counted;",
            "    return counted < box->base.depth_most;",
            "}",
            "",
        ]
    return [
        "",
        *further,
        "/* Whether a packet may enter one more layer. */",
        "SL_UNUSED static inline bool nests(SL_UNUSED struct sl_stack_box *box)",
        "{",
        f"    return {bound};",
        "}",
    ]


def _may_enter(names: StackNames, name: str, condition: str, counter: str, before: Sequence[str] = ()) -> list[str]:
    """The function that says whether a packet may enter one more layer, and counts it if not. before: statements."""
    return [
        f"SL_UNUSED static inline bool {name}(struct sl_stack_box *box)",
        "{",
        *before,
        f"    if (SL_LIKELY({condition}))",
        "        return true;",
        "    " + names.counters.add("box", counter),
        "    return false;",
        "}",
    ]


def _box(names: StackNames) -> list[str]:
    out = [
        "",
        "struct sl_stack_box {",
        "    struct sl_box base;",
        "    struct sl_slots *slots;          /* of the current packet */",
        "    struct sl_pending waiting[SL_GROUP + 1];   /* the last one is pending for no layer */",
        *_otherwise(names),
        # addressed relative to the box: not through a pointer, which the C compiler would reload after a store
        f"    uint64_t counters[{len(names.counters.names)}];",
        f"    uint64_t timeouts[{max(1, len(names.seconds))}];",
        *(["    sl_bytes units[SL_DEPTH_MOST];"] if names.functions.needs_units else []),
    ]
    for table in names.tables.values():
        word = identifier(table.name)
        out.append(f"    struct sl_table {table.variable};")
        out.append(f"    struct sl_sweep sweep_{word};")
        out.append(f"    uint32_t evict_{word};")
        if table.messages:
            out.append(f"    struct sl_messages_array {table.kept_messages};")
        if table.deferred:
            out.append(f"    struct sl_instance *{table.latest};   /* that the previous packet updated */")
            out.append(f"    uint64_t {table.wanted}[{table.words}];   /* the key of the previous look-up */")
    out += [f"    struct sl_aliases {identifier(name)};" for name in alias_tables(names.program)]
    out += further_words(names.functions)
    out += shared_members(names.functions)
    if names.functions.timers:
        out.append(f"    struct sl_timer timers[{len(names.functions.timers)}];   /* of the box */")
    if names.columns:
        out.append(f"    struct sl_columns columns[{len(names.columns)}];")
    out += [f"    struct sl_natives native_{module.name};" for module in names.program.natives]
    out.append("};")
    return out
