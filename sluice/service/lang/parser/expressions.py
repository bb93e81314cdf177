"""Expressions. Precedence, loosest first:

lines of a block; `|`
let, :=, if, switch, for, map, filter, foldt
a; b => stage => stage
or; and; not
= != < > <= >=
:: @            (group to the right)
..
+ -             (this and the next level group to the left)
* / mod
- abs not size can address_to_int int_to_address    (before their operand)
c ! e           (the value reaches as far as `or`)
with, typed, unsafe_cast, calls, x[i], x.f, ? c, ?? c
"""

from __future__ import annotations

import re

from sluice.service.lang import tree
from sluice.service.lang.errors import ServiceError, Warned
from sluice.service.lang.lexer import Token
from sluice.service.lang.parser.types import TypeParser

_COMPARE = ("=", "<", ">", "<=", ">=", "!=")
_PREFIX = ("-", "abs", "address_to_int", "int_to_address", "size")
_ESCAPE, _ESCAPED = re.compile(r"\\([rnt\\])"), {"r": "\r", "n": "\n", "t": "\t", "\\": "\\"}
_ENDS = ("newline", "dedent", "end")


class ExpressionParser(TypeParser):
    """Reads expressions."""

    def __init__(self, source: str, file: str) -> None:
        super().__init__(source, file)
        self.warnings: list[Warned] = []
        self._semicolons = True
        """Whether `;` joins sources of a pipeline here; in arguments it separates them."""
        self._withs = True
        """Whether `with` changes the operand before it."""

    # --- blocks

    def block(self, after: str) -> tree.Expression:
        """The part after ':' or '=': an indented block, or an expression on the same line."""
        with self.deeper():
            if self.at_kind("newline") and self.ahead().kind == "indent":
                self.take()
                self.take()
                found = self.lines()
                if not self.take_kind("dedent"):
                    raise self.unexpected("this block")
                return found
            if self.at_kind(*_ENDS):
                raise ServiceError(self.place, f"nothing follows {after}", "write an expression, or an indented block.")
            return self.statement()

    def lines(self) -> tree.Expression:
        """The lines of a block: one after the other; those with a leading bar in parallel."""
        place, items = self.place, list[tree.Expression]()
        while not self.at_kind("dedent", "end") and not self.at("except", "|)"):
            barred, start = self.take_if("|"), self.place
            item = self.statement()
            if not self.take_kind("newline") and not self.at_kind("dedent", "end") and not self.at("|)"):
                raise self.unexpected("this expression")
            if not barred:
                items.append(item)
            elif items and isinstance(items[-1], tree.Parallel):
                items[-1].items += item.items if isinstance(item, tree.Parallel) else [item]
            elif items and isinstance(items[-1], tree.Pipe):
                items[-1] = tree.Parallel(items[-1].place, [items[-1], item])
            else:
                items.append(item if isinstance(item, tree.Parallel) else tree.Parallel(start, [item]))
        if not items:
            raise ServiceError(place, "a block without an expression", "write what it does.")
        return items[0] if len(items) == 1 else tree.Sequence(place, items)

    def statement(self) -> tree.Expression:
        """One expression, and those beside it in parallel."""
        place = self.place
        items = [self._single()]
        while self.at("|"):
            self.take()
            items.append(self._single())
        return items[0] if len(items) == 1 else tree.Parallel(place, items)

    def _single(self) -> tree.Expression:
        place, found = self.place, self.pipe()
        if self.at(":="):
            self.take()
            if not isinstance(found, (tree.Name, tree.Index)):
                raise ServiceError(
                    place,
                    "only a state variable, or an entry of one, can be assigned",
                    "write NAME := e or NAME[KEY] := e.",
                )
            return tree.Assign(place, found, self.block("':='"))
        return found

    # --- pipelines

    def pipe(self) -> tree.Expression:
        place = self.place
        sources = [self.either()]
        while self._semicolons and self.at(";"):
            self.take()
            sources.append(self.either())
        stages: list[tree.Expression] = []
        while self.take_if("=>"):
            stages.append(self.either() if not self.at_kind("newline") else self.block("'=>'"))
        if not stages:
            if len(sources) > 1:
                raise ServiceError(place, "';' joins sources of '=>', and none follows", "write a; b => target.")
            return sources[0]
        return tree.Pipe(place, sources, stages)

    # --- operators

    def either(self) -> tree.Expression:
        place, left = self.place, self._both()
        while self.take_if("or"):
            left = tree.Binary(place, "or", left, self._both())
        return left

    def _both(self) -> tree.Expression:
        place, left = self.place, self._negation()
        while self.take_if("and"):
            left = tree.Binary(place, "and", left, self._negation())
        return left

    def _negation(self) -> tree.Expression:
        place = self.place
        if self.take_if("not"):
            with self.deeper():
                return tree.Unary(place, "not", self._negation())
        return self._comparison()

    def _split_arrow(self) -> None:
        """`<-` before an operand is `<` and `-`: `x <-1`, `<-1, 2>`."""
        if self.at("<-"):
            place = self.place
            self._tokens[self._at : self._at + 1] = [Token("mark", "<", place), Token("mark", "-", place)]

    def _comparison(self) -> tree.Expression:
        place, left = self.place, self._chain()
        self._split_arrow()
        if not self.at(*_COMPARE):
            return left
        operator = self.take()
        if operator.text == "=" and self.at("="):
            raise ServiceError(operator.place, "'==' is no operator", "write '=' to compare, ':=' to assign.")
        found = tree.Binary(place, operator.text, left, self._chain())
        if self.at(*_COMPARE):
            raise ServiceError(
                self.place, "a comparison is compared again", "put one of them into brackets, or write 'and'."
            )
        return found

    def _chain(self) -> tree.Expression:
        place, left = self.place, self._range()
        if self.at("::", "@"):
            operator = self.take().text
            with self.deeper():
                return tree.Binary(place, operator, left, self._chain())
        return left

    def _range(self) -> tree.Expression:
        place, left = self.place, self._sum()
        if self.take_if(".."):
            return tree.Binary(place, "..", left, self._sum())
        return left

    def _sum(self) -> tree.Expression:
        place, left = self.place, self._product()
        while self.at("+", "-"):
            operator = self.take()
            if isinstance(left, tree.Binary) and left.operator == "-" and self._grouped is not left:
                self._warn_grouping(operator.place, f"a - b {operator.text} c", f"a - (b {operator.text} c)")
            if isinstance(left, tree.Unary) and left.operator == "-" and self._grouped is not left:
                self._warn_grouping(operator.place, f"-a {operator.text} b", f"-(a {operator.text} b)")
            left = tree.Binary(place, operator.text, left, self._product())
        return left

    def _product(self) -> tree.Expression:
        place, left = self.place, self._prefix()
        while self.at("*", "/", "mod"):
            operator = self.take()
            if isinstance(left, tree.Binary) and left.operator in ("/", "mod") and self._grouped is not left:
                shape = f"a {left.operator} b {operator.text} c"
                self._warn_grouping(operator.place, shape, f"a {left.operator} (b {operator.text} c)")
            left = tree.Binary(place, operator.text, left, self._prefix())
        return left

    _grouped: tree.Expression | None = None
    """The expression that stood in brackets last: no doubt about its grouping."""

    def _warn_grouping(self, place: tree.Place, ours: str, theirs: str) -> None:
        self.warnings.append(
            Warned(place, f"'{ours}' groups to the left here; FLICK's compiler took it as '{theirs}': use brackets")
        )

    def _prefix(self) -> tree.Expression:
        place = self.place
        if self.at(*_PREFIX):
            operator = self.take().text
            with self.deeper():
                operand = self._prefix()
                if operator == "-" and isinstance(operand, tree.Integer):
                    return self._postfix_of(tree.Integer(place, -operand.value))
                return tree.Unary(place, operator, operand)
        if self.take_if("can"):
            with self.deeper():
                return tree.Can(place, self._prefix())
        return self._postfix()

    # --- operands

    def _postfix(self) -> tree.Expression:
        return self._postfix_of(self._primary())

    def _postfix_of(self, found: tree.Expression) -> tree.Expression:
        while True:
            place = self.place
            if self.take_if("."):
                found = self._dot(found, place)
            elif self.at("[") and isinstance(found, (tree.Name, tree.Field, tree.Index)):
                self.take()
                found = tree.Index(place, found, self._inside("]", "an index"))
            elif self._withs and self.take_if("with"):
                name = self.name("a field")
                self.expect("=", f"after 'with {name}'")
                kept, self._withs = self._withs, False  # a further `with` changes the whole
                found = tree.With(place, found, name, self._range())
                self._withs = kept
            elif self.at("typed", "unsafe_cast"):
                found = tree.Typed(place, found, unsafe=self.take().text == "unsafe_cast", wanted=self.type())
            elif self.at("!"):
                self.take()
                return tree.Send(place, found, self.block("'!'") if self.at_kind("newline") else self.either())
            elif self.at("?", "??"):
                raise ServiceError(
                    place, f"'{self.token.text}' stands after a channel", f"write it before: {self.token.text} channel."
                )
            else:
                return found

    def _dot(self, base: tree.Expression, place: tree.Place) -> tree.Expression:
        if self.at_kind("number"):
            return tree.Item(place, base, int(self.take().text))
        if not self.at_kind("word", "keyword"):
            raise ServiceError(self.place, "a field is missing after '.'", "write the name of a field, or a number.")
        name = self.take().text
        if self.at("("):
            return tree.Dotted(place, base, self._call(place, name))
        return tree.Field(place, base, name)

    def _inside(self, end: str, what: str) -> tree.Expression:
        """An expression between brackets, in which `;` joins again."""
        kept = self._semicolons, self._withs
        self._semicolons = self._withs = True
        with self.deeper():
            found = self.statement()
        self._semicolons, self._withs = kept
        self.expect(end, f"after {what}")
        return found

    def _primary(self) -> tree.Expression:
        self._split_arrow()
        place, token = self.place, self.token
        if self.at_kind("number"):
            return tree.Integer(place, int(self.take().text))
        if self.at_kind("text"):
            return tree.Text(place, _ESCAPE.sub(lambda found: _ESCAPED[found[1]], self.take().text))
        if self.at_kind("address"):
            return tree.Address(place, self.take().text)
        if self.take_if("True"):
            return tree.Boolean(place, True)
        if self.take_if("False"):
            return tree.Boolean(place, False)
        if self.at_kind("word"):
            return self._word()
        if self.take_if("_"):
            return tree.Hole(place)
        if self.take_if("("):
            found = self._inside(")", "an expression in brackets")
            self._grouped = found
            return found
        if self.take_if("<>"):
            return tree.Tuple(place, [])
        if self.take_if("<"):
            return tree.Tuple(place, self._items(">", "a tuple"))
        if self.take_if("["):
            return tree.List(place, self._items("]", "a list"))
        if self.take_if("{"):
            return self._record(place)
        if self.at("?", "??"):
            peek = self.take().text == "??"
            return tree.Receive(place, self._channel_operand(), peek)
        if self.take_if("@:"):
            found = self.statement()
            self.expect(":@", "after an expression of compile time")
            return tree.CompileTime(place, found)
        if self.at("let", "if", "switch", "for", "map"):
            with self.deeper():
                return self._construct()
        if token.kind == "indent" or self.at("else", "except", "initially"):
            raise self.unexpected("what stands before it")
        if self.at("..."):
            raise ServiceError(place, "'...' stands for something that is left out", "write it out.")
        raise ServiceError(place, f"an expression is missing; {token} stands there", "write a value, a name or a call.")

    def _channel_operand(self) -> tree.Expression:
        place = self.place
        if self.take_if("("):
            return self._inside(")", "a channel")
        found: tree.Expression = tree.Name(place, self.name("a channel"))
        while self.take_if("["):
            found = tree.Index(place, found, self._inside("]", "an index"))
        return found

    def _items(self, end: str, what: str) -> list[tree.Expression]:
        found: list[tree.Expression] = []
        while not self.take_if(end):
            if found and not self.take_if(","):
                self.expect(end, f"after the items of {what}")
            with self.deeper():
                found.append(self._chain() if end == ">" else self._argument_value())
        return found

    def _record(self, place: tree.Place) -> tree.Expression:
        found: list[tuple[str, tree.Expression]] = []
        while not self.take_if("}"):
            if found:
                self.expect(",", "between the fields of a record")
            name = self.name("a field")
            self.expect("=", f"after the field '{name}'")
            found.append((name, self._argument_value()))
        return tree.Record(place, found)

    def _argument_value(self) -> tree.Expression:
        kept = self._semicolons, self._withs
        self._semicolons, self._withs = False, True
        found = self.pipe()
        self._semicolons, self._withs = kept
        return found

    def _word(self) -> tree.Expression:
        place = self.place
        if self.at_word("foldt") and self.ahead().text == "on":
            with self.deeper():
                return self._foldt()
        if self.at_word("filter") and self.ahead().kind == "word" and self.ahead(2).text == "in":
            with self.deeper():
                return self._map()
        name = self.take().text
        if self.at("("):
            return self._call(place, name)
        return tree.Name(place, name)

    def _call(self, place: tree.Place, function: str) -> tree.Call:
        self.expect("(", "after a function's name")
        found: list[tree.Argument] = []
        while not self.take_if(")"):
            if found and not self.take_if(";"):
                self.expect(",", "between arguments")
            found.append(self._argument())
        return tree.Call(place, function, found)

    def _argument(self) -> tree.Argument:
        if self.at_kind("word") and self.ahead().text == "<-":
            name = self.take().text
            self.take()
            return tree.Argument(self._argument_value(), name)
        return tree.Argument(self._argument_value())

    # --- constructs

    def _construct(self) -> tree.Expression:
        place = self.place
        match self.token.text:
            case "let":
                return self._let()
            case "if":
                return self._if()
            case "switch":
                return self._switch()
            case "for":
                return self._for(place)
            case _:
                return self._map()

    def _let(self) -> tree.Expression:
        place = self.take().place
        name = self.name("the name after 'let'")
        wanted = self.type() if self.take_if(":") else None
        if self.at(":="):
            raise ServiceError(self.place, "':=' assigns to a state variable", f"write let {name} = ...")
        self.expect("=", f"after 'let {name}'")
        return tree.Let(place, name, wanted, self.block("'='"))

    def _if(self) -> tree.Expression:
        place = self.take().place
        condition = self.either()
        if self.at_word("then"):
            raise ServiceError(self.place, "there is no 'then'", "write a colon after the condition.")
        self.expect(":", "after the condition of 'if'")
        then = self.block("':'")
        if self.at_kind("newline") and self.ahead().text == "else" and self.ahead().kind == "keyword":
            self.take()
        otherwise = None
        if self.take_if("else"):
            if self.at("if"):
                otherwise = self._if()
            else:
                self.expect(":", "after 'else'")
                otherwise = self.block("':'")
        return tree.If(place, condition, then, otherwise)

    def _switch(self) -> tree.Expression:
        place = self.take().place
        subject = self.either()
        self.expect(":", "after what 'switch' looks at")
        if not (self.take_kind("newline") and self.take_kind("indent")):
            raise ServiceError(
                self.place, "a 'switch' without cases", "write each case on an indented line: PATTERN: e"
            )
        cases: list[tree.Case] = []
        while not self.take_kind("dedent"):
            start = self.place
            pattern = self.either()
            self.expect(":", "after the pattern of a case")
            cases.append(tree.Case(start, pattern, self.block("':'")))
            if not self.take_kind("newline") and not self.at_kind("dedent"):
                raise self.unexpected("a case")
        return tree.Switch(place, subject, cases)

    def _for(self, place: tree.Place) -> tree.Expression:
        self.take()
        name, unordered, over = self._iteration("for")
        accumulator, start = None, None
        self.take_kind("newline") if self.ahead().text == "initially" else None
        if self.take_if("initially"):
            accumulator = self.name("the name after 'initially'")
            self.expect("=", f"after 'initially {accumulator}'")
            start = self.either()
        self.expect(":", "before the body of 'for'")
        return tree.For(place, name, unordered, over, accumulator, start, self.block("':'"))

    def _iteration(self, what: str) -> tuple[str, bool, tree.Expression]:
        name = self.name(f"the name after '{what}'")
        self.expect("in", f"after '{what} {name}'")
        return name, self.take_if("unordered"), self.either()

    def _map(self) -> tree.Expression:
        token = self.take()
        if self.at("("):
            return self._call(token.place, token.text)
        name, unordered, over = self._iteration(token.text)
        self.expect(":", f"before the body of '{token.text}'")
        return tree.Map(token.place, token.text, name, unordered, over, self.block("':'"))

    def _foldt(self) -> tree.Expression:
        place = self.take().place
        self.take()
        channels = self.either()
        self._soft("ordering", "foldt on CHANNELS")
        element = self.name("the element's name after 'ordering'")
        left = self.name("the name of the first of two elements")
        self.expect(",", "between the names of two elements")
        right = self.name("the name of the second of two elements")
        self._soft("by", "the names of the elements")
        key = self.either()
        self._soft("as", "the key of 'foldt'")
        key_name = self.name("the key's name after 'as'")
        self.expect(":", "before the body of 'foldt'")
        return tree.FoldT(place, channels, element, left, right, key, key_name, self.block("':'"))

    def _soft(self, word: str, after: str) -> None:
        if not self.at_word(word):
            raise ServiceError(
                self.place,
                f"'{word}' is missing after {after}; {self.token} stands there",
                "write: foldt on CHANNELS ordering ELEMENT LEFT, RIGHT by KEY as NAME: body.",
            )
        self.take()
