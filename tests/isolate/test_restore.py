"""Ordinary limits come back, however `sluice isolate run` ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.isolate.cgroups import Hierarchy
from sluice.isolate.classic import Filter
from sluice.isolate.enforced import Enforced
from sluice.isolate.enforcer import Enforcer
from sluice.isolate.errors import IsolateError
from sluice.isolate.quota import OUR_PERIOD, GoneError, Limit, Quota
from sluice.isolate.restore import Record, read_kept, restore, watch
from tests.isolate.lab import Lab
from tests.support.bounded import killed_after

COMMAND = (sys.executable, "-m", "sluice", "isolate")
ORDINARY = Limit(3_000, 100_000)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def start(lab: Lab, state: Path, *more: str) -> subprocess.Popen[str]:
    """A controller on a container `i` that is flooded."""
    namespace, address = lab.namespace(cpu=0)
    lab.start("receive", "5000", cgroup=lab.limited("i", 3), namespace=namespace, cpu=0)
    lab.start("send", address, "5000", "30000", "1400", "0", cpu=1)
    options = ["--cgroup", lab.pattern, "--interrupt-ns", "0", "--interval", "0.1", "--json", "--state", str(state)]
    return subprocess.Popen([*COMMAND, "run", *options, *more], stdout=subprocess.PIPE, text=True)


def sampled(process: subprocess.Popen[str], condition: Callable[[dict[str, object]], bool]) -> dict[str, object]:
    """Reads samples until the state of the container fulfils a condition."""
    assert process.stdout is not None
    with killed_after(process):
        for line in process.stdout:
            sample = json.loads(line)
            if sample["type"] == "sample" and sample["enforcement"] and condition(sample["enforcement"][0]):
                return sample["enforcement"][0]
        raise AssertionError("it ended before")


def is_taken(one: dict[str, object]) -> bool:
    return bool(one["taken_over"]) and one["dropped"]["spent"]["packets"] > 0  # type: ignore[index]


def limit_of(lab: Lab, name: str = "i") -> Limit | None:
    quota = Quota(lab.hierarchy.folder / lab.name / name, lab.hierarchy.is_v1)
    try:
        return quota.read()
    finally:
        quota.close()


def restored(lab: Lab) -> bool:
    """Whether the ordinary limit is back, within a time that only a loaded machine needs."""
    for _ in range(500):
        if limit_of(lab) == ORDINARY:
            return True
        time.sleep(0.02)
    return False


def watchdog_of(process: int) -> int:
    """Its only child; 0 while it has none."""
    return int((Path(f"/proc/{process}/task/{process}/children").read_text().split() or ["0"])[0])


@pytest.mark.root
def test_a_killed_controller_leaves_the_ordinary_limit_and_no_gate(lab: Lab, state: Path) -> None:
    with start(lab, state) as process:
        sampled(process, is_taken)
        assert limit_of(lab) != ORDINARY
        watchdog = watchdog_of(process.pid)
        process.kill()
        process.communicate(timeout=60)
        assert restored(lab)
    for _ in range(500):
        if not Path(f"/proc/{watchdog}").exists():
            break
        time.sleep(0.02)
    assert not (state / "limits.json").exists()
    assert not Path(f"/proc/{watchdog}").exists()
    links = subprocess.run(["ip", "-d", "link"], capture_output=True, text=True, check=True, timeout=300).stdout
    assert "prog/xdp" not in links


@pytest.mark.root
def test_without_its_watchdog_the_next_start_restores(
    lab: Lab, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both were killed: the file is what remains. `restore` does the same without a start."""
    with start(lab, state) as process:
        sampled(process, is_taken)
        watchdog = watchdog_of(process.pid)
        os.kill(watchdog, signal.SIGSTOP)
        process.kill()
        process.communicate(timeout=60)
        os.kill(watchdog, signal.SIGKILL)
    folder = lab.hierarchy.folder / lab.name / "i"
    limit = limit_of(lab)
    assert limit is not None
    assert limit.period_us == OUR_PERIOD
    kept = (state / "limits.json").read_text()
    assert main(["isolate", "restore", "--state", str(state)]) == 0
    assert capsys.readouterr().out == f"restored: {folder}\n"
    assert limit_of(lab) == ORDINARY
    quota = Quota(folder, lab.hierarchy.is_v1)
    quota.take_over(1000)
    quota.close()
    (state / "limits.json").write_text(kept)
    with Enforcer([f"{lab.name}/none"], "none", interrupt_ns=0, state_folder=state) as enforcer:
        assert enforcer.found is not None
        assert enforcer.found.restored == [str(folder)]
        assert limit_of(lab) == ORDINARY


