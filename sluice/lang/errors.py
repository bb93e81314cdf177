"""Errors in descriptions as the user sees them: the place, the mistake, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from sluice.lang.where import Where, here


class DescriptionError(Exception):
    """A description that Sluice refuses.

    `where` is the line of the user's code, `what` the mistake, and `advice` what to write instead.
    """

    def __init__(self, what: str, advice: str, where: Where | None = None) -> None:
        self.where = where if where is not None else here()
        self.what = what
        self.advice = advice
        super().__init__(f"{self.where}: {what}\n    {advice}")


class DescriptionWarning(UserWarning):
    """Something in a description that is allowed but probably a mistake."""


_NOUNS = {
    "Field": "a field",
    "Expression": "an expression",
    "Fields": "a group of fields",
    "Choice": "an If(...) >> ...",
    "If": "an If(...)",
    "Else": "an Else()",
    "Block": "a sum of actions",
    "Prototype": "a parser",
    "Layer": "a layer",
    "PSMState": "a state",
    "Transition": "a transition",
    "AnyLayer": "any of several layers",
    "Step": "a step to a layer",
    "Chain": "a chain of parsers",
    "HeaderFormat": "a header",
}
"""The names of objects of the language in messages. Other objects are named by their class."""


def described(value: object) -> str:
    """How a message names a misplaced value of the user."""
    name = getattr(value, "__name__", None)
    if isinstance(name, str):
        return f"'{name}'"
    kind = type(value)
    for base in kind.__mro__:
        if base.__module__.startswith("sluice.lang.") and base.__name__ in _NOUNS:
            return _NOUNS[base.__name__]
    if kind.__module__.startswith("sluice.lang"):
        return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def to_flag(value: object, what: str) -> bool:
    """A value that must be True or False. what: its name in the message, up to the value."""
    if not isinstance(value, bool):
        raise DescriptionError(f"{what}{described(value)}", "give True or False.")
    return value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Advice for an unknown name: the closest known names, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    if not names:
        return "nothing of that kind is defined yet."
    return "known here: " + ", ".join(names[:24]) + ("." if len(names) <= 24 else ", ...")
