"""Types of calls: functions of the program, built-in functions, records by the name of their type, and labels."""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.check.operators import OperatorChecker
from sluice.service.lang.check.scope import Signature
from sluice.service.lang.errors import Place, ServiceError, suggest
from sluice.service.lang.types import (
    ADDRESS,
    ANY,
    BOOLEAN,
    INTEGER,
    NOTHING,
    STRING,
    UNIT,
    ChannelOf,
    DictionaryOf,
    ListOf,
    Named,
    Type,
    exceeds,
    joined,
)

BUILT_IN = {
    "hash": 1, "len": 1, "head": 1, "tail": 1, "all_ready": 1, "first_ready": 1, "bind": 2,
    "src_address": 1, "src_port": 1, "load": 1, "up": 1, "ketama": 2, "ketama_weighted": 2,
    "requests": 1, "answers": 1, "failures": 1,
    "string_to_int": 1, "int_to_string": 1, "word": 2, "words": 1, "whole": 1, "fold": 3, "map": 2, "filter": 2,
}  # fmt: skip
"""Built-in functions, with the number of their arguments."""


RINGS = ("ketama", "ketama_weighted")
"""Those that choose a channel of an array by a key."""
TALLIES = ("requests", "answers", "failures")
"""Those of a backend's counters."""
CHANNEL_FUNCTIONS = ("all_ready", "bind", "src_address", "src_port", "load", "up", "first_ready", *TALLIES, *RINGS)
"""Those of channels."""


