"""The text of a grammar to its tree: `type NAME = unit { ... };`, and files of these (declarations.py)."""

from __future__ import annotations

import re

from sluice.service.grammar.tokens import TokenParser, unescape
from sluice.service.grammar.tree import (
    DEEPEST,
    Attribute,
    Case,
    Grammar,
    Item,
    Switch,
    Value,
    Variable,
    WireField,
    WireType,
    check_size,
)
from sluice.service.lang.errors import Place, ServiceError, suggest

_LEVELS = (
    ("||", "or"), ("&&", "and"), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "mod"),
)  # fmt: skip
"""Binary operators, the loosest first."""
_TIGHTNESS = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
_SAME = {"or": "||", "and": "&&"}
_KNOWN_ATTRIBUTES = (
    "length", "byteorder", "parse", "serialize", "eod", "until", "parseUntil", "parseUntilIncluding", "limit",
    "framing", "transform", "chunked", "transient",
)  # fmt: skip
_HINTS = ("chunked", "transient", "transform")
"""Attributes that change neither the bytes of a message nor the value of a field."""
_EXPRESSIONS = ("note", "final", "answered", "last", "end", "hops", "fill", "mute", "checksum")
_PROPERTIES = ("byteorder", "limit", "finish", *_EXPRESSIONS)
_ORDERS = {"big": "big", "ByteOrder::big": "big", "little": "little", "ByteOrder::little": "little"}
_WITHOUT_FORM = ("any", "caddr", "double", "map", "set", "sink", "tuple", "vector", "void", "enum", "bitset")
_SIZES = ("8", "16", "32", "64")
_UNSIGNED_SIZES = ("8", "16", "24", "32", "40", "48", "56", "64")
"""Bits of an integer or bitfield, and of an unsigned integer."""
_ABOVE_OR = 3
"""The first level of binary operators that bind tighter than `|`."""
FUNCTIONS = {"header": 2, "has": 3, "word": 2, "item": 2, "line": 1, "token": 1, "number": 1, "length": 1}
"""Functions of an expression, with the number of their arguments."""


