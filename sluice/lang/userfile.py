"""Python files that users give on the command line: descriptions of stacks, and functions.

These files, and the modules that they import from their folder, are always compiled from their current source. No
__pycache__ is written or read: it identifies a source by size and second, so a file that was edited and run twice
within a second would be taken for the same.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Generator
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

_executed: dict[Path, ModuleType] = {}
_helpers: dict[str, Path] = {}
"""Modules that users' files imported from their own folder, with that folder."""


class _Fresh(SourceFileLoader):
    """Compiles the source on every import."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _FreshFinder(FileFinder):
    """Finds modules in a user's folder."""


@contextlib.contextmanager
def _fresh(folder: str) -> Generator[None]:
    """Inside, modules of the folder, and of packages in it, are compiled from their source."""
    inside = os.path.join(folder, "")
    installed = tuple(os.path.join(entry, "") for entry in sys.path if entry.startswith(inside))  # a .venv, perhaps

    def find(entry: str) -> _FreshFinder:
        if not os.path.join(entry, "").startswith(inside) or os.path.join(entry, "").startswith(installed):
            raise ImportError
        return _FreshFinder(entry, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_Fresh, SOURCE_SUFFIXES))

    hook: Callable[[str], _FreshFinder] = find
    before = sys.path_importer_cache.pop(folder, None)
    sys.path_hooks.insert(0, hook)
    try:
        yield
    finally:
        sys.path_hooks.remove(hook)
        for entry in [entry for entry, finder in sys.path_importer_cache.items() if isinstance(finder, _FreshFinder)]:
            del sys.path_importer_cache[entry]
        if before is not None:
            sys.path_importer_cache[folder] = before


def execute(path: Path) -> ModuleType:
    """Execute a file and return its module. Imports search the file's folder first.

    If a file in another folder imported a module of the same name, that module is not used for this file. If a file is
    executed again, its modules are executed again. The file's name ends in `.py`. Raises what the file raises.
    """
    path = path.resolve()
    name = f"sluice_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Fresh(name, str(path)))
    assert spec is not None and spec.loader is not None, path
    again = path in _executed
    for helper in [helper for helper, folder in _helpers.items() if again or folder != path.parent]:
        sys.modules.pop(helper, None)
        del _helpers[helper]
    module = importlib.util.module_from_spec(spec)
    known = set(sys.modules)
    sys.modules[name] = module  # dataclasses and similar modules look for it there
    sys.path.insert(0, str(path.parent))
    try:
        with _fresh(str(path.parent)):
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
    """The module of a file, executed only if it was not executed before: a stack and functions on its events may share
    a file.
    """
    return _executed.get(path.resolve()) or execute(path)
