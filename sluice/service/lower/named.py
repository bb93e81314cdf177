"""Which fields of a received record a program reads: the others need not be parsed, nor be there when it is forwarded."""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.check.scope import Checked
from sluice.service.lang.types import Named, Type
from sluice.service.lower.streams import children


def read_fields(checked: Checked) -> dict[str, set[str]]:
    """The fields that are read, for each record of which nothing else is used: it is not changed, compared, or made part
    of another value or of state.
    """
    records = {name: type for name, type in checked.types.items() if isinstance(type, Named) and not type.variant}
    found: dict[str, set[str]] = {name: set() for name in records}

    def whole(*types: Type | None) -> None:
        for type in types:
            for name in records:
                if type is not None and name in found and _contains(type, records[name], set()):
                    del found[name]

    def visit(node: tree.Expression) -> None:
        match node:
            case tree.Field() if isinstance(node.base.type, Named) and node.base.type.name in found:
                found[node.base.type.name].add(node.name)
            case tree.With():
                whole(node.type)
            case tree.Binary():
                whole(node.left.type, node.right.type)
            case tree.Tuple() | tree.List():
                whole(*(each.type for each in node.items))
            case tree.Record():
                whole(*(value.type for _, value in node.fields))
            case tree.Index() | tree.Typed() | tree.Assign():
                whole(*(each.type for each in children(node) if not _is_channel(each)))
            case tree.Switch():
                whole(node.subject.type)
            case tree.Call() if node.function == "whole":
                pass
            case tree.Call() if node.kind in ("record", "label", "built-in"):
                whole(*(each.type for each in node.ordered if not _is_channel(each)))
            case tree.FoldT() | tree.Map():
                found.clear()
            case _:
                pass
        for each in children(node):
            visit(each)

    for signature in (*checked.functions.values(), *checked.processes.values()):
        body = signature.declaration.body
        for state in body.states:
            whole(state.binding.type if state.binding is not None else None)
            visit(state.start)
        for each in (body.expression, *(handler.body for handler in body.handlers)):
            visit(each)
    for type in records.values():
        whole(*type.fields.values())
    return found


def _is_channel(node: tree.Expression) -> bool:
    return type(node.type).__name__ == "ChannelOf"


def _contains(type: Type, record: Named, seen: set[int]) -> bool:
    """Whether values of a type have a record within them."""
    if type is record:
        return True
    if id(type) in seen:
        return False
    seen.add(id(type))
    parts: list[Type] = []
    for name in ("item", "value", "key", "target"):
        part = getattr(type, name, None)
        if isinstance(part, Type):
            parts.append(part)
    parts += [each for each in getattr(type, "items", ()) if isinstance(each, Type)]
    if isinstance(type, Named):
        parts += list(type.fields.values())
    return any(_contains(each, record, seen) for each in parts)
