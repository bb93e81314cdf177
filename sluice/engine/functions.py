"""Finds functions: a ready function by name, a C file, or a Python file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from sluice.engine.c_function import read_c_function
from sluice.engine.events import Handler, ManyHandler, Publisher, PythonEvent, PythonFunction
from sluice.hooks.c_words import c_string
from sluice.hooks.declaration import Counters
from sluice.hooks.function import CFunction
from sluice.hooks.parameter import Parameter, ParameterError, Value
from sluice.hooks.parameter_text import check_values, read_parameters, split_parameters
from sluice.hooks.published import TYPES, PublishedEvent, checked
from sluice.hooks.subscription import HookError
from sluice.ir.hook import Hook
from sluice.lang.errors import did_you_mean
from sluice.lang.userfile import execute, executed

READY = Path(__file__).resolve().parent.parent / "functions" / "ready"
NONE = "none"
VENDOR = READY.parent / "vendor"
"""Third-party parsers that `scripts/setup.sh` downloads."""


class FunctionError(Exception):
    """The function cannot be used; the message says what to do."""


Options = str | Mapping[str, str]
"""The options of a function in C: the text after the colon, or the values of its parameters by name."""


@dataclass
class Wanted:
    """The functions of a run: functions in C with their options, and functions in Python.

    track_only: the user gave `none`: connections are tracked without functions, and streams are not buffered.
    """

    c: list[CFunction] = field(default_factory=lambda: [])
    options: list[Options] = field(default_factory=lambda: [])
    python: list[PythonFunction] = field(default_factory=lambda: [])
    track_only: bool = False

    def parameters(self) -> list[dict[str, Value]]:
        """The values of the parameters that each function in C declares."""
        return [
            read_parameters(function.parameters, given)
            if isinstance(given, str)
            else check_values(function.parameters, given)
            for function, given in zip(self.c, self.options, strict=True)
            if function.parameters
        ]

    def as_in_processes(self) -> None:
        """Let functions do in one process what they do in processes of their own (`sluice chain --isolate`), where none
        translates packets when they arrive.
        """
        self.c = [replace(function, arrives=False) for function in self.c]

    def direct_rows(self, path: str) -> None:
        """Set `out` to `path` for functions in C that would write rows to stdout because `out` is not set."""
        self.set_unset("out", path)

    def set_unset(self, name: str, value: str, only: str = "") -> bool:
        """Set a parameter of the functions in C that have it, unless the user did; whether a function has it.

        only: the name of the only function to set it for.
        """
        having = False
        for number, (function, given) in enumerate(zip(self.c, self.options, strict=True)):
            if only in ("", function.name) and any(item.name == name for item in function.parameters):
                having = True
                texts = split_parameters(function.parameters, given) if isinstance(given, str) else dict(given)
                if not texts.get(name):
                    self.options[number] = {**texts, name: value}
        return having

    def writes_rows(self) -> bool:
        """Whether a function in C writes rows to standard output."""
        return any(values.get("out") == "" for values in self.parameters())

    def python_hooks(self) -> frozenset[Hook]:
        """Events to which functions in Python subscribe."""
        return frozenset(hook for function in self.python for hook in function.hooks())

    def python_many(self) -> frozenset[Hook]:
        """Events to which their batch handlers subscribe."""
        return frozenset(hook for function in self.python for hook in function.taken())

    def python_decides(self) -> bool:
        """Whether a function in Python decides on packets."""
        return any(function.verdicts for function in self.python)

    def python_demanded(self) -> tuple[frozenset[Hook], ...]:
        """Events for each on-demand handler in Python."""
        return tuple(hooks for function in self.python for hooks in function.demanded())


def ready_functions() -> list[str]:
    """Names of the functions that come with Sluice."""
    return sorted(
        {path.stem for path in READY.iterdir() if path.suffix in (".c", ".py") and path.stem != "__init__"} | {NONE}
    )


def find_functions(names: list[str], values: Mapping[str, Mapping[str, str]] | None = None) -> Wanted:
    """The functions that `-f` names: NAME, FILE.c or FILE.py, separated by commas; the last may have `:options`.

    values: parameter values for functions in C, by function name; they are not converted into an option text.
    `none` means tracking without functions; streams are not buffered. Raises FunctionError.
    """
    wanted = Wanted()
    for given in [one for text in names for one in split_names(text)]:
        name, colon, options = given.partition(":")
        if name == NONE:
            _refuse_options(name, colon + options, "it is no function, and takes none")
            wanted.track_only = True
            continue
        path = function_path(name)
        if path.suffix == ".py":
            wanted.python.append(load_python(path, options))
            continue
        function = load_c(path)
        if function.parameters:
            _read_parameters(name, function.parameters, options)
        elif not function.opens:
            _refuse_options(name, options, "it takes none (a function in C declares them by SLUICE_PARAMETER)")
        wanted.c.append(function)
        wanted.options.append((values or {}).get(given, options))
    if len({function.name for function in wanted.c}) != len(wanted.c):
        names = [function.name for function in wanted.c]
        twice = next(name for name in names if names.count(name) > 1)
        raise FunctionError(
            f"two functions of one name, '{twice}': rename one of the files; one that is given twice, run in two boxes"
        )
    for one in wanted.c:
        _refuse_parts(one, wanted.c)
    return wanted


def _refuse_parts(function: CFunction, functions: list[CFunction]) -> None:
    """Functions are compiled as one unit, which has each definition once. Raises FunctionError."""
    for other in functions:
        if other is not function and f"# 1 {c_string(other.path)} 1\n" in function.text:
            raise FunctionError(
                f"function '{function.name}' includes {Path(other.path).name}, so that a box cannot have both\n"
                f"    leave '{other.name}' out, or run it in a box of its own."
            )


def split_names(text: str) -> list[str]:
    """Split a comma-separated list of functions. Text after a colon belongs to the last one, including its commas.

    If the whole text names an existing file, its commas are not separators.
    """
    head, colon, options = text.partition(":")
    names = [head] if Path(head).is_file() else head.split(",")
    return [*names[:-1], names[-1] + colon + options]


def parameters_of(name: str) -> tuple[Parameter, ...]:
    """The parameters of a function named by `-f`. Raises FunctionError."""
    name = name.partition(":")[0]
    if name == NONE:
        return ()
    path = function_path(name)
    return _declared(executed(path)) if path.suffix == ".py" else load_c(path).parameters


def counters_of(name: str) -> Counters:
    """The counters of a function named by `-f`: the name and description of each. Raises FunctionError."""
    name = name.partition(":")[0]
    if name == NONE:
        return ()
    path = function_path(name)
    if path.suffix != ".py":
        return load_c(path).counters
    items = vars(executed(path)).items()
    return tuple((name, item.help) for name, item in items if hasattr(item, "__sluice_counter__"))


def load_c(path: Path, name: str = "") -> CFunction:
    """A function in C, called `name`, or as its file. Raises FunctionError."""
    text = path.read_text()
    try:
        return read_c_function(name or _identifier(path.stem), text, str(path))
    except HookError as error:
        if path.parent == READY and not VENDOR.is_dir():
            raise FunctionError(
                f"{path.stem} reads with a parser of others that is not there: run `scripts/setup.sh` in a checkout of "
                "Sluice, which gets it"
            ) from error
        raise FunctionError(str(error)) from error


def _read_parameters(name: str, parameters: tuple[Parameter, ...], options: Options) -> dict[str, Value]:
    try:
        if not isinstance(options, str):
            return check_values(parameters, options)
        return read_parameters(parameters, options)
    except ParameterError as error:
        raise FunctionError(f"{name}: {error}") from None


def _refuse_options(name: str, given: str, why: str) -> None:
    if given:
        raise FunctionError(f"{name}: options '{given.removeprefix(':')}' after the colon: {why}")


def _identifier(stem: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in stem)


def function_path(name: str) -> Path:
    """The file of a function that is given by a path, or by the name of a ready one. Raises FunctionError."""
    if name.endswith((".c", ".py")):
        if not Path(name).is_file():
            raise FunctionError(f"{name}: no such file")
        return Path(name)
    for suffix in (".c", ".py"):
        path = READY / f"{name}{suffix}"
        if path.is_file() and name != "__init__":
            return path
    raise FunctionError(
        f"there is no function '{name}': {did_you_mean(name, ready_functions())} A file is given as FILE.c or FILE.py."
    )


def load_python(path: Path, options: Options = "", fresh: bool = False) -> PythonFunction:
    """Load the handlers of a Python file (functions with a decorator such as `on`), and set its parameters.

    fresh: the file is executed again, for a second instance of its functions. Raises FunctionError.
    """
    # cached: the file that describes the stack may also define functions
    module = execute(path) if fresh else executed(path)
    parameters = _declared(module)
    if not parameters and isinstance(options, str):
        _refuse_options(str(path), options, "it takes none (a function in Python declares them by parameter)")
    for name, value in _read_parameters(str(path), parameters, options).items():
        setattr(module, name, value)
    return module_function(module, path)


def module_function(module: ModuleType, path: Path) -> PythonFunction:
    """The function that a module's handlers make. path: names it, and is named in messages. Raises FunctionError."""
    handlers: list[tuple[str, str, Handler]] = []
    on_demand: list[tuple[str, str, Handler]] = []
    many: list[tuple[str, str, ManyHandler]] = []
    endings: list[Callable[[], None]] = []
    for kind, layer, event, function in _registrations(module):
        match kind:
            case "on":
                handlers.append((layer, event, function))
            case "on_batch":
                many.append((layer, event, function))
            case "on_demand":
                on_demand.append((layer, event, function))
            case "at_end":
                endings.append(function)
            case _:
                pass
    events = _events(path, module)
    if not handlers and not on_demand and not many:
        raise FunctionError(f"{path}: no function is marked with @on(layer, event), so nothing would be called")
    counters = {name: item for name, item in vars(module).items() if hasattr(item, "__sluice_counter__")}
    for item in counters.values():
        item.value = 0
    shared = {name: item for name, item in vars(module).items() if hasattr(item, "__sluice_shared__")}
    for name, item in shared.items():
        item.name = name
        item.reset()
    _refuse_circles(path, events)
    for _, name, _ in many:
        if any(event.name == name for event in events):
            raise FunctionError(
                f"{path}: event '{name}' is one of this file, so its filter is asked event by event\n"
                "    take many of its base, and look there which they are."
            )
    return PythonFunction(
        path.stem,
        handlers,
        endings,
        lambda: {name: item.value for name, item in counters.items()},
        events,
        on_demand,
        many,
        _published(path, module),
        shared=shared,
        verdicts=[item for item in vars(module).values() if hasattr(item, "__sluice_verdicts__")],
    )


