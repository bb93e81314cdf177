"""The users' notation: functions, in sequence (`>>`) and in parallel (`|`), over one stack.

from sluice.chain import Chain, function

firewall = function("firewall.c", port=23)
dpi, log, ids = function("dpi.c"), function("log.py"), function("ids.c")
chain = Chain(firewall >> (dpi | log) >> ids, stack="tcp_ip")
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sluice.hooks.c_words import C_WORDS
from sluice.hooks.keep import MOST as KEEP_MOST
from sluice.hooks.parameter import Value
from sluice.lang.errors import DescriptionError, described
from sluice.lang.stack import Stack
from sluice.lang.where import Where

_HERE = os.path.dirname(__file__) + os.sep


def _user_line() -> Where:
    """The innermost line on the call stack that is not part of this package."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return Where(frame.f_code.co_filename, frame.f_lineno)


class Arrangement:
    """Functions in sequence or in parallel; a part of a chain."""

    parts: tuple[Arrangement, ...] = ()
    sign = ""

    def __rshift__(self, other: object) -> Sequence:
        return Sequence(*_parts(self, other, ">>", Sequence))

    def __or__(self, other: object) -> Parallel:
        return Parallel(*_parts(self, other, "|", Parallel))

    def functions(self) -> Iterator[Function]:
        """Its functions, in the order of the description."""
        for part in self.parts:
            yield from part.functions()

    def earlier(self) -> Iterator[tuple[Function, Function]]:
        """All pairs of functions of which the first precedes the second in sequence."""
        for part in self.parts:
            yield from part.earlier()

    def __str__(self) -> str:
        texts = [f"({part})" if part.parts and part.sign != self.sign else str(part) for part in self.parts]
        return f" {self.sign} ".join(texts)


@dataclass(frozen=True)
class Isolation:
    """How a function runs in a separate process.

    closed: without the function, packets do not pass. lossy: if it is too slow, it loses events. memory: bytes that its
    process may have besides the shared; 0 for no limit. cpu: how many cores it may use; 0 for no limit.
    """

    closed: bool = False
    lossy: bool = False
    memory: int = 0
    cpu: float = 0.0


class Function(Arrangement):
    """A function of a chain, with its parameters and its name there."""

    def __init__(self, source: str, name: str, parameters: dict[str, Value], where: Where) -> None:
        self.source = source
        self.name = name
        self.parameters = parameters
        self.where = where
        self.isolation = Isolation()

    def isolated(self, failure: str = "open", overload: str = "wait", memory: int = 0, cpu: float = 0.0) -> Function:
        """Set how it runs with `--isolate`; without, this has no effect. Returns the function.

        failure: "open": packets pass while it does not run, and at events at which it crashed; "closed": they do not.
        overload: "wait": the chain waits for it; "lose": it loses events, which are counted, if it is too slow; not for
        a function that decides about packets. memory: bytes that it may allocate, 0 for no limit.
        cpu: how many cores it may use, as 0.25; 0 for no limit. Raises DescriptionError.
        """
        for name, given, known in (("failure", failure, ("open", "closed")), ("overload", overload, ("wait", "lose"))):
            if given not in known:
                raise DescriptionError(
                    f"{name}={given!r} of '{self.name}'", f'write "{known[0]}" or "{known[1]}".', _user_line()
                )
        if not isinstance(memory, int) or memory < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DescriptionError(f"memory={memory!r} of '{self.name}'", "write a number of bytes.", _user_line())
        if not isinstance(cpu, (int, float)) or (cpu and not 0.01 <= cpu <= 1024):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DescriptionError(f"cpu={cpu!r} of '{self.name}'", "write a number of cores, as 0.25.", _user_line())
        self.isolation = Isolation(failure == "closed", overload == "lose", memory, float(cpu))
        return self

    def functions(self) -> Iterator[Function]:
        yield self

    def path(self) -> str:
        """The name of a ready function, or a path, which is relative to the file of the description."""
        if not self.source.endswith((".c", ".py")) or os.path.isabs(self.source):
            return self.source
        return os.path.join(os.path.dirname(self.where.file), self.source)

    def __str__(self) -> str:
        return self.name


