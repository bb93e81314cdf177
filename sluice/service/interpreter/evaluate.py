"""Expressions, as coroutines: they yield where they wait for a message, and are resumed when one has arrived."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import cast

from sluice.service.grammar.codec import MalformedError, Parsed, integer_bytes, integers, parts, serialise, wrap
from sluice.service.grammar.plan import Item, Plan
from sluice.service.grammar.scan import word
from sluice.service.interpreter.channels import ChannelEvaluator, Wait
from sluice.service.interpreter.values import (
    FaultError,
    Record,
    Value,
    Variant,
    arithmetic,
    exception_of,
    hashed,
    key_size,
    texts,
    to_integer,
    zero,
)
from sluice.service.interpreter.world import Channel
from sluice.service.lang import tree
from sluice.service.lang.check.calls import CHANNEL_FUNCTIONS
from sluice.service.lang.types import (
    ADDRESS,
    BOOLEAN,
    INTEGER,
    STRING,
    ChannelOf,
    DictionaryOf,
    ListOf,
    Named,
    TupleOf,
    Type,
    bound_of,
)
from sluice.service.lower.expressions import RANGE
from sluice.service.lower.values import DICTIONARY, TEXTS
from sluice.service.lower.writer import ARENA

_KEY = 256
"""Bytes of a dictionary's key."""