_REGISTERED = "__sluice_registered__"
"""The module attribute in which sluice.functions registers decorated functions."""
_Registration = tuple[str, str, str, Any]


def _registrations(module: ModuleType) -> list[_Registration]:
    """The registrations of a file's own decorators in order, then those of decorated functions that it imports."""
    own: list[_Registration] = list(vars(module).get(_REGISTERED, []))
    known = {id(function) for _, _, _, function in own}
    for value in vars(module).values():
        if id(value) in known:
            continue
        known.add(id(value))
        own += [("on", *pair, value) for pair in getattr(value, "__sluice_on__", [])]
        own += [("on_batch", *pair, value) for pair in getattr(value, "__sluice_on_batch__", [])]
        if isinstance(demanded := getattr(value, "__sluice_on_demand__", None), tuple):
            own.append(("on_demand", *cast(tuple[str, str], demanded), value))
        if getattr(value, "__sluice_at_end__", False) is True:
            own.append(("at_end", "", "", value))
    return own


def has_functions(path: Path) -> bool:
    """Whether a Python file defines functions on events."""
    return any(kind != "at_end" for kind, *_ in _registrations(executed(path)))


def _events(path: Path, module: ModuleType) -> list[PythonEvent]:
    """The events that a file defines, named after their functions. Raises FunctionError if a name is used twice."""
    named: dict[int, str] = {}
    events: list[PythonEvent] = []
    for name, value in vars(module).items():
        if isinstance(defined := getattr(value, "__sluice_event__", None), tuple) and id(value) not in named:
            named[id(value)] = name
            layer, base = cast(tuple[str, str], defined)
            events.append(PythonEvent(layer, name, base, value))
    for kind, _, _, function in vars(module).get(_REGISTERED, []):
        if kind == "event" and id(function) not in named:
            name = getattr(function, "__name__", "?")
            line = getattr(getattr(function, "__code__", None), "co_firstlineno", 0)
            raise FunctionError(
                f"{path}:{line}: the event '{name}' has no name of its own at the top level: another one took it\n"
                "    an event is called as its function: give each function another name."
            )
    return events


