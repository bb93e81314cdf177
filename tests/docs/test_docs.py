"""The manual is true: its examples run, its commands print what it shows, its links lead somewhere.

In docs/*.md and README.md:
- ```python: executed, together with the other blocks of its `##` section; stacks and parsers in it are built.
- ```python refused: must be refused, with the message of the ```text block after it.
- ```c: a function, compiled with tcp_ip and run.
- ```console: lines `$ sluice ...` are run, one after the other, in one folder that has `examples`; what is printed must
  be what is shown. `...` stands for anything in a line, or for any lines.
"""

import ast
import contextlib
import importlib.util
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sluice.cli import bench
from sluice.cli.common.running import compile_for
from sluice.cli.main import main, parser
from sluice.codegen.stack import generate
from sluice.hooks.function import Functions
from sluice.lang import DescriptionError, Stack
from sluice.lang.events import BUILT_IN
from sluice.lang.prototype import Prototype
from sluice.lower.build import build
from sluice.passes.pipeline import run as run_passes

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTES = ROOT / "bench" / "notes.md"
PROTOCOLS = sorted((ROOT / "docs" / "protocols").glob("*.md"))
CAPTURE = ROOT / "examples" / "first" / "capture.pcap"


@dataclass
class Code:
    """A fenced block: what it is, its text, the line that it begins in, and the section that it stands in."""

    page: Path
    kind: str
    text: str
    line: int
    section: str


def blocks(page: Path) -> Iterator[Code]:
    kind, section, begin = "", "", 0
    text: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if kind:
            if line == "```":
                yield Code(page, kind, "\n".join(text) + "\n", begin + 1, section)
                kind = ""
            else:
                text.append(line)
        elif line.startswith("```"):
            kind, begin, text = line[3:] or "plain", number, []
        elif line.startswith("## "):
            section = line[3:]


ALL = [block for page in PAGES for block in blocks(page)]


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(b, id=f"{b.page.name}:{b.line}") for b in ALL if b.kind == kind]


def sections() -> list[Any]:
    found: dict[tuple[Path, str], list[Code]] = {}
    for block in ALL:
        if block.kind == "python":
            found.setdefault((block.page, block.section), []).append(block)
    return [pytest.param(value, id=f"{page.name}: {section}") for (page, section), value in found.items()]


def execute(block: Code, names: dict[str, Any]) -> None:
    """Run a block so that errors name the page and its line."""
    exec(compile("\n" * (block.line - 1) + block.text, str(block.page), "exec"), names)


def prelude() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example"}
    exec("from sluice.lang import *", names)
    return names


@pytest.mark.parametrize("section", sections())
def test_descriptions_are_accepted(section: list[Code]) -> None:
    names = prelude()
    for block in section:
        execute(block, names)
    stacks = [value for value in names.values() if isinstance(value, Stack)]
    used = [layer.prototype for stack in stacks for layer in stack.layers.values()]
    for value in list(names.values()):
        if (
            callable(value)
            and getattr(value, "__name__", "").endswith("_parser")
            and not value.__module__.startswith("sluice")
        ):
            value = value()
        if not isinstance(value, Prototype) or value.framing is not None:
            continue  # messages need the stream that a stack gives them
        if not any(value is known for known in used):
            stacks.append(_over_addresses(value))
    for stack in stacks:
        assert generate(run_passes(build(stack)), Functions()).source


def _over_addresses(prototype: Prototype) -> Stack:
    """A stack for a parser that stands alone: over a layer that offers src and dst."""
    names = prelude()
    exec(
        "class low(layout):\n    src = Bit(32)\n    dst = Bit(32)\n"
        "below = Connectionless('below')\nbelow.header = low\nbelow.offer(src=below.header.src, dst=below.header.dst)",
        names,
    )
    stack = Stack("alone")
    stack.below, stack.it = names["below"], prototype
    stack += (stack.below >> stack.it) + names["Pred"](1)
    return stack


REFUSED = [(block, ALL[n + 1]) for n, block in enumerate(ALL) if block.kind == "python refused"]


@pytest.mark.parametrize("pair", [pytest.param(pair, id=f"line {pair[0].line}") for pair in REFUSED])
def test_mistakes_are_told_as_shown(pair: tuple[Code, Code]) -> None:
    block, shown = pair
    with pytest.raises(DescriptionError) as refused:
        execute(block, prelude())
    told = re.sub(rf"^.*{re.escape(block.page.name)}:\d+", f"{block.page.name}:LINE", str(refused.value))
    assert told == shown.text.rstrip()


