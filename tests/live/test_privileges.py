"""A box gives up its rights once its interfaces are open, and becomes another user."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.live.wire import Inline, Passive, Wire, ping, why_no_wire

pytestmark = [pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire()), pytest.mark.root]
STACK = "from tests.support.small_stacks import small_stack\n\nstack = small_stack()\n"
CAPTURE = Path(__file__).resolve().parents[2] / "examples" / "first" / "capture.pcap"


def rights(process: int) -> list[tuple[str, str, str]]:
    """Of each thread: the effective user, its effective capabilities, and those that it may ever get."""
    found: list[tuple[str, str, str]] = []
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        found.append((fields["Uid"].split()[1], fields["CapEff"].strip("0"), fields["CapBnd"].strip("0")))
    return found


NOBODY = ["--user", "nobody"]
DIVIDED = ["--workers", "2", "--dispatch", "kernel"]


@pytest.mark.parametrize(
    "words, user, left",
    [
        pytest.param([], "0", "", id="root"),
        pytest.param(NOBODY, "65534", "", id="another user"),
        pytest.param([*NOBODY, *DIVIDED, "--on-removal", "end"], "65534", "", id="workers that receive"),
        pytest.param([*NOBODY, *DIVIDED], "65534", "2", id="and wait for interfaces"),  # CAP_NET_RAW
    ],
)
def test_nothing_else_is_left(words: list[str], user: str, left: str, tmp_path: Path) -> None:
    """In any thread; packets are still forwarded, and the run ends as usual."""
    (tmp_path / "stack.py").write_text(STACK)
    tmp_path.chmod(0o755)
    log = f"flowlog:out={tmp_path / 'rows.csv'}"  # a thread writes it
    more = ["-f", log, "--format", "csv", "--control", str(tmp_path / "box.sock"), *words]
    with Wire("liverights") as wire, Inline(wire, tmp_path, "run", str(tmp_path / "stack.py"), *more) as running:
        assert ping(wire, 2) == 2
        found = rights(running.process.pid)
        assert len(found) >= 2 and set(found) == {(user, left, left)}
        assert running.stop()["received"]["forwarded"] >= 4
        assert "Exception" not in running.errors.read_text()


def test_a_capability_that_is_named_is_left(tmp_path: Path) -> None:
    (tmp_path / "stack.py").write_text(STACK)
    words = ["run", str(tmp_path / "stack.py"), "-f", "none", "--user", "nobody", "--capabilities", "CAP_NET_ADMIN"]
    with Wire("liverights") as wire, Inline(wire, tmp_path, *words) as running:
        assert set(rights(running.process.pid)) == {("65534", "1", "1")}
        running.stop()


def test_flows_ids_and_chains_give_up_their_rights_and_print_a_summary_on_a_signal(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "stack.py").write_text(STACK)
    (tmp_path / "a.rules").write_text('alert tcp any any -> any any (msg:"x"; content:"secret"; sid:1;)\n')
    (tmp_path / "chain.py").write_text(
        "from sluice.chain import Chain, function\n" + STACK.replace("stack =", "small =")
        + f"chain = Chain(function('flow_log', out={str(tmp_path / 'rows')!r}), stack=small)\n"
    )  # fmt: skip
    stack = str(tmp_path / "stack.py")
    with Wire("liverights") as wire:
        for words in (
            ["flows", "--stack", stack, "-o", str(tmp_path / "rows.jsonl")],
            ["ids", str(tmp_path / "a.rules"), "--stack", stack, "-o", str(tmp_path / "alerts.jsonl")],
            ["chain", str(tmp_path / "chain.py")],
        ):
            inputs = ["-i", "b0", "--json", "--user", "nobody"]
            with Passive(wire, tmp_path, *words, *inputs) as running:
                assert set(rights(running.process.pid)) == {("65534", "", "")}
                running.process.send_signal(signal.SIGUSR1)
                running.wait_for("packets")
                running.stop()


def test_the_process_of_the_stack_of_an_isolated_chain_becomes_the_user(tmp_path: Path) -> None:
    """The controller stays who it is, as it starts functions, which have users of their own."""
    tmp_path.chmod(0o777)
    (tmp_path / "chain.py").write_text(
        "from sluice.chain import Chain, function\n" + STACK.replace("stack =", "small =")
        + f"chain = Chain(function('flow_log', out='{tmp_path}/rows'), stack=small)\n"
    )  # fmt: skip
    words = ["chain", str(tmp_path / "chain.py"), "--isolate", "-i", "b0", "--json", "--user", "nobody"]
    with Wire("liverights") as wire, Passive(wire, tmp_path, *words) as running:
        controller = running.process.pid
        children = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
        found = [rights(int(child))[0] for child in children]
        assert ("65534", "", "") in found and rights(controller)[0][0] == "0"
        running.stop()


def test_a_folder_of_another_user_is_named_before_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that are created after the rights were given up."""
    (tmp_path / "stack.py").write_text(STACK)
    tmp_path.chmod(0o755)
    rotated = ["-f", f"flowlog:out={tmp_path / 'rows.csv'}", "--format", "csv", "--rotate-size", "1k"]
    series = ["-f", "none", "-w", str(tmp_path / "out.pcap"), "--capture-size", "1000000"]
    copies = ["-f", "filelog", "--extract", str(tmp_path)]
    for more in (["-f", "none", "--state", str(tmp_path / "state")], rotated, series, copies):
        words = ["run", str(tmp_path / "stack.py"), "-i", "lo", "--user", "nobody"]
        assert main([*words, *more]) == 1
        assert f"nobody may not create files in {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, said",
    [
        (["-i", "none0", "--user", "not-here"], "--user not-here: there is no such user"),
        (["-r", str(CAPTURE), "--user", "nobody"], "--user: is for interfaces"),
    ],
)
def test_users_that_make_no_sense(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stack.py").write_text(STACK)
    assert main(["run", str(tmp_path / "stack.py"), "-f", "none", *words]) in (1, 2)
    assert said in capsys.readouterr().err
