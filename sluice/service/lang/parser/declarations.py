"""Declarations: types, processes, functions, and their file."""

from __future__ import annotations

from collections.abc import Callable

from sluice.service.grammar.declarations import parse_grammar
from sluice.service.lang import tree
from sluice.service.lang.errors import Place, ServiceError
from sluice.service.lang.parser.expressions import ExpressionParser


class DeclarationParser(ExpressionParser):
    """Reads a file; `include` is called with the place and the file name of each included file."""

    def file(self, program: tree.Program, include: Callable[[Place, str], None]) -> None:
        """Add all declarations of the file to a program."""
        while not self.at_kind("end"):
            if self.take_kind("newline"):
                continue
            place = self.place
            if self.at_kind("unit"):
                program.grammars.append(parse_grammar(self.take().text, place.file, place.line))
            elif self.take_if("type"):
                program.types.append(self._type_declaration(place))
            elif self.at("process", "proc"):
                self.take()
                program.processes.append(self._process(place))
            elif self.take_if("fun"):
                program.functions.append(self._function(place))
            elif self.take_if("include"):
                if not self.at_kind("text"):
                    raise ServiceError(self.place, "'include' needs a file", 'write include "FILE".')
                name = self.take().text
                self.expect_end_of_line("'include'")
                include(place, name)
            elif self.take_if("(|"):
                program.expressions.append(self.block("'(|'"))
                self._close_file_form()
            elif self.take_if("(type|"):
                self.channel_type() if self._is_channel() else self.type()
                self._close_file_form()
            else:
                raise ServiceError(
                    place,
                    f"{self.token} does not begin a declaration",
                    "a file consists of 'type', 'process' (or 'proc'), 'fun' and 'include'.",
                )

    def channel_type(self) -> None:
        """A channel's type without a name, in `(type| ... |)`."""
        array = self.take_if("[")
        self._sides()
        if array:
            self.expect("]", "after the types of a channel array")
            self.bound()

    def _is_channel(self) -> bool:
        count = 0
        while self.ahead(count).kind not in ("newline", "end") and self.ahead(count).text != "|)":
            if self.ahead(count).text == "/":
                return True
            count += 1
        return False

    def _close_file_form(self) -> None:
        while self.at_kind("newline", "dedent"):
            self.take()
        self.expect("|)", "at the end of the file")

    def _type_declaration(self, place: Place) -> tree.TypeDeclaration:
        name = self.name("the name of a type")
        self.expect(":", f"after 'type {name}'", f"write type {name}: record, or type {name}: TYPE.")
        annotation = self.annotation()
        if not self.at("record", "variant"):
            found = self.type()
            found.annotation = annotation
            self.expect_end_of_line(f"the type '{name}'")
            return tree.TypeDeclaration(place, name, found)
        kind = self.take().text
        found = tree.TypeExpression(place, kind, name, annotation=annotation)
        if not (self.take_kind("newline") and self.take_kind("indent")):
            raise ServiceError(
                place, f"the {kind} '{name}' has no fields", "write each field on an indented line: NAME : TYPE."
            )
        if self.at("{"):
            found.annotation.update(self.annotation())
            self.expect_end_of_line("an annotation")
        found.fields = self.fields("a field" if kind == "record" else "a label")
        self.take_kind("dedent")
        return tree.TypeDeclaration(place, name, found)

    def _constants(self) -> list[str]:
        """`{ n, m } =>`: parameters of compile time."""
        found: list[str] = []
        if not self.take_if("{"):
            return found
        while not self.take_if("}"):
            if found:
                self.expect(",", "between compile-time parameters")
            found.append(self.name("a compile-time parameter"))
        self.expect("=>", "after the compile-time parameters", "write {n} => (...).")
        return found

    def _signature(self) -> tuple[list[tree.ChannelDeclaration], list[tree.FieldDeclaration], list[str]]:
        """Channels and parameters between brackets; the paper separates them by a comma, others by a semicolon."""
        channels: list[tree.ChannelDeclaration] = []
        parameters: list[tree.FieldDeclaration] = []
        order: list[str] = []
        self.expect("(", "at the beginning of the signature")
        while not self.take_if(")"):
            if order and not self.take_if(";"):
                self.expect(",", "between channels or parameters")
            while self.take_if(";"):
                pass
            if self.take_if(")"):
                break
            place = self.place
            if self.ahead().text == ":" and (self.at_kind("word") or self.at("_")):
                name = self.name("a parameter", anonymous=True)
                self.take()
                parameters.append(tree.FieldDeclaration(place, name, self.type()))
                order.append(name)
            else:
                if parameters:
                    raise ServiceError(
                        place, "a channel stands after a parameter", "write the channels first, then the parameters."
                    )
                channels.append(self.channel())
                order.append(channels[-1].name)
        return channels, parameters, order

    def _process(self, place: Place) -> tree.Process:
        name = self.name("the name of a process")
        self.expect(":", f"after 'process {name}'", f"write process {name}: (CHANNELS).")
        constants = self._constants()
        channels, parameters, _ = self._signature()
        return tree.Process(place, name, constants, channels, parameters, self._body(f"the process '{name}'"))

    def _function(self, place: Place) -> tree.Function:
        name = self.name("the name of a function")
        self.expect(":", f"after 'fun {name}'", f"write fun {name}: (...) -> (TYPE).") if not self.at("(") else None
        constants = self._constants()
        channels, parameters, order = self._signature()
        self.expect(
            "->", f"after the parameters of '{name}'", "write -> (TYPE), or -> () for a function without a result."
        )
        results = self.types(")") if self.take_if("(") else [self.type()]
        body = self._body(f"the function '{name}'")
        return tree.Function(place, name, constants, channels, parameters, results, body, order)

    def _body(self, whose: str) -> tree.Body:
        """An indented body; after a colon also an expression on the same line."""
        colon = self.take_if(":")
        if colon and not self.at_kind("newline", "dedent", "end"):
            if self.at("..."):
                raise ServiceError(self.place, f"the body of {whose} is left out ('...')", "write what it does.")
            found = tree.Body([], self.statement(), [])
            self.expect_end_of_line("the body")
            return found
        if not (self.take_kind("newline") and self.take_kind("indent")):
            raise ServiceError(self.place, f"{whose} has no body", "write it on indented lines after the signature.")
        states: list[tree.StateDeclaration] = []
        while self.at("local", "global"):
            states.append(self._state())
        if self.at_kind("dedent", "end") or self.at("except"):
            raise ServiceError(self.place, f"{whose} only declares state", "write what it does.")
        expression = self.lines()
        handlers: list[tree.Handler] = []
        while self.at("except"):
            start = self.take().place
            name = self.name("the name of an exception")
            self.expect(":", f"after 'except {name}'")
            handlers.append(tree.Handler(start, name, self.block("':'")))
            self.take_kind("newline")
        if not self.take_kind("dedent") and not self.at_kind("end"):
            raise self.unexpected(f"the body of {whose}")
        return tree.Body(states, expression, handlers)

    def _state(self) -> tree.StateDeclaration:
        token = self.take()
        name = self.name(f"the name after '{token.text}'")
        wanted = self.type() if self.take_if(":") else None
        self.expect(
            ":=", f"after '{token.text} {name}'", "give a state variable its first value: NAME : TYPE := VALUE."
        )
        start = self.block("':='")
        self.take_kind("newline")
        return tree.StateDeclaration(token.place, name, token.text == "global", wanted, start)
