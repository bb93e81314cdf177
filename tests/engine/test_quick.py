"""The quick edit loop: an edited function costs its own compilation, and a run comes to the same."""

import os
from pathlib import Path

import pytest

from sluice.engine import compiler as engine
from sluice.engine import quick
from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.compiler import CompilerError
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack
from tests.support.own_cache import own_cache

ROOT = Path(__file__).resolve().parents[2]
STACK, CAPTURE = ROOT / "examples" / "first" / "hello.py", ROOT / "examples" / "first" / "capture.pcap"
FUNCTION = """#include "sluice.h"
SLUICE_COUNTER(seen, "packets")
SLUICE_COUNTER(largest, "of a connection")
struct own { uint64_t packets; };
SLUICE_STATE(struct own)
struct all { uint64_t packets; };
SLUICE_WORKER(struct all)
SLUICE_OPEN { (void)options; SLUICE_WORKER_OF(box)->packets = 100; return 0; }
SLUICE_CLOSE { SLUICE_COUNTER_OF(box, seen) = SLUICE_WORKER_OF(box)->packets; }
SLUICE_ON(udp, packet) {
    (void)data;
    struct own *own = SLUICE_STATE_OF(event);
    own->packets += 1;
    SLUICE_WORKER_OF(event->box)->packets += 1;
    if (own->packets > SLUICE_COUNTER_OF(event->box, largest))
        SLUICE_COUNTER_OF(event->box, largest) = own->packets;
}
"""


@pytest.fixture(scope="module", autouse=True)
def runtime() -> None:
    """The runtime is compiled once, for each of the two ways to compile."""
    for quickly in (lambda: None, None):
        compile_stack(find_stack(str(STACK)), quick=quickly)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(own_cache(tmp_path / "cache")))


def run(path: Path, is_quick: bool = True) -> tuple[dict[str, int], dict[str, dict[str, int]], int]:
    """Reports and counters of a run, and how often the stack itself was made."""
    made: list[int] = []
    wanted = find_functions([str(path)])
    told = (lambda: made.append(1)) if is_quick else None
    compiled = compile_stack(find_stack(str(STACK)), tuple(wanted.c), quick=told)
    with Box(compiled, Settings(seed=1), function_options=wanted.options) as box:
        outcome = box.run(CAPTURE)
    return outcome.reports, outcome.counters, len(made)


def test_an_edit_compiles_the_function_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.c"
    path.write_text(FUNCTION)
    reports, counters, made = run(path)
    assert made == 1 and reports["seen"] == 112
    assert (reports, counters) == run(path, is_quick=False)[:2]

    def refuse(*_: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(quick, "build", refuse)
    commands: list[list[str]] = []
    call = engine._call  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        engine, "_call", lambda generated, command: (commands.append(command), call(generated, command))[1]
    )  # type: ignore[misc]
    path.write_text(FUNCTION.replace("packets += 1;", "packets += 2;").replace("= 100", "= 50"))
    reports, _, made = run(path)
    assert made == 0 and reports["seen"] == 50 + 24
    assert [os.path.basename(command[command.index("-c") + 1]) for command in commands if "-c" in command] == ["1_f.c"]
    commands.clear()
    path.write_text(FUNCTION)
    assert run(path)[0]["seen"] == 112 and commands == []  # as before the edit


def test_a_type_of_another_size_compiles_the_stack_again(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(FUNCTION)
    run(path)
    path.write_text(
        FUNCTION.replace("struct own { uint64_t packets; }", "struct own { char more[64]; uint64_t packets; }")
    )
    reports, _, made = run(path)
    assert made == 1 and reports["seen"] == 112
    assert run(path)[2] == 0


def test_another_subscription_makes_another_stack(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(FUNCTION)
    run(path)
    path.write_text(
        FUNCTION + "SLUICE_ON(udp, created) { (void)data; SLUICE_WORKER_OF(event->box)->packets += 1000; }\n"
    )
    reports, _, made = run(path)
    assert made == 1 and reports["seen"] == 3112


def test_a_mistake_names_the_line_of_the_function(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(FUNCTION.replace("(void)data;\n    struct", "(void)date;\n    struct"))
    with pytest.raises(CompilerError, match=r"f\.c:11:"):
        run(path)
