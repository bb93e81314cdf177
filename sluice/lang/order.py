"""The order in which the steps from a layer are tried, and which of them can never be reached."""

from __future__ import annotations

from sluice.lang.errors import DescriptionError
from sluice.lang.expression import Binary, Expression, Invert, Number, Property
from sluice.lang.field_value import FieldValue
from sluice.lang.layer import Branch
from sluice.lang.layout import Field


def place_of(branch: Branch, branches: list[Branch]) -> int:
    """Where a new step goes among `branches`, which are in the order in which they are tried.

    With `before`, in front of the first step from the same layer to that one; else after all others from the same
    layer, but in front of those that only take what no other takes (`fallback`), unless it is one of these.
    Raises DescriptionError where no step leads from its layer to the one that it is to precede.
    """
    from_here = [at for at, other in enumerate(branches) if other.lower is branch.lower]
    if branch.before is not None:
        for at in from_here:
            if branches[at].upper is branch.before:
                return at
        raise DescriptionError(
            f"no step leads from layer '{branch.lower.name}' to layer '{branch.before.name}', which before= names",
            "name a layer that follows the same one, or leave before= out.",
            branch.where,
        )
    if not branch.fallback:
        for at in from_here:
            if branches[at].fallback:
                return at
    return len(branches)


def never_reached(branches: list[Branch]) -> list[tuple[Branch, Branch]]:
    """Steps of one layer, in order, that take no packet, each with the last of those that take its packets before it.

    Found where one before it takes every packet, and where all alternatives that a condition lists, as one_of() does,
    stand in conditions before it.
    """
    found: list[tuple[Branch, Branch]] = []
    taken: dict[object, Branch] = {}
    everything: Branch | None = None
    for branch in branches:
        terms = _alternatives(branch.condition)
        if everything is not None:
            found.append((branch, everything))
        elif all(term in taken for term in terms):
            found.append((branch, max((taken[term] for term in terms), key=branches.index)))
        if isinstance(branch.condition, Number) and branch.condition.value and everything is None:
            everything = branch
        for term in terms:
            taken.setdefault(term, branch)
    return found


def _alternatives(condition: Expression) -> list[object]:
    """The conditions of which one suffices, in a form that compares."""
    if isinstance(condition, Binary) and condition.operator == "|":
        return _alternatives(condition.left) + _alternatives(condition.right)
    return [_form(condition)]


def _form(expression: Expression) -> object:
    match expression:
        case Number():
            return expression.value
        case Binary():
            return expression.operator, _form(expression.left), _form(expression.right)
        case Invert():
            return "~", _form(expression.operand)
        case FieldValue():
            return id(expression.owner.prototype), expression.group, id(expression.field)
        case Field():
            return id(expression)
        case Property():
            return id(expression.owner.prototype), expression.name
        case _:
            return id(expression)