class Sequence(Arrangement):
    """Parts one after the other."""

    sign = ">>"

    def __init__(self, *parts: Arrangement) -> None:
        self.parts = parts

    def earlier(self) -> Iterator[tuple[Function, Function]]:
        yield from super().earlier()
        for place, part in enumerate(self.parts):
            for later in self.parts[place + 1 :]:
                yield from ((one, other) for one in part.functions() for other in later.functions())


class Parallel(Arrangement):
    """Parts of which each gets all events, whatever the others decide."""

    sign = "|"

    def __init__(self, *parts: Arrangement) -> None:
        self.parts = parts


def _parts(one: Arrangement, other: object, sign: str, kind: type[Arrangement]) -> list[Arrangement]:
    if not isinstance(other, Arrangement):
        raise DescriptionError(
            f"{sign} joins functions of a chain, not {described(other)}", f'write {sign} function("...").', _user_line()
        )
    return [*(one.parts if type(one) is kind else (one,)), *(other.parts if type(other) is kind else (other,))]


def function(source: str, name: str = "", **parameters: Value) -> Function:
    """A function of a chain. source: FILE.c or FILE.py, relative to the file of the description, or a ready function.

    name: that it has in the chain; its file's unless given, so a second instance needs one. parameters: values of what
    the function declares. Raises DescriptionError.
    """
    where = _user_line()
    if not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DescriptionError(f"a function is named by a text, not {described(source)}", 'function("file.c")', where)
    given = name or "".join(letter if letter.isalnum() else "_" for letter in Path(source).stem)
    if not given.isidentifier() or not given.isascii() or given in C_WORDS or given.startswith("sl_"):
        raise DescriptionError(
            f"'{given}' cannot be the name of a function in a chain",
            f'give it a name of letters, digits and _: function("{source}", name="...").',
            where,
        )
    return Function(source, given, parameters, where)


class Chain:
    """Functions over one stack, which runs once for all of them.

    arrangement: functions joined by >> and |. stack: a Stack, the name of one, or the path of a Python file that
    describes one, relative to this file. name: of the compiled program. keep: bytes of each side of a stream that are
    stored from its beginning on, for functions that subscribe to it later; 0 for none. Raises DescriptionError.
    """

    def __init__(self, arrangement: Arrangement, *, stack: str | Stack, name: str = "chain", keep: int = 0) -> None:
        self.where = _user_line()
        if not isinstance(arrangement, Arrangement):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DescriptionError(
                f"a chain is made of functions, not of {described(arrangement)}",
                'write Chain(function("a.c") >> function("b.c"), stack="tcp_ip").',
                self.where,
            )
        self.arrangement = arrangement
        self.stack = stack
        self.name = name
        self.keep = keep
        if not isinstance(keep, int) or not 0 <= keep <= KEEP_MOST:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DescriptionError(
                f"keep={keep!r}", f"write a number of bytes of each side of a stream, up to {KEEP_MOST}.", self.where
            )
        self._check_once()

    def _check_once(self) -> None:
        seen: dict[str, Function] = {}
        for item in self.functions():
            other = seen.setdefault(item.name, item)
            advice = f'for a second instance, write function("{item.source}", name="{item.name}2").'
            if other is item and sum(item is one for one in self.functions()) > 1:
                raise DescriptionError(
                    f"a chain has no cycles, and '{item.name}' stands in it more than once: {self.arrangement}",
                    advice,
                    self.where,
                )
            if other is not item:
                raise DescriptionError(
                    f"two functions of the chain are called '{item.name}', the other one at {other.where.short}",
                    advice,
                    item.where,
                )

    def functions(self) -> list[Function]:
        """Its functions, in the order of the description."""
        return list(self.arrangement.functions())

    def stack_path(self) -> str | Stack:
        """The stack, with a path that is relative to the file of the description made absolute."""
        if isinstance(self.stack, str) and self.stack.endswith(".py") and not os.path.isabs(self.stack):
            return os.path.join(os.path.dirname(self.where.file), self.stack)
        return self.stack
