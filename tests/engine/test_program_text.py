"""The stored form of a program: it gives the same value back, and makes objects of no other class."""

import json

import pytest

from sluice.engine.program_cache import outline
from sluice.engine.program_text import NotStorableError, from_json, to_json
from sluice.lower.build import build
from sluice.stacks.find import find_stack


@pytest.mark.parametrize("name", ["tcp_ip", "quic"])
def test_a_program_without_its_graphs_comes_back(name: str) -> None:
    program = outline(build(find_stack(name)))
    assert from_json(to_json(program)) == program


@pytest.mark.parametrize("value", [None, True, 0, -1, 1 << 70, 0.1, "", "\ud800", (), [], {}, ((1,), [{"a": (2,)}])])
def test_plain_values_come_back(value: object) -> None:
    assert from_json(to_json(value)) == value and type(from_json(to_json(value))) is type(value)


@pytest.mark.parametrize("value", [b"bytes", {1}, object(), ValueError(), print])
def test_other_values_are_not_stored(value: object) -> None:
    with pytest.raises(NotStorableError):
        to_json(value)


@pytest.mark.parametrize(
    "text",
    ["", "{",
     '{"a": 1}', '["Path", "/"]', '["os.system", "true"]', '["Reg"]', '["Reg", 1, 2, 3, 4, 5, 6]', "[]", "[[]]",
     '["dict", 1]', '["dict", [["list"], 1]]', json.dumps(["list"] * 3).replace('"list"', "[" * 10000, 1)],
)  # fmt: skip
def test_nothing_is_made_of_another_text(text: str) -> None:
    with pytest.raises(NotStorableError):
        from_json(text)