def functions() -> list[Any]:
    """The functions in C of each page."""
    found: dict[Path, list[Code]] = {}
    for block in ALL:
        if block.kind == "c" and "native.h" not in block.text:
            found.setdefault(block.page, []).append(block)
    return [pytest.param(value, id=page.name) for page, value in found.items()]


@pytest.mark.parametrize("page", functions())
def test_c_functions_compile_and_run(page: list[Code], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In one box, as a stack takes long to compile: they have the names of their lines."""
    command = ["run", "tcp_ip", "-r", str(CAPTURE)]
    for block in page:
        path = tmp_path / f"line_{block.line}.c"
        path.write_text(block.text)
        command += ["-f", str(path)]
    assert main(command) == 0, capfd.readouterr().err


def consoles() -> list[Any]:
    """The console blocks of each page, in order: they share a folder."""
    found: dict[Path, list[Code]] = {}
    for block in ALL:
        if block.kind == "console" and block.page.name != "own-protocol.md":  # test_own_protocol.py does that one
            found.setdefault(block.page, []).append(block)
    return [pytest.param(value, id=page.name) for page, value in found.items()]


@pytest.fixture
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sluice bench` takes what is cached, which it compiles otherwise to measure that time."""
    monkeypatch.setattr(bench, "compile_for", lambda *given, fresh: compile_for(*given))


@pytest.mark.usefixtures("compiled_once")
@pytest.mark.parametrize("page", consoles())
def test_commands_print_what_is_shown(
    page: list[Code], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for block in page:
        for command, shown in commands(block.text):
            capfd.readouterr()
            name, *arguments = shlex.split(command, comments=True)
            assert name == "sluice"
            with contextlib.suppress(SystemExit):
                main(arguments)
            out, err = capfd.readouterr()
            assert matches(shown, out + err), f"{block.page.name}:{block.line}: {command}\n{out}{err}"


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Every command of a block and what it is said to print."""
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = piece.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = command[:-1] + more
        yield command, shown


def matches(shown: str, printed: str) -> bool:
    """Whether a text is as shown, but for times, lines `...`, and where it ends."""
    lines: list[str] = []
    for line in settled(shown):
        inside = r".*".join(re.escape(part) for part in line.split("..."))
        lines.append(r"(?:.*\n)*?.*" if line == "..." else inside)
    pattern = "\n".join(lines)
    return re.fullmatch(pattern, "\n".join(settled(printed))) is not None


def settled(text: str) -> list[str]:
    """Lines without how long things took and where the machine keeps its files."""
    text = re.sub(r"\bin [\d.]+ m?s\b", "in TIME", text)
    text = text.replace(str(ROOT) + "/", "")
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.mark.parametrize("page", [*PAGES, *PROTOCOLS, NOTES], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}, target


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in PAGES[1:]:
        assert page.name == "index.md" or f"({page.name})" in index


def test_every_option_of_every_command_is_described() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    shared = text.split("\n## ")[0] + section_of(text, "options")
    choices = next(action.choices for action in parser()._actions if action.choices)  # pyright: ignore[reportPrivateUsage]
    assert isinstance(choices, dict)
    for name, command in choices.items():
        own = section_of(text, name)
        for action in command._actions:
            for option in action.option_strings[-1:]:
                if option != "--help":
                    assert f"`{option}" in own + shared, f"{name}: {option}"


def section_of(text: str, name: str) -> str:
    found = re.search(rf"^## {name}.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    assert found is not None, name
    return found[0]


@pytest.mark.usefixtures("compiled_once")
def test_the_figures_of_bench_and_the_keys_of_flows_are_described() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert (
            main(["bench", str(ROOT / "examples/first/hello.py"), "-r", str(CAPTURE), "--repeat", "1", "--json"]) == 0
        )
    import json

    for key in json.loads(out.getvalue()):
        assert f"`{key}`" in section_of(text, "bench"), key


def test_the_first_example_of_the_language_is_figure_2_as_it_is_tested() -> None:
    figure = (ROOT / "tests" / "paper" / "programs" / "figure2.py").read_text().rstrip()
    assert figure in (ROOT / "docs" / "language.md").read_text()


def test_the_readme_shows_the_first_example_as_it_is() -> None:
    text = (ROOT / "README.md").read_text()
    first = ROOT / "examples" / "first"
    assert (first / "hello.py").read_text().rstrip() in text
    assert (first / "expected.txt").read_text().rstrip() in text


def test_the_readme_shows_its_mistake_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "examples" / "first"
    folder.mkdir(parents=True)
    text = (ROOT / "examples" / "first" / "hello.py").read_text()
    (folder / "hello.py").write_text(text.replace("[hello.header.station]", "[hello.header.statoin]"))
    monkeypatch.chdir(tmp_path)
    assert main(["run", "examples/first/hello.py", "-r", str(CAPTURE)]) == 1
    told = capfd.readouterr().err.strip()
    assert told in (ROOT / "README.md").read_text()


def test_the_readme_lists_every_command() -> None:
    text = (ROOT / "README.md").read_text()
    choices = next(action.choices for action in parser()._actions if action.choices)  # pyright: ignore[reportPrivateUsage]
    assert isinstance(choices, dict)
    assert {f"`sluice {name} " in text for name in choices} == {True}


def script(name: str) -> ModuleType:
    if str(ROOT / "scripts") not in sys.path:
        sys.path.append(str(ROOT / "scripts"))  # where a script finds those beside it when it is run
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_comes_from_the_code_is_up_to_date() -> None:
    manual = script("manual")
    text = (ROOT / "docs" / "ir.md").read_text()
    advice = "run .venv/bin/python scripts/manual.py"
    assert (ROOT / "docs" / "protocols.md").read_text() == manual.protocols_page(), advice
    assert text == manual.ir_page(text), advice
    assert "`LoadBytes`" in text and "`constants`" in text


def test_the_reference_of_c_functions_is_up_to_date() -> None:
    """Every built-in event, and every declaration that a source may contain, stands in it. SLUICE_NEEDS is
    written by the headers."""
    text = (ROOT / "docs" / "c-reference.md").read_text()
    assert text == script("c_reference").filled(text), "run .venv/bin/python scripts/manual.py"
    assert all(f"| `{event}` |" in text for event in BUILT_IN)
    declared = (ROOT / "sluice" / "runtime" / "function" / "declarations.h").read_text()
    names = set(re.findall(r"^#define (SLUICE_[A-Z_]+)\b", declared, re.MULTILINE)) - {
        "SLUICE_DECLARED",
        "SLUICE_NEEDS",
    }
    assert not {name for name in names if name not in text}


def test_every_protocol_has_a_page_that_is_up_to_date() -> None:
    """No page is missing, left over or older than the file that it is made from; the same holds for the pictures."""
    made = script("protocol_pages").pages()
    folder = ROOT / "docs" / "protocols"
    assert {path.name for path in folder.iterdir()} == set(made)
    old = [name for name, text in made.items() if (folder / name).read_text() != text]
    assert not old, "run .venv/bin/python scripts/manual.py"


def test_a_page_is_made_from_the_parsers_as_they_are_built() -> None:
    made = script("protocol_pages").pages()
    sources = {path.stem for path in (ROOT / "sluice" / "protocols").glob("*.py")} - {"__init__"}
    assert {name.removesuffix(".md") for name in made if name.endswith(".md")} == sources
    tcp = made["tcp.md"]
    for line in (
        "# tcp\n\nTCP (RFC 9293)",
        "![State machine of tcp](tcp.svg)",
        "| `policy` | `'first'` |",
        "| `hdr_len` | 4 |",
        "`tcp_mss`, if `hdr_len > 5`, any of the parts while `cursor < header.hdr_len << 2`",
        "| `mss_type` | 8 | always 2 |",
        "| header length | `header.hdr_len >= 5` |",
        "Of a layer below: `src`, `dst`.",
        "The two sides: `below.src`, `header.sport` and `below.dst`, `header.dport`.",
        "Ends after 300 s without a packet.",
        "| `hs1` | `CLOSED` | `SYN_SENT` |",
        "| `ipv4` | `tcp` | `header.protocol == 6` |",
    ):
        assert line in tcp, line
    assert "ESTABLISHED" in made["tcp.svg"] and "arp.svg" not in made
    assert "| `sources` | bytes |" in made["igmp.md"] and "A function gets `igmp_membership`" in made["igmp.md"]


@pytest.mark.parametrize("path", sorted((ROOT / "sluice" / "protocols").glob("[!_]*.py")), ids=lambda path: path.stem)
def test_a_protocol_opens_with_its_standard_and_its_limits(path: Path) -> None:
    opening = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert re.search(r"RFC \d+|IEEE 802|ITU-T|3GPP TS|draft-|LINKTYPE_", opening), "what standard says so?"
    assert "Limits:" in opening, "what does it leave out?"
