"""Types of a whole program: its declarations, and the bodies of its functions and processes."""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.check.expressions import ExpressionChecker
from sluice.service.lang.check.scope import Checked, Scope, Signature
from sluice.service.lang.errors import Place, ServiceError, Warned
from sluice.service.lang.types import (
    BOOLEAN,
    INTEGER,
    UNIT,
    DictionaryOf,
    ListOf,
    Named,
    RefTo,
    TupleOf,
    Type,
    joined,
    widened,
)

EXCEPTIONS = ("broken_connection", "malformed_message", "timeout", "limit", "failure")
"""What `except` can name; a failure is one of the program's own computation, such as a division by 0."""


MOST_CALLS = 10_000
"""Calls of functions of a body, with those in the functions that it calls."""
DEEPEST = 50
"""Functions that call each other: each is compiled within the one that calls it."""


def check_program(
    program: tree.Program, settings: dict[str, int] | None = None, warnings: list[Warned] | None = None
) -> Checked:
    """Check the names and types of a program; settings: values of compile-time parameters. Raises ServiceError."""
    checked = Checked(program, warnings=list(warnings or []), settings=settings or {})
    _Types(checked).declare_all()
    checker = _Bodies(checked)
    for function in program.functions:
        checker.signature(function, checked.functions)
    for process in program.processes:
        checker.signature(process, checked.processes)
    for signature in (*checked.functions.values(), *checked.processes.values()):
        checker.body(signature)
    for expression in program.expressions:
        with checker.block():
            checker.check(expression)
    _refuse_recursion(checked)
    _refuse_growth(checked)
    return checked


class _Types(Scope):
    """Declarations of types."""

    def declare_all(self) -> None:
        for each in self.checked.program.types:
            if each.name in self.checked.types or each.name in self.waiting:
                raise ServiceError(each.place, f"the type '{each.name}' is declared twice", "rename one of them.")
            if each.type.kind in ("record", "variant"):
                self.checked.types[each.name] = Named(each.name, each.type.kind == "variant")
            else:
                self.waiting[each.name] = each
        for name in list(self.waiting):
            self._alias(name, [])
        for each in self.checked.program.types:
            found = self.checked.types[each.name]
            if each.type.kind in ("record", "variant") and isinstance(found, Named):
                self._fields(each, found)
        for each in self.checked.program.types:
            self._finite(self.checked.types[each.name], each.place, [])
        self.checked.complete = True
        for each in self.checked.program.types:
            self.check_parts(self.checked.types[each.name], each.place)

    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self.waiting: dict[str, tree.TypeDeclaration] = {}
        self.finite: set[str] = set()
        """Records and variants that do not contain themselves."""

    def _alias(self, name: str, within: list[str]) -> None:
        """A name for a type, after the names that it uses."""
        declaration = self.waiting.get(name)
        if declaration is None or name in self.checked.types:
            return
        if name in within:
            raise ServiceError(
                declaration.place, f"the type '{name}' consists of itself", "a type has a size: break the cycle."
            )
        for used in _names(declaration.type):
            self._alias(used, [*within, name])
        self.checked.types[name] = self.resolve(declaration.type)

    def _fields(self, declaration: tree.TypeDeclaration, named: Named) -> None:
        what = "label" if named.variant else "field"
        for each in declaration.type.fields:
            if each.name == "_":
                self.resolve(each.type)
                continue
            if each.name in named.fields:
                raise ServiceError(
                    each.place, f"the {what} '{each.name}' of '{named.name}' is declared twice", "rename one of them."
                )
            named.fields[each.name] = self.resolve(each.type)
            if named.variant:
                if each.name in self.checked.labels:
                    other = self.checked.labels[each.name].name
                    raise ServiceError(each.place, f"'{each.name}' is also a label of '{other}'", "rename one of them.")
                self.checked.labels[each.name] = named
        if not named.fields:
            raise ServiceError(declaration.place, f"'{named.name}' has no {what} with a name", f"give it a {what}.")

    def _finite(self, type: Type, place: Place, within: list[str]) -> None:
        match type:
            case Named(name=name) if name in self.finite:
                return
            case Named():
                if type.name in within:
                    raise ServiceError(
                        place,
                        f"the type '{type.name}' contains itself, and has no size",
                        "use 'ref' for one of the fields.",
                    )
                for each in type.fields.values():
                    self._finite(each, place, [*within, type.name])
                self.finite.add(type.name)
            case ListOf():
                self._finite(type.item, place, within)
            case DictionaryOf():
                self._finite(type.key, place, within)
                self._finite(type.value, place, within)
            case TupleOf():
                for each in type.items:
                    self._finite(each, place, within)
            case RefTo() | _:
                return


def _names(written: tree.TypeExpression) -> list[str]:
    found = [written.name] if written.kind == "name" else []
    for item in written.items:
        found += _names(item)
    return found


