"""Which expressions a description uses, and the lines that use them."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.lang.action import Action, Assign, Block
from sluice.lang.alias import AddAlias
from sluice.lang.choice import Choice
from sluice.lang.expression import (
    Expression,
    children,
)
from sluice.lang.layout import AnyUntil, Field, HeaderFormat, LayoutType
from sluice.lang.native import NativeCall
from sluice.lang.where import Where

Use = tuple[Expression, Where]
"""An expression and the line that uses it. A field of a layout itself has only the line of its declaration."""


def actions(action: object) -> Iterator[Action]:
    """All simple actions in an action, under any condition."""
    if isinstance(action, Block):
        for part in action.actions:
            yield from actions(part)
    elif isinstance(action, Choice):
        for branch in action.branches():
            yield from actions(branch)
    elif isinstance(action, Action):
        yield action


def action_uses(action: object) -> Iterator[tuple[Expression, Where, bool]]:
    """Expressions of an action, with the lines that use them, and whether they are conditions."""
    if isinstance(action, Block):
        for part in action.actions:
            yield from action_uses(part)
    elif isinstance(action, Choice):
        yield action.condition, action.where, True
        for branch in action.branches():
            yield from action_uses(branch)
    elif isinstance(action, Assign):
        yield action.expression, action.where, False
    elif isinstance(action, (NativeCall, AddAlias)):
        for expression in action.expressions():
            yield expression, action.where, False


def choice_expressions(value: object) -> Iterator[Expression]:
    """An expression; or, of a choice between expressions, the expressions and the conditions."""
    if isinstance(value, Choice):
        yield value.condition
        for branch in value.branches():
            yield from choice_expressions(branch)
    elif isinstance(value, NativeCall):
        yield from value.expressions()
    elif isinstance(value, Expression):
        yield value


def header_uses(part: object) -> Iterator[Use]:
    if isinstance(part, HeaderFormat):
        for item in part.parts:
            yield from header_uses(item)
    elif isinstance(part, LayoutType):
        for field in part.fields.values():
            if isinstance(field.bits, Expression):
                yield field.bits, field.where
    elif isinstance(part, AnyUntil):
        yield part.condition, part.where
        for expression in (part.end, part.count):
            if expression is not None:
                yield expression, part.where
        for item in part.alternatives:
            yield from header_uses(item)
    elif isinstance(part, Choice):
        yield part.condition, part.where
        for branch in part.branches():
            yield from header_uses(branch)


def parts(expression: Expression, where: Where) -> Iterator[Use]:
    """An expression and all its subexpressions, each with the line that uses it."""
    if not isinstance(expression, Field):
        where = expression.where
    yield expression, where
    for child in children(expression):
        yield from parts(child, where)
