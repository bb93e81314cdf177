"""`sluice chain --check-equivalence`: the ideal chain runs beside the chain, and both are compared."""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from sluice.chain.plan import Plan
from sluice.chain.processes.row_files import OUT
from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.inputs import input_files
from sluice.cli.common.running import compile_for
from sluice.engine.box import Box, CompiledStack, Outcome, Settings
from sluice.engine.functions import Wanted
from sluice.engine.inputs import Inputs
from sluice.lang.stack import Stack
from sluice.state.equivalence import Comparison, compare_output, compare_rows, compare_state
from sluice.state.location import Location
from sluice.state.session import session


def check_comparable(options: argparse.Namespace, inputs: Inputs) -> None:
    """Raises UsageError for chains that cannot be compared."""
    if not options.check_equivalence:
        return
    if not options.isolate:
        raise UsageError("--check-equivalence: compares functions in processes of their own; give --isolate, too")
    if not inputs.repeatable:
        raise UsageError("--check-equivalence: reads the input twice; give capture files, by -r")
    if options.output is None:
        raise UsageError("--check-equivalence: compares what leaves the chain; give a file for it, by -w")


class Ideal:
    """The ideal chain, in a separate process."""

    def __init__(
        self, plan: Plan, stack: Stack, settings: Settings, inputs: Inputs, options: argparse.Namespace
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-ideal-")
        self._inputs, self._options = inputs, options
        self._output = Path(self._folder.name, "out.pcap")
        self._rows: dict[str, tuple[str, str]] = {}
        wanted = plan.wanted()
        wanted.as_in_processes()
        for number, (function, given) in enumerate(zip(wanted.c, wanted.options, strict=True)):
            if any(item.name == OUT for item in function.parameters) and isinstance(given, dict):
                own = str(Path(self._folder.name, f"rows{number}"))
                path = str(given.get(OUT, ""))
                wanted.options[number] = {**given, OUT: own}
                if path and not path.startswith("/dev/"):
                    self._rows[function.label or function.name] = (own, path)
        ready = compile_for(stack, wanted, options)
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._child = os.fork()
        if not self._child:
            os.close(read)
            self._be_child(ready, settings, wanted, write)
        os.close(write)
        self._read = read

    def _be_child(self, ready: CompiledStack, settings: Settings, wanted: Wanted, write: int) -> None:
        status = 1
        try:
            out = os.open(os.devnull, os.O_WRONLY)
            os.dup2(out, 1)  # functions that print have printed in the other chain
            try:
                result: tuple[str, str] = ("done", self._run(ready, settings, wanted))
            except Exception as error:
                result = ("failed", f"{type(error).__name__}: {error}")
            with os.fdopen(write, "wb") as file:
                pickle.dump(result, file)
            status = 0
        finally:
            os._exit(status)

    def _run(self, ready: CompiledStack, settings: Settings, wanted: Wanted) -> str:
        with session(Location("local"), wanted.c, True, wanted.python) as held:
            own = replace(settings, state_file=held.state_file, store=None)
            with Box(ready, own, wanted.python, wanted.options, self._output) as box:
                box.run(self._inputs)
            assert held.text is not None
            return held.text()

    def finish(self, outcome: Outcome, state: str) -> Outcome:
        """The outcome with the differences. state: of the chain, as --state writes it. Raises CommandError."""
        with os.fdopen(self._read, "rb") as text:
            data = text.read()
        os.waitpid(self._child, 0)
        kind, value = pickle.loads(data) if data else ("failed", "its process ended")
        if kind != "done":
            raise CommandError(f"--check-equivalence: the ideal chain: {value}")
        found = Comparison()
        compare_output(found, self._output, Path(self._options.output), input_files(self._inputs))
        compare_state(found, value, state)
        for name, (own, path) in self._rows.items():
            with open(own, encoding="utf-8") as ideal, open(path, encoding="utf-8") as other:
                compare_rows(found, ideal, other, name)
        self._folder.cleanup()
        if found.equivalent:
            print(
                f"sluice: equivalent to the ideal chain: {found.packets:,} packets, {found.objects:,} objects, "
                f"{found.rows:,} rows",
                file=sys.stderr,
            )
        outcome.reports |= {"equivalence_packets": found.packets, "equivalence_objects": found.objects}
        outcome.reports |= {"equivalence_differences": len(found.differences)}
        return replace(outcome, failure=outcome.failure or found.failure)