class _Bodies(ExpressionChecker):
    """Signatures and bodies."""

    def signature(self, declaration: tree.Function | tree.Process, known: dict[str, Signature]) -> None:
        """Enter a function or process into the known ones."""
        what = "function" if isinstance(declaration, tree.Function) else "process"
        name = declaration.name
        if name in known:
            raise ServiceError(declaration.place, f"the {what} '{name}' is declared twice", "rename one of them.")
        if name in self.checked.types or name in self.checked.labels:
            raise ServiceError(
                declaration.place, f"'{name}' is also the name of a type or a label", "rename one of them."
            )
        found = Signature(name, declaration, [], [], UNIT)
        self.current = found
        with self.block():
            for constant in declaration.constants:
                binding = self.declare(constant, "constant", INTEGER, declaration.place)
                binding.value = self.checked.settings.get(constant)
                found.constants.append(binding)
            by_name: dict[str, tree.Binding] = {}
            for channel in declaration.channels:
                kind = "array" if channel.array else "channel"
                by_name[channel.name] = self.declare(channel.name, kind, self.channel_type(channel), channel.place)
                by_name[channel.name].value = self.cardinality(channel.bound, channel.place)
            for parameter in declaration.parameters:
                type = self.resolve(parameter.type)
                refers = isinstance(type, (RefTo, DictionaryOf)) and isinstance(declaration, tree.Function)
                by_name[parameter.name] = binding = self.declare(
                    parameter.name,
                    "ref" if refers else "parameter",
                    type.item if isinstance(type, RefTo) else type,
                    parameter.place,
                )
                if isinstance(declaration, tree.Process):
                    self._setting(binding)
            order = declaration.order if isinstance(declaration, tree.Function) else list(by_name)
            found.parameters = [by_name[each] for each in order]
            if isinstance(declaration, tree.Function):
                results = [self.resolve(each) for each in declaration.results]
                found.result = UNIT if not results else results[0] if len(results) == 1 else TupleOf(tuple(results))
            elif not declaration.channels:
                raise ServiceError(
                    declaration.place, f"the process '{name}' has no channel", "a process connects channels."
                )
        known[name] = found

    def _setting(self, binding: tree.Binding) -> None:
        """A parameter of a process has a value that is known when it is compiled."""
        if binding.type not in (INTEGER, BOOLEAN):
            raise ServiceError(
                binding.place,
                f"the parameter '{binding.name}' of a process is {binding.type}",
                "a process takes integers and booleans, which --set gives; use a constant for anything else.",
            )
        binding.value = self.checked.settings.get(binding.name)

    def body(self, signature: Signature) -> None:
        """Check a body."""
        self.current = signature
        declaration = signature.declaration
        with self.block():
            for binding in (*signature.constants, *signature.parameters):
                self.names[-1][binding.name] = binding
            for state in declaration.body.states:
                self._state(state, signature)
            with self.block():
                used = isinstance(declaration, tree.Function) and signature.result != UNIT
                found = self.check(declaration.body.expression, used)
            if used:
                result = joined(signature.result, found)
                if result is None:
                    raise ServiceError(
                        _last(declaration.body.expression).place,
                        f"the function '{signature.name}' returns {signature.result}, and this is {found}",
                        "change the signature, or the last expression of the body.",
                    )
                self.coerce(declaration.body.expression, signature.result, "the result")
            for handler in declaration.body.handlers:
                if handler.exception not in EXCEPTIONS:
                    self.warn(handler.place, f"'{handler.exception}' never happens; there are {', '.join(EXCEPTIONS)}")
                with self.block():
                    found = self.check(handler.body, used)
                if used:
                    if joined(signature.result, found) is None:
                        raise ServiceError(
                            handler.place,
                            f"'{signature.name}' returns {signature.result}, and this handler gives {found}",
                            "give it a value of that type.",
                        )
                    self.coerce(handler.body, signature.result, "the handler")
        self.current = None

    def _state(self, state: tree.StateDeclaration, signature: Signature) -> None:
        found = self.value(state.start, f"the first value of '{state.name}'")
        if state.wanted is not None:
            self.coerce(state.start, self.resolve(state.wanted), f"'{state.name}'")
            found = state.start.type
        else:
            found = widened(found)
        kind = "global" if state.everywhere else "local"
        state.binding = self.declare(state.name, kind, found, state.place)
        signature.states.append(state.binding)


def _last(node: tree.Expression) -> tree.Expression:
    return _last(node.items[-1]) if isinstance(node, tree.Sequence) else node


def _refuse_recursion(checked: Checked) -> None:
    done: set[str] = set()

    def visit(name: str, within: list[str]) -> None:
        if name in done:
            return
        for called, place in checked.functions[name].calls:
            if len(within) > DEEPEST:
                raise _too_deep(place)
            if called in [*within, name]:
                path = [*within, name]
                cycle = " -> ".join([*path[path.index(called) :], called])
                raise ServiceError(
                    place,
                    f"'{called}' calls itself ({cycle})",
                    "functions cannot be recursive: use 'for', 'map' or 'fold'.",
                )
            visit(called, [*within, name])
        done.add(name)

    for name in checked.functions:
        visit(name, [])


def _too_deep(place: Place) -> ServiceError:
    return ServiceError(
        place,
        f"functions within functions are more than {DEEPEST} deep here",
        "call fewer functions inside functions: each is compiled within the one that calls it.",
    )


def _refuse_growth(checked: Checked) -> None:
    """Functions are inlined: a few that call each other twice would be as many as any number, and each is within the
    one that calls it.
    """
    sizes: dict[str, tuple[int, int]] = {}

    def size(signature: Signature) -> tuple[int, int]:
        """Calls, and how deep they are."""
        found, depth = 1, 0
        for called, place in signature.calls:
            if called not in sizes:
                sizes[called] = size(checked.functions[called])
            found, depth = found + sizes[called][0], max(depth, sizes[called][1])
            if depth >= DEEPEST and signature.name in checked.functions:
                raise _too_deep(place)
            if found > MOST_CALLS:
                raise ServiceError(
                    place,
                    f"with what it calls, '{signature.name}' has more than {MOST_CALLS:,} calls of functions",
                    "call fewer functions inside functions: each call is compiled again.",
                )
        return found, depth + 1

    for signature in (*checked.functions.values(), *checked.processes.values()):
        size(signature)