def _published(path: Path, module: ModuleType) -> dict[str, Publisher]:
    """The events that a file publishes. Raises FunctionError for one that cannot be."""
    found: dict[str, Publisher] = {}
    for item in vars(module).values():
        declared = getattr(item, "__sluice_published__", None)
        if isinstance(declared, tuple):
            name, base, fields, where = cast(tuple[str, str, tuple[tuple[str, str], ...], str], declared)
            for field, kind in fields:
                if kind not in TYPES:
                    raise FunctionError(
                        f"{where}: field '{field}' of '{name}' is of type {kind}, which cannot be published\n"
                        f"    types are int, bool, bytes, and, as texts, {', '.join(TYPES)}."
                    )
            try:
                found[name] = Publisher(checked(PublishedEvent(path.stem, name, base, fields, where)), item)
            except HookError as error:
                raise FunctionError(str(error)) from None
    return found


def _refuse_circles(path: Path, events: list[PythonEvent]) -> None:
    """Raise FunctionError for an event that is its own base, directly or through others."""
    for event in events:
        seen, base = {event.name}, event.base
        while (below := next((other for other in events if other.name == base), None)) is not None:
            if below.name in seen:
                raise FunctionError(
                    f"{path}: event '{event.name}' happens with itself: let it happen with one of the stack"
                )
            seen.add(below.name)
            base = below.base


_DECLARED = "__sluice_parameters__"
_KINDS: dict[type, str] = {str: "text", bool: "flag", int: "number", float: "seconds"}


def _declared(module: ModuleType) -> tuple[Parameter, ...]:
    """The parameters of a Python file. They are cached, because `load_python` replaces the declarations by values."""
    known: tuple[Parameter, ...] | None = vars(module).get(_DECLARED)
    if known is None:
        found: list[Parameter] = []
        for name, item in vars(module).items():
            declared: tuple[Value, str] | None = getattr(item, "__sluice_parameter__", None)
            if declared is not None:
                value, help = declared
                text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
                found.append(Parameter(name, _KINDS[type(value)], text, help))
        known = tuple(found)
        vars(module)[_DECLARED] = known
    return known
