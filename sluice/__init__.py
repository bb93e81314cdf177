"""Sluice: a toolchain to program middleboxes.

A protocol stack described in Python (`lang`) becomes a graph of instructions (`ir`), is improved (`passes`),
becomes C (`codegen`), and runs as a box (`engine`, `runtime`). Which folder may import which is kept by
tests/test_imports.py.

    import sluice

    sluice.flows("capture.pcap").pandas()                    # connections as a data frame
    for row in sluice.log("http", "capture.pcap"): ...       # the rows of a log
    sluice.run("tcp_ip", "capture.pcap", ["httplog"])        # counters, rows, events

These three, and the types of their results, are imported when they are used first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluice.report.api import Event, Result, flows, log, run
    from sluice.report.table import Table

__version__ = "0.1.0"
__all__ = ["Event", "Result", "Table", "__version__", "flows", "log", "run"]

_OFFERED = {
    "Event": "sluice.report.api",
    "Result": "sluice.report.api",
    "Table": "sluice.report.table",
    "flows": "sluice.report.api",
    "log": "sluice.report.api",
    "run": "sluice.report.api",
}


def __getattr__(name: str) -> Any:
    if name not in _OFFERED:
        raise AttributeError(f"module 'sluice' has no attribute '{name}'")
    import importlib

    found = getattr(importlib.import_module(_OFFERED[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_OFFERED})
