"""Ready functions on events, found by `sluice run -f NAME`, and the names that functions in Python import.

May import: lang; this module, which every function loads, nothing.

    from sluice.functions import on, at_end, parameter

    port = parameter(80, "whose streams are counted")

    @on("tcp", "data")
    def saw(event): ...
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

REGISTERED = "__sluice_registered__"
"""In a module that uses the decorators: the decorated functions, in order. Functions are registered when they are
decorated, so that a name may be used again, as in `def _`.
"""

_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_Value = TypeVar("_Value", str, int, float, bool)


def on(layer: str, event: str) -> Callable[[_Handler], _Handler]:
    """Call the function below for each `event` of `layer` (a layer's or parser's name, or "*" for any)."""
    if not isinstance(layer, str) or not isinstance(event, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError('@on takes two texts: @on("layer", "event")')

    registered = _registered()

    def mark(function: _Handler) -> _Handler:
        _check(function, 1, "the event", "event")
        _mark(function, "__sluice_on__", [*getattr(function, "__sluice_on__", []), (layer, event)])
        registered.append(("on", layer, event, function))
        return function

    return mark


def on_batch(layer: str, event: str) -> Callable[[_Handler], _Handler]:
    """Call the function below with many of a kind at once: `rows("src", "bytes")` iterates over them.

    `column("src")` has one value of each, `lengths("bytes")` how many bytes they are, `len` how many events there are.
    """

    registered = _registered()

    def mark(function: _Handler) -> _Handler:
        _check(function, 1, "the events", "events")
        _mark(function, "__sluice_on_batch__", [*getattr(function, "__sluice_on_batch__", []), (layer, event)])
        registered.append(("on_batch", layer, event, function))
        return function

    return mark


class OnDemand:
    """A handler that is called only while it is registered: for all instances, or for that of an event."""

    def __init__(self, function: Callable[..., Any], layer: str, event: str) -> None:
        self.__sluice_on_demand__ = (layer, event)
        self.__wrapped__ = function
        self.registered = False
        self.switch: Callable[[Any, bool], None] | None = None
        """Set while a box runs: does it there."""

    def __call__(self, event: Any) -> Any:
        """The callback of the box."""
        return self.__wrapped__(event)

    def register(self, event: Any = None) -> None:
        """Call it from the next packet on: for the instance of `event`, or, without one, for all."""
        self._set(event, True)

    def deregister(self, event: Any = None) -> None:
        """Call it no more: for the instance of `event`, whatever holds for all, or, without one, for all."""
        self._set(event, False)

    def _set(self, event: Any, registered: bool) -> None:
        if event is None:
            self.registered = registered
        if self.switch is not None:
            self.switch(event, registered)
        elif event is not None:
            raise RuntimeError("no box is running of whose events this is one")


class Verdicts:
    """Sets the verdicts of packets: `verdicts = Verdicts()` at its top level, then `verdicts.drop(event)`.

    A box whose functions decide delivers the events of each packet before the packet leaves, which takes more time.
    """

    __sluice_verdicts__ = True

    def __init__(self) -> None:
        self.decide: Callable[[Any, bool], bool] | None = None
        """Set while a box runs: decides there."""

    def drop(self, event: Any) -> bool:
        """Drop the packet of the event. False if it is not the current one, as in timers and at the end."""
        return self.decide is not None and self.decide(event, False)

    def reset(self, event: Any) -> bool:
        """Reset the TCP connection of the event's packet: it is dropped, and both ends get a segment with RST.

        False if it is not the current packet, is no TCP segment directly in the outermost IP packet, or if the box is
        not inline. Then it is not dropped.
        """
        return self.decide is not None and self.decide(event, True)


def on_demand(layer: str, event: str) -> Callable[[Callable[..., Any]], OnDemand]:
    """Call the function below for each `event` of `layer` while it is registered: see OnDemand."""

    registered = _registered()

    def mark(function: Callable[..., Any]) -> OnDemand:
        _check(function, 1, "the event", "event")
        handler = OnDemand(function, layer, event)
        registered.append(("on_demand", layer, event, handler))
        return handler

    return mark


def event(layer: str, base: str) -> Callable[[_Handler], _Handler]:
    """An event of your own, called as the function below, which decides for each `base` of `layer` whether it happens.

    `base` may be one of the stack's events or another one of yours. It is called once for
    each, and only where the event has subscribers.
    """

    registered = _registered()

    def mark(function: _Handler) -> _Handler:
        _check(function, 1, "the event", "event")
        _mark(function, "__sluice_event__", (layer, base))
        registered.append(("event", layer, base, function))
        return function

    return mark


class Published:
    """An event that a function publishes for others: called with the event for which it is published, and its fields.

    Fields that are not given are 0, False or empty. Raises TypeError and ValueError for a value that does not fit.
    """

    def __init__(self, name: str, base: str, fields: tuple[tuple[str, str], ...], where: str) -> None:
        self.__sluice_published__ = (name, base, fields, where)
        self.types = dict(fields)
        self.deliver: Callable[[Any, dict[str, Any]], None] | None = None
        """Set while a box runs in which the event has subscribers: calls them."""

    def __call__(self, event: Any, /, **values: Any) -> None:
        """Publish one."""
        if self.deliver is None:
            return
        name = self.__sluice_published__[0]
        for field in values:
            if field not in self.types:
                raise TypeError(f"'{name}' has no field '{field}'; it has {', '.join(self.types) or 'none'}")
        self.deliver(event, {field: _fitting(field, kind, values) for field, kind in self.types.items()})


def _fitting(field: str, kind: str, values: dict[str, Any]) -> Any:
    """The value of a field of a published event, checked against its type."""
    if kind == "sl_bytes":
        value = values.get(field, b"")
        if not isinstance(value, (bytes, bytearray)):
            raise TypeError(f"field '{field}' is bytes, not {type(value).__name__}")
        return bytes(value)
    value = values.get(field, 0)
    if not isinstance(value, int):
        raise TypeError(f"field '{field}' is a number, not {type(value).__name__}")
    bits = 1 if kind == "bool" else int(kind.removeprefix("uint").removesuffix("_t"))
    if not 0 <= value < 1 << bits:
        raise ValueError(f"field '{field}' is {kind}, which has no {value}")
    return value


_PYTHON_TYPES = {"int": "uint64_t", "bool": "bool", "bytes": "sl_bytes"}


def publishes(declared: type | None = None, /, *, base: str = "") -> Any:
    """Declare an event that the file publishes for other functions, by a class of its fields and their types.

        @publishes
        class detected:
            kind: int
            host: bytes

    Types are int (64 bits, from 0 on), bool and bytes, or as texts those of C: "uint32_t". `detected(event, kind=1)`
    publishes one; `@on("chain", "detected")` subscribes to it. base: the event whose fields these follow; its
    subscribers receive this one, too.
    """

    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def mark(of: type) -> Published:
        fields: list[tuple[str, str]] = []
        for field, kind in vars(of).get("__annotations__", {}).items():
            text = (kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))).strip("'\"")
            fields.append((field, _PYTHON_TYPES.get(text, text)))
        return Published(of.__name__, base, tuple(fields), where)

    return mark if declared is None else mark(declared)


def at_end(function: _Handler) -> _Handler:
    """Call the function below once, after the last event."""
    _check(function, 0, "nothing", "")
    _mark(function, "__sluice_at_end__", True)
    _registered().append(("at_end", "", "", function))
    return function


class _Parameter:
    """A parameter as declared in its file; when that is loaded, the name has the parameter's value."""

    def __init__(self, value: object, help: str) -> None:
        self.__sluice_parameter__ = (value, help)


