"""What functions let their users set, and what they count: declared in C and in Python, and told by --help."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.cli.main import main
from sluice.engine.box import Box, CompiledStack, RunError, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.functions import FunctionError, find_functions, load_python
from sluice.functions import parameter
from sluice.hooks.parameter import ParameterError, Value
from sluice.hooks.parameter_text import read_parameters
from sluice.hooks.subscription import HookError
from tests.cli.conftest import SMALL
from tests.support.stacks import small_ip

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "examples" / "first" / "capture.pcap"

UDP_FLOWS = 3
TELLING = """#include "sluice.h"

SLUICE_PARAMETER(name, text, "who, says", "what is said")
SLUICE_PARAMETER(times, number, 0x10, "how "
                 "often")
SLUICE_PARAMETER(wait, seconds, 2.5, "between them")
SLUICE_PARAMETER(quiet, flag, no, "nothing is said")
SLUICE_ON(tcp, created) { }
SLUICE_CLOSE {
    const char *name = SLUICE_PARAMETER_OF(box, name);
    uint64_t hash = 0;
    for (const char *at = name; *at; at++)
        hash = hash * 31 + (unsigned char)*at;
    sl_report(box, "name", hash);
    sl_report(box, "times", SLUICE_PARAMETER_OF(box, times));
    uint64_t bits;
    memcpy(&bits, &SLUICE_PARAMETER_OF(box, wait), sizeof bits);
    sl_report(box, "wait", bits);
    sl_report(box, "quiet", SLUICE_PARAMETER_OF(box, quiet));
}
"""
FUNCTION = read_c_function("telling", TELLING, "telling.c")


@cache
def telling() -> CompiledStack:
    """TCP with a function that reports what it was given."""
    return compile_stack(small_ip(), (FUNCTION,))


def told(given: str) -> dict[str, int]:
    """What the compiled function makes of it."""
    with Box(telling(), Settings(max_instances=1 << 8, memory=1 << 20), [], [given]) as box:
        box.finish()
        return box.reports()


def reported(values: dict[str, Value]) -> dict[str, int]:
    """The same of what Python made of it."""
    hashed = 0
    for byte in str(values["name"]).encode():
        hashed = (hashed * 31 + byte) & (1 << 64) - 1
    (bits,) = struct.unpack("<Q", struct.pack("<d", float(values["wait"])))
    numbers = {name: int(values[name]) for name in ("times", "quiet")}
    return {"name": hashed, "wait": bits, **numbers}


NAMES = ("name", "times", "wait", "quiet", "nam", "quietly", "")
VALUES = (
    "yes",
    "no",
    "7",
    "0x1f",
    "1.25",
    "a,b",
    "x,quiet",
    "name",
    "=",
    "",
    "18446744073709551616",
    "-1",
    "1e3",
    "0x",
)
PARTS = st.builds(
    lambda name, mark, value: name + mark + value,
    st.sampled_from(NAMES),
    st.sampled_from(("=", "")),
    st.sampled_from(VALUES),
)


@settings(deadline=None)  # the first one compiles
@given(st.lists(PARTS, max_size=4).map(",".join))
@example("name=a,b,times=3,quiet,wait=0.5")
@example("quiet=no,name=,quiet")
@example("times=18446744073709551615")
@example("times=18446744073709551616")
@example("times=010")
@example("times=0x0x1")
@example("wait=1e3")
@example("wait=1.")
@example("wait=.5")
@example("quiet,nam=yes")
def test_c_reads_what_python_reads(given: str) -> None:
    """A comma ends a value only where a parameter's name follows; what is wrong is refused by both."""
    try:
        expected = reported(read_parameters(FUNCTION.parameters, given))
    except ParameterError:
        with pytest.raises(RunError, match="a function refused"):
            told(given)
    else:
        assert told(given) == expected


def test_what_is_declared() -> None:
    found = [(item.name, item.kind, item.value, item.help) for item in FUNCTION.parameters]
    assert found == [
        ("name", "text", "who, says", "what is said"),
        ("times", "number", "0x10", "how often"),
        ("wait", "seconds", "2.5", "between them"),
        ("quiet", "flag", "no", "nothing is said"),
    ]
    assert told("") == reported({"name": "who, says", "times": 16, "wait": 2.5, "quiet": False})


