"""The manual's captures of the boxes: each function prints what its page shows, over the small stack of these tests."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.docs.test_docs import blocks, commands, matches
from tests.functions.security import run

ROOT = Path(__file__).resolve().parents[3]
SHOWN = [
    (shlex.split(command), shown)
    for block in blocks(ROOT / "docs" / "boxes.md")
    if block.kind == "text"
    for command, shown in commands(block.text)
    if command.startswith("sluice run tcp_ip -r ")
]
ROWS = ("assets", "ratelimit")


def test_each_function_has_a_capture() -> None:
    """The others have an example of their own, or a block that the tests of the manual run."""
    assert {words[6].partition(":")[0] for words, _ in SHOWN} >= {"anonymise", "assets", "balance", "nat", "ratelimit"}


@pytest.mark.parametrize(("words", "shown"), SHOWN, ids=[words[6].partition(":")[0] for words, _ in SHOWN])
def test_the_page_shows_what_it_prints(words: list[str], shown: str) -> None:
    name, _, parameters = words[6].partition(":")
    ran = run(name, ROOT / words[4], parameters, rows=name in ROWS)
    printed = [json.dumps(row, separators=(",", ":")) for row in ran.rows]
    printed += ["the packets of each layer"] + [f"{key}: {value:,}" for key, value in ran.reports.items()]
    assert matches(shown, "\n".join(printed)), "\n".join(printed)
