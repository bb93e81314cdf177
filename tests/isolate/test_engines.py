"""Containers of real engines are found with their limits, and enforced. Runs where the engine, runc and busybox are
installed (Debian: `podman docker.io runc busybox-static`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.isolate.cgroups import find_containers, find_hierarchy
from sluice.isolate.enforcer import Enforcer
from sluice.isolate.quota import Limit, Quota
from tests.isolate.lab import Lab, why_not

pytestmark = pytest.mark.root
BUSYBOX = Path("/bin/busybox")
ORDINARY = Limit(3_000, 100_000)
BOUNDS = ("--network", "none", "--cpus", "0.03", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def need(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    if why_not() or missing or not BUSYBOX.exists():
        pytest.skip(why_not() or f"there is no {(missing or [BUSYBOX])[0]}")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The file system of a container."""
    folder = tmp_path / "root"
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        (folder / name).mkdir(parents=True)
    if BUSYBOX.exists():
        shutil.copy(BUSYBOX, folder / "bin" / "sleep")
    return folder


@pytest.fixture
def podman(tmp_path: Path, root: Path) -> Iterator[str]:
    """The identifier of a container with a limit."""
    need("podman", "runc")
    runroot = tempfile.mkdtemp(prefix="sl-iso-")  # podman refuses long ones
    store = ("--root", str(tmp_path / "store"), "--runroot", runroot, "--storage-driver", "vfs")
    command = ("podman", "--cgroup-manager", "cgroupfs", "--runtime", "runc", *store)
    done = run(*command, "run", "-d", *BOUNDS, "--rootfs", str(root), "/bin/sleep", "60")
    if done.returncode:
        shutil.rmtree(runroot, ignore_errors=True)
        pytest.skip(f"podman cannot run a container here: {done.stderr.strip()[-200:]}")
    identifier = done.stdout.strip()
    yield identifier
    run(*command, "rm", "-f", "-t", "0", identifier)
    shutil.rmtree(runroot, ignore_errors=True)


@pytest.fixture
def docker(root: Path) -> Iterator[str]:
    """The same of Docker, by a daemon of its own, which starts containerd."""
    need("dockerd", "docker", "containerd", "runc")
    folder = Path(tempfile.mkdtemp(prefix="sl-iso-"))
    command = ("docker", "--host", f"unix://{folder}/socket")
    options = ["--storage-driver", "vfs", "--iptables=false", "--ip6tables=false", "--bridge", "none"]
    options += ["--exec-opt", "native.cgroupdriver=cgroupfs", "--data-root", f"{folder}/data"]
    options += ["--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid", "--host", f"unix://{folder}/socket"]
    with (folder / "log").open("wb") as log, subprocess.Popen(["dockerd", *options], stdout=log, stderr=log) as daemon:
        try:
            for _ in range(300):
                if daemon.poll() is not None or run(*command, "version").returncode == 0:
                    break
                time.sleep(0.1)
            subprocess.run(
                f"tar -C {root} -c . | {' '.join(command)} import - sluice-test", shell=True, check=False,
                capture_output=True, timeout=300,
            )  # fmt: skip
            done = run(*command, "run", "-d", *BOUNDS, "sluice-test", "/bin/sleep", "60")
            if done.returncode:
                pytest.skip(f"docker cannot run a container here: {(folder / 'log').read_text()[-200:]} {done.stderr}")
            identifier = done.stdout.strip()
            yield identifier
            run(*command, "rm", "-f", identifier)
        finally:
            daemon.terminate()
            daemon.wait(timeout=60)
            run("umount", "-l", f"{folder}/data", f"{folder}/exec")
            shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("engine", ["podman", pytest.param("docker", marks=pytest.mark.slow_matrix)])
def test_a_container_of_an_engine_is_found_and_enforced(
    engine: str, request: pytest.FixtureRequest, lab: Lab, tmp_path: Path
) -> None:
    """With its limit. A flood to its network namespace is dropped; its limit is its own again at the end."""
    identifier: str = request.getfixturevalue(engine)
    hierarchy = find_hierarchy()
    (found,) = [one for one in find_containers(hierarchy) if identifier in one.path]
    assert (found.engine, found.name) == (engine, identifier[:12])
    quota = Quota(hierarchy.folder / found.path, hierarchy.is_v1)
    assert quota.read() == ORDINARY
    process = (hierarchy.folder / found.path / "cgroup.procs").read_text().split()[0]
    address = lab.link_to(process)
    lab.start("send", address, "5000", "30000", "1400", "0", cpu=1)
    with Enforcer([found.path], interrupt_ns=0, state_folder=tmp_path / "state") as enforcer:
        for _ in range(300):
            enforcer.wait(0.1)
            (state,) = enforcer.sample().states
            if state.taken and state.dropped["spent"].packets:
                break
        else:
            raise AssertionError(f"nothing is dropped: {state}")
        assert [place.split()[0] for place in state.places] == ["host-end"]
        assert quota.read() != ORDINARY
    assert quota.read() == ORDINARY
    quota.close()
    assert os.listdir(tmp_path / "state") == ["lock"]