class UnitParser(TokenParser):
    """Parses units, types and expressions of a text."""

    def __init__(self, text: str, file: str, line: int) -> None:
        super().__init__(text, file, line)
        self.depth = 0
        self.inside = False
        """Whether an expression is being parsed."""
        self.constants: dict[str, Value] = {}
        """Of the file: constants, and labels as `TYPE::LABEL`."""
        self.labels: set[str] = set()
        """Names of types that are labels: enum and bitset."""
        self.defaults: dict[str, str] = {}
        """Properties of the file, which units have that do not give others."""
        self.parameters: tuple[str, ...] = ()
        """Of the unit that is parsed."""

    def unit(self, place: Place, name: str) -> Grammar:
        """A unit after the word `unit`."""
        grammar = Grammar(place, name, properties=dict(self.defaults), parameters=self._parameters())
        self.parameters = grammar.parameters
        self.expect("{", "after 'unit'")
        while not self.take_if("}"):
            if self.token.kind == "end":
                raise ServiceError(place, f"the unit '{name}' does not end", "close it with '};'.")
            if self.take_if("%"):
                self.property(grammar)
            else:
                grammar.items.append(self._item())
        self.parameters = ()
        return grammar

    def _parameters(self) -> tuple[str, ...]:
        found: list[str] = []
        if not self.take_if("("):
            return ()
        while not self.take_if(")"):
            if found:
                self.expect(",", "between parameters")
            found.append(self.name("the name of a parameter"))
            self.expect(":", f"after the parameter '{found[-1]}'")
            self.type()
        return tuple(found)

    def _item(self) -> Item:
        place = self.token.place
        if self.token.text == "switch" and self.tokens[self.at + 1].text in ("(", "{"):
            self.take()
            return self._switch(place)
        return self._variable() if self.take_if("var") else self._field()

    def _switch(self, place: Place) -> Switch:
        self._deeper()
        subject: Value | None = None
        if self.take_if("("):
            subject = self.value()
            self.expect(")", "after the value of a switch")
        self.expect("{", "before the cases of a switch")
        cases: list[Case] = []
        while not self.take_if("}"):
            cases.append(self._case(place, subject is not None))
        condition = self._condition()
        self.expect(";", "after a switch")
        self.depth -= 1
        if not cases:
            raise ServiceError(place, "this switch has no case", "write VALUE -> FIELD;")
        return Switch(place, subject, tuple(cases), condition)

    def _case(self, place: Place, by_value: bool) -> Case:
        if self.token.kind == "end":
            raise ServiceError(place, "this switch does not end", "close it with '};'.")
        values: list[Value] | None = None
        if not by_value and self.token.text != "*":
            return Case((), (self._item(),))
        if not self.take_if("*"):
            values = [self.value()]
            while self.take_if(","):
                values.append(self.value())
        self.expect("->", "after the values of a case")
        items: list[Item] = []
        if self.take_if("{"):
            while not self.take_if("}"):
                if self.token.kind == "end":
                    raise ServiceError(place, "this switch does not end", "close it with '};'.")
                items.append(self._item())
            self.take_if(";")
        else:
            items.append(self._item())
        return Case(None if values is None else tuple(values), tuple(items))

    def _condition(self) -> Value | None:
        if not self.take_if("if"):
            return None
        self.expect("(", "after 'if'")
        found = self.value()
        self.expect(")", "after the condition")
        return found

    def property(self, grammar: Grammar) -> None:
        """A property of a unit after its `%`."""
        place = self.token.place
        name = self.name("a property")
        if name not in _PROPERTIES:
            raise ServiceError(place, f"there is no property %{name}", f"known here: {', '.join(_PROPERTIES)}.")
        self.expect("=", f"after %{name}")
        if name in _EXPRESSIONS:
            grammar.expressions[name] = self.value()
            self.expect(";", f"after %{name}")
            return
        if name == "finish":
            grammar.properties[name] = unescape(self.take()) if self.token.kind == "text" else ""
            self.expect(";", f"after %{name}")
            return
        value = self._order() if name == "byteorder" else self.take().text
        if name == "limit" and not value.isdigit():
            raise ServiceError(place, f"the limit '{value}' is no number", "write a number of bytes.")
        grammar.properties[name] = value
        self.expect(";", f"after %{name}")

    def _order(self) -> str:
        token = self.take()
        order = token.text.strip('"')
        if order not in _ORDERS:
            raise ServiceError(token.place, f"'{order}' is no byte order", "write big or little.")
        return _ORDERS[order]

    def _variable(self) -> Variable:
        place = self.token.place
        name = self.name("the name of a variable")
        self.expect(":", f"after 'var {name}'")
        found = Variable(place, name, self.type(), self.attributes())
        if self.take_if("="):
            raise ServiceError(place, f"the variable '{name}' has a first value", "write &parse = VALUE.")
        self.expect(";", f"after the variable '{name}'")
        return found

    def _field(self) -> WireField:
        place, name = self.token.place, ""
        if self.token.kind == "word":
            name = self.take().text
        name = "" if name == "_" else name
        self.expect(":", f"after the field '{name}'" if name else "before the type of an anonymous field")
        found = WireField(place, name, self.type())
        if self.take_if("["):
            found.count = self.value()
            self.expect("]", "after the number of items")
        found.attributes = self.attributes()
        found.condition = self._condition()
        if self.token.text == "->":
            raise ServiceError(self.token.place, "a sink has no meaning here", "forward the message in the program.")
        self.expect(";", f"after the field '{name}'" if name else "after an anonymous field")
        return found

    def type(self) -> WireType:
        """A type of a field."""
        if self.token.text == "/":
            return self._pattern()
        token = self.take()
        integer = re.fullmatch(r"(u?int)(8|16|32|64)", token.text)
        if integer:
            return WireType(token.place, integer[1], int(integer[2]))
        if token.text in ("uint", "int") and self.take_if("<"):
            size = self.take().text
            self.expect(">", f"after '{token.text}<{size}'")
            if size not in (_SIZES if token.text == "int" else _UNSIGNED_SIZES):
                raise ServiceError(
                    token.place,
                    f"there is no {token.text}<{size}>",
                    "write uint<8> to uint<64>, of whole bytes, or int<8>, 16, 32, 64.",
                )
            return WireType(token.place, token.text, int(size))
        if token.text in ("bytes", "string", "headers", "vint"):
            return WireType(token.place, token.text)
        if token.text == "bool":
            return WireType(token.place, "uint", 8)
        if token.text == "list" and self.take_if("<"):
            self._deeper()
            element = self.type()
            self.depth -= 1
            self.expect(">", "after the type of the items of a list")
            return WireType(token.place, "list", element=element)
        if token.text == "bitfield":
            return self._bitfield(token.place)
        if token.text in _WITHOUT_FORM:
            raise ServiceError(
                token.place, f"'{token.text}' has no form on the wire", "use integers, bytes, string, lists or units."
            )
        if token.kind == "number":
            return WireType(token.place, "constant", number=int(token.text, 0))
        if token.kind == "text":
            return WireType(token.place, "constant", name=unescape(token))
        if token.text in self.constants:
            value = self.constants[token.text]
            return WireType(token.place, "constant", name=value.name, number=value.number)
        if token.kind == "word":
            return WireType(token.place, "unit", name=token.text, arguments=self._arguments())
        raise ServiceError(
            token.place,
            f"a type is missing; '{token.text}' stands there",
            "write uint8 to uint64, int8 to int64, bytes or string, or a string in quotes.",
        )

    def _arguments(self) -> tuple[Value, ...]:
        found: list[Value] = []
        if not self.take_if("("):
            return ()
        while not self.take_if(")"):
            if found:
                self.expect(",", "between arguments")
            found.append(self.value())
        return tuple(found)

    def _bitfield(self, place: Place) -> WireType:
        self.expect("(", "after 'bitfield'")
        size = self.take().text
        if size not in _SIZES:
            raise ServiceError(place, f"a bitfield cannot have {size} bits", "write bitfield(8), 16, 32 or 64.")
        self.expect(")", "after the number of bits")
        self.expect("{", "before the parts of a bitfield")
        ranges: list[tuple[str, int, int]] = []
        while not self.take_if("}"):
            name = self.name("the name of a part of a bitfield")
            self.expect(":", f"after '{name}'")
            low = high = self._bit(int(size))
            if self.take_if(".."):
                high = self._bit(int(size))
            if high < low:
                raise ServiceError(place, f"the bits of '{name}' are {low} to {high}", "write the lowest one first.")
            if any(each[0] == name for each in ranges):
                raise ServiceError(place, f"'{name}' stands twice in this bitfield", "rename one of them.")
            ranges.append((name, low, high))
            self.expect(";", f"after the bits of '{name}'")
        return WireType(place, "bitfield", int(size), ranges=tuple(ranges))

    def _bit(self, bits: int) -> int:
        token = self.take()
        if token.kind != "number" or int(token.text, 0) >= bits:
            raise ServiceError(token.place, f"'{token.text}' is no bit", f"bits are 0, the lowest, to {bits - 1}.")
        return int(token.text, 0)

    def _pattern(self) -> WireType:
        """Regular expressions between slashes, with `|` between several."""
        place, parts, more = self.token.place, list[str](), True
        while more:
            begin = self.token
            end = re.compile(r"(?:[^/\\\n]|\\.)*").match(self.text, begin.at + 1)
            assert end is not None
            if self.text[end.end() : end.end() + 1] != "/":
                raise ServiceError(begin.place, "this regular expression does not end", "close it with '/'.")
            parts.append(end.group())
            size = end.end() + 1 - begin.at
            del self.tokens[self.at :]
            self.scan(end.end() + 1, Place(begin.place.file, begin.place.line, begin.place.column + size))
            more = self.tokens[self.at].text == "|" and self.tokens[self.at + 1].text == "/"
            if more:
                self.take()
        return WireType(place, "pattern", name="|".join(f"({each})" for each in parts))

    def attributes(self) -> list[Attribute]:
        found: list[Attribute] = []
        while self.take_if("&"):
            place = self.token.place
            name = self.name("an attribute")
            if name not in _KNOWN_ATTRIBUTES:
                raise ServiceError(
                    place, f"there is no attribute &{name}", f"known here: &{', &'.join(_KNOWN_ATTRIBUTES)}."
                )
            if any(each.name == name for each in found):
                raise ServiceError(place, f"the attribute &{name} is given twice", "remove one of them.")
            value, target = None, ""
            if name == "transform":
                self._transform(place)
            elif self.take_if("="):
                if name == "serialize":
                    target = self._target()
                if name == "framing":
                    value = Value(self.token.place, "text", self.name("a framing"))
                elif name == "byteorder":
                    value = Value(self.token.place, "text", self._order())
                else:
                    value = self.value()
            elif self.take_if("("):
                value = self.value()
                self.expect(")", f"after the value of &{name}")
            if name not in _HINTS:
                found.append(Attribute(place, name, value, target))
        return found

    def _transform(self, place: Place) -> None:
        """`= LABELS`, or `= LABELS($$)`: the integer is one of these. Its value stays the number."""
        self.expect("=", "after &transform")
        name = self.name("the name of an enum or bitset")
        if name not in self.labels:
            raise ServiceError(place, f"'{name}' is neither an enum nor a bitset", suggest(name, self.labels))
        if self.take_if("("):
            self.expect("$$", f"after '{name}('")
            self.expect(")", f"after '{name}($$'")

    def _target(self) -> str:
        self.expect("self", "after '&serialize =': write &serialize = self.FIELD = VALUE")
        self.expect(".", "after 'self'")
        name = self.name("a field")
        self.expect("=", f"after 'self.{name}'")
        return name

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ServiceError(self.token.place, "this expression is too deep", "use a variable for a part of it.")

    def value(self) -> Value:
        """An expression."""
        self._deeper()
        place, outermost, self.inside = self.token.place, not self.inside, True
        found = self._binary(0)
        if self.take_if("?"):
            then = self.value()
            self.expect(":", "between the two values of '?'")
            found = Value(place, "choice", items=(found, then, self.value()))
        self.depth -= 1
        if outermost:
            check_size(found)
            self.inside = False
        return found

    def _binary(self, level: int) -> Value:
        """Operators of a level and of tighter ones, grouped to the left."""
        place, left = self.token.place, self._unary()
        while (found := self._operator()) is not None and found >= level:
            operator = self.take().text
            left = Value(place, _SAME.get(operator, operator), items=(left, self._binary(found + 1)))
        return left

    def _operator(self) -> int | None:
        """The level of the operator that comes next."""
        text = self.token.text
        if self.token.kind not in ("mark", "word") or text not in _TIGHTNESS:
            return None
        if text == "&" and self.tokens[self.at + 1].text in _KNOWN_ATTRIBUTES:
            return None  # the next attribute
        return _TIGHTNESS[text]

    def _unary(self) -> Value:
        place = self.token.place
        if self.token.text in ("!", "not", "-"):
            kind = "negative" if self.take().text == "-" else "not"
            self._deeper()
            found = self._unary()
            self.depth -= 1
            return Value(place, kind, items=(found,))
        if self.take_if("("):
            found = self.value()
            self.expect(")", "after an expression in brackets")
            return found
        if self.take_if("|"):  # the size of bytes; what is between the marks has no `|` of its own
            self._deeper()
            found = self._binary(_ABOVE_OR)
            self.depth -= 1
            self.expect("|", "after the value whose size this is")
            return Value(place, "call", "length", items=(found,))
        if self.take_if("if"):
            first = self.value()
            self.expect("then", "after the condition")
            then = self.value()
            self.expect("else", "between the two values of 'if'")
            return Value(place, "choice", items=(first, then, self.value()))
        token = self.take()
        if token.kind == "number":
            return Value(place, "number", number=int(token.text, 0))
        if token.kind == "text":
            return Value(place, "text", name=unescape(token))
        if token.text == "$$":
            return Value(place, "self")
        if token.text == "self":
            self.expect(".", "after 'self'")
            name = self.name("a field")
            while self.take_if("."):
                name += "_" + self.name("a field of a unit")
            return Value(place, "field", name=name)
        if token.text in self.constants:
            return self.constants[token.text]
        if token.text in self.parameters:
            return Value(place, "parameter", name=token.text)
        if token.text == "cast" and self.take_if("<"):
            return self._cast(place)
        if token.text in ("True", "False"):
            return Value(place, "number", number=int(token.text == "True"))
        if token.text == "note":
            return Value(place, "note")
        if token.text in FUNCTIONS and self.token.text == "(":
            return self._call(place, token.text)
        if token.kind == "word":
            raise ServiceError(
                place, f"'{token.text}' has no value here", f"write self.{token.text} for a field of this unit."
            )
        raise ServiceError(place, f"a value is missing; '{token.text}' stands there", "write a number, or self.FIELD.")

    def _cast(self, place: Place) -> Value:
        """An unsigned number of so many bits; other integers are as they are."""
        type = self.type()
        self.expect(">", "after the type of a cast")
        self.expect("(", "after the type of a cast")
        found = self.value()
        self.expect(")", "after the value of a cast")
        if type.kind not in ("uint", "int"):
            raise ServiceError(place, "a cast is to an integer", "write cast<uint32>(VALUE).")
        mask = Value(place, "number", number=(1 << type.bits) - 1)
        return Value(place, "&", items=(found, mask)) if type.kind == "uint" and type.bits < 64 else found

    def _call(self, place: Place, name: str) -> Value:
        items = self._arguments()
        if len(items) != FUNCTIONS[name]:
            raise ServiceError(
                place, f"'{name}' takes {FUNCTIONS[name]} arguments, not {len(items)}", "give it all of them."
            )
        return Value(place, "call", name, items=items)
