"""Which rules can forward a message before it is there as a whole.

A pipeline can, if each path through its stages sends the message once at most, unchanged, as its last act, and uses
nothing but fields of it before. Then only these fields have to be in the buffer.
"""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.check.scope import Checked
from sluice.service.lang.types import ChannelOf, DictionaryOf, Named, Type


def streams(node: tree.Expression, checked: Checked) -> bool:
    """Whether a rule is such a pipeline."""
    if not isinstance(node, tree.Pipe) or not all(isinstance(each.type, ChannelOf) for each in node.sources):
        return False
    if len(node.stages) != 1:
        return False
    stage = node.stages[0]
    if isinstance(stage, tree.Call):
        return call_sends(stage, node.bindings[0], checked)
    return True


def call_sends(call: tree.Call, flow: tree.Binding, checked: Checked) -> bool:
    """Whether a call does that to the message; it is given once."""
    if call.kind != "function":
        return False
    function = checked.functions[call.function]
    given = [(each, parameter) for each, parameter in zip(call.ordered, function.parameters, strict=True)]
    own = [parameter for each, parameter in given if isinstance(each, tree.Name) and each.binding is flow]
    rest = [each for each, _ in given if not (isinstance(each, tree.Name) and each.binding is flow)]
    if len(own) != 1 or not all(fields_only(each, flow) for each in rest) or function.declaration.body.handlers:
        return False
    return sends_last(function.declaration.body.expression, own[0], checked)


def sends_last(node: tree.Expression, message: tree.Binding, checked: Checked) -> bool:
    """Whether the message is sent as the last act of an expression, and before that only its fields are used."""
    match node:
        case tree.Sequence():
            return all(fields_only(item, message) for item in node.items[:-1]) and sends_last(
                node.items[-1], message, checked
            )
        case tree.If():
            branches = [node.then] + ([node.otherwise] if node.otherwise is not None else [])
            return fields_only(node.condition, message) and all(sends_last(each, message, checked) for each in branches)
        case tree.Switch():
            heads = [node.subject, *(case.pattern for case in node.cases)]
            return all(fields_only(each, message) for each in heads) and all(
                sends_last(case.body, message, checked) for case in node.cases
            )
        case tree.Send():
            return _is(node.value, message) and fields_only(node.channel, message)
        case tree.Pipe() if len(node.sources) == 1 and len(node.stages) == 1 and _is(node.sources[0], message):
            stage = node.stages[0]
            if isinstance(stage, tree.Call):
                return call_sends(stage, node.bindings[0], checked)
            return fields_only(stage, message)
        case tree.Call(kind="function") if any(_is(each, message) for each in node.ordered):
            return call_sends(node, message, checked)
        case _:
            return fields_only(node, message)


def _is(node: tree.Expression, message: tree.Binding) -> bool:
    return isinstance(node, tree.Name) and node.binding is message


def fields_only(node: tree.Expression, message: tree.Binding) -> bool:
    """Whether an expression uses only fields of a message (no record of it escapes), and calls nothing that waits."""
    if isinstance(node, tree.Field) and _is(node.base, message):
        return True
    if isinstance(node, tree.Call) and node.function == "whole" and _is(node.ordered[0], message):
        return True
    if _is(node, message) or isinstance(node, (tree.Send, tree.Receive, tree.Pipe, tree.FoldT)):
        return False
    return all(fields_only(each, message) for each in children(node))


def children(node: tree.Expression) -> list[tree.Expression]:
    """The expressions inside one."""
    match node:
        case tree.Tuple() | tree.List() | tree.Sequence() | tree.Parallel():
            return node.items
        case tree.Record():
            return [item for _, item in node.fields]
        case tree.Index():
            return [node.base, node.index]
        case tree.Field() | tree.Item():
            return [node.base]
        case tree.Unary():
            return [node.operand]
        case tree.Binary():
            return [node.left, node.right]
        case tree.Typed() | tree.CompileTime() | tree.Let():
            return [node.value]
        case tree.With():
            return [node.base, node.value]
        case tree.If():
            return [node.condition, node.then] + ([node.otherwise] if node.otherwise is not None else [])
        case tree.Switch():
            return [node.subject, *(each for case in node.cases if case.kind != "label" for each in (case.pattern,)),
                    *(case.body for case in node.cases)]  # fmt: skip
        case tree.Assign():
            return [node.target, node.value]
        case tree.For():
            return [node.over, *([node.start] if node.start is not None else []), node.body]
        case tree.Map():
            return [node.over, node.body]
        case tree.FoldT():
            return [node.channels, node.key, node.body]
        case tree.Call():
            return node.ordered or [each.value for each in node.arguments]
        case tree.Dotted():
            return [node.call]
        case tree.Send():
            return [node.channel, node.value]
        case tree.Receive():
            return [node.channel]
        case tree.Can():
            return [node.what]
        case tree.Pipe():
            return [*node.sources, *node.stages]
        case _:
            return []


def bodies(checked: Checked) -> list[tree.Expression]:
    """All expressions of a program's processes and functions."""
    all_of_them = [each.declaration.body for each in (*checked.functions.values(), *checked.processes.values())]
    return [part for body in all_of_them for part in (body.expression, *(each.body for each in body.handlers))]


def changed_records(checked: Checked) -> set[str]:
    """Names of records that an expression of the program makes or changes."""
    found: set[str] = set()

    def visit(node: tree.Expression) -> None:
        made: Type | None = node.type if isinstance(node, (tree.With, tree.Record, tree.Switch)) else None
        if isinstance(node, tree.Index) and isinstance(node.base.type, DictionaryOf):
            made = node.type  # it is empty where there is no entry
        if isinstance(node, tree.Name) and node.binding is None:
            made = node.type
        if isinstance(node, tree.Call) and node.kind == "record":
            made = node.type
        if isinstance(made, Named):
            found.add(made.name)
        for each in children(node):
            visit(each)

    for each in bodies(checked):
        visit(each)
    return found
