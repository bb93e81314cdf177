"""Links a program so that its run shows whether bytes changed without the byte of their variable set."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from sluice.analyze.state.instrument import RUN_TIME, instrument, link
from sluice.analyze.state.serialise import serialise


def build_bits(
    module: str,
    program: Path,
    libraries: Iterable[str] = (),
    without: Iterable[str] = (),
    pruning: bool = True,
    models: Iterable[str] = (),
    not_receive: Iterable[str] = (),
    assume: Iterable[str] = (),
) -> None:
    """Instrument a module as `sluice analyze instrument` does, with the check. Raises AnalyzeError.

    libraries: the program's further inputs of the linker, as for a compiler: libraries and further sources
    without: variables whose updates are not marked, to test that the check finds them
    models, not_receive, assume: as for `analyze`
    """
    with tempfile.TemporaryDirectory() as folder:
        instrumented, code = Path(folder) / "instrumented.bc", Path(folder) / "state.c"
        models, not_receive, assume = list(models), list(not_receive), list(assume)
        instrument(module, instrumented, models, not_receive, assume, without, pruning)
        code.write_text(serialise(module, models, not_receive, assume).text, encoding="utf-8")
        link(instrumented, program, [str(code), str(RUN_TIME / "bits.c"), *libraries])
