"""A container of a real engine is found, with its limit. Runs where podman, runc and busybox are installed (Debian:
`podman runc busybox-static`).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.isolate.cgroups import find_containers, find_hierarchy
from sluice.isolate.quota import Limit, Quota
from tests.isolate.lab import why_not

pytestmark = pytest.mark.root
BUSYBOX = Path("/bin/busybox")


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[str]:
    """The identifier of a container with a fifth of a CPU."""
    missing = [name for name in ("podman", "runc") if shutil.which(name) is None]
    if why_not() or missing or not BUSYBOX.exists():
        pytest.skip(why_not() or f"there is no {(missing or [BUSYBOX])[0]}")
    root = tmp_path / "root"
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin" / "sleep")
    runroot = tempfile.mkdtemp(prefix="sl-iso-")  # podman refuses long ones
    store = ["--root", str(tmp_path / "store"), "--runroot", runroot, "--storage-driver", "vfs"]
    command = ["podman", "--cgroup-manager", "cgroupfs", "--runtime", "runc", *store]
    bounds = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    run = ["run", "-d", "--network", "none", "--cpus", "0.2", *bounds, "--rootfs", str(root), "/bin/sleep", "60"]
    done = subprocess.run([*command, *run], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        shutil.rmtree(runroot, ignore_errors=True)
        pytest.skip(f"podman cannot run a container here: {done.stderr.strip()[-200:]}")
    identifier = done.stdout.strip()
    yield identifier
    subprocess.run([*command, "rm", "-f", "-t", "0", identifier], capture_output=True, check=False, timeout=300)
    shutil.rmtree(runroot, ignore_errors=True)


def test_a_container_of_podman_is_found_with_its_limit(podman: str) -> None:
    hierarchy = find_hierarchy()
    (found,) = [one for one in find_containers(hierarchy) if podman in one.path]
    assert (found.engine, found.name) == ("podman", podman[:12])
    quota = Quota(hierarchy.folder / found.path, hierarchy.is_v1)
    try:
        assert quota.read() == Limit(20_000, 100_000)
    finally:
        quota.close()
