"""Functions in C of one test file, compiled into one stack, as a compilation takes longer than all runs of the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from sluice.engine.box import CompiledStack, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.lang import Stack

HEAD = '#include "sluice.h"\n'


class Together:
    """Functions that run side by side in every box: none may decide what another one sees.

    texts: of each function, by its name. Events that they define need different names.
    """

    def __init__(self, stack: Callable[[], Stack], **texts: str) -> None:
        self._stack, self._texts = stack, texts

    @cached_property
    def compiled(self) -> CompiledStack:
        """The stack with all of them, compiled at the first use."""
        functions = [read_c_function(name, HEAD + text, f"{name}.c") for name, text in self._texts.items()]
        return compile_stack(self._stack(), tuple(replace(each, label=each.name) for each in functions))

    def options(self, name: str, given: str) -> list[str]:
        """The options of a box in which one function is given some."""
        assert name in self._texts
        return [given if each == name else "" for each in self._texts]

    def of(self, name: str, reports: dict[str, int]) -> dict[str, int]:
        """The figures of one function among those of a box."""
        assert name in self._texts
        return {figure.removeprefix(f"{name}."): value for figure, value in reports.items()
                if figure.startswith(f"{name}.")}  # fmt: skip