@pytest.mark.parametrize(
    "line, says",
    [
        (
            'SLUICE_PARAMETER(a, numbr, 1, "x")',
            "'numbr' is no kind of parameter: it is one of text, number,",
        ),
        ('SLUICE_PARAMETER(a, number, -1, "x")', "parameter 'a' is a number from 0 on, not '- 1'"),
        ('SLUICE_PARAMETER(a, number, many, "x")', "parameter 'a' is a number from 0 on, not 'many'"),
        ('SLUICE_PARAMETER(a, flag, 1, "x")', "parameter 'a' is yes or no, not '1'"),
        ('SLUICE_PARAMETER(default, flag, no, "x")', "'default' is a word of C"),
        ("SLUICE_PARAMETER(a, flag, no)", " arguments "),
        ('SLUICE_PARAMETER(a, flag, no, "x")\nSLUICE_PARAMETER(a, flag, no, "x")', "a parameter 'a' already"),
    ],
)
def test_what_cannot_be_declared(line: str, says: str) -> None:
    """Told with its line; where arguments are missing, in the words of the C compiler."""
    text = f"SLUICE_ON(tcp, data) {{ }}\n{line}\n"
    with pytest.raises(HookError, match=r"^mine.c:[23]: ") as caught:
        read_c_function("mine", text, "mine.c")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "given, says",
    [
        ("rowz=3", "flow_log: there is no parameter 'rowz': did you mean 'rows'?"),
        ("rows=x", "flow_log: parameter 'rows' is a number from 0 on, not 'x'"),
        ("rows", "flow_log: parameter 'rows' is given as rows=N"),
    ],
)
def test_what_cannot_be_given(given: str, says: str) -> None:
    with pytest.raises(FunctionError) as caught:
        find_functions([f"flow_log:{given}"])
    assert str(caught.value).startswith(says)


PYTHON = """
from sluice.functions import on, at_end, counter, parameter

port = parameter(80, "whose bytes are counted")
who = parameter("nobody", "who counts them")
loud = parameter(False, "say it loudly")
after = parameter(0.5, "seconds before it is said")
total = 0
seen = counter("events that were seen")


@on("udp", "data")
@on("tcp", "data")
def count(event):
    global total
    seen.add()
    total += len(event.bytes) * (port in (event.sport, event.dport))


@at_end
def say():
    print(who, total, loud, after)
"""


def test_a_function_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "count.py"
    path.write_text(PYTHON)
    for options, says in (("", "nobody 0 False 0.5"), (":port=4747,who=a,b,loud,after=2", "a,b 154 True 2.0")):
        path.write_text(PYTHON + f"# {says}\n")
        assert main(["run", str(SMALL), "-r", str(CAPTURE), "-f", f"{path}{options}"]) == 0
        assert capsys.readouterr().out.startswith(says.split()[0])
    with pytest.raises(FunctionError, match="there is no parameter 'prt': did you mean 'port'"):
        load_python(path, "prt=1")


COUNTING = """#include "sluice.h"
SLUICE_COUNTER(began, "connections that "
               "began")
SLUICE_COUNTER(others, "nothing")
SLUICE_ON(tcp, created) { SLUICE_COUNTER_OF(event->box, began)++; }
SLUICE_ON(udp, created) { SLUICE_COUNTER_OF(event->box, began) += 10; }
"""


def test_what_functions_count_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example has one connection of TCP and three conversations of UDP."""
    in_c, in_python = tmp_path / "counting.c", tmp_path / "count.py"
    in_c.write_text(COUNTING)
    in_python.write_text(PYTHON)
    for _ in range(2):  # each run counts from 0
        command = ["run", str(SMALL), "-r", str(CAPTURE), "-f", str(in_c), "-f", f"{in_python}:who=x", "--json"]
        assert main(command) == 0
        out = capsys.readouterr().out
        reports = json.loads(out[out.index("{") :])["reports"]
        assert reports == {"began": UDP_FLOWS * 10 + 1, "others": 0, "seen": reports["seen"]} and reports["seen"] > 0


@pytest.mark.parametrize(
    "line, says",
    [
        ("SLUICE_COUNTER(a)", " arguments "),
        ('SLUICE_COUNTER(a, "x")\nSLUICE_COUNTER(a, "x")', "a counter 'a' already"),
    ],
)
def test_what_cannot_be_counted(line: str, says: str) -> None:
    with pytest.raises(HookError, match=r"^mine.c:[23]: ") as caught:
        read_c_function("mine", f"SLUICE_ON(tcp, data) {{ }}\n{line}\n", "mine.c")
    assert says in str(caught.value)


def test_a_parameter_that_is_none() -> None:
    for value in (-1, None, [], -0.5):
        with pytest.raises(TypeError, match="a parameter is a text, a number from 0 on"):
            parameter(value, "x")  # type: ignore[type-var]


@pytest.mark.parametrize("command", ["run", "bench", "build", "explain"])
def test_help_tells_them(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all functions that stand before --help: ready ones, in C, in Python."""
    in_c, in_python = tmp_path / "telling.c", tmp_path / "count.py"
    in_c.write_text(TELLING)
    in_python.write_text(PYTHON)
    with pytest.raises(SystemExit) as caught:
        main([command, "-f", "flow_log", "-f", str(in_c), "-f", str(in_python), "-f", "none", "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: sluice {command}")
    for line in (
        "  holes=N      gaps that one row lists at most; the others are counted (default 65536)",
        "  times=N       how often (default 0x10)",
        "  quiet         nothing is said",
        "  after=SECONDS  seconds before it is said (default 0.5)",
        "none: has no parameters",
        "  seen  events that were seen",
    ):
        assert line in out.splitlines()


def test_help_of_no_function(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "-f", "flow_lg", "--help"])
    assert caught.value.code == 2 and "did you mean 'flow_log'?" in capsys.readouterr().err
