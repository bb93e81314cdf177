"""The process of an isolated function: opens its box, drops privileges that it does not need, and receives events."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from sluice.chain.processes.boxes import FunctionBox
from sluice.chain.processes.instances import Attaches, StateError
from sluice.chain.processes.limits import Limits, begin_process
from sluice.chain.processes.memory import Memory
from sluice.chain.processes.program import Part
from sluice.engine.box import RunError, Settings

_MEMORY = 1 << 20
"""Bytes for held data, which the stack has."""
_DESCRIPTOR = re.compile(r"/dev/fd/([0-9]{1,7})\b", re.ASCII)
_FILES = 1 << 20
"""More than the numbers of files that a process has."""
TOKEN_MOST = 1 << 10
FAILED = 70
"""The exit status after an exception of a function in Python."""


class _HostBox(FunctionBox):
    """An exception of a handler ends the process, as a crash of a function in C does."""

    def _batch(self, _user: int, at: int, size: int) -> None:
        super()._batch(_user, at, size)
        if self._error is not None:
            traceback.print_exception(self._error)
            sys.stderr.flush()
            os._exit(FAILED)


def run_part(
    part: Part,
    memory: Memory,
    settings: Settings,
    forwards: bool,
    limits: Limits,
    result: int,
    others: Iterable[int],
    stores: Attaches | None = None,
    rows: int = -1,
    go: int = -1,
) -> NoReturn:
    """Run it to the end of the input. The result is written to the file `result` as JSON. others: files that are not
    its concern. stores: of the function's state. rows: the
    file that it writes rows to, or -1. go: of a clone, by which its token in the store comes when it
    begins; -1: it begins at once.
    """
    begin_process(session=True)
    status = 1
    try:
        _close(others)
        memory.restrict(part.number)
        if not part.python:  # a function in Python may have opened files when it was loaded
            _close_all_but(result, rows, go, *_named(part), *(stores.files(part) if stores is not None else ()))
        token = os.read(go, TOKEN_MOST).decode() if go >= 0 else ""
        assert part.compiled is not None
        own = replace(settings, memory=settings.memory if part.keeps else _MEMORY, prefault=False)
        if stores is not None:
            own = replace(own, store=stores.attach(part, token))
        box = _HostBox(part.compiled, own, part.python, part.options, None, forwards)
        _write(result, {"missing": limits.apply()})
        if box.receive(memory.mapping(part.number)):
            _write(result, {"reports": box.reports(), "failure": box.failure()})
        status = 0
    except (RunError, StateError) as error:
        _write(result, {"error": str(error)})
    except BaseException as error:
        traceback.print_exception(error)
        status = FAILED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _close(others: Iterable[int]) -> None:
    """Close files of the controller, and the standard input."""
    for file in others:
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    if nothing:
        os.dup2(nothing, 0)
        os.close(nothing)


def _named(part: Part) -> list[int]:
    """Descriptors that options of its functions name, such as the standard output (cli/common/streams.py)."""
    texts = [value for one in part.options for value in (one.values() if isinstance(one, Mapping) else (one,))]
    found = [int(number) for text in texts for number in _DESCRIPTOR.findall(text)]
    return [number for number in found if number < _FILES]


def _close_all_but(*kept: int) -> None:
    """Close all files but these, and the standard ones."""
    first = 3
    for file in sorted(one for one in kept if one >= 3):
        os.closerange(first, file)
        first = file + 1
    os.closerange(first, _FILES)


def _write(file: int, data: dict[str, Any]) -> None:
    """One line."""
    text = json.dumps(data).encode() + b"\n"
    while text:
        text = text[os.write(file, text) :]
