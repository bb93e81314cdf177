"""What a user sees of each mistake: the golden file shows wrong programs, and the message after a line of dashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.service.lang.errors import ServiceError
from sluice.service.lang.parser.cursor import DEEPEST
from sluice.service.load import load_source

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "service" / "messages.txt"
CASES = [tuple(each.partition("----\n")[::2]) for each in GOLDEN.read_text().split("====\n")]


@pytest.mark.parametrize(("source", "message"), CASES)
def test_mistakes(source: str, message: str) -> None:
    with pytest.raises(ServiceError) as error:
        load_source(source, file="p.fk")
    assert f"{error.value}\n" == message


def test_there_are_many_different_ones() -> None:
    texts = {message.split("\n")[0].partition(": ")[2] for _, message in CASES}
    assert len(texts) > 90


@pytest.mark.parametrize("open_", ["(", "[", "if True: ", "not ", "f(", "-", "?", "1 :: ", "<"])
def test_deep_programs_are_refused(open_: str) -> None:
    with pytest.raises(ServiceError):
        load_source(f"fun f: (x: integer) -> (integer): {open_ * 3000}")


def test_deep_programs_within_the_limit() -> None:
    depth = DEEPEST // 2 - 5
    load_source(f"fun f: (x: integer) -> (integer): {'(' * depth}x{')' * depth}")


def test_a_warning_for_an_abbreviated_field() -> None:
    source = "type t: record\n  value : integer\nfun f: (x: t) -> (integer): x.val\n"
    assert [each.what for each in load_source(source).warnings] == ["the record t has no field 'val': 'value' is taken"]