class Evaluator(ChannelEvaluator):
    """Evaluates the expressions of one rule."""

    def value(self, node: tree.Expression) -> Wait:
        found = yield from self._value(node)
        if node.narrowed is not None and not _within(found, node.narrowed):
            raise FaultError("LIMIT")
        return found

    def _value(self, node: tree.Expression) -> Wait:
        match node:
            case tree.Boolean() | tree.Integer():
                return node.value
            case tree.Text():
                return node.value.encode()
            case tree.Address():
                return int.from_bytes(bytes(map(int, node.value.split("."))), "big")
            case tree.Name():
                return self._name(node)
            case tree.Field():
                return self._field(node, (yield from self.value(node.base)))
            case tree.Item():
                return (yield from self.value(node.base))[node.number - 1]
            case tree.Index():
                return (yield from self._index(node))
            case tree.Unary():
                return (yield from self._unary(node))
            case tree.Binary():
                return (yield from self._binary(node))
            case tree.Tuple():
                return tuple((yield from self._all(node.items)))
            case tree.List():
                return (yield from self._all(node.items))
            case tree.Record():
                fields = yield from self._fields(node.type, node.fields)
                return Record(str(node.type), fields)
            case tree.With():
                base = yield from self.value(node.base)
                value = self._packed(node.type, node.name, (yield from self.value(node.value)))
                return Record(base.name, {**base.fields, node.name: value}, base.raw, True, base.parsed, base.note)
            case tree.Typed():
                return self._cast(node, (yield from self.value(node.value)))
            case tree.CompileTime():
                return (yield from self.value(node.value))
            case tree.Dotted():
                return (yield from self.value(node.call))
            case tree.Call():
                return (yield from self.call(node))
            case _:
                return (yield from self._construct(node))

    def _all(self, nodes: list[tree.Expression]) -> Wait:
        found: list[Value] = []
        for node in nodes:
            found.append((yield from self.value(node)))
        return found

    # --- fields

    def _fields(self, type: Type, nodes: Iterable[tuple[str, tree.Expression]]) -> Wait:
        """The fields of a record that is made."""
        found: dict[str, Value] = {}
        for name, node in nodes:
            found[name] = self._packed(type, name, (yield from self.value(node)))
        return found

    def _field(self, node: tree.Field, base: Record) -> Value:
        """A field; a list of a message is made of its bytes."""
        row, value = self.service.row(node.base.type, node.name), base.fields[node.name]
        if row is None:
            return value
        assert isinstance(node.base.type, Named)
        type = node.base.type.fields[node.name]
        try:
            if row.integer is not None:
                return self._limited(list[Value](integers(row, value)), type)
            assert row.element is not None
            found: list[Value] = []
            for each in parts(row, value):
                found.append(self._part(row.element, each, value[: each.end]))
                self._limited(found, type)
                value = value[each.end :]
            return found
        except MalformedError as error:
            raise FaultError("BAD_MESSAGE") from error

    def _part(self, unit: Plan, found: Parsed, raw: bytes) -> Record:
        """A unit within a message."""
        type = self.service.checked.types[unit.name]
        assert isinstance(type, Named)
        return Record(unit.name, {each: found.values[each] for each in self.service.fields(type)}, raw, False, found)

    def _packed(self, type: Type, name: str, value: Value) -> Value:
        """The value of a record's field: of a list in a message, its bytes."""
        row = self.service.row(type, name)
        if row is None:
            return value
        made, ends = b"", list[int]()
        for each in value:
            try:
                if isinstance(each, Record):
                    assert row.element is not None
                    if each.raw is not None and not each.changed:
                        made += each.raw
                    else:
                        made += serialise(row.element, each.fields, each.raw, each.note, ended=True)
                    ends.append(len(made))
                else:
                    assert row.integer is not None
                    made += integer_bytes(row.integer, each)
            except MalformedError as error:
                raise FaultError("UNFIT") from error
            if len(made) > ARENA - self.made:
                raise FaultError("LIMIT")
        if row.element is not None and row.element.has_pattern and _ends(row, made) != ends:
            raise FaultError("UNFIT")
        return self._text(made)

    def _construct(self, node: tree.Expression) -> Wait:
        match node:
            case tree.Sequence() | tree.Parallel():
                found: Value = ()
                for item in node.items:
                    found = yield from self.value(item)
                return found if isinstance(node, tree.Sequence) else ()
            case tree.If():
                if (yield from self.value(node.condition)):
                    return (yield from self.value(node.then))
                return (yield from self.value(node.otherwise)) if node.otherwise is not None else ()
            case tree.Switch():
                return (yield from self._switch(node))
            case tree.Let():
                found = yield from self.value(node.value)
                assert node.binding is not None
                self.names[node.binding] = found
                return found
            case tree.Assign():
                return (yield from self._assign(node))
            case tree.For():
                return (yield from self._for(node))
            case tree.Map():
                return (yield from self._map(node))
            case tree.FoldT():
                return (yield from self.foldt(node))
            case tree.Send():
                value = yield from self.value(node.value)
                self.send((yield from self.channel(node.channel)), value, node.type)
                return value
            case tree.Receive():
                return (yield from self.receive((yield from self.channel(node.channel)), node.type, node.peek))
            case tree.Can():
                return (yield from self.can(node))
            case tree.Pipe():
                return (yield from self.pipe(node))
            case _:
                raise AssertionError(f"no meaning for {type(node).__name__}")

    # --- names and operators

    def _name(self, node: tree.Name) -> Value:
        if node.binding is None:
            return zero(node.type, self.service.units)
        binding = self._kept(node.binding)
        if binding in self.names:
            return self.names[binding]
        if binding in self.states:
            return self._out(self.states[binding], binding.type)
        return node.binding.value or 0

    def _kept(self, binding: tree.Binding) -> tree.Binding:
        """The state that a name refers to, also through a parameter."""
        while binding in self.refs:
            binding = self.refs[binding]
        return binding

    def _out(self, value: Value, type: Type) -> Value:
        """A value that is copied out of state: its bytes count among those that the step makes."""
        if isinstance(type, DictionaryOf):
            return value
        size = texts(value)
        if size > ARENA - self.made:
            raise FaultError("LIMIT")
        self.made += size
        return value

    def _index(self, node: tree.Index) -> Wait:
        base = yield from self.value(node.base)
        index = yield from self.value(node.index)
        if isinstance(base, dict):
            entries = cast(dict[Value, Value], base)
            key = _key(index)
            return self._out(entries[key], node.type) if key in entries else zero(node.type, self.service.units)
        if not 0 <= index < len(base):
            raise FaultError("BAD_INDEX")
        return base[index]

    def _unary(self, node: tree.Unary) -> Wait:
        if node.operator == "size":
            return (yield from self._size(node.operand))
        value = yield from self.value(node.operand)
        match node.operator:
            case "not":
                return not value
            case "-":
                return wrap(-value)
            case "abs":
                return wrap(abs(value))
            case "int_to_address":
                return value & 0xFFFFFFFF
            case _:
                return value

    def _cast(self, node: tree.Typed, value: Value) -> Value:
        """unsafe_cast: numbers keep their value; of anything else, only its own type has a meaning."""
        found, wanted, numbers = node.value.type, node.type, (INTEGER, ADDRESS)
        if not node.unsafe or found == wanted:
            return value
        if wanted == BOOLEAN and found in numbers:
            return value != 0
        return int(value) if wanted in numbers and found in (*numbers, BOOLEAN) else zero(wanted, self.service.units)

    def _size(self, node: tree.Expression) -> Wait:
        if not isinstance(node.type, ChannelOf):
            return len((yield from self.value(node)))
        if node.type.array:
            return len(self.array(node))
        channel, count = (yield from self.channel(node)), 0
        copy = Channel(channel.port, channel.index, channel.received)
        while (found := self.look(copy, node.type.receives)) is not None:
            copy.received = copy.received[found[1] :]
            count += 1
        return count

    def _binary(self, node: tree.Binary) -> Wait:
        operator = node.operator
        if operator in ("and", "or"):
            left = yield from self.value(node.left)
            return left if left == (operator == "or") else (yield from self.value(node.right))
        absent = yield from self._absent(node)
        if absent is not None:
            return absent
        left = yield from self.value(node.left)
        right = yield from self.value(node.right)
        match operator:
            case "=":
                return left == right
            case "!=":
                return left != right
            case "<":
                return left < right
            case ">":
                return left > right
            case "<=":
                return left <= right
            case ">=":
                return left >= right
            case "..":
                if left <= right and right - left >= self._bound(node.type):
                    raise FaultError("LIMIT")
                return list(range(left, right + 1))
            case "::":
                return self._limited([left, *right], node.type)
            case "@" if node.type == STRING:
                return self._text(left + right)
            case "@":
                return self._limited(left + right, node.type)
            case _:
                return arithmetic(operator, left, right)

    def _absent(self, node: tree.Binary) -> Wait:
        """`d[k] = None`: whether the dictionary has no such key; None for another expression."""
        sides = [node.left, node.right]
        empty = [each for each in sides if isinstance(each, tree.Name) and each.binding is None and each.name == "None"]
        if node.operator not in ("=", "!=") or len(empty) != 1:
            return None
        other = sides[0] if sides[1] is empty[0] else sides[1]
        if not isinstance(other, tree.Index) or not isinstance(other.base.type, DictionaryOf):
            return None
        base = yield from self.value(other.base)
        index = yield from self.value(other.index)
        return (_key(index) not in base) == (node.operator == "=")

    def _bound(self, type: Type) -> int:
        return bound_of(type) if isinstance(type, ListOf) else 0

    def _limited(self, items: list[Value], type: Type) -> list[Value]:
        if len(items) > self._bound(type):
            raise FaultError("LIMIT")
        return items

    def _text(self, made: bytes, reserved: int | None = None) -> bytes:
        if (len(made) if reserved is None else reserved) > ARENA - self.made:
            raise FaultError("LIMIT")
        self.made += len(made)
        return made

    # --- choices and loops

    def _switch(self, node: tree.Switch) -> Wait:
        subject = yield from self.value(node.subject)
        for case in node.cases:
            match case.kind:
                case "default":
                    fits = True
                case "guard":
                    fits = yield from self.value(case.pattern)
                case "label":
                    pattern = case.pattern
                    name = pattern.function if isinstance(pattern, tree.Call) else getattr(pattern, "name", "")
                    fits = subject.label == name
                    if fits and case.binding is not None:
                        self.names[case.binding] = subject.value
                case _:
                    fits = subject == (yield from self.value(case.pattern))
            if fits:
                return (yield from self.value(case.body))
        return zero(node.type, self.service.units)

    def _assign(self, node: tree.Assign) -> Wait:
        target, removes = node.target, False
        value: Value = None
        if isinstance(target, tree.Index) and isinstance(node.value, tree.Name):
            removes = node.value.binding is None and node.value.name == "None"
        if not removes:
            value = yield from self.value(node.value)
        if isinstance(target, tree.Index):
            base = yield from self.value(target.base)
            key = _key((yield from self.value(target.index)))
            if removes:
                base.pop(key, None)
                return ()
            self._fits(value)
            if key not in base and len(base) >= DICTIONARY:
                assert isinstance(target.base, tree.Name) and target.base.binding is not None
                if self._kept(target.base.binding).kind != "global":
                    raise FaultError("LIMIT")
                del base[next(iter(base))]  # the entry that was inserted first
            base[key] = value
        elif isinstance(target, tree.Name) and target.binding is not None:
            binding = self._kept(target.binding)
            if binding in self.names:  # a function's own, which is initialised at each call
                self.names[binding] = value
            else:
                self._fits(value)
                self.states[binding] = value
        return ()

    def _fits(self, value: Value) -> None:
        if texts(value) > TEXTS:
            raise FaultError("LIMIT")

    def _items(self, node: tree.Expression) -> Wait:
        """The items of a loop."""
        if isinstance(node.type, ChannelOf):
            return [[each] for each in self.array(node)]
        if isinstance(node, tree.Binary) and node.operator == "..":
            low = yield from self.value(node.left)
            high = yield from self.value(node.right)
            if low <= high and high - low >= RANGE:
                raise FaultError("LIMIT")
            return range(low, high + 1)
        return list((yield from self.value(node)))

    def _bind(self, binding: tree.Binding | None, item: Value) -> None:
        assert binding is not None
        if isinstance(binding.type, ChannelOf):
            self.ports[binding] = item
        else:
            self.names[binding] = item

    def _for(self, node: tree.For) -> Wait:
        found: Value = ()
        if node.start is not None:
            found = yield from self.value(node.start)
        for item in (yield from self._items(node.over)):
            self._bind(node.binding, item)
            if node.accumulated is not None:
                self.names[node.accumulated] = found
            value = yield from self.value(node.body)
            found = value if node.accumulated is not None else ()
        return found

    def _map(self, node: tree.Map) -> Wait:
        found: list[Value] = []
        items = (
            yield from self.value(node.over) if not isinstance(node.over.type, ChannelOf) else self._items(node.over)
        )
        for item in items:
            self._bind(node.binding, item)
            value = yield from self.value(node.body)
            if node.kind == "map":
                self._limited([*found, value], node.type)
                found.append(value)
            elif value:
                self._limited([*found, item], node.type)
                found.append(item)
        return found

    # --- calls

    def call(self, node: tree.Call) -> Wait:
        match node.kind:
            case "function":
                return (yield from self._function(node))
            case "record":
                assert isinstance(node.type, Named)
                fields = yield from self._fields(node.type, zip(node.type.fields, node.ordered, strict=True))
                return Record(node.type.name, fields)
            case "label":
                return Variant(node.function, (yield from self.value(node.ordered[0])))
            case _:
                return (yield from self._built_in(node))

    def _function(self, node: tree.Call) -> Wait:
        function = self.service.checked.functions[node.function]
        given: list[Value] = []
        for each, parameter in zip(node.ordered, function.parameters, strict=True):
            if isinstance(parameter.type, ChannelOf):
                inner = each.operand if isinstance(each, tree.Unary) else each
                given.append(self.array(inner) if parameter.type.array else [(yield from self.channel(inner))])
            elif parameter.kind == "ref":
                assert isinstance(each, tree.Name) and each.binding is not None
                self.refs[parameter] = each.binding
                given.append(None)
            else:
                given.append((yield from self.value(each)))
        return (yield from self.apply(node.function, given))

    def apply(self, name: str, given: list[Value]) -> Wait:
        """A function with its arguments."""
        function = self.service.checked.functions[name]
        body = function.declaration.body
        for value, parameter in zip(given, function.parameters, strict=True):
            if parameter.kind != "ref":
                self._bind(parameter, value)
        for state in body.states:
            if state.binding is None:
                continue
            if not state.everywhere:
                self.names[state.binding] = yield from self.value(state.start)
            elif state.binding not in self.states:
                empty = isinstance(state.binding.type, DictionaryOf)
                self.states[state.binding] = {} if empty else (yield from self.value(state.start))
        return (yield from self.handled(body.expression, body.handlers))

    def handled(self, node: tree.Expression, handlers: list[tree.Handler]) -> Wait:
        """An expression with the handlers of its faults."""
        try:
            return (yield from self.value(node))
        except FaultError as fault:
            for handler in handlers:
                if handler.exception == exception_of(fault.reason):
                    break
            else:
                raise
        self.did = True
        return (yield from self.value(handler.body))

    def _built_in(self, node: tree.Call) -> Wait:
        first = node.ordered[0]
        if node.function in CHANNEL_FUNCTIONS:
            return (yield from self.of_channels(node))
        if node.function in ("fold", "map", "filter"):
            return (yield from self._over(node))
        if node.function == "len" and isinstance(first.type, ChannelOf):
            return len(self.array(first))
        value = yield from self.value(first)
        match node.function:
            case "hash":
                return hashed(value)
            case "len":
                return len(value)
            case "string_to_int":
                return to_integer(value)
            case "whole":  # buffers have no bound here
                return True
            case "words":
                return len([each for each in value.split(b" ") if each])
            case "word":
                return word(value, (yield from self.value(node.ordered[1])))
            case "int_to_string":
                return self._text(str(value).encode(), 20)
            case _:
                if not value:
                    raise FaultError("EMPTY_LIST")
                return value[0] if node.function == "head" else value[1:]

    def _over(self, node: tree.Call) -> Wait:
        assert isinstance(node.ordered[0], tree.Name)
        name = node.ordered[0].name
        items = yield from self.value(node.ordered[-1])
        found: Value = []
        if node.function == "fold":
            found = yield from self.value(node.ordered[1])
        for item in items:
            if node.function == "fold":
                found = yield from self.apply(name, [item, found])
            else:
                value = yield from self.apply(name, [item])
                if node.function == "map":
                    self._limited([*found, value], node.type)
                    found.append(value)
                elif value:
                    self._limited([*found, item], node.type)
                    found.append(item)
        return found


def _ends(row: Item, made: bytes) -> list[int]:
    """Where the units in a row end; those before the first one that is malformed."""
    ends = [0]
    with suppress(MalformedError):
        for each in parts(row, made):
            ends.append(ends[-1] + each.end)
    return ends[1:]


def _within(value: Value, type: Type) -> bool:
    """Whether the lists of a value have no more items than the type permits."""
    match type:
        case ListOf():
            return len(value) <= bound_of(type) and all(_within(each, type.item) for each in value)
        case TupleOf():
            return all(map(_within, value, type.items))
        case _:
            return True


def _key(value: Value) -> Value:
    """The key of an entry in a dictionary of Python."""
    if key_size(value) > _KEY:
        raise FaultError("LIMIT")
    return tuple(sorted(value.fields.items())) if isinstance(value, Record) else value
