"""The notebook runs to its end, and its plots are there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.functions import VENDOR

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook" / "explore.ipynb"


@pytest.mark.skipif(not VENDOR.is_dir(), reason="httplog needs llhttp (scripts/setup.sh)")
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat: Any = pytest.importorskip("nbformat", reason="no nbformat (scripts/setup.sh --notebook)")
    nbclient: Any = pytest.importorskip("nbclient", reason="no nbclient (scripts/setup.sh --notebook)")
    for name in ("ipykernel", "matplotlib", "pandas", "pyarrow"):
        pytest.importorskip(name, reason=f"no {name} (scripts/setup.sh --notebook, --tools)")
    monkeypatch.setenv("SLUICE_CACHE", os.path.abspath(os.environ["SLUICE_CACHE"]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(NOTEBOOK.parents[2]), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}})
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
    assert "24 packets, 2 connections" in "".join(output.get("text", "") for output in outputs)
