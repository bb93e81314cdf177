"""The passes in their order, and why in that order; `run` applies them.

A pass is a function from a program to a new one that means the same. The verifier looks at what the last leaves,
and only when that is wrong, or a pass fails, at what each did: it would be a third of the time of all passes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches

from sluice.ir.graph import Program
from sluice.ir.verify import VerifyError
from sluice.ir.verify import verify as verify_program
from sluice.passes import (
    constants,
    deferral,
    dispatch,
    forwarding,
    lifting,
    lookahead,
    padding,
    prediction,
    sinking,
    split_stateless,
    tails,
    template,
)


class UnknownPassError(ValueError):
    """A name that is not that of a pass."""


@dataclass(frozen=True)
class Pass:
    """A pass under the name that switches it on and off."""

    name: str
    run: Callable[[Program], Program]


Observer = Callable[[str, Program], None]
"""Called after every pass with its name and the program that it left."""

PASSES = (
    # First, as it asks which slots are parts of keys, and all others copy those and cut them short.
    Pass("dispatch", dispatch.run),
    # First, so that all others see branches that are decided as decided.
    Pass("constants", constants.run),
    # It calculates again what is known on the ways that it keeps apart, and cleans up behind itself.
    Pass("lifting", lifting.run),
    # Of the ways that lifting left it writes some twice, so that lifting need not look at both.
    Pass("prediction", prediction.run),
    # It needs a way on which only what is in order comes to the machine.
    Pass("forwarding", forwarding.run),
    # Ways that were kept apart or written twice have come to their final form.
    Pass("tails", tails.run),
    # It takes from main graphs what it makes graphs of its own of: the way of most packets is short by now.
    Pass("split_stateless", split_stateless.run),
    # It takes packets on from where that one leaves them waiting.
    Pass("deferral", deferral.run),
    # Behind `tails`, which would not see that two ways are alike when other loads have come to them.
    Pass("sinking", sinking.run),
    # It takes a way from the stateless graph, where loads are behind the branches that most packets do not take.
    Pass("template", template.run),
    # The same as of `split_stateless`; with loads near to where they are needed, an ahead graph has only those of keys.
    Pass("lookahead", lookahead.run),
    # Last: `lookahead` goes past lists, whatever is in them, and would follow only the way that this one adds.
    Pass("padding", padding.run),
)


def run(
    program: Program,
    passes: str | Iterable[str] = "all",
    verify: bool = True,
    observer: Observer | None = None,
) -> Program:
    """The program after `passes`: "all", "none", or names of those wanted, which run in the order of PASSES.

    With `verify`, raises VerifyError when the program that the last pass leaves breaks a rule, naming the first pass
    that left it so. A name that is not that of a pass raises UnknownPassError.
    """
    given, wanted = program, select(passes)
    for item in wanted:
        try:
            with uncollected():
                program = item.run(program)
        except Exception as error:
            if verify:
                _blame(given, wanted, error)
            raise
        if observer is not None:
            observer(item.name, program)
    if verify:
        try:
            verify_program(program)
        except VerifyError as error:
            _blame(given, wanted, error)
            raise
    return program


@contextmanager
def uncollected() -> Generator[None]:
    """Without the search for circles of objects: to compile a stack makes many objects and no circles, and it is an
    eighth of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _blame(program: Program, passes: tuple[Pass, ...], seen: Exception) -> None:
    """Raise what is wrong with the program, or else with what the first pass left that left it so, with that name.

    `seen`: what went wrong in the end.
    """
    stage = ""
    try:
        verify_program(program)
        for item in passes:
            before, program, stage = program, item.run(program), item.name
            verify_program(program, before)
    except VerifyError as error:
        raise (error.after(stage) if stage else error) from seen
    except Exception:
        return  # of the pass that failed, on a program that was right


def select(passes: str | Iterable[str]) -> tuple[Pass, ...]:
    """The passes that are meant, in the order of PASSES. Raises UnknownPassError for any other name."""
    if passes == "all":
        return PASSES
    if passes == "none":
        return ()
    names = [passes] if isinstance(passes, str) else list(passes)
    known = [item.name for item in PASSES]
    for name in names:
        if name in ("all", "none"):
            raise UnknownPassError(f"'{name}' stands alone, it is not one of several passes")
        if name not in known:
            close = get_close_matches(name, known, 1)
            advice = f": do you mean '{close[0]}'?" if close else "."
            raise UnknownPassError(f"unknown pass '{name}'{advice} Known are {', '.join(known)} (or 'all', 'none')")
    return tuple(item for item in PASSES if item.name in names)
