"""Turns a description into a compiled stack: generates and compiles it, or loads it from the cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from sluice.codegen.events.manifest import manifest
from sluice.codegen.stack import Generated, generate
from sluice.engine.cache import cache_folder
from sluice.engine.compiler import Compiled, compile_library
from sluice.engine.events import Decoder
from sluice.engine.program_cache import Made, content, outline, recall, recorded_warnings, store
from sluice.engine.quick import compile_quick
from sluice.hooks.function import CFunction, Functions
from sluice.ir.graph import LayerProgram, Program
from sluice.ir.hook import Hook
from sluice.lang.stack import Stack
from sluice.lower.build import build
from sluice.passes.pipeline import run as run_passes
from sluice.passes.pipeline import uncollected


@dataclass
class CompiledStack:
    """A stack and its functions, compiled into a library. The program's graphs are empty."""

    program: Program
    generated: Generated
    compiled: Compiled
    functions: Functions
    seconds: float

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder of its events, for boxes whose functions in Python publish none."""
        return self.decoder_with(self.functions.published.layer())

    def decoder_with(self, published: LayerProgram) -> Decoder:
        """A decoder of its events. published: those that functions publish, as those of a layer."""
        made = self.generated
        records, columns = zip(made.events, made.roots, strict=True), zip(made.columns, made.column_roots, strict=True)
        return Decoder(manifest(self.program, tuple(records), tuple(columns), published, self.functions.watch_words))

    def with_library(self, path: Path) -> CompiledStack:
        """The same with a copy of its library."""
        return replace(self, compiled=replace(self.compiled, path=path))


def compile_stack(
    stack: Stack,
    functions: tuple[CFunction, ...] = (),
    python: frozenset[Hook] = frozenset(),
    passes: str | list[str] = "all",
    options: frozenset[str] = frozenset(),
    fresh: bool = False,
    check: Callable[[Program], None] = lambda _: None,
    demanded: tuple[frozenset[Hook], ...] = (),
    many: frozenset[Hook] = frozenset(),
    quick: Callable[[], None] | None = None,
    decides: bool = False,
) -> CompiledStack:
    """Compile a description into a library. `seconds` of the result is the time of Sluice without the C compiler.

    quick: if given, compile without passes and optimisation, with functions in C compiled separately (quick.py). It is
    called if the stack itself had to be compiled.

    The result is cached for later calls with the same description. fresh: do not read the cache, and do not store the
    program. check: called with the program before its C is compiled; may raise. python: the events that handlers in
    Python subscribe to. demanded: the events for each on-demand handler in Python. many: the events that batch handlers
    in Python subscribe to. decides: whether one in Python drops packets.
    """
    begin = time.perf_counter()
    hooked = Functions(functions, python, demanded, many, decides)
    if quick is not None:
        made, library, first = compile_quick(stack, hooked, options, check)
        if first:
            quick()
        return CompiledStack(made.program, made.generated, library, hooked, 0.0)
    found = content(stack, hooked, passes, options) if not fresh else None
    made = recall(cache_folder(), stack.name, found) if found is not None else None
    warned = False
    if made is None:
        with uncollected():
            with recorded_warnings() as given:
                program = run_passes(build(stack, hooked.hooks(), options, hooked.kept), passes)
            warned = bool(given)
            check(program)
            made = Made(outline(program), generate(program, hooked))
    else:
        check(made.program)
        found = None
    seconds = time.perf_counter() - begin
    compiled = CompiledStack(made.program, made.generated, compile_library(made.generated, fresh), hooked, seconds)
    if found is not None and not warned:  # a program with warnings is not stored, so that each run shows them
        store(cache_folder(), stack.name, found, made)
    return compiled