class CallChecker(OperatorChecker):
    """Types of calls."""

    def call(self, node: tree.Call, flow: tree.Expression | None = None) -> Type:
        """The type of a call; `flow` is the pipeline's value, which replaces `_`, or is the last argument."""
        arguments = list(node.arguments)
        if flow is not None:
            arguments = _with_flow(arguments, flow)
        if node.function in self.checked.functions:
            return self._function(node, arguments, self.checked.functions[node.function])
        if node.function in BUILT_IN:
            node.kind = "built-in"
            return self._built_in(node, arguments)
        type = self.checked.types.get(node.function)
        if isinstance(type, Named) and not type.variant:
            return self._record(node, arguments, type)
        if node.function in self.checked.labels:
            return self._label(node, arguments, self.checked.labels[node.function])
        if self.find(node.function) is not None:
            raise ServiceError(node.place, f"'{node.function}' is no function", "functions are declared with 'fun'.")
        known = [*self.checked.functions, *BUILT_IN, *self.checked.types, *self.checked.labels]
        raise ServiceError(node.place, f"there is no function '{node.function}'", suggest(node.function, known))

    def _function(self, node: tree.Call, arguments: list[tree.Argument], function: Signature) -> Type:
        node.kind = "function"
        if self.current is not None:
            self.current.calls.append((function.name, node.place))
        node.ordered = self._in_order(node, arguments, [each.name for each in function.parameters])
        for given, parameter in zip(node.ordered, function.parameters, strict=True):
            self._argument(given, parameter, function.name)
        return function.result

    def _in_order(self, node: tree.Call, arguments: list[tree.Argument], names: list[str]) -> list[tree.Expression]:
        """An expression for each parameter."""
        found: dict[str, tree.Expression] = {}
        places = iter([name for name in names if name not in {each.name for each in arguments}])
        for each in arguments:
            name = each.name if each.name is not None else next(places, None)
            if name is None or len(arguments) > len(names):
                raise self._count(node.place, node.function, len(arguments), len(names))
            if name not in names:
                raise ServiceError(
                    each.value.place, f"'{node.function}' has no parameter '{name}'", suggest(name, names)
                )
            if name in found:
                raise ServiceError(each.value.place, f"the argument '{name}' is given twice", "remove one of them.")
            found[name] = each.value
        if len(found) < len(names):
            raise self._count(node.place, node.function, len(found), len(names))
        return [found[name] for name in names]

    def _count(self, place: Place, name: str, given: int, wanted: int) -> ServiceError:
        plural = "argument" if wanted == 1 else "arguments"
        return ServiceError(place, f"'{name}' takes {wanted} {plural}, not {given}", "give it all of them.")

    def _argument(self, given: tree.Expression, parameter: tree.Binding, function: str) -> None:
        what = f"the parameter '{parameter.name}' of '{function}'"
        if parameter.kind == "ref":
            if not isinstance(given, tree.Name) or self.find(given.name) is None:
                raise ServiceError(
                    given.place, f"{what} refers to state, and this is a value", "give it the name of a state variable."
                )
            self.want(given, parameter.type, what)
            if given.binding is None or given.binding.kind not in ("local", "global", "ref"):
                raise ServiceError(
                    given.place,
                    f"{what} refers to state, and '{given.name}' is none",
                    "declare it at the beginning of the body: local NAME : TYPE := VALUE.",
                )
            state = given.binding.type
            if exceeds(state, parameter.type) or exceeds(parameter.type, state):
                raise ServiceError(
                    given.place, f"{what} refers to {parameter.type}, and '{given.name}' is {state}",
                    "give both one cardinality.",
                )  # fmt: skip
            return
        if not isinstance(parameter.type, ChannelOf):
            self.want(given, parameter.type, what)
            return
        inverted = isinstance(given, tree.Unary) and given.operator == "-"
        channel = self.check(given.operand if isinstance(given, tree.Unary) and inverted else given)
        if not isinstance(channel, ChannelOf):
            raise ServiceError(given.place, f"{what} is a channel, and this is {channel}", "give it a channel.")
        if inverted:
            channel = ChannelOf(channel.sends, channel.receives, channel.array)
            given.type = channel
        if not fits(channel, parameter.type):
            raise ServiceError(
                given.place, f"{what} is a channel {parameter.type}, and this is {channel}", "give it one that fits."
            )

    def _record(self, node: tree.Call, arguments: list[tree.Argument], type: Named) -> Type:
        node.kind = "record"
        node.ordered = self._in_order(node, arguments, list(type.fields))
        for given, (name, wanted) in zip(node.ordered, type.fields.items(), strict=True):
            self.want(given, wanted, f"the field '{name}'")
        return type

    def _label(self, node: tree.Call, arguments: list[tree.Argument], type: Named) -> Type:
        node.kind = "label"
        wanted = type.fields[node.function]
        if len(arguments) != 1:
            raise self._count(node.place, node.function, len(arguments), 1)
        node.ordered = [arguments[0].value]
        self.want(node.ordered[0], wanted, f"the label '{node.function}'")
        return type

    def _built_in(self, node: tree.Call, arguments: list[tree.Argument]) -> Type:
        name, count = node.function, BUILT_IN[node.function]
        if len(arguments) != count and not (name == "all_ready" and len(arguments) > 1):
            raise self._count(node.place, name, len(arguments), count)
        for each in arguments:
            if each.name is not None:
                raise ServiceError(each.value.place, f"'{name}' has no named parameters", "give the value alone.")
        node.ordered = [each.value for each in arguments]
        first = node.ordered[0]
        if name in ("fold", "map", "filter"):
            return self._over(node)
        if name in CHANNEL_FUNCTIONS:
            return self._of_channels(node)
        found = self.check(first)
        match name:
            case "len" if isinstance(found, (ListOf, DictionaryOf)) or found == STRING:
                return INTEGER
            case "len" if isinstance(found, ChannelOf) and found.array:
                return INTEGER
            case "head" if isinstance(found, ListOf):
                return found.item
            case "tail" if isinstance(found, ListOf):
                return found
            case "hash" if found in (INTEGER, STRING, BOOLEAN, ADDRESS):
                return INTEGER
            case "string_to_int" if found == STRING:
                return INTEGER
            case "int_to_string" if found == INTEGER:
                return STRING
            case "whole" if isinstance(found, Named) and not found.variant and isinstance(first, tree.Name):
                return BOOLEAN
            case "words" if found == STRING:
                return INTEGER
            case "word" if found == STRING:
                self.want(node.ordered[1], INTEGER, "the number of the word")
                return STRING
            case _:
                wanted = {
                    "len": "a list, a dictionary, a string or a channel array",
                    "head": "a list",
                    "tail": "a list",
                    "hash": "an integer, a string, a boolean or an address",
                    "string_to_int": "a string",
                    "word": "a string",
                    "words": "a string",
                    "whole": "a received message by its name",
                    "int_to_string": "an integer",
                }[name]
                raise ServiceError(first.place, f"'{name}' takes {wanted}, and this is {found}", f"give it {wanted}.")

    def _of_channels(self, node: tree.Call) -> Type:
        for each in node.ordered[: 1 if node.function in ("bind", *RINGS) else None]:
            found = self.check(each)
            if not isinstance(found, ChannelOf):
                raise ServiceError(
                    each.place,
                    f"'{node.function}' takes a channel, and this is {found}",
                    "give it a channel or an array.",
                )
            if node.function in ("first_ready", *RINGS) and not found.array:
                raise ServiceError(each.place, f"'{node.function}' chooses a channel of an array", "give it the array.")
            if node.function not in ("all_ready", "first_ready", *RINGS) and found.array:
                raise ServiceError(each.place, f"'{node.function}' takes one channel", "choose one: channels[i].")
            if node.function in ("all_ready", "first_ready") and found.receives == NOTHING:
                raise ServiceError(each.place, "nothing is received from this channel", f"its type is {found}.")
        match node.function:
            case "all_ready" | "up":
                return BOOLEAN
            case "src_address":
                return ADDRESS
            case "src_port" | "load" | "first_ready" | "requests" | "answers" | "failures":
                return INTEGER
            case "ketama" | "ketama_weighted":
                self.want(node.ordered[1], STRING, "the key")
                return INTEGER
            case _:
                self.want(node.ordered[1], ADDRESS, "the address to bind to")
                return UNIT

    def _over(self, node: tree.Call) -> Type:
        """fold(f, start, list), map(f, list), filter(f, list); f is the name of a function."""
        name, function, items = node.function, node.ordered[0], node.ordered[-1]
        if not isinstance(function, tree.Name) or function.name not in self.checked.functions:
            raise ServiceError(
                function.place, f"the first argument of '{name}' is the name of a function", "declare it with 'fun'."
            )
        target = self.checked.functions[function.name]
        if self.current is not None:
            self.current.calls.append((target.name, node.place))
        found = self.value(items, f"what '{name}' goes over")
        if not isinstance(found, ListOf):
            raise ServiceError(items.place, f"'{name}' goes over a list, and this is {found}", "give it a list.")
        wanted = [each.type for each in target.parameters]
        given: list[Type] = [found.item]
        if name == "fold":
            given.append(self.value(node.ordered[1], "the start of 'fold'"))
        if len(wanted) != len(given) or any(joined(a, b) is None for a, b in zip(wanted, given, strict=True)):
            signature = ", ".join(map(str, given))
            raise ServiceError(function.place, f"'{target.name}' does not take ({signature})", "change its parameters.")
        if name == "filter" and target.result != BOOLEAN:
            raise ServiceError(
                function.place,
                f"'filter' needs a condition, and '{target.name}' gives {target.result}",
                "return a boolean.",
            )
        if name == "fold":
            if joined(target.result, given[1]) is None:
                raise ServiceError(
                    function.place,
                    f"'{target.name}' gives {target.result}, and 'fold' starts with {given[1]}",
                    "give both one type.",
                )
            self.coerce(node.ordered[1], target.result, "the start of 'fold'")
            return target.result
        return found if name == "filter" else ListOf(target.result, found.bound)


def fits(channel: ChannelOf, wanted: Type) -> bool:
    """Whether a channel can be given where another one is required: it permits all its operations."""
    if not isinstance(wanted, ChannelOf) or channel.array != wanted.array:
        return False
    pairs = ((channel.receives, wanted.receives), (channel.sends, wanted.sends))
    return all(want in (NOTHING, ANY) or joined(have, want) is not None for have, want in pairs)


def _with_flow(arguments: list[tree.Argument], flow: tree.Expression) -> list[tree.Argument]:
    if any(isinstance(each.value, tree.Hole) for each in arguments):
        return [
            tree.Argument(flow, each.name, each.inverted) if isinstance(each.value, tree.Hole) else each
            for each in arguments
        ]
    return [*arguments, tree.Argument(flow)]
