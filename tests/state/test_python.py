"""Functions in Python declare shared objects, too: the same output and state with each store."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.functions.shared import NUMBER_MOST, RefusedError, Shared, shared
from sluice.state.location import Location
from tests.state.traffic import mixed, write

FUNCTION = str(Path(__file__).resolve().parent / "objects.py")


def test_the_same_with_each_store(store: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = str(write(tmp_path / "in.pcap", mixed(8, 60)))
    printed: list[str] = []
    for name, where in (("local", "local"), ("store", f"valkey+unix://{store.path}")):
        words = ["run", "tcp_ip", "-r", capture, "-f", FUNCTION, "--store", where, "--state", str(tmp_path / name)]
        assert main([*words, "-o", str(tmp_path / f"{name}.txt")]) == 0
        printed.append((tmp_path / f"{name}.txt").read_text())
        out = capsys.readouterr().out
    assert printed[0] == printed[1] != ""
    assert (tmp_path / "local").read_text() == (tmp_path / "store").read_text()
    assert "store_waits: " in out


def test_a_declaration_that_makes_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(FUNCTION).read_text().replace('"flow", "read_write"', '"flow", "often"')
    (tmp_path / "wrong.py").write_text(text)
    capture = str(write(tmp_path / "in.pcap", mixed(8, 2)))
    assert main(["run", "tcp_ip", "-r", capture, "-f", str(tmp_path / "wrong.py")]) == 1
    assert "wrong.py: octets: 'often' is no access of a shared object" in capsys.readouterr().err


def declared(type: str) -> Shared:
    return shared(type, "all", "read_write", "zero", "of a test")


def test_bounds_of_local_objects() -> None:
    number, counts = declared("number"), declared("map")
    number.all().set(NUMBER_MOST)
    with pytest.raises(RefusedError):
        number.all().add(1)
    assert number.all().read() == NUMBER_MOST and number.refused == 1
    with pytest.raises(RefusedError):
        counts.all().map_add(1, NUMBER_MOST + 1)
    assert counts.all().map_read(1) is None


def test_arguments_beyond_the_bound_do_not_reach_a_store() -> None:
    """The client takes numbers of 64 bits, of which it would have the lower ones."""
    number, sent = declared("number"), list[int]()
    number.remote = lambda target, operation, one, other, wait, packet: sent.append(one)
    number.all().add(NUMBER_MOST)
    for beyond in (NUMBER_MOST + 1, -NUMBER_MOST - 1, 1 << 64):
        with pytest.raises(RefusedError):
            number.all().add(beyond)
    assert sent == [NUMBER_MOST] and number.refused == 3


def test_an_operation_of_another_type() -> None:
    with pytest.raises(TypeError, match="pop is no operation of a set"):
        declared("set").all().pop()
    with pytest.raises(TypeError, match="'queue' is no type"):
        declared("queue")
