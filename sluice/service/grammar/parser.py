"""The text of a grammar to its tree: `type NAME = unit { ... };`, and files of these."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sluice.service.grammar.tree import Attribute, Grammar, Value, Variable, WireField, WireType
from sluice.service.lang.errors import Place, ServiceError

_TOKEN = re.compile(
    r"""(?P<space>\s+ | \#[^\n]*)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)?)
      | (?P<number>0[xX][0-9a-fA-F]+ | \d+)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<mark>\$\$ | -> | == | != | <= | >= | << | >> | && | \|\| | [-+*/&|^!~<>=?:;,.(){}\[\]%])
      | (?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)
_LEVELS = (
    ("||", "or"), ("&&", "and"), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "mod"),
)  # fmt: skip
"""Binary operators, the loosest first."""
_SAME = {"or": "||", "and": "&&"}
_KNOWN_ATTRIBUTES = ("length", "byteorder", "parse", "serialize", "eod", "until", "parseUntil", "limit", "framing")
_EXPRESSIONS = ("note", "final", "answered", "last", "end", "hops", "fill", "mute", "checksum")
_PROPERTIES = ("byteorder", "limit", "finish", *_EXPRESSIONS)
_ORDERS = {"big": "big", "ByteOrder::big": "big", "little": "little", "ByteOrder::little": "little"}
DEEPEST = 100
FUNCTIONS = {"header": 2, "has": 3, "word": 2, "item": 2, "line": 1, "token": 1, "number": 1, "length": 1}
"""Functions of an expression, with the number of their arguments."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: Place


def parse_grammar(text: str, file: str, line: int) -> Grammar:
    """One declaration, which begins at a line of a file. Raises ServiceError."""
    found = parse_grammars(text, file, line)
    if len(found) != 1:
        raise ServiceError(Place(file, line), "a unit belongs here", "write type NAME = unit { ... };")
    return found[0]


def parse_grammars(text: str, file: str, line: int = 1) -> list[Grammar]:
    """All units of a file. Raises ServiceError."""
    return _Parser(text, file, line).file()


class _Parser:
    def __init__(self, text: str, file: str, line: int) -> None:
        self.tokens: list[_Token] = []
        at, begin = 0, 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            assert match is not None
            place = Place(file, line, at - begin + 1)
            kind = match.lastgroup or ""
            if kind == "bad":
                raise ServiceError(place, f"the character {match.group()!r} has no meaning in a grammar", "remove it.")
            if kind != "space":
                self.tokens.append(_Token(kind, match.group(), place))
            newlines = match.group().count("\n")
            if newlines:
                line += newlines
                begin = at + match.group().rindex("\n") + 1
            at = match.end()
        self.tokens.append(_Token("end", "", Place(file, line)))
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        found = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return found

    def take_if(self, *texts: str) -> bool:
        if self.token.kind in ("mark", "word") and self.token.text in texts:
            self.take()
            return True
        return False

    def expect(self, text: str, where: str) -> None:
        if not self.take_if(text):
            there = f"'{self.token.text}'" if self.token.text else "the end"
            raise ServiceError(
                self.token.place, f"'{text}' is missing {where}; {there} stands there", f"write '{text}' there."
            )

    def name(self, what: str) -> str:
        if self.token.kind != "word":
            raise ServiceError(
                self.token.place, f"{what} is missing; '{self.token.text}' stands there", "write a name."
            )
        return self.take().text

    def file(self) -> list[Grammar]:
        found: list[Grammar] = []
        while self.token.kind != "end":
            place = self.token.place
            if self.take_if("module"):
                self.name("the name of the module")
                self.expect(";", "after the module's name")
                continue
            self.take_if("export")
            if not self.take_if("type"):
                raise ServiceError(
                    place,
                    f"'{self.token.text}' does not begin a declaration of a grammar",
                    "write type NAME = unit { ... };",
                )
            name = self.name("the name of a unit")
            self.expect("=", f"after 'type {name}'")
            if not self.take_if("unit"):
                raise ServiceError(
                    self.token.place, f"'{name}' is not a unit", "only units can be declared: write unit { ... };"
                )
            if any(each.name == name for each in found):
                raise ServiceError(place, f"the unit '{name}' is declared twice", "rename one of them.")
            found.append(self._unit(place, name))
            self.take_if(";")
        return found

    def _unit(self, place: Place, name: str) -> Grammar:
        grammar = Grammar(place, name)
        self.expect("{", "after 'unit'")
        while not self.take_if("}"):
            if self.token.kind == "end":
                raise ServiceError(place, f"the unit '{name}' does not end", "close it with '};'.")
            if self.take_if("%"):
                self._property(grammar)
            elif self.take_if("var"):
                grammar.items.append(self._variable())
            else:
                grammar.items.append(self._field())
        return grammar

    def _property(self, grammar: Grammar) -> None:
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
            grammar.properties[name] = _unescape(self.take()) if self.token.kind == "text" else ""
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
        found = Variable(place, name, self._type(), self._attributes())
        self.expect(";", f"after the variable '{name}'")
        return found

    def _field(self) -> WireField:
        place, name = self.token.place, ""
        if self.token.kind == "word":
            name = self.take().text
        name = "" if name == "_" else name
        self.expect(":", f"after the field '{name}'" if name else "before the type of an anonymous field")
        found = WireField(place, name, self._type())
        if self.take_if("["):
            found.count = self.value()
            self.expect("]", "after the number of items")
        found.attributes = self._attributes()
        if self.take_if("if"):
            self.expect("(", "after 'if'")
            found.condition = self.value()
            self.expect(")", "after the condition")
        self.expect(";", f"after the field '{name}'" if name else "after an anonymous field")
        return found

    def _type(self) -> WireType:
        token = self.take()
        integer = re.fullmatch(r"(u?int)(8|16|32|64)", token.text)
        if integer:
            return WireType(token.place, integer[1], int(integer[2]))
        if token.text in ("bytes", "string", "headers", "vint"):
            return WireType(token.place, token.text)
        if token.kind == "number":
            return WireType(token.place, "constant", number=int(token.text, 0))
        if token.kind == "text":
            return WireType(token.place, "constant", name=_unescape(token))
        if token.kind == "word":
            return WireType(token.place, "unit", name=token.text)
        raise ServiceError(
            token.place,
            f"a type is missing; '{token.text}' stands there",
            "write uint8 to uint64, int8 to int64, bytes or string, or a string in quotes.",
        )

    def _attributes(self) -> list[Attribute]:
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
            if self.take_if("="):
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
            found.append(Attribute(place, name, value, target))
        return found

    def _target(self) -> str:
        self.expect("self", "after '&serialize =': write &serialize = self.FIELD = VALUE")
        self.expect(".", "after 'self'")
        name = self.name("a field")
        self.expect("=", f"after 'self.{name}'")
        return name

    def value(self) -> Value:
        """An expression."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise ServiceError(self.token.place, "this expression is too deep", "use a variable for a part of it.")
        place = self.token.place
        found = self._binary(0)
        if self.take_if("?"):
            then = self.value()
            self.expect(":", "between the two values of '?'")
            found = Value(place, "choice", items=(found, then, self.value()))
        self.depth -= 1
        return found

    def _binary(self, level: int) -> Value:
        lower: Callable[[], Value] = self._unary if level + 1 == len(_LEVELS) else lambda: self._binary(level + 1)
        place, left = self.token.place, lower()
        while self.token.kind in ("mark", "word") and self.token.text in _LEVELS[level]:
            if self.token.text == "&" and self.tokens[self.at + 1].text in _KNOWN_ATTRIBUTES:
                break  # the next attribute
            operator = self.take().text
            left = Value(place, _SAME.get(operator, operator), items=(left, lower()))
        return left

    def _unary(self) -> Value:
        place = self.token.place
        if self.take_if("!", "not"):
            return Value(place, "not", items=(self._unary(),))
        if self.take_if("-"):
            return Value(place, "negative", items=(self._unary(),))
        if self.take_if("("):
            found = self.value()
            self.expect(")", "after an expression in brackets")
            return found
        token = self.take()
        if token.kind == "number":
            return Value(place, "number", number=int(token.text, 0))
        if token.kind == "text":
            return Value(place, "text", name=_unescape(token))
        if token.text == "$$":
            return Value(place, "self")
        if token.text == "self":
            self.expect(".", "after 'self'")
            return Value(place, "field", name=self.name("a field"))
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

    def _call(self, place: Place, name: str) -> Value:
        self.take()
        items: list[Value] = []
        while not self.take_if(")"):
            if items:
                self.expect(",", "between arguments")
            items.append(self.value())
        if len(items) != FUNCTIONS[name]:
            raise ServiceError(
                place, f"'{name}' takes {FUNCTIONS[name]} arguments, not {len(items)}", "give it all of them."
            )
        return Value(place, "call", name, items=tuple(items))


def _unescape(token: _Token) -> str:
    """The characters of a string in quotes."""

    def one(match: re.Match[str]) -> str:
        text = match.group(1)
        if text[0] == "x":
            return chr(int(text[1:], 16))
        known = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\", '"': '"'}
        if text not in known:
            raise ServiceError(
                token.place, f"'\\{text}' is no character", 'write \\r, \\n, \\t, \\0, \\\\, \\" or \\xNN.'
            )
        return known[text]

    return re.sub(r"\\(x[0-9a-fA-F]{2}|.)", one, token.text[1:-1])
