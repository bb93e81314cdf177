"""Which cgroups are containers: by the paths that engines make, by tasks, by patterns."""

from pathlib import Path

import pytest

from sluice.isolate.cgroups import Hierarchy, engine_of, find_containers, find_hierarchy, processes
from sluice.isolate.errors import IsolateError

ID = "0123456789ab" + "c" * 52


@pytest.mark.parametrize(
    ("path", "engine"),
    [
        (f"docker/{ID}", "docker"),
        (f"system.slice/docker-{ID}.scope", "docker"),
        (f"machine.slice/libpod-{ID}.scope", "podman"),
        (f"libpod_parent/libpod-{ID}", "podman"),
        (f"user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", "podman"),
        (
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-{ID}.scope",
            "containerd",
        ),
        (f"kubepods-pod1.slice:cri-containerd:{ID}", "containerd"),
        (f"kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope", "crio"),
        (f"kubepods/besteffort/pod1/{ID}", "kubernetes"),
        (f"default/{ID}", "containerd"),
    ],
)
def test_an_engines_container_is_known_by_its_path(path: str, engine: str) -> None:
    assert engine_of(path) == (engine, "0123456789ab")


@pytest.mark.parametrize(
    ("path", "engine", "name"),
    [
        ("lxc/web", "lxc", "web"),
        ("lxc.payload.web", "lxc", "web"),
        ("lxc.payload/web", "lxc", "web"),
        ("machine.slice/machine-debian.scope", "nspawn", "debian"),
        ("machine.slice/systemd-nspawn@debian.service", "nspawn", "debian"),
    ],
)
def test_a_container_with_a_name_has_that(path: str, engine: str, name: str) -> None:
    assert engine_of(path) == (engine, name)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "docker",
        "system.slice/docker.service",
        f"docker/{ID[:63]}",
        f"machine.slice/libpod-conmon-{ID}.scope",
        f"crio-conmon-{ID}.scope",
        "kubepods/besteffort/pod1",
        "machine.slice",
        f"docker/{ID}/init.scope",
        "docker/../../etc",
    ],
)
def test_other_paths_are_no_engines(path: str) -> None:
    assert engine_of(path) is None


V1 = "30 29 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
CPUSET = "31 29 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
V2 = "32 29 0:28 / /sys/fs/cgroup/unified rw shared:3 - cgroup2 cgroup2 rw\n"


def test_the_cpu_controller_of_v1_is_preferred_where_it_is_mounted() -> None:
    found = find_hierarchy(CPUSET + V1 + V2)
    assert found == Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct"), True, Path("/sys/fs/cgroup/unified"))


def test_v2_alone_has_both() -> None:
    assert find_hierarchy(V2) == Hierarchy(Path("/sys/fs/cgroup/unified"), False, Path("/sys/fs/cgroup/unified"))


def test_a_mount_with_a_space_in_its_name() -> None:
    assert find_hierarchy(V2.replace("unified", r"my\040cgroups")).folder == Path("/sys/fs/cgroup/my cgroups")


def test_without_any_the_error_says_what_to_mount() -> None:
    with pytest.raises(IsolateError, match="mount -t cgroup2"):
        find_hierarchy(CPUSET)


def tree(folder: Path, *cgroups: str) -> Hierarchy:
    """A tree of cgroups; one that is written `name:1` has process 1."""
    for cgroup in cgroups:
        name, _, process = cgroup.partition(":")
        (folder / name).mkdir(parents=True)
        (folder / name / "cgroup.procs").write_text(f"{process}\n")
    return Hierarchy(folder, False, folder)


def paths(hierarchy: Hierarchy, *patterns: str) -> list[str]:
    return [found.path for found in find_containers(hierarchy, patterns)]


def test_a_plain_cgroup_is_a_container_when_it_has_tasks(tmp_path: Path) -> None:
    assert paths(tree(tmp_path, "lab/a:1", "lab/b", "c:2")) == ["c", "lab/a"]


def test_what_is_below_a_container_belongs_to_it(tmp_path: Path) -> None:
    hierarchy = tree(tmp_path, "a:1", "a/inner:2", f"docker/{ID}:3", f"docker/{ID}/init.scope:4")
    assert paths(hierarchy) == ["a", f"docker/{ID}"]
    assert sorted(processes(tmp_path / "a", below=True)) == [1, 2]


def test_an_engines_container_is_one_without_tasks_too(tmp_path: Path) -> None:
    (found,) = find_containers(tree(tmp_path, f"docker/{ID}"))
    assert (found.engine, found.name, found.identifier) == ("docker", ID[:12], (tmp_path / found.path).stat().st_ino)


def test_systemds_services_are_containers_only_by_pattern(tmp_path: Path) -> None:
    hierarchy = tree(tmp_path, "system.slice/web.service:1", "system.slice/db.service:2", "user.slice/a.scope:3", "x:4")
    assert paths(hierarchy) == ["x"]
    assert paths(hierarchy, "system.slice/*.service") == ["system.slice/db.service", "system.slice/web.service"]
    assert paths(hierarchy, "/system.slice/web*", "x") == ["system.slice/web.service", "x"]


def test_a_deep_tree_is_followed_to_a_bound(tmp_path: Path) -> None:
    assert paths(tree(tmp_path, "/".join("a" * 11) + "/b:1")) == ["/".join("a" * 11) + "/b"]
    assert paths(tree(tmp_path / "deep", "/".join("a" * 40) + "/b:1")) == []