@pytest.mark.root
def test_a_controller_survives_its_watchdog_and_a_stop(lab: Lab, state: Path) -> None:
    """Its watchdog is killed, and started again. Then it is stopped, and its container must not starve; when it
    continues, what the watchdog restored is the ordinary limit still.
    """
    with start(lab, state) as process:
        sampled(process, is_taken)
        status = dict(line.split(":\t") for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        assert int(status["CapEff"], 16) == 1 << 1 | 1 << 12 | 1 << 19 | 1 << 21 | 1 << 38 | 1 << 39
        assert status["NoNewPrivs"] == "1"
        first = watchdog_of(process.pid)
        os.kill(first, signal.SIGKILL)
        sampled(process, lambda _: watchdog_of(process.pid) not in (first, 0))
        kept = read_kept(state)
        process.send_signal(signal.SIGSTOP)
        assert restored(lab)
        time.sleep(0.2)  # until the watchdog waits again
        assert read_kept(state) == kept
        process.send_signal(signal.SIGCONT)
        found = sampled(process, lambda one: bool(one["taken_over"]) and is_ours(lab))
        assert found["limit"] == {"quota_us": ORDINARY.quota_us, "period_us": ORDINARY.period_us}
        process.terminate()
        last = process.communicate(timeout=60)[0].splitlines()[-1]
        assert json.loads(last)["dropped"][f"{lab.name}/i"]["spent"]["packets"] > 0
        assert process.returncode == 0
    assert limit_of(lab) == ORDINARY


def is_ours(lab: Lab) -> bool:
    limit = limit_of(lab)
    return limit is not None and limit.period_us == OUR_PERIOD


def test_limits_are_restored_before_interfaces(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container waits for its limit. An interface takes longer, and one that cannot be undone must not prevent it."""
    ordinary = Limit(30_000, 100_000)  # as long, in a plain file, as what it replaces
    cgroup = tmp_path / "i"
    cgroup.mkdir()
    (cgroup / "cpu.max").write_text(f"1000 {OUR_PERIOD}")
    quota = Quota(cgroup, is_v1=False)
    record = Record(state)
    record.keep(quota, ordinary)
    record.keep_change(Filter("", 0, 1, egress=True, handle=1, program=1, makes_queue=False))
    record.close()
    found: list[Limit | None] = []

    def fail(_change: object) -> None:
        found.append(quota.read())
        raise IsolateError("refused")

    monkeypatch.setattr("sluice.isolate.restore.undo_change", fail)
    with pytest.raises(IsolateError, match="refused"):
        restore(state)
    assert found == [ordinary]
    assert (state / "interfaces.json").exists()
    quota.close()


@pytest.mark.root
def test_the_watchdog_is_notified_before_programs_are_removed(lab: Lab, state: Path) -> None:
    """The kernel closes the last descriptor first, and takes milliseconds to remove each program."""
    with start(lab, state) as process:
        sampled(process, is_taken)
        files = {int(one.name): os.readlink(one) for one in Path(f"/proc/{process.pid}/fd").iterdir()}
        assert files[max(files)].startswith("pipe:")
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.root
def test_a_limit_that_another_program_has_set_since_is_left(lab: Lab, state: Path) -> None:
    folder = lab.limited("i", 3)
    quota = Quota(folder, lab.hierarchy.is_v1)
    record = Record(state)
    record.keep(quota, ORDINARY)
    quota.take_over(1000)
    quota.restore(Limit(70_000, 100_000))
    done = restore(state)
    assert (done.restored, done.changed) == ([], [str(folder)])
    assert limit_of(lab) == Limit(70_000, 100_000)
    record.keep(quota, ORDINARY)
    lab.remove(folder)
    assert restore(state).gone == [str(folder)]
    with pytest.raises(GoneError):
        quota.read()
    quota.close()
    record.close()


def test_a_limit_that_cannot_be_restored_stays_recorded(tmp_path: Path, state: Path) -> None:
    """Also when others are recorded, and forgotten, after that."""
    quotas: list[Quota] = []
    record = Record(state)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpu.max").write_text(f"1000 {OUR_PERIOD}\n")
        quotas.append(Quota(tmp_path / name, is_v1=False))
        record.keep(quotas[-1], ORDINARY)
    record.close()
    (tmp_path / "a" / "cpu.max").unlink()
    (tmp_path / "a" / "cpu.max").mkdir()
    record = Record(state)
    done = record.restore()
    assert (done.restored, len(done.failed)) == ([str(tmp_path / "b")], 1)
    assert [one.folder for one in read_kept(state)] == [str(tmp_path / "a")]
    record.keep(quotas[1], ORDINARY)
    record.forget(tmp_path / "b")
    assert read_kept(state) == done.kept
    assert record.has(tmp_path / "a", done.kept[0].inode)
    assert not record.has(tmp_path / "a", done.kept[0].inode + 1)
    assert not record.has(tmp_path / "b", done.kept[0].inode)
    record.close()
    for quota in quotas:
        quota.close()


def test_the_watchdog_leaves_the_file_to_a_controller_that_may_continue(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed at the end of the pipe only."""
    ordinary = Limit(30_000, 100_000)  # as long, in a plain file, as what it replaces
    found: list[tuple[Limit | None, int]] = []
    cgroup = tmp_path / "i"
    cgroup.mkdir()
    (cgroup / "cpu.max").write_text(f"1000 {OUR_PERIOD}")
    quota = Quota(cgroup, is_v1=False)
    record = Record(state)
    record.keep(quota, ordinary)
    reading, writing = os.pipe()

    def hang_then_end(*_: object) -> tuple[list[int], list[int], list[int]]:
        found.append((quota.read(), len(read_kept(state))))
        if len(found) == 1:
            return [], [], []
        os.close(writing)
        return [reading], [], []

    monkeypatch.setattr("sluice.isolate.restore.select.select", hang_then_end)
    monkeypatch.setattr("sluice.isolate.restore.signal.signal", lambda *_: None)
    watch(state, reading)
    assert found == [(Limit(1000, OUR_PERIOD), 1), (ordinary, 1)]
    assert read_kept(state) == []
    os.close(reading)
    quota.close()
    record.close()


@pytest.mark.root
def test_a_container_whose_limit_could_not_be_restored_is_not_enforced(
    lab: Lab, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has now is not its ordinary limit."""
    folder = lab.limited("i", 3)
    lab.start("hold", "5000", cgroup=folder)
    quota = Quota(folder, lab.hierarchy.is_v1)
    record = Record(state)
    record.keep(quota, ORDINARY)
    quota.take_over(1000)
    quota.close()
    record.close()

    def refuse(_quota: Quota, _limit: Limit) -> None:
        raise IsolateError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(Quota, "restore", refuse)
        enforcer = Enforcer([lab.pattern], "none", interrupt_ns=0, state_folder=state)
    with enforcer:
        found = enforcer.sample()
        assert found.states == []
        assert "could not be restored" in found.failed[f"{lab.name}/i"]
    assert is_ours(lab)
    assert restore(state).restored == [str(folder)]
    assert limit_of(lab) == ORDINARY


@pytest.mark.root
def test_a_limit_that_is_not_restored_at_the_end_is_an_error(
    lab: Lab, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_one: Enforced) -> None:
        raise IsolateError("refused")

    lab.start("hold", "5000", cgroup=lab.limited("i", 3))
    monkeypatch.setattr(Enforced, "release", refuse)
    monkeypatch.setattr("sluice.cli.isolate.drop_capabilities", lambda *_: [])  # those of this process
    options = ["--cgroup", lab.pattern, "--interrupt-ns", "0", "--count", "1", "--interval", "0.1", "--drop", "none"]
    assert main(["isolate", "run", *options, "--state", str(state)]) == 1
    error = capsys.readouterr().err
    assert f"the limit of {lab.name}/i is not restored: refused\n" in error
    assert f"`sluice isolate restore --state {state}` tries again" in error


@pytest.mark.root
def test_a_limit_is_restored_with_its_burst(lab: Lab, state: Path) -> None:
    folder = lab.limited("i", 3)
    name = "cpu.cfs_burst_us" if lab.hierarchy.is_v1 else "cpu.max.burst"
    if not (folder / name).exists():
        pytest.skip("the kernel has no bursts")
    (folder / name).write_text("2000")
    quota = Quota(folder, lab.hierarchy.is_v1)
    record = Record(state)
    before = quota.read()
    assert before is not None
    assert before == Limit(3_000, 100_000, 2_000)
    record.keep(quota, before)
    quota.take_over(1000)
    assert quota.read() == Limit(1000, OUR_PERIOD, 0)
    assert restore(state).restored == [str(folder)]
    assert quota.read() == before
    quota.close()
    record.close()


@pytest.mark.root
@pytest.mark.parametrize("writes", range(4))
@pytest.mark.parametrize("burst", [0, 2_000])
def test_a_restore_that_is_killed_between_two_writes_is_repeated(
    lab: Lab, state: Path, monkeypatch: pytest.MonkeyPatch, writes: int, burst: int
) -> None:
    folder = lab.limited("i", 3)
    if burst and not (folder / ("cpu.cfs_burst_us" if lab.hierarchy.is_v1 else "cpu.max.burst")).exists():
        pytest.skip("the kernel has no bursts")
    ordinary = Limit(3_000, 100_000, burst)
    quota = Quota(folder, lab.hierarchy.is_v1)
    record = Record(state)
    record.keep(quota, ordinary)
    quota.take_over(1000)
    done: list[str] = []
    put = Quota._put  # pyright: ignore[reportPrivateUsage]

    def killed(self: Quota, name: str, text: str) -> None:
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(name)
        put(self, name, text)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Quota, "_put", killed)
        quota.restore(ordinary)
    restore(state)
    assert quota.read() == ordinary
    quota.close()
    record.close()


def test_one_controller_at_a_time(state: Path) -> None:
    first = Record(state)
    with pytest.raises(IsolateError, match="another `sluice isolate run` uses"):
        Record(state)
    first.close()
    Record(state).close()


def test_a_folder_that_others_can_write_to_is_refused(state: Path) -> None:
    state.mkdir()
    state.chmod(0o777)
    with pytest.raises(IsolateError, match="--state"):
        Record(state)


@pytest.mark.parametrize("text", ["", "{}", '{"cgroups": [{"folder": "/x"}]}', "[1]", '{"cgroups": 3}'])
def test_a_damaged_file_is_an_error_that_names_it(state: Path, text: str) -> None:
    state.mkdir()
    (state / "limits.json").write_text(text)
    with pytest.raises(IsolateError, match=r"limits\.json cannot be read"):
        read_kept(state)


def test_without_the_cpu_controller_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(IsolateError, match="the cpu controller is not enabled there"):
        Quota(tmp_path, is_v1=False)
    with pytest.raises(GoneError):
        Quota(tmp_path / "gone", is_v1=True)


@pytest.mark.parametrize("is_v1", [False, True])
def test_an_unlimited_cgroup_has_no_limit(tmp_path: Path, is_v1: bool) -> None:
    hierarchy = Hierarchy(tmp_path, is_v1, None)
    files = {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"} if is_v1 else {"cpu.max": "max 100000\n"}
    for name, text in files.items():
        (hierarchy.folder / name).write_text(text)
    quota = Quota(tmp_path, is_v1)
    assert quota.read() is None
    quota.close()
