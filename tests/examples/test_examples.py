"""Every example does what its README says: the commands of its `expected.txt` print what stands there."""

import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.support.capture import pcap_packets

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/expected.txt"))


@dataclass
class Done:
    """What a command came to."""

    status: int
    out: str
    err: str


Command = Callable[[list[str]], Done]


@pytest.fixture
def sluice(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `sluice ARGUMENTS` at the root of the repository, in this process."""

    def command(arguments: list[str]) -> Done:
        monkeypatch.chdir(ROOT)
        capfd.readouterr()
        try:
            status = main(arguments)
        except SystemExit as left:  # how argparse ends
            status = left.code if isinstance(left.code, int) else 1
        out, err = capfd.readouterr()
        return Done(status, out, err)

    return command


def without_times(text: str) -> str:
    """A summary without how long it took."""
    return re.sub(r" in [\d.]+ m?s$", " in TIME", text, flags=re.MULTILINE)


def test_there_are_examples() -> None:
    assert (ROOT / "examples" / "first") in EXAMPLES


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_the_output_is_as_expected(folder: Path, sluice: Command) -> None:
    command, _, expected = (folder / "expected.txt").read_text().partition("\n")
    name, *arguments = shlex.split(command.removeprefix("$ "))
    assert name == "sluice"
    done = sluice(arguments)
    assert done.status == 0, done.err
    assert without_times(done.out) == without_times(expected)


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_the_readme_shows_that_output(folder: Path) -> None:
    shown = textwrap.indent((folder / "expected.txt").read_text().strip(), "    ")
    assert shown in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in (ROOT / "examples").glob("*/make_capture.py")), ids=lambda path: path.name
)
def test_the_capture_is_made_by_its_script(folder: Path) -> None:
    pytest.importorskip("scapy")
    script = folder / "make_capture.py"
    load = f"import runpy; packets = runpy.run_path({str(script)!r})['packets']()"
    code = f"{load}; print(b''.join(map(bytes, packets)).hex())"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert b"".join(pcap_packets(folder / "capture.pcap")).hex() == made


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("hello.header.station]", "hello.header.statoin]", "did you mean 'station'?"),
        ("== 4747)", "is 4747)", "Did you mean"),
        ("stack.udp >> stack.hello", "stack.udp >> stack.helo", "did you mean 'hello'?"),
        ("Callback(record)", "Callback(stack)", "Callback needs a layout"),
        ("highest = UInt(16)", "highest = UInt(0)", "at least one bit"),
        ("+ Callback(record)", "+ Callback(record", "was never closed"),
        ('@on("hello", "record")', '@on("hello", "recrd")', "did you mean 'record'?"),
    ],
)  # fmt: skip
def test_a_deliberate_mistake_is_told_in_a_few_lines(
    tmp_path: Path, sluice: Command, right: str, wrong: str, message: str
) -> None:
    text = (ROOT / "examples" / "first" / "hello.py").read_text()
    assert right in text
    path = tmp_path / "hello.py"
    path.write_text(text.replace(right, wrong))
    capture = str(ROOT / "examples" / "first" / "capture.pcap")
    done = sluice(["run", str(path), "-r", capture, "-f", str(path)])
    assert message in done.err
    assert "Traceback" not in done.err and len(done.err.splitlines()) <= 4
    if "recrd" not in wrong and "is 4747" not in wrong:  # those two are warnings: all else runs
        assert done.status == 1
        lines = zip(text.splitlines(), path.read_text().splitlines(), strict=True)
        changed = next(number for number, (before, after) in enumerate(lines, 1) if before != after)
        # an open parenthesis is told where it stands, not where it is missed
        assert f"hello.py:{changed}" in done.err or "never closed" in message
