"""Runs the analyses on a module."""

from __future__ import annotations

import os
from collections.abc import Iterable

from sluice.analyze.errors import AnalyzeError
from sluice.analyze.report.model import Analysis, read
from sluice.analyze.toolchain import MODELS, run_tool


def analyze(
    module: str,
    models: Iterable[str] = (),
    not_receive: Iterable[str] = (),
    assume: Iterable[str] = (),
    field_insensitive: bool = False,
    all_locals: bool = False,
    slice_steps: int | None = None,
) -> Analysis:
    """The analysis of a bitcode module. Raises AnalyzeError.

    models: YAML files that describe external functions, besides those of this folder
    not_receive: functions whose receive calls receive no packets
    slice_steps: most steps of a slice from output that matches calls and returns; beyond, it does not match them
    assume: external functions that do nothing with pointers; or `externals` for all, `assembly`, `dlopen`; a reason may
        follow after `=`
    """
    arguments = tool_arguments(module, models, not_receive, assume)
    arguments += ["--field-insensitive"] * field_insensitive + ["--all-locals"] * all_locals
    arguments += [f"--slice-steps={slice_steps}"] if slice_steps is not None else []
    return read(module, run_tool("analyze", *arguments, module))


def tool_arguments(
    module: str, models: Iterable[str] = (), not_receive: Iterable[str] = (), assume: Iterable[str] = ()
) -> list[str]:
    """Arguments of the tool's `analyze`, as `analyze` has them. Raises AnalyzeError if a file is missing."""
    models = list(models)
    for path in (module, *models):
        if not os.path.isfile(path):
            raise AnalyzeError(f"{path}: there is no such file")
    arguments = [f"--models={path}" for path in (*sorted(map(str, MODELS.glob("*.yaml"))), *models)]
    arguments += [f"--not-receive={name}" for name in not_receive]
    arguments += [f"--assume={name}" for name in assume]
    return arguments
