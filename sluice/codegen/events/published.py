"""Published events as C: their structs, and the functions that call the subscribers.

SLUICE_EMIT (runtime/function/sluice.h) calls FUNCTION_chain_NAME_publish if FUNCTION_chain_NAME_subscribed is not 0. The
subscribers run inside this call: one after the other, in the order of the functions, those of a base event first.
"""

from __future__ import annotations

from sluice.codegen.c.names import boolean, data_member
from sluice.codegen.events.dispatch import Dispatcher, watched_variables
from sluice.codegen.events.functions import event_struct
from sluice.codegen.stack_names import StackNames
from sluice.hooks.function import CFunction
from sluice.hooks.published import CHAIN, PublishedEvent
from sluice.hooks.subscription import HookError


def published_structs(names: StackNames) -> list[str]:
    """The structs of all published events. Raises HookError where a layer of the stack has the name of theirs."""
    published = names.functions.published
    if not published.names:
        return []
    if any(CHAIN in (layer.name, layer.layer, layer.prototype) for layer in names.program.layers.values()):
        raise HookError(
            f"{published.all[0].where}: the stack has a layer '{CHAIN}', and subscriptions to what functions publish "
            "name that, too\n    give the layer of the stack another name."
        )
    out = ["", "/* --- events that functions publish --- */"]
    for name, shape in names.published.events.items():
        fields = [f"    {kind} {data_member(field)};" for field, kind in published.fields(name)]
        out += ["", f"{event_struct(shape)} {{", *(fields or ["    char nothing;"]), "};"]
    return out


def publish_names(names: StackNames, function: CFunction) -> list[str]:
    """Of each event that a function publishes: whether it has subscribers, and what calls them."""
    out: list[str] = []
    for event in function.publishes:
        word = _word(event)
        out.append(f"enum {{ {word}_subscribed = {boolean(is_subscribed(names, event.name))} }};")
        out.append(f"{_head(names, event)};")
        out.append(f"#define sl_publishes_{event.name}")
    return out


def publish_names_end(function: CFunction) -> list[str]:
    """After the text of a function: what holds for it alone."""
    return [f"#undef sl_publishes_{event.name}" for event in function.publishes]


def publish_functions(names: StackNames) -> list[str]:
    """The functions that call the subscribers."""
    out: list[str] = []
    for function in names.functions.c:
        for event in function.publishes:
            out += ["", _head(names, event), "{"]
            if not is_subscribed(names, event.name):
                out += ["    (void)from;", "    (void)given;", "}"]
                continue
            out += ["    struct sl_event event = *from;", *subscriber_calls(names, event.name), "}"]
    return ["", "/* --- published events --- */", *out] if out else []


def subscriber_calls(names: StackNames, event: str) -> list[str]:
    """Statements that call the subscribers of an event, after those of its bases."""
    published = names.functions.published
    dispatcher = Dispatcher(names.functions, names.published)
    out: list[str] = []
    for name in published.lineage(event):
        calls = dispatcher.statements(name)
        if not calls:
            continue
        struct = event_struct(names.published.events[name])
        values = [f"given->{data_member(field)}" for field, _ in published.fields(name)]
        out += [
            "    {",
            f"        {struct} data = {{{', '.join(values) or '0'}}};",
            *("        " + line for line in watched_variables(dispatcher.on_demand(name))),
            *(["        uint64_t stopped = sl_stopped(&event, false);"] if dispatcher.tests_stopped(name) else []),
            *("        " + line for line in calls),
            "    }",
        ]
    return out


def is_subscribed(names: StackNames, event: str) -> bool:
    """Whether a published event, or one of its bases, has a subscriber."""
    dispatcher = Dispatcher(names.functions, names.published)
    return any(dispatcher.subscribers(name) for name in names.functions.published.lineage(event))


def _word(event: PublishedEvent) -> str:
    return f"{event.function}_{CHAIN}_{event.name}"


def _head(names: StackNames, event: PublishedEvent) -> str:
    struct = event_struct(names.published.events[event.name])
    return f"SL_UNUSED static inline void {_word(event)}_publish(const struct sl_event *from, const {struct} *given)"
