"""Ready functions on events, found by `sluice run -f NAME`, and what a function in Python imports.

May import: lang; this module, which every function loads, nothing.

    from sluice.functions import on, at_end

    @on("tcp", "data")
    def saw(event): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


def on(layer: str, event: str) -> Callable[[_Handler], _Handler]:
    """Call the function below for each `event` of `layer` (a layer's or parser's name, or "*" for any)."""

    def mark(function: _Handler) -> _Handler:
        wanted: list[tuple[str, str]] = getattr(function, "__sluice_on__", [])
        function.__sluice_on__ = [*wanted, (layer, event)]  # type: ignore[attr-defined]
        return function

    return mark


def at_end(function: _Handler) -> _Handler:
    """Call the function below once, after the last event."""
    function.__sluice_at_end__ = True  # type: ignore[attr-defined]
    return function
