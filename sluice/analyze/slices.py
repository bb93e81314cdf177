"""Slices of a program: lines that depend on a place in the source, on which it depends, or between two places."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sluice.analyze.run import tool_arguments
from sluice.analyze.toolchain import run_tool


@dataclass(frozen=True)
class Part:
    """The lines of a slice in one function."""

    function: str
    file: str
    lines: list[int]


@dataclass(frozen=True)
class Slice:
    """A forward slice (`source` only), a backward slice (`target` only), or the chop between both."""

    module: str
    source: str | None
    target: str | None
    parts: list[Part]
    """By file and function."""
    matched: bool
    """Whether calls and returns match; if not, the slice is larger than needed."""


def slice_of(
    module: str,
    source: str | None = None,
    target: str | None = None,
    models: Iterable[str] = (),
    not_receive: Iterable[str] = (),
    assume: Iterable[str] = (),
    slice_steps: int | None = None,
) -> Slice:
    """The slice. Raises AnalyzeError, also if there is no code at a place.

    source, target: FILE:LINE; `receive` as source; `packets` and `logs` as target
    slice_steps: most steps of a slice that matches calls and returns; beyond, it does not match them
    models, not_receive, assume: as for `analyze`
    """
    arguments = tool_arguments(module, models, not_receive, assume)
    arguments += [f"--slice-from={source}"] * bool(source) + [f"--slice-to={target}"] * bool(target)
    arguments += [f"--slice-steps={slice_steps}"] if slice_steps is not None else []
    found: dict[str, Any] = run_tool("analyze", *arguments, module)
    parts = [Part(one["in"], one["file"], one["lines"]) for one in found["functions"]]
    return Slice(module, source, target, parts, found["matched"])
