"""What a description came to is kept under the content of the description, and taken for no other."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.engine import compiled_stack, program_cache
from sluice.engine.box import Box, CompiledStack, RunError, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.program_cache import content
from sluice.hooks.function import CFunction, Functions
from sluice.ir.hook import Hook
from sluice.lang import DescriptionWarning
from sluice.stacks.find import find_stack, stack_names
from tests.ir.descriptions import arp_stack
from tests.support.own_cache import own_cache

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "examples" / "first" / "capture.pcap"
DESCRIPTION = """
from sluice.lang import Bit, Connectionless, If, Assign, Stack, layout

class small(layout):
    kind = Bit(8)
    value = Bit(24)

class kept(layout):
    last = Bit(8)

p = Connectionless("p")
p.header = small
p.temp = kept
p.selector = [p.header.kind]
p.require(p.header.kind < 200, "kind")
p.prep = Assign(p.temp.last, p.header.value)
stack = Stack("s")
stack.p = p
"""


HOOKS = frozenset({Hook("p", "created")})
PYTHON = (
    Functions(python=HOOKS),
    Functions(many=HOOKS),
    Functions(demanded=(HOOKS,)),
    Functions(demanded=(HOOKS, HOOKS)),
    Functions(many=frozenset({Hook("p", "ended")})),
    Functions(demanded=(frozenset({Hook("p", "ended")}),)),
)
"""What functions in Python may want: events one by one, many at once, on demand."""


@pytest.fixture(scope="module", autouse=True)
def runtime() -> None:
    """The runtime is compiled once."""
    compile_stack(arp_stack())


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(own_cache(tmp_path / "cache")))


def describe(folder: Path, text: str = DESCRIPTION) -> Path:
    path = folder / "described.py"
    path.write_text(text)
    return path


def found(
    path: Path | str, functions: tuple[CFunction, ...] | Functions = (), passes: str = "all", option: str = ""
) -> str:
    functions = functions if isinstance(functions, Functions) else Functions(functions)
    made = content(find_stack(str(path)), functions, passes, frozenset([option]))
    assert made is not None
    return made


def made(path: Path | str) -> CompiledStack:
    return compile_stack(find_stack(str(path)), (), frozenset({Hook("*", "created")}))


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on nothing is built any more."""

    def refuse(*_: object) -> None:
        raise AssertionError("built again")

    return lambda: monkeypatch.setattr(compiled_stack, "build", refuse)


def test_the_second_time_nothing_is_built_and_all_is_the_same(no_build: Callable[[], None]) -> None:
    first = made("tcp_ip")
    no_build()
    second = made("tcp_ip")
    assert second.generated == first.generated and second.compiled.path == first.compiled.path
    assert second.program == first.program
    outcomes: list[dict[str, dict[str, int]]] = []
    for compiled in (first, second):
        with Box(compiled, Settings(seed=1)) as running:
            outcomes.append(running.run(CAPTURE).counters)
    assert outcomes[0] == outcomes[1] and outcomes[0]["tcp_over_ipv4"]["packets"] > 0


def test_asked_for_anew_it_is_built_anew(no_build: Callable[[], None]) -> None:
    made("tcp_ip")
    no_build()
    with pytest.raises(AssertionError, match="built again"):
        compile_stack(find_stack("tcp_ip"), (), frozenset({Hook("*", "created")}), fresh=True)


@pytest.mark.parametrize("name", stack_names())
def test_every_stack_of_ours_can_be_kept(name: str) -> None:
    assert found(name) == found(name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value = Bit(24)", "value = Bit(16)"),
        ("    value", "    other"),
        ("< 200", "< 201"),
        ("< 200", "<= 200"),
        ('"kind")', '"sort")'),
        ("[p.header.kind]", "[p.header.kind & 1]"),
        ('Stack("s")', 'Stack("s", depth=3)'),
        ("last = Bit(8)", "last = Bit(8, init=1)"),
        ("p.prep = Assign", "\np.prep = Assign"),  # another line: generated code names lines
        ("p.prep = Assign(p.temp.last, p.header.value)", "p.prep = If(p.header.value) >> Assign(p.temp.last, 1)"),
    ],
)
def test_another_description_has_another_content(tmp_path: Path, old: str, new: str) -> None:
    before = found(describe(tmp_path))
    assert before == found(describe(tmp_path))
    text = DESCRIPTION.replace(old, new).replace(
        "p.header.value", "p.header.other" if "other" in new else "p.header.value"
    )
    assert text != DESCRIPTION and found(describe(tmp_path, text)) != before


