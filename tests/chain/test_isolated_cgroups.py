"""The control groups of isolated functions: what they limit, and that nothing of them is left."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes.cgroups import PERIOD, Cgroups, Quota
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.program import IsolatedChain
from sluice.lang.errors import DescriptionError
from tests.chain.running import checked, compiled_chain, run_isolated

COUNTS = """
#include "sluice.h"
#include <sys/mman.h>
SLUICE_PARAMETER(take, number, 0, "MiB that it shares with no other process, and that are no data")
SLUICE_COUNTER(packets, "of TCP")
SLUICE_ON(tcp, packet) {
    size_t size = (size_t)SLUICE_PARAMETER_OF(event->box, take) << 20;
    SLUICE_COUNTER_OF(event->box, packets)++;
    if (!size || sl_packet_number(event) != 5)
        return;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED)
        memset(at, 1, size);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cgroups")
    for name in ("one", "two"):
        (made / f"{name}.c").write_text(COUNTS)
    return made


@pytest.fixture
def bases() -> dict[str, Path]:
    """The folders of this process's groups, by controller."""
    groups = Cgroups()
    groups.open()
    groups.close()
    if missing := {"memory", "cpu", "pids"} - set(groups.bases):
        pytest.skip(f"no control groups of {', '.join(sorted(missing))} can be made here")
    return {name: base.folder for name, base in groups.bases.items()}


def chain_of(folder: Path, take: int = 0, memory: int = 64 << 20) -> IsolatedChain:
    one = function(str(folder / "one.c"), take=take).isolated(memory=memory, cpu=0.5)
    return compiled_chain(checked(one | function(str(folder / "two.c"))))


def folders(bases: dict[str, Path]) -> list[str]:
    return sorted({str(one) for base in bases.values() for one in base.glob(f"sluice-chain-{os.getpid()}-*/*")})


def value_of(group: Path, *names: str) -> str:
    return next((group / name).read_text().strip() for name in names if (group / name).exists())


def test_functions_are_in_groups_with_limits_while_they_run(
    folder: Path, tmp_path: Path, bases: dict[str, Path]
) -> None:
    chain, controllers = chain_of(folder), list[Controller]()
    me = os.getpid()

    def between(_first: int) -> None:
        one, two = (process.pid for process in controllers[0].processes)
        for controller, process, name in (("memory", one, "0-one"), ("cpu", one, "0-one"), ("pids", two, "1-two")):
            (group,) = bases[controller].glob(f"sluice-chain-{me}-*/{name}")
            assert str(process) in (group / "cgroup.procs").read_text().split(), controller
            if controller == "memory":
                assert 64 << 20 < int(value_of(group, "memory.max", "memory.limit_in_bytes")) < 256 << 20
            if controller == "cpu":
                assert value_of(group, "cpu.max", "cpu.cfs_quota_us").split()[0] == str(PERIOD // 2)
            if controller == "pids":
                assert value_of(group, "pids.max") == "1"

    run_isolated(chain.plan, tmp_path / "out", None, chain, controllers.append, between)
    assert folders(bases) == []


def test_memory_that_is_no_data_has_a_limit_and_the_chain_continues(
    folder: Path, tmp_path: Path, bases: dict[str, Path]
) -> None:
    """A mapping that is shared is not part of RLIMIT_DATA; the kernel kills the process that takes too much of it."""
    del bases
    chain = chain_of(folder, take=512)
    chain.set_options(chain.plan.wanted())
    reports = run_isolated(chain.plan, tmp_path / "out", None, chain).reports
    assert reports["one.crashes"] >= 1 and "two.crashes" not in reports
    assert reports["two.packets"] > 0


def test_nothing_is_left_when_the_controller_is_killed(folder: Path, tmp_path: Path, bases: dict[str, Path]) -> None:
    chain = chain_of(folder)
    socket = tmp_path / "socket"
    read, write = os.pipe()
    child = os.fork()
    if not child:
        controllers: list[Controller] = []

        def controller(made: Controller) -> None:
            made.requests = Requests(socket)
            controllers.append(made)

        def between(_first: int) -> None:
            os.write(write, " ".join(str(process.pid) for process in controllers[0].processes).encode())
            time.sleep(60)

        try:
            run_isolated(chain.plan, tmp_path / "out", None, chain, controller, between)
        finally:
            os._exit(1)
    os.close(write)
    try:
        assert select.select([read], [], [], 60)[0], "the chain has not begun"
        processes = [int(text) for text in os.read(read, 100).split()]
        assert processes, "the chain has ended"
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    names = [base / "x" for base in bases.values()]
    end = time.monotonic() + 30
    left = [1]
    while left and time.monotonic() < end:
        left = [one for base in names for one in base.parent.glob(f"sluice-chain-{child}-*")]
        left += [process for process in processes if Path(f"/proc/{process}").exists()]
        left += [socket] if socket.exists() else []
        time.sleep(0.01)
    assert left == []


class Requests:
    """A socket that gets no requests."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        path.write_text("")
        self._file = os.open(os.devnull, os.O_RDONLY)
        self._read, self._write = os.pipe()

    def fileno(self) -> int:
        return self._read

    def files(self) -> list[int]:
        return [self._file, self._read, self._write]

    def serve(self, controller: Controller) -> None:
        raise AssertionError


def test_what_a_chain_that_was_killed_left_is_removed_by_the_next_one(bases: dict[str, Path]) -> None:
    base = bases["pids"]
    (base / "sluice-chain-1-1").mkdir()
    (base / "sluice-chain-1-1" / "0-one").mkdir()
    groups = Cgroups()
    groups.open()
    groups.close()
    assert not (base / "sluice-chain-1-1").exists()


# --- the tree of a system with version 2 alone, as files ---


def tree(root: Path, own: str, controllers: dict[str, str]) -> Path:
    """A system whose hierarchy has these groups with the controllers of those in them."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"0::{own}\n")
    (root / "proc/self/mounts").write_text("none /sys/fs/cgroup cgroup2 rw 0 0\n")
    for group, names in controllers.items():
        at = root / "sys/fs/cgroup" / group
        at.mkdir(parents=True, exist_ok=True)
        (at / "cgroup.controllers").write_text("")
        (at / "cgroup.subtree_control").write_text(names)
    return root / "sys/fs/cgroup"


def test_in_version_2_the_group_above_is_divided_and_the_limits_are_written(tmp_path: Path) -> None:
    """As that of a service, which has processes and so no groups with controllers."""
    top = tree(tmp_path, "/service/own", {"service": "cpu memory pids", "service/own": ""})
    groups = Cgroups(root=tmp_path)
    groups.open()
    assert {base.folder for base in groups.bases.values()} == {top / "service"}
    (folder,), missing = groups.make("0-one", Quota(memory=1 << 20, cpu=0.25))
    assert missing == [] and folder.parent.parent == top / "service"
    assert (folder / "memory.max").read_text() == str(1 << 20)
    assert (folder / "cpu.max").read_text() == "25000 100000" and (folder / "pids.max").read_text() == "1"


def test_what_a_system_cannot_limit_is_said(tmp_path: Path) -> None:
    tree(tmp_path, "/", {"": "pids"})
    groups = Cgroups(root=tmp_path)
    groups.open()
    _, missing = groups.make("0-one", Quota(memory=1 << 20, cpu=0.25))
    assert [text.partition(" (")[0] for text in missing] == [
        "a limit of memory by cgroup",
        "a limit of CPU time by cgroup",
    ]


def test_a_share_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(DescriptionError, match="cpu=-1"):
        function("one.c").isolated(cpu=-1)
