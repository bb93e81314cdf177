"""sluice new: what it writes runs at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Command
from tests.support.budget import in_matrix


@pytest.fixture
def made(sluice: Command, tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    done = sluice("new", "chat", "-o", folder)
    assert done.status == 0 and f"sluice run {folder}/stack.py" in done.out
    return folder


def test_it_runs_at_once(sluice: Command, made: Path) -> None:
    stack = made / "stack.py"
    done = sluice("run", stack, "-r", made / "capture.pcap", "-f", stack, "--checksums")
    assert done.status == 0 and done.err == ""
    assert done.out.startswith("session 7: 2 messages, 10 bytes\n5 packets")


def test_its_test_passes_and_can_fail(made: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command in (["test_chat.py"], ["-m", "pytest", "-q", "-p", "no:cacheprovider"]):
        done = subprocess.run([sys.executable, *command], cwd=made, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    protocol = made / "chat_protocol.py"
    protocol.write_text(protocol.read_text().replace("kind == BYE", "kind == DATA"))
    assert subprocess.run([sys.executable, "test_chat.py"], cwd=made, env=environment, capture_output=True).returncode


@pytest.mark.parametrize(
    ("whole", "over"),
    [("", "udp"), ("", "tcp")]
    + [in_matrix(stack, over) for stack in ("tcp_ip", "everything") for over in ("udp", "tcp")],
)
def test_over_tcp_or_udp_the_test_passes_on_any_stack(sluice: Command, tmp_path: Path, over: str, whole: str) -> None:
    """The starting point runs at once, and its test passes if its stack extends another one."""
    folder = tmp_path / over
    assert sluice("new", "chat", "--over", over, "-o", folder).status == 0
    stack = folder / "stack.py"
    if whole:
        text = stack.read_text()
        start, end = text.index('stack = Stack("chat")'), text.index("stack.chat =")
        text = text[:start] + f"stack = {whole}()\n" + text[end:]
        text = text.replace("from sluice.lang", f"from sluice.stacks.{whole} import {whole}\nfrom sluice.lang", 1)
        steps = [
            line for line in text.splitlines() if not line.startswith(("stack += (stack.eth", "stack += (stack.ip"))
        ]
        stack.write_text("\n".join(steps) + "\n")
    done = sluice("run", stack, "-r", folder / "capture.pcap", "-f", stack, "--checksums")
    assert done.status == 0 and done.err == "" and done.out.startswith("session 7: 2 messages, 10 bytes\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    tested = subprocess.run([sys.executable, folder / "test_chat.py"], env=environment, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr


def test_all_commands_take_what_it_writes(sluice: Command, made: Path, tmp_path: Path) -> None:
    stack = made / "stack.py"
    assert "OPEN (start), GONE (accept)" in sluice("show", stack).out
    assert "goodbye" in sluice("explain", stack, "--layer", "chat").out
    assert sluice("build", stack, "-o", tmp_path / "c").status == 0
    assert sluice("bench", stack, "-r", made / "capture.pcap", "--repeat", "1").status == 0


def test_what_it_writes_is_clean(made: Path) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("no ruff")
    rules = ["--isolated", "--line-length", "110", "--select", "E,F,W,I"]
    done = subprocess.run([ruff, "check", *rules, str(made)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    done = subprocess.run([ruff, "format", "--check", "--isolated", "--line-length", "110", str(made)], text=True)
    assert done.returncode == 0


def test_json_and_the_default_folder(sluice: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = json.loads(sluice("new", "chat", "--json").out)
    assert found["folder"] == "chat"
    assert sorted(found["files"]) == sorted(path.name for path in (tmp_path / "chat").iterdir())


@pytest.mark.parametrize("name", ["Chat", "1chat", "my-chat", "class", "udp", "layers", ""])
def test_names_that_cannot_be(mistake: Command, tmp_path: Path, name: str) -> None:
    mistake("new", name, "-o", tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_word_of_python_is_told_as_such(mistake: Command, tmp_path: Path) -> None:
    assert "'class' cannot name a protocol: it is a word of Python" in mistake("new", "class").err


def test_nothing_is_overwritten(mistake: Command, made: Path, tmp_path: Path) -> None:
    before = (made / "stack.py").read_text()
    assert "is there already" in mistake("new", "other", "-o", made).err
    assert (made / "stack.py").read_text() == before
    (tmp_path / "file").write_text("")
    assert "is there already" in mistake("new", "chat", "-o", tmp_path / "file").err
    assert str(tmp_path / "file") in mistake("new", "chat", "-o", tmp_path / "file" / "x").err
