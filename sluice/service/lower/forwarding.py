"""Which messages of a body that receives and sends in turn can be forwarded before they are complete.

`let m = ? c` can, if all later code uses nothing but fields of `m`, up to one expression that sends it once at most,
unchanged, as its last act; and if nothing is received in between. After it, the bytes of `m` are gone: what follows may use
only integers of it: also in returned values, and in state that is not copied. A message that is sent on
none of the paths is skipped.

Where this holds for some branches of an `if` and not for others, a message that fits into a buffer is waited for, so that
all branches can use it; a larger one is forwarded by the branches that can, and is a fault in the others. So it is, too, where
`whole(m)` tests which of both it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sluice.service.lang import tree
from sluice.service.lang.check.scope import Checked
from sluice.service.lang.types import ADDRESS, BOOLEAN, INTEGER, UNIT, ChannelOf
from sluice.service.lower.streams import bodies, call_sends, children, fields_only, sends_last

FLAT = (INTEGER, BOOLEAN, ADDRESS, UNIT)
"""Types whose values contain no bytes of a message."""
Names = set[tree.Binding]


class Want(Enum):
    """How much of a message has to be there; the names are those of service.h."""

    FIELDS = "SERVICE_FIELDS"
    FITTING = "SERVICE_FITTING"
    WHOLE = "SERVICE_WHOLE"


@dataclass
class Forwarded:
    """Of a program: the part that each `?`, and each pipeline from channels, awaits; others await all of a message."""

    wants: dict[tree.Expression, Want] = field(default_factory=dict[tree.Expression, Want])
    whole: dict[tree.Expression, set[tree.Binding]] = field(default_factory=dict[tree.Expression, Names])
    """Branches of an `if` that need a message as a whole, by the name of the message."""
    tested: set[str] = field(default_factory=set[str])
    """Types of messages of which `whole` tests whether they are complete."""


def forwarded(checked: Checked) -> Forwarded:
    """The messages that the bodies of a program can forward."""
    found = Forwarded(tested={name for each in bodies(checked) for name in _tested(each)})
    copied = {each for signature in checked.processes.values() for each in signature.states}
    for signature in (*checked.functions.values(), *checked.processes.values()):
        body = signature.declaration.body
        returns = signature.name in checked.functions and signature.result not in FLAT
        for handler in body.handlers:
            _Finder(checked, found, [], copied).visit(handler.body, returns)
        _Finder(checked, found, [each.body for each in body.handlers], copied).visit(body.expression, returns)
    return found


def _tested(node: tree.Expression) -> set[str]:
    own = {str(node.ordered[0].type)} if isinstance(node, tree.Call) and node.function == "whole" else set[str]()
    return own.union(*map(_tested, children(node)))


class _Finder:
    def __init__(self, checked: Checked, found: Forwarded, handlers: list[tree.Expression], copied: Names) -> None:
        self.checked = checked
        self.found = found
        self.handlers = handlers
        self.copied = copied
        """The state that does not refer to the bytes of a value assigned to it, besides the global one."""
        self.guards: list[tuple[tree.Expression, tree.Binding]] = []
        """The branches that need the current message as a whole."""

    def visit(self, node: tree.Expression, used: bool) -> None:
        """`used`: whether the value of an expression is."""
        if isinstance(node, tree.Sequence):
            for number, item in enumerate(node.items):
                rest = node.items[number + 1 :]
                if isinstance(item, tree.Let) and item.binding is not None and _receives(item.value):
                    if not used or (rest and rest[-1].type in FLAT):
                        self.receipt(item.value, item.binding, rest)
                self.visit(item, used and not rest)
            return
        if isinstance(node, tree.Pipe) and len(node.stages) == 1 and len(node.bindings) == 1:
            if not used or node.type in FLAT:
                self.pipeline(node)
        for each in children(node):
            self.visit(each, self.uses(node, each, used))

    def uses(self, node: tree.Expression, part: tree.Expression, used: bool) -> bool:
        """Whether an expression uses the value of its part."""
        match node:
            case tree.If():
                return part is node.condition or used
            case tree.Switch():
                return used or all(part is not case.body for case in node.cases)
            case tree.For():
                return part is not node.body or node.accumulated is not None
            case tree.Parallel():
                return False
            case _:
                return True

    def keeps(self, node: tree.Expression, seen: set[str]) -> bool:
        """Whether an expression, with the functions that it calls, assigns bytes to state that is not copied."""
        if isinstance(node, tree.Assign) and node.value.type not in FLAT and isinstance(node.target, tree.Name):
            target = node.target.binding
            if target is None or (target.kind != "global" and target not in self.copied):
                return True
        if isinstance(node, tree.Call) and node.kind == "function" and node.function not in seen:
            seen.add(node.function)
            body = self.checked.functions[node.function].declaration.body
            parts = [body.expression, *(each.body for each in body.handlers)]
            if any(self.keeps(each, seen) for each in parts):
                return True
        return any(self.keeps(each, seen) for each in children(node))

    def receipt(self, node: tree.Expression, message: tree.Binding, rest: list[tree.Expression]) -> None:
        self.guards = []
        if any(self.keeps(each, set()) for each in rest):
            return
        if any(mentions(each, {message}) for each in self.handlers) or not self.forwards(rest, message, {message}):
            return
        self.found.wants[node] = Want.FITTING if self.guards or str(node.type) in self.found.tested else Want.FIELDS
        for branch, name in self.guards:
            self.found.whole.setdefault(branch, set()).add(name)

    def pipeline(self, node: tree.Pipe) -> None:
        stage, source = node.stages[0], node.sources[0]
        of_channels = all(isinstance(each.type, ChannelOf) for each in node.sources)
        if not of_channels and not (len(node.sources) == 1 and _receives(source)):
            return
        if self.keeps(stage, set()):
            return
        if isinstance(stage, tree.Call):
            sends = stage.type == UNIT and call_sends(stage, node.bindings[0], self.checked)
        else:
            sends = not isinstance(stage, tree.Hole)
        if sends:
            tested = str(node.bindings[0].type) in self.found.tested
            self.found.wants[node if of_channels else source] = Want.FITTING if tested else Want.FIELDS

    def forwards(self, items: list[tree.Expression], message: tree.Binding, names: Names) -> bool:
        """Whether the later code needs only the fields. `names`: of the message, and of bytes of it."""
        names = set(names)
        for number, item in enumerate(items):
            last = number == len(items) - 1
            if not quiet(item, self.checked, set()) or not fields_only(item, message):
                # the message has to be sent here, if it is sent
                return self.sends(item, message, names) and _integers_only(items[number + 1 :], message, names)
            if isinstance(item, tree.Let) and item.binding is not None:
                if mentions(item.value, names) and item.value.type not in FLAT:
                    names.add(item.binding)
            elif isinstance(item, tree.Assign) and isinstance(item.target, tree.Name):
                pass  # the bytes are copied, see keeps()
            elif keeps_bytes(item, self.checked, set()) and mentions(item, names):
                return False
            elif last and mentions(item, names) and item.type not in FLAT:
                return False  # a value that outlives the message
        return True

    def sends(self, node: tree.Expression, message: tree.Binding, names: Names) -> bool:
        """Whether an expression sends a message once at most, on each of its paths, and then uses no bytes of it."""
        match node:
            case _ if not mentions(node, names):
                return True
            case tree.Sequence():
                return self.forwards(node.items, message, names)
            case tree.If() if fields_only(node.condition, message) and quiet(node.condition, self.checked, set()):
                branches = [node.then] + ([node.otherwise] if node.otherwise is not None else [])
                bad = [each for each in branches if not self.sends(each, message, names)]
                if len(bad) == len(branches) or node.type not in FLAT:
                    return False
                self.guards += [(each, message) for each in bad]
                return True
            case tree.Call(kind="function") if any(_is(each, message) for each in node.ordered):
                return self.call(node, message, names)
            case _:
                return sends_last(node, message, self.checked)

    def call(self, node: tree.Call, message: tree.Binding, names: Names) -> bool:
        """The same of a call of a function, which is given the message."""
        function = self.checked.functions[node.function]
        given = list(zip(node.ordered, function.parameters, strict=True))
        own = [parameter for each, parameter in given if _is(each, message)]
        rest = [(each, parameter) for each, parameter in given if not _is(each, message)]
        body = function.declaration.body
        if len(own) != 1 or body.states or node.type not in FLAT:
            return False
        if not all(fields_only(each, message) and quiet(each, self.checked, set()) for each, _ in rest):
            return False
        inner = {own[0]} | {parameter for each, parameter in rest if mentions(each, names) and each.type not in FLAT}
        if any(mentions(each.body, inner) for each in body.handlers):
            return False
        before = list(self.guards)
        items = body.expression.items if isinstance(body.expression, tree.Sequence) else [body.expression]
        good = self.forwards(items, own[0], inner)
        if self.guards != before:  # a guard holds at each call of the function
            self.guards, good = before, False
        return good


def _is(node: tree.Expression, message: tree.Binding) -> bool:
    return isinstance(node, tree.Name) and node.binding is message


def _receives(node: tree.Expression) -> bool:
    return isinstance(node, tree.Receive) and not node.peek


def _integers_only(items: list[tree.Expression], message: tree.Binding, names: Names) -> bool:
    """Whether the code after a message was sent uses no bytes of it."""

    def good(node: tree.Expression) -> bool:
        if isinstance(node, tree.Field) and _is(node.base, message):
            return node.type in FLAT
        if isinstance(node, tree.Name) and node.binding in names:
            return False
        return all(map(good, children(node)))

    return all(map(good, items))


def mentions(node: tree.Expression, names: Names) -> bool:
    """Whether an expression uses one of these names."""
    if isinstance(node, tree.Name) and node.binding in names:
        return True
    return any(mentions(each, names) for each in children(node))


def quiet(node: tree.Expression, checked: Checked, seen: set[str]) -> bool:
    """Whether an expression, with the functions that it calls, neither receives nor sends nor looks at a channel."""
    if isinstance(node, (tree.Receive, tree.Send, tree.Pipe, tree.Can, tree.FoldT)):
        return False
    if isinstance(node, tree.Unary) and node.operator == "size" and isinstance(node.operand.type, ChannelOf):
        return False
    if isinstance(node, tree.Call):
        if node.function in ("all_ready", "first_ready"):
            return False
        if node.kind == "function" and node.function not in seen:
            seen.add(node.function)
            body = checked.functions[node.function].declaration.body
            parts = [body.expression, *(each.body for each in body.handlers)]
            if not all(quiet(each, checked, seen) for each in parts):
                return False
    return all(quiet(each, checked, seen) for each in children(node))


def keeps_bytes(node: tree.Expression, checked: Checked, seen: set[str]) -> bool:
    """Whether an expression, with the functions that it calls, assigns a value that may have bytes of a message."""
    if isinstance(node, tree.Assign) and node.value.type not in FLAT:
        return True
    if isinstance(node, tree.Call) and node.kind == "function" and node.function not in seen:
        seen.add(node.function)
        body = checked.functions[node.function].declaration.body
        parts = [body.expression, *(each.body for each in body.handlers)]
        if any(keeps_bytes(each, checked, seen) for each in parts):
            return True
    return any(keeps_bytes(each, checked, seen) for each in children(node))
