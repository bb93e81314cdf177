"""Ready functions on events, found by `sluice run -f NAME`, and what a function in Python imports.

May import: lang; this module, which every function loads, nothing.

    from sluice.functions import on, at_end

    @on("tcp", "data")
    def saw(event): ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


def on(layer: str, event: str) -> Callable[[_Handler], _Handler]:
    """Call the function below for each `event` of `layer` (a layer's or parser's name, or "*" for any)."""
    if not isinstance(layer, str) or not isinstance(event, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError('@on takes two texts: @on("layer", "event")')

    def mark(function: _Handler) -> _Handler:
        _check(function, 1, "the event", "event")
        wanted: list[tuple[str, str]] = getattr(function, "__sluice_on__", [])
        function.__sluice_on__ = [*wanted, (layer, event)]  # type: ignore[attr-defined]
        return function

    return mark


def at_end(function: _Handler) -> _Handler:
    """Call the function below once, after the last event."""
    _check(function, 0, "nothing", "")
    function.__sluice_at_end__ = True  # type: ignore[attr-defined]
    return function


def _check(function: Callable[..., Any], arguments: int, what: str, written: str) -> None:
    """Raise TypeError, where the user wrote the mark, for a function that could not be called."""
    name = getattr(function, "__name__", "the function")
    if not callable(function):
        raise TypeError("what is marked is no function")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{name} would not run when it is called: no async def, no yield")
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        raise TypeError(f"{name} is called with {what}: write def {name}({written})") from None
    except ValueError:
        pass  # a function in C does not say what it takes
