"""Files in Python that users give on the command line: descriptions of stacks, functions."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_executed: dict[Path, ModuleType] = {}
_helpers: dict[str, Path] = {}
"""Modules that users' files imported from beside them, and the folder that each came from."""


def execute(path: Path) -> ModuleType:
    """The module that a file makes when it runs; its folder is searched for what it imports.

    A module of the same name that a file in another folder imported is not taken for the one beside this file.
    The file's name ends in `.py`. Raises what the file raises.
    """
    path = path.resolve()
    name = f"sluice_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    for helper in [helper for helper, folder in _helpers.items() if folder != path.parent]:
        sys.modules.pop(helper, None)
        del _helpers[helper]
    module = importlib.util.module_from_spec(spec)
    known = set(sys.modules)
    sys.modules[name] = module  # where dataclasses and their like look for it
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
        for helper in set(sys.modules) - known - {name}:
            file = getattr(sys.modules[helper], "__file__", None)
            if file is not None and path.parent in Path(file).parents:
                _helpers[helper] = path.parent
    _executed[path] = module
    return module


def executed(path: Path) -> ModuleType:
    """The module of a file that may have run already: a stack and functions on its events may share one."""
    return _executed.get(path.resolve()) or execute(path)
