"""The folder of the captures, and the ground truth about them."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "tests" / "corpus"
SHARED = ROOT.parent / "shared" / "corpus"


@cache
def corpus() -> Path:
    """The folder: $SLUICE_CORPUS if it is set, without a fallback; else the shared corpus; else this repository's."""
    named = os.environ.get("SLUICE_CORPUS")
    if named:
        return Path(named)
    return SHARED if (SHARED / "truth.json").is_file() else OWN


@cache
def truth() -> dict[str, dict[str, Any]]:
    """The entry of truth.json for each capture, by file name. TRUTH.md of the corpus defines its meaning."""
    return {entry["file"]: entry for entry in json.loads((corpus() / "truth.json").read_text())["files"]}


def key_log(capture: Path) -> Path | None:
    """The secrets of a capture's connections, if there are any: `app/NAME.keys`, in the format of SSLKEYLOGFILE."""
    path = corpus() / "app" / f"{capture.name}.keys"
    return path if path.is_file() else None


def captures() -> list[Path]:
    """All captures of the corpus."""
    return [corpus() / name for name in truth()]