def parameter(value: _Value, help: str) -> _Value:
    """What a user may set by NAME=VALUE after the function's colon: `name = parameter(value, "what it is for")`.

    It is a text, a number from 0 on, seconds (a float) or yes or no (a bool), as `value` is, which it has when none is
    given. It is written outside of functions; when one is called, the name has the value.
    """
    given: Any = value
    if not isinstance(given, str) and not (isinstance(given, (int, float)) and given >= 0):
        raise TypeError(
            "a parameter is a text, a number from 0 on, or a bool: parameter(80, 'whose bytes are counted')"
        )
    return cast(_Value, _Parameter(value, help))


class Counter:
    """A number that is reported at the end by the name that it has in its file."""

    def __init__(self, help: str) -> None:
        self.value = 0
        self.help = help
        self.__sluice_counter__ = help

    def add(self, amount: int = 1) -> None:
        """Count."""
        self.value += amount


def counter(help: str) -> Counter:
    """`name = counter("what it counts")`, and `name.add()` or `name.add(amount)` in a function: reported at the end."""
    return Counter(help)


def _registered() -> list[tuple[str, str, str, Any]]:
    """The list of the module that uses a decorator, which is the caller's caller."""
    found: list[tuple[str, str, str, Any]] = sys._getframe(2).f_globals.setdefault(REGISTERED, [])  # pyright: ignore[reportPrivateUsage]
    return found


def _mark(function: object, name: str, value: object) -> None:
    """Mark the function itself too, for modules that import it; a bound method has no attributes."""
    with contextlib.suppress(AttributeError):
        setattr(function, name, value)


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
        pass  # a function in C does not declare its arguments
