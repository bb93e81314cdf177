"""Types, fields, annotations and channels as written."""

from __future__ import annotations

from typing import Any

from sluice.service.lang import tree
from sluice.service.lang.errors import ServiceError
from sluice.service.lang.parser.cursor import Cursor

_BASIC = ("integer", "string", "boolean", "ipv4_address")


class TypeParser(Cursor):
    """Reads types."""

    def type(self) -> tree.TypeExpression:
        """A type in a signature, a field, or a declaration without fields."""
        with self.deeper():
            return self._type()

    def _type(self) -> tree.TypeExpression:
        place = self.place
        self.take_if("type")
        if self.at(*_BASIC):
            return tree.TypeExpression(place, self.take().text)
        if self.at_kind("word"):
            return tree.TypeExpression(place, "name", self.take().text)
        if self.take_if("list"):
            bound = self.bound()
            return tree.TypeExpression(place, "list", items=[self.type()], bound=bound)
        if self.take_if("["):
            item = self.type()
            if self.at("/"):
                raise ServiceError(
                    self.place, "a channel stands where a type belongs", "a channel can only be named in a signature."
                )
            self.expect("]", "after the type of a list's items")
            return tree.TypeExpression(place, "list", items=[item], bound=self.bound())
        if self.take_if("tuple"):
            self.expect("(", "after 'tuple'")
            return tree.TypeExpression(place, "tuple", items=self.types(")"))
        if self.take_if("<>"):
            return tree.TypeExpression(place, "tuple")
        if self.take_if("<"):
            items = [self.type()]
            while self.take_if("*"):
                items.append(self.type())
            self.expect(">", "after the types of a tuple", "write <a * b>: a star stands between the types of a tuple.")
            return tree.TypeExpression(place, "tuple", items=items)
        if self.take_if("dictionary"):
            self.expect("[", "after 'dictionary'", "write dictionary [KEY] VALUE.")
            key = self.type()
            self.expect("]", "after the type of a dictionary's keys")
            return tree.TypeExpression(place, "dictionary", items=[key, self.type()])
        if self.take_if("ref"):
            return tree.TypeExpression(place, "ref", items=[self.type()])
        if self.at("record", "variant"):
            raise ServiceError(
                place,
                f"a {self.token.text} stands inside another type",
                "declare it with a name of its own: type NAME: ...",
            )
        raise ServiceError(
            place,
            f"a type is missing; {self.token} stands there",
            "write integer, string, boolean, ipv4_address, [T], <A * B>, dictionary [K] V, or the name of a type.",
        )

    def types(self, end: str) -> list[tree.TypeExpression]:
        """Types between commas, up to the closing bracket."""
        found: list[tree.TypeExpression] = []
        while not self.take_if(end):
            if found:
                self.expect(",", "between types")
            found.append(self.type())
        return found

    def bound(self) -> str | int | None:
        """The cardinality of a list or of a channel array, if there is one."""
        if not self.take_if("{"):
            return None
        if self.at_kind("number"):
            found: str | int = int(self.take().text)
        else:
            found = self.name("the number of items")
        self.expect("}", "after the number of items")
        return found

    def fields(self, what: str) -> list[tree.FieldDeclaration]:
        """The fields of a record or the labels of a variant, an indented line each."""
        found: list[tree.FieldDeclaration] = []
        while not self.at_kind("dedent", "end"):
            place = self.place
            name = self.name(f"the name of {what}", anonymous=True)
            self.expect(":", f"after '{name}'", f"write {name} : TYPE.")
            item = tree.FieldDeclaration(place, name, self.type(), self.annotation())
            found.append(item)
            if not self.take_kind("newline") and not self.at_kind("dedent", "end"):
                raise self.unexpected(f"{what} '{name}'")
            if self.take_kind("indent"):
                item.annotation.update(self.annotation())
                self.expect_end_of_line("an annotation")
                self.take_kind("dedent")
                self.take_kind("newline")
        return found

    def annotation(self) -> dict[str, Any]:
        """`{ name = value, ... }`, if there is one."""
        found: dict[str, Any] = {}
        if not self.take_if("{"):
            return found
        while not self.take_if("}"):
            if found:
                self.expect(",", "between annotations")
            name = self.take().text if self.at("size") else self.name("an annotation")
            if name in found:
                raise ServiceError(self.place, f"the annotation '{name}' is given twice", "remove one of them.")
            self.expect("=", f"after the annotation '{name}'")
            found[name] = self._annotation_value()
        return found

    def _annotation_value(self) -> Any:
        value = self._annotation_item()
        while self.at("+", "-"):
            value = tree.AnnotationSum(self.take().text, value, self._annotation_item())
        return value

    def _annotation_item(self) -> Any:
        if self.take_if("("):
            value = self._annotation_value()
            self.expect(")", "in an annotation")
            return value
        if self.at_kind("number"):
            return int(self.take().text)
        if self.at_kind("text"):
            return self.take().text
        if self.at("True", "False"):
            return tree.AnnotationName(self.take().text.lower())
        return tree.AnnotationName(self.name("the value of an annotation"))

    def channel(self) -> tree.ChannelDeclaration:
        """`received/sent name` or `[received/sent] name`."""
        place = self.place
        if self.at("[") and (self.ahead().text == "-" or self._slash_inside()):
            self.take()
            receives, sends = self._sides()
            self.expect("]", "after the types of a channel array")
            bound = self.bound()
            name = self.name("the name of a channel")
            return tree.ChannelDeclaration(
                place, name, receives, sends, True, bound if bound is not None else self.bound()
            )
        receives, sends = self._sides()
        return tree.ChannelDeclaration(place, self.name("the name of a channel"), receives, sends, False)

    def _slash_inside(self) -> bool:
        """Whether there is a slash between this bracket and the one that closes it."""
        depth, count = 0, 0
        while True:
            token = self.ahead(count)
            depth += (token.text == "[") - (token.text == "]")
            if depth == 1 and token.text == "/" and token.kind == "mark":
                return True
            if depth == 0 or token.kind == "end":
                return False
            count += 1

    def _sides(self) -> tuple[tree.TypeExpression, tree.TypeExpression]:
        place = self.place
        receives = self._side()
        self.expect(
            "/",
            "between the types that a channel receives and sends",
            "a channel is RECEIVED/SENT name, a value name : TYPE.",
        )
        sends = self._side()
        if receives.kind == sends.kind == "nothing":
            raise ServiceError(place, "this channel carries nothing", "give a type on one side of the '/' at least.")
        return receives, sends

    def _side(self) -> tree.TypeExpression:
        place = self.place
        if self.take_if("-"):
            return tree.TypeExpression(place, "nothing")
        return self.type()
