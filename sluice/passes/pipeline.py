"""The passes in their order, with the reasons for this order; `run` applies them.

A pass is a function from a program to a new program that means the same. To save time, the verifier checks only the
output of the last pass. If that is wrong, or if a pass fails, the passes run again and the output of each is checked.
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
    header_prefetch,
    lazy_init,
    lifting,
    lookahead,
    merge_sides,
    padding,
    path_keys,
    prediction,
    short_circuit,
    sinking,
    split_stateless,
    tails,
    template,
)


class UnknownPassError(ValueError):
    """A name that is not the name of a pass."""


@dataclass(frozen=True)
class Pass:
    """A pass, with the name that switches it on and off."""

    name: str
    run: Callable[[Program], Program]


Observer = Callable[[str, Program], None]
"""Called after every pass with its name and the resulting program."""

PASSES = (
    # First: it matches parts of keys by their slots; later passes propagate copies and constants into keys.
    Pass("dispatch", dispatch.run),
    # Before all others, so that they see no branches whose outcome is known.
    Pass("constants", constants.run),
    # It propagates constants on the paths that it separates, and removes dead code.
    Pass("lifting", lifting.run),
    # After `lifting`: it duplicates some of the resulting paths, and lifting need not analyse both copies.
    Pass("prediction", prediction.run),
    # It needs a path on which only packets that are in order reach the state machine.
    Pass("forwarding", forwarding.run),
    # The paths that were separated or duplicated have their final form now.
    Pass("tails", tails.run),
    # It follows the paths that `lifting` has separated, such as that of a packet that is no fragment.
    Pass("path_keys", path_keys.run),
    # It makes graphs from main graphs, whose fast path is short by now.
    Pass("split_stateless", split_stateless.run),
    # It continues where packets have to wait after `split_stateless`.
    Pass("deferral", deferral.run),
    # After `tails`, which would not find two paths identical once different loads have been moved into them.
    Pass("sinking", sinking.run),
    # It copies a path of the stateless graph. `sinking` has moved the loads that only rare paths need off this path.
    Pass("template", template.run),
    # As `split_stateless`. Loads are next to their uses by now, so a lookahead graph has only those that keys need.
    Pass("lookahead", lookahead.run),
    # `lookahead` skips lists, whatever they contain, and would follow only the path that this pass adds.
    Pass("padding", padding.run),
    # Other passes need not know fields that depend on the packet's side. Only main graphs change, which no other pass
    # copies any more.
    Pass("merge_sides", merge_sides.run),
    # The paths through all graphs have their final form now, and so have the first uses.
    Pass("lazy_init", lazy_init.run),
    # It measures the headers of templates, and of the main graph after them.
    Pass("header_prefetch", header_prefetch.run),
    # Last of all: other passes match `&` and `|` in conditions.
    Pass("short_circuit", short_circuit.run),
)


def run(
    program: Program,
    passes: str | Iterable[str] = "all",
    verify: bool = True,
    observer: Observer | None = None,
) -> Program:
    """The program after `passes`: "all", "none", or the names of some, which run in the order of PASSES.

    With `verify`, raises VerifyError if the output of the last pass breaks a rule; the error names the first pass whose
    output breaks one. Raises UnknownPassError for a name that is not the name of a pass.
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
    """Disable the cyclic garbage collector. Compiling a stack creates many objects but no reference cycles, so that a
    search for cycles only costs time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _blame(program: Program, passes: tuple[Pass, ...], seen: Exception) -> None:
    """Raise VerifyError for the program, or for the output of the first pass that breaks a rule, with its name. Return
    if there is no such error.

    `seen`: the error that was observed with all passes.
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
        return  # a pass failed on a correct program; its own error is the one to report


def select(passes: str | Iterable[str]) -> tuple[Pass, ...]:
    """The passes with the given names, in the order of PASSES. Raises UnknownPassError for any other name."""
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
