"""Functions in Python: each that is decorated is called, and addresses have one type."""

import ipaddress
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, compile_stack
from sluice.engine.events import PythonFunction
from sluice.engine.functions import FunctionError, find_functions, has_functions, load_python, split_names
from sluice.ir.hook import Hook
from sluice.stacks.tcp_ip import tcp_ip
from tests.support.packets import A4, A6, TCP, UDP, eth, ip4, ip6, udp

HEAD = "from sluice.functions import at_end, event, on, on_batch, on_demand\nseen = []\n"
SAME_NAME = """
@on("udp", "packet")
def _(event):
    seen.append(1)

@on("udp", "packet")
def _(event):
    seen.append(2)

@at_end
def _():
    seen.append(3)
"""
LOOP = """
for number in (1, 2):
    @on("udp", "packet")
    def saw(event, number=number):
        seen.append(number)
"""
LAMBDAS = """
for number in (1, 2):
    on("udp", "packet")(lambda event, number=number: seen.append(number))
"""
METHODS = """
class Monitor:
    def __init__(self, number):
        self.number = number
        on("udp", "packet")(self.saw)

    def saw(self, event):
        seen.append(self.number)

Monitor(1), Monitor(2)
"""
STATIC = """
class Monitor:
    @staticmethod
    @on("udp", "packet")
    def saw(event):
        seen.append(1)

    @on("udp", "packet")
    @staticmethod
    def saw(event):
        seen.append(2)
"""
FACTORY = """
def make(number):
    @on("udp", "packet")
    def saw(event):
        seen.append(number)

make(1)
make(2)
"""
BATCHES = """
@on_batch("udp", "packet")
def _(events):
    seen.append(len(events))

@on_batch("udp", "packet")
def _(events):
    seen.append(len(events) + 1)
"""


@pytest.fixture(scope="module")
def compiled() -> CompiledStack:
    hook = frozenset({Hook("udp", "packet")})
    return compile_stack(tcp_ip(), (), hook, many=hook)


def load(folder: Path, text: str) -> tuple[PythonFunction, list[Any]]:
    path = folder / f"f{len(list(folder.iterdir()))}.py"
    path.write_text(HEAD + text)
    function = load_python(path)
    return function, function.endings[0].__globals__["seen"] if function.endings else []


@pytest.mark.parametrize("text", [SAME_NAME, LOOP, LAMBDAS, METHODS, STATIC, FACTORY, BATCHES])
def test_every_decorated_function_is_called(tmp_path: Path, compiled: CompiledStack, text: str) -> None:
    function, seen = load(tmp_path, text + "\n@at_end\ndef _():\n    seen.append(4)\n")
    with Box(compiled, python=[function]) as box:
        box.packet(eth(ip4(udp(1, 2), UDP, A4, A4)))
        box.finish()
    assert seen == [1, 2, *([3] if text == SAME_NAME else []), 4]


def test_a_function_of_two_events_is_called_for_each(tmp_path: Path, compiled: CompiledStack) -> None:
    function, _ = load(tmp_path, '@on("udp", "packet")\n@on("udp", "created")\ndef f(event): pass\n')
    assert [(layer, event) for layer, event, _ in function.handlers] == [("udp", "created"), ("udp", "packet")]


def test_functions_that_are_imported_decorated_are_called(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HEAD + SAME_NAME.replace("def _", "def one", 1).replace("def _", "def two", 1))
    (tmp_path / "main.py").write_text("from helper import one, two\n")
    function = load_python(tmp_path / "main.py")
    assert [call.__name__ for _, _, call in function.handlers] == ["one", "two"]
    assert has_functions(tmp_path / "main.py")


def test_two_events_of_one_name_are_refused(tmp_path: Path) -> None:
    text = '@event("udp", "packet")\ndef own(event): return 1\n' * 2 + '@on("udp", "own")\ndef f(event): pass\n'
    with pytest.raises(FunctionError, match=r"f0.py:3: the event 'own' has no name of its own"):
        load(tmp_path, text)


def test_a_list_of_functions(tmp_path: Path) -> None:
    (tmp_path / "a,b.py").write_text("")
    assert split_names("a.py,b.c,flow_log:rows=1,holes=2") == ["a.py", "b.c", "flow_log:rows=1,holes=2"]
    assert split_names("assemble") == ["assemble"] and split_names("flow_log:out=a,b") == ["flow_log:out=a,b"]
    assert split_names(f"{tmp_path}/a,b.py:x=1") == [f"{tmp_path}/a,b.py:x=1"]


def test_addresses_have_one_type_and_a_packed_value(compiled: CompiledStack) -> None:
    found: list[Any] = []
    columns: list[Any] = []
    function = PythonFunction("f", [("udp", "packet", found.append)], [], many=[("udp", "packet", columns.append)])
    sender, receiver = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"
    six, other = bytes(15) + b"\x01", bytes(15) + b"\x02"
    with Box(compiled, python=[function]) as box:
        box.packet(eth(ip4(udp(1, 2), UDP, sender, receiver)))
        box.packet(eth(ip4(udp(2, 1), UDP, receiver, sender)))
        box.packet(eth(ip6(udp(1, 2), UDP, six, other)))
        box.finish()
        assert [event.src for event in found] == [ipaddress.ip_address(x) for x in (sender, receiver, six)]
        assert [event.dst for event in found] == [ipaddress.ip_address(x) for x in (receiver, sender, other)]
        assert [event.src_packed for event in found] == [sender, receiver, six]
        assert [event.key["dst"] for event in found] == [event.dst for event in found]
        assert [x for many in columns for x in many.column("src")] == [event.src for event in found]
        assert [x for many in columns for x in many.column("dst_packed")] == [receiver, sender, other]
        with pytest.raises(AttributeError, match="sport, dst, dport, src_packed, dst_packed"):
            found[0].sport_packed  # noqa: B018
    assert TCP != UDP and len(A6) == 16


def test_a_function_and_one_that_includes_it_are_refused() -> None:
    """They are compiled as one unit, which has each definition once."""
    for names in ("flow_log,flowlog", "flowlog,tlslog,flow_log"):
        with pytest.raises(FunctionError, match=r"'flowlog' includes flow_log\.c, so that a box cannot have both"):
            find_functions([names])
