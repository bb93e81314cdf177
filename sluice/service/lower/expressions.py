"""Expressions to C: statements that are written before, and the text of a C expression without effects."""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.check.scope import Signature
from sluice.service.lang.errors import Place, ServiceError
from sluice.service.lang.types import (
    ADDRESS,
    BOOLEAN,
    INTEGER,
    STRING,
    UNIT,
    ChannelOf,
    DictionaryOf,
    ListOf,
    Named,
    Type,
    bound_of,
)
from sluice.service.lower.state import StateWriter
from sluice.service.lower.writer import ARENA, Kept, Port

RANGE = 65536
"""Numbers of the range of a loop."""

_ARITHMETIC = {"+": "service_add", "-": "service_subtract", "*": "service_multiply"}
_CHECKED = {"/": "service_divide", "mod": "service_remainder"}


class ExpressionWriter(StateWriter):
    """Writes expressions."""

    def value(self, node: tree.Expression) -> str:
        """The C of a value; "0" for one without."""
        text = self.plain(node)
        if node.narrowed is None:
            return text
        found = self.keep(text, node.narrowed, node.place)
        self.fault(f"!{self.values.within(node.narrowed, node.place)}(&{found})", "LIMIT")
        return found

    def plain(self, node: tree.Expression) -> str:
        """The same of a value whose lists have no more items than they may."""
        match node:
            case tree.Boolean():
                return "true" if node.value else "false"
            case tree.Integer():
                return f"INT64_C({node.value})" if node.value > -(1 << 63) else "INT64_MIN"
            case tree.Text():
                data = node.value.encode()
                text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?()' else f"\\{b:03o}" for b in data)
                return f'(struct service_text){{(const uint8_t *)"{text}", {len(data)}}}'
            case tree.Address():
                first, second, third, fourth = map(int, node.value.split("."))
                return f"INT64_C({first << 24 | second << 16 | third << 8 | fourth})"
            case tree.Name():
                return self.name(node)
            case tree.Field():
                return self.field(node)
            case tree.Item():
                return f"{self.value(node.base)}.i_{node.number}"
            case tree.Index():
                return self.index(node)
            case tree.Unary():
                return self.unary(node)
            case tree.Binary():
                return self.binary(node)
            case tree.Tuple() | tree.List() | tree.Record() | tree.With():
                return self.made(node)
            case tree.Typed() if not node.unsafe:
                return self.value(node.value)
            case tree.CompileTime():
                return self.value(node.value)
            case tree.Dotted():
                return self.value(node.call)
            case tree.Call():
                return self.call(node)
            case _:
                return self.construct(node)

    def integer(self, node: tree.Expression) -> str:
        return self.value(node)

    def name(self, node: tree.Name) -> str:
        if node.binding is None:
            return self.zero(node.type, node.place)
        kept = self.state_of(node)
        if kept is not None:
            return self.loaded(kept, node.place)
        if node.binding in self.names:
            return self.names[node.binding]
        if node.binding.kind in ("constant", "parameter"):
            if node.binding.value is None:
                raise ServiceError(
                    node.place,
                    f"the parameter '{node.name}' has no value",
                    f"give it one: --set {node.name}=NUMBER.",
                )
            return f"INT64_C({node.binding.value})"
        raise ServiceError(node.place, f"'{node.name}' is not a value here", "name a value.")

    def index(self, node: tree.Index) -> str:
        """An entry of a dictionary, or an item of a list."""
        if isinstance(node.base.type, DictionaryOf):
            return self.looked_up(node)
        kept = self.state_of(node.base)
        if kept is not None and self.values.flat(kept.type):
            items = kept.value
        else:
            items = self.held(node.base)
        index = self.keep(self.value(node.index), INTEGER, node.place)
        self.fault(f"{index} < 0 || {index} >= (int64_t){items}.count", "BAD_INDEX")
        return f"{items}.items[{index}]"

    # --- operators

    def unary(self, node: tree.Unary) -> str:
        if node.operator == "size":
            return self.size(node.operand)
        operand = self.value(node.operand)
        match node.operator:
            case "not":
                return f"!{operand}"
            case "-":
                return f"service_subtract(0, {operand})"
            case "abs":
                return f"service_absolute({operand})"
            case "int_to_address":
                return f"({operand} & INT64_C(0xffffffff))"
            case _:
                return operand

    def size(self, node: tree.Expression) -> str:
        if node.type == STRING:
            return f"(int64_t){self.value(node)}.length"
        if isinstance(node.type, DictionaryOf):
            return f"(int64_t){self.dictionary(node)[0].value}->count"
        if isinstance(node.type, ChannelOf):
            return self.messages(node)
        return f"(int64_t){self.held(node)}.count"

    def messages(self, node: tree.Expression) -> str:
        raise NotImplementedError

    def held(self, node: tree.Expression) -> str:
        """A value that is a variable, so that its parts can be taken."""
        text = self.value(node)
        return text if text.startswith("f->v") and text[4:].isdigit() else self.keep(text, node.type, node.place)

    def binary(self, node: tree.Binary) -> str:
        operator = node.operator
        if operator in ("and", "or"):
            return self.circuit(node)
        if operator == "..":
            return self.range(node)
        if operator in ("::", "@"):
            return self.joined(node)
        absent = self.absent(node)
        if absent:
            return absent
        left = self.value(node.left)
        if _effects(node.right):
            left = self.keep(left, node.left.type, node.left.place)
        right = self.value(node.right)
        if operator in _ARITHMETIC:
            return f"{_ARITHMETIC[operator]}({left}, {right})"
        if operator in _CHECKED:
            divisor = self.keep(right, INTEGER, node.place)
            self.fault(f"{divisor} == 0", "DIVISION")
            return f"{_CHECKED[operator]}({left}, {divisor})"
        return self.compared(operator, left, right, node.left.type, node.place)

    def compared(self, operator: str, left: str, right: str, type: Type, place: Place) -> str:
        """A comparison."""
        sign = {"=": "=="}.get(operator, operator)
        if type in (INTEGER, BOOLEAN, ADDRESS):
            return f"({left} {sign} {right})"
        if type == STRING:
            if operator in ("=", "!="):
                return f"{'!' if operator == '!=' else ''}service_same({left}, {right})"
            return f"(service_compare({left}, {right}) {sign} 0)"
        left, right = self.keep(left, type, place), self.keep(right, type, place)
        return f"{'!' if operator == '!=' else ''}{self.values.same(type, place)}(&{left}, &{right})"

    def absent(self, node: tree.Binary) -> str:
        """`d[k] = None`: whether the dictionary has no such key; empty for another expression."""
        sides = [node.left, node.right]
        empty = [each for each in sides if isinstance(each, tree.Name) and each.binding is None and each.name == "None"]
        if node.operator not in ("=", "!=") or len(empty) != 1:
            return ""
        other = sides[0] if sides[1] is empty[0] else sides[1]
        if not isinstance(other, tree.Index) or not isinstance(other.base.type, DictionaryOf):
            return ""
        return f"({self.entry(other)[0]} {'==' if node.operator == '=' else '!='} NULL)"

    def circuit(self, node: tree.Binary) -> str:
        """`and` and `or`: the right side only where it counts."""
        left = self.value(node.left)
        if not _effects(node.right):
            return f"({left} {'&&' if node.operator == 'and' else '||'} {self.value(node.right)})"
        found = self.keep(left, BOOLEAN, node.place)
        with self.block(f"if ({found if node.operator == 'and' else '!' + found})"):
            self.put(f"{found} = {self.value(node.right)};")
        return found

    # --- lists and strings

    def range(self, node: tree.Binary) -> str:
        low, high = self.ends(node)
        found = self.zero(node.type, node.place)
        assert isinstance(node.type, ListOf)
        self.fault(f"{low} <= {high} && (uint64_t){high} - (uint64_t){low} >= {bound_of(node.type)}", "LIMIT")
        counter = self.variable(INTEGER, node.place)
        with self.block(f"for ({counter} = {low}; {low} <= {high}; {counter}++)"):
            self.put(f"{found}.items[{found}.count++] = {counter};")
            with self.block(f"if ({counter} == {high})"):
                self.put("break;")
        return found

    def ends(self, node: tree.Binary) -> tuple[str, str]:
        """Both ends of a range, in variables."""
        low = self.keep(self.value(node.left), INTEGER, node.place)
        return low, self.keep(self.value(node.right), INTEGER, node.place)

    def joined(self, node: tree.Binary) -> str:
        if node.type == STRING:
            left, right = self.held(node.left), self.held(node.right)
            found = self.room(f"(uint64_t){left}.length + {right}.length", node.place)
            self.put(f"memcpy(f->arena + f->used, {left}.at ? {left}.at : f->arena, {left}.length);")
            self.put(f"memcpy(f->arena + f->used + {left}.length, {right}.at ? {right}.at : f->arena, {right}.length);")
            self.put(f"f->used += {found}.length;")
            return found
        found = self.zero(node.type, node.place)
        assert isinstance(node.type, ListOf)
        parts = [self.held(node.left), self.held(node.right)]
        if node.operator == "::":
            self.put(f"{found}.items[{found}.count++] = {parts.pop(0)};")
        for part in parts:
            self.fault(f"(uint64_t){found}.count + {part}.count > {bound_of(node.type)}", "LIMIT")
            counter = self.raw_variable("uint32_t")
            with self.block(f"for ({counter} = 0; {counter} < {part}.count; {counter}++)"):
                self.put(f"{found}.items[{found}.count++] = {part}.items[{counter}];")
        return found

    def room(self, size: str, place: Place) -> str:
        """A string of that size in the step's memory for strings; `used` is set by the caller when it is written."""
        self.arena = True
        self.fault(f"{size} > {ARENA} - f->used", "LIMIT")
        return self.keep(f"(struct service_text){{f->arena + f->used, (uint32_t)({size})}}", STRING, place)

    # --- made values

    def made(self, node: tree.Expression) -> str:
        match node:
            case tree.Tuple():
                if not node.items:
                    return self.zero(UNIT, node.place)
                found = self.zero(node.type, node.place)
                for number, item in enumerate(node.items, 1):
                    self.put(f"{found}.i_{number} = {self.value(item)};")
                return found
            case tree.List():
                found = self.zero(node.type, node.place)
                assert isinstance(node.type, ListOf)
                if len(node.items) > bound_of(node.type):
                    raise ServiceError(
                        node.place,
                        f"this list has {len(node.items)} items, and there is room for {bound_of(node.type)}",
                        "give its type a larger cardinality.",
                    )
                for item in node.items:
                    text = self.value(item)
                    self.put(f"{found}.items[{found}.count++] = {text};")
                return found
            case tree.Record():
                return self.record(node.type, [(name, item) for name, item in node.fields], node.place)
            case tree.With():
                found = self.keep(self.value(node.base), node.type, node.place)
                self.put(f"{found}.f_{node.name} = {self.field_value(node.type, node.name, node.value)};")
                if self.is_unit(node.type):
                    self.put(f"{found}.m.changed = true;")
                return found
            case _:
                raise AssertionError(type(node).__name__)

    def record(self, type: Type, fields: list[tuple[str, tree.Expression]], place: Place) -> str:
        found = self.zero(type, place)
        for name, item in fields:
            self.put(f"{found}.f_{name} = {self.field_value(type, name, item)};")
        if self.is_unit(type):
            self.put(f"{found}.m.changed = true;")
        return found

    def field(self, node: tree.Field) -> str:
        """A field; a list of a message is made of its bytes."""
        text = f"{self.value(node.base)}.f_{node.name}"
        row = self.service.row(node.base.type, node.name)
        if row is None:
            return text
        assert isinstance(node.base.type, Named)
        type = node.base.type.fields[node.name]
        assert isinstance(type, ListOf)
        found = self.variable(type, node.place)
        self.refuse(f"{self.values.unpack(row, type, node.place)}(&{found}, {text})")
        return found

    def field_value(self, type: Type, name: str, node: tree.Expression) -> str:
        """The value of a record's field: of a list in a message, its bytes."""
        row = self.service.row(type, name)
        if row is None:
            return self.value(node)
        items, found = self.held(node), self.variable(STRING, node.place)
        assert isinstance(node.type, ListOf)
        self.arena = True
        pack = self.values.pack(row, node.type, node.place)
        self.refuse(f"{pack}(&{items}, f->arena + f->used, {ARENA} - f->used, &{found})")
        self.put(f"f->used += {found}.length;")
        return found

    def refuse(self, call: str) -> None:
        """A call that gives the reason of a fault, or 0."""
        reason = self.raw_variable("enum service_counter")
        self.put(f"{reason} = {call};")
        self.fail(reason, reason)

    # --- calls

    def call(self, node: tree.Call) -> str:
        match node.kind:
            case "function":
                return self.inlined(node)
            case "record":
                assert isinstance(node.type, Named)
                return self.record(node.type, list(zip(node.type.fields, node.ordered, strict=True)), node.place)
            case "label":
                assert isinstance(node.type, Named)
                found = self.zero(node.type, node.place)
                self.put(f"{found}.label = {list(node.type.fields).index(node.function)};")
                self.put(f"{found}.f_{node.function} = {self.value(node.ordered[0])};")
                return found
            case _:
                return self.built_in(node)

    def inlined(self, node: tree.Call) -> str:
        """A call of a function of the program: its body, with its own variables."""
        function = self.checked.functions[node.function]
        ports: dict[tree.Binding, Port] = {}
        names: dict[tree.Binding, str] = {}
        kept: dict[tree.Binding, Kept] = {}
        for given, parameter in zip(node.ordered, function.parameters, strict=True):
            if isinstance(parameter.type, ChannelOf):
                ports[parameter] = self.port(given)
            elif parameter.kind == "ref":
                found = self.state_of(given)
                if found is not None:
                    kept[parameter] = found
                else:
                    names[parameter] = self.value(given)
            else:
                constant = isinstance(given, tree.Name) and given.binding is not None and given.binding.kind == "let"
                text = self.value(given)
                names[parameter] = text if constant else self.keep(text, parameter.type, given.place)
        return self.body(function, ports, names, kept, node.place)

    def body(
        self,
        function: Signature,
        ports: dict[tree.Binding, Port],
        names: dict[tree.Binding, str],
        kept: dict[tree.Binding, Kept],
        place: Place,
    ) -> str:
        """A function's body, with its parameters bound."""
        before = self.ports, self.names, self.kept
        self.ports, self.names = {**self.ports, **ports}, {**self.names, **names}
        self.kept = {**self.kept, **kept}
        body = function.declaration.body
        for state in body.states:
            assert state.binding is not None
            if state.everywhere:
                self.kept[state.binding] = self.states.declare(state)
            else:  # initialised at each call
                self.names[state.binding] = self.keep(self.value(state.start), state.binding.type, state.place)
        if body.handlers:
            found = self.caught(body, function.result)
        elif function.result == UNIT:
            self.effect(body.expression)
            found = "0"
        else:
            found = self.keep(self.value(body.expression), function.result, place)
        self.ports, self.names, self.kept = before
        return found

    def applied(self, function: str, given: list[str], place: Place) -> str:
        """A function with values that are there."""
        target = self.checked.functions[function]
        names = dict(zip(target.parameters, given, strict=True))
        return self.body(target, {}, names, {}, place)

    def caught(self, body: tree.Body, result: Type) -> str:
        raise NotImplementedError

    def built_in(self, node: tree.Call) -> str:
        first = node.ordered[0]
        match node.function:
            case "hash" if first.type == STRING:
                return f"service_hash_text({self.value(first)})"
            case "hash":
                return f"service_hash_integer({self.value(first)})"
            case "len" if isinstance(first.type, ChannelOf):
                return f"(int64_t)self->core->counts[{self.port(first).number}]"
            case "len":
                return self.size(first)
            case "head" | "tail":
                return self.ends_of(node.function, first, node)
            case "string_to_int":
                text, found = self.held(first), self.variable(INTEGER, node.place)
                self.fault(f"!service_to_integer({text}, &{found})", "BAD_NUMBER")
                return found
            case "int_to_string":
                number = self.keep(self.value(first), INTEGER, node.place)
                found = self.room("20", node.place)
                self.put(f"{found}.length = service_to_text({number}, f->arena + f->used);")
                self.put(f"f->used += {found}.length;")
                return found
            case "whole":
                return f"!{self.value(first)}.m.partial" if str(first.type) in self.service.units else "true"
            case "words":
                return f"service_words({self.value(first)})"
            case "word":
                text = self.held(first)
                return f"service_word({text}, {self.value(node.ordered[1])})"
            case "fold" | "map" | "filter":
                return self.over(node)
            case "all_ready":
                return self.all_ready(node)
            case _:
                return self.of_channel(node)

    def of_channel(self, node: tree.Call) -> str:
        raise NotImplementedError

    def ends_of(self, which: str, first: tree.Expression, node: tree.Call) -> str:
        items = self.held(first)
        self.fault(f"{items}.count == 0", "EMPTY_LIST")
        if which == "head":
            return f"{items}.items[0]"
        found = self.keep(items, node.type, node.place)
        self.put(f"memmove({found}.items, {found}.items + 1, --{found}.count * sizeof {found}.items[0]);")
        return found

    def over(self, node: tree.Call) -> str:
        """fold(f, start, list), map(f, list), filter(f, list)."""
        assert isinstance(node.ordered[0], tree.Name)
        items, function = self.held(node.ordered[-1]), node.ordered[0].name
        if node.function == "fold":
            found = self.keep(self.value(node.ordered[1]), node.type, node.place)
        else:
            found = self.zero(node.type, node.place)
        counter = self.raw_variable("uint32_t")
        with self.block(f"for ({counter} = 0; {counter} < {items}.count; {counter}++)"):
            item = f"{items}.items[{counter}]"
            if node.function == "fold":
                self.put(f"{found} = {self.applied(function, [item, found], node.place)};")
            elif node.function == "map":
                assert isinstance(node.type, ListOf)
                text = self.keep(self.applied(function, [item], node.place), node.type.item, node.place)
                self.fault(f"{found}.count == {bound_of(node.type)}", "LIMIT")
                self.put(f"{found}.items[{found}.count++] = {text};")
            else:
                assert isinstance(node.type, ListOf)
                with self.block(f"if ({self.applied(function, [item], node.place)})"):
                    self.fault(f"{found}.count == {bound_of(node.type)}", "LIMIT")
                    self.put(f"{found}.items[{found}.count++] = {item};")
            self.slice()
        return found

    def construct(self, node: tree.Expression) -> str:
        raise NotImplementedError

    def effect(self, node: tree.Expression) -> None:
        raise NotImplementedError

    def all_ready(self, node: tree.Call) -> str:
        raise NotImplementedError


def _effects(node: tree.Expression) -> bool:
    """Whether the C of an expression may have statements before it."""
    return not isinstance(node, (tree.Boolean, tree.Integer, tree.Text, tree.Address, tree.Name)) and not (
        isinstance(node, tree.Field) and not _effects(node.base)
    )