def test_functions_passes_and_options_count(tmp_path: Path) -> None:
    path = describe(tmp_path)
    text = "SLUICE_ON(p, created) { (void)data; }\n"
    contents = [
        found(path),
        found(path, passes="none"),
        found(path, option="checksums"),
        *(found(path, (read_c_function("f", text + more, "f.c"),)) for more in ("", "/* */\n")),
        *(found(path, python) for python in PYTHON),
    ]
    assert len(set(contents)) == len(contents)


def test_another_state_of_sluice_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module.py").write_text("1")
    contents: list[str] = []
    monkeypatch.setattr(program_cache, "SLUICE", tmp_path)
    for text in ("1", "22"):
        (tmp_path / "module.py").write_text(text)
        program_cache._state_of_sluice.cache_clear()  # pyright: ignore[reportPrivateUsage]
        contents.append(found("tcp_ip"))
    program_cache._state_of_sluice.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert contents[0] != contents[1]


def test_the_content_is_the_same_in_every_process() -> None:
    # sets of names have another order in each process
    program = (
        "from sluice.engine.functions import VENDOR, find_functions\n"
        "from tests.engine.test_program_cache import found\n"
        "names = ['flowlog', *(['httplog'] if VENDOR.is_dir() else [])]\n"
        "print(found('everything', tuple(find_functions(names).c)))"
    )
    contents = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(contents) == 1


def test_a_class_of_the_users_own_is_not_believed_by_its_name(tmp_path: Path) -> None:
    text = DESCRIPTION + "class Mine(type(stack)):\n    pass\n\nmine = Mine('m')\nmine.p = p\nstack = mine\n"
    stack = find_stack(str(describe(tmp_path, text)))
    assert content(stack, Functions(), "all", frozenset()) is None


def test_who_is_warned_is_warned_each_time(tmp_path: Path) -> None:
    text = DESCRIPTION.replace(
        'stack = Stack("s")', "p.header += If(p.header.kind == 300) >> small\nstack = Stack('s')"
    )
    path = describe(tmp_path, text)
    for _ in range(2):
        with pytest.warns(DescriptionWarning):
            made(path)
    assert not list((tmp_path / "cache").glob("*.stack"))


def test_a_file_that_is_cut_is_made_again(tmp_path: Path) -> None:
    path = describe(tmp_path)
    first = made(path)
    (file,) = (tmp_path / "cache").glob("*.stack")
    whole = file.read_bytes()
    for cut in (b"", whole[: len(whole) // 2], b"nonsense"):
        file.write_bytes(cut)
        assert made(path).generated == first.generated
        assert file.read_bytes() == whole


def test_a_program_that_is_refused_is_not_kept(tmp_path: Path) -> None:
    def refuse(_: object) -> None:
        raise RunError("no")

    with pytest.raises(RunError):
        compile_stack(find_stack(str(describe(tmp_path))), check=refuse)
    assert not list((tmp_path / "cache").glob("*.stack"))


@pytest.mark.parametrize("command", [["flows"], ["run", "tcp_ip"]])
def test_commands_keep_what_they_make(tmp_path: Path, command: list[str]) -> None:
    out = ["-o", os.devnull] if command == ["flows"] else []
    stack = ["--stack", "tcp_ip"] if command == ["flows"] else []
    subprocess.run(
        [sys.executable, "-m", "sluice", *command, *stack, "-r", str(CAPTURE), *out],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    assert len(list((tmp_path / "cache").glob("tcp_ip-*.stack"))) == 1
