"""Finding things: sluice functions, sluice stacks, shell completion, and pages for man."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.cli.main import COMMANDS
from sluice.engine.functions import ready_functions
from sluice.stacks.find import stack_names
from tests.cli.conftest import Command

NAMES = list(COMMANDS)


def test_functions_and_stacks_have_one_line_each(sluice: Command) -> None:
    for command, names in (("functions", ready_functions()), ("stacks", stack_names())):
        lines = sluice(command).out.splitlines()
        assert [line.split()[0] for line in lines] == names
        assert all(len(line.split()) > 3 for line in lines), lines
        assert [item["name"] for item in json.loads(sluice(command, "--json").out)] == names


def test_a_function_is_described_with_its_parameters(sluice: Command) -> None:
    text = sluice("functions", "sshlog").out
    assert text.startswith("sshlog: Writes a row for each connection of SSH") and "connections=N" in text
    facts = json.loads(sluice("functions", "sshlog", "--json").out)
    assert facts[0]["log"] == "ssh" and "hassh" in facts[0]["columns"]


def test_an_unknown_function_suggests_the_nearest(mistake: Command) -> None:
    assert "did you mean 'sshlog'?" in mistake("functions", "sshlg").err


CASES = {
    "sluice fl": ["flows"],
    "sluice run tc": ["tcp_ip"],
    "sluice run tcp_ip -f sshl": ["sshlog"],
    "sluice flows --rotate-s": ["--rotate-size"],
    "sluice flows --format parq": ["parquet"],
    "sluice functions nt": ["ntplog"],
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("line", CASES)
def test_bash_completes(line: str, sluice: Command, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(sluice("completion", "bash").out)
    words = line.split(" ")
    code = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _sluice; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", f"source ./script; {code}"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout.split(), done.stderr) == (CASES[line], "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_all_commands(shell: str, sluice: Command) -> None:
    text = sluice("completion", shell).out
    assert all(name in text for name in NAMES)
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=text, text=True, capture_output=True).returncode == 0


def test_pages_for_man(sluice: Command, tmp_path: Path) -> None:
    written = sluice("help", "--man", str(tmp_path)).out.split()
    assert {Path(path).name for path in written} == {"sluice.1", *(f"sluice-{name}.1" for name in NAMES)}
    text = (tmp_path / "sluice-flows.1").read_text()
    assert text.startswith('.TH "SLUICE-FLOWS" "1"') and "\\fB\\-\\-rotate\\-size\\fR \\fISIZE\\fR" in text
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *written], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
