"""Containers that tests make: control groups, network namespaces with a link to the host, and programs in them."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import mmap
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

from sluice.isolate.build import COMPILERS
from sluice.isolate.cgroups import Hierarchy, find_hierarchy
from sluice.isolate.errors import IsolateError

PREFIX = "sl-iso"
_SOURCE = Path(__file__).parent / "load.c"
_LINKS = itertools.cycle(range(1, 250))
"""Numbers of links. The kernel removes a namespace some time after its deletion, and its link with it: the next link
of this process has another name.
"""


class Burner:
    """A process that computes; what it has done is counted."""

    def __init__(self, process: subprocess.Popen[bytes], counter: mmap.mmap) -> None:
        self.process = process
        self._counter = counter

    @property
    def units(self) -> int:
        """Units of work done."""
        return struct.unpack_from("=Q", self._counter)[0]

    @property
    def runtime(self) -> float:
        """Seconds that the kernel says it ran."""
        return runtime_of(self.process.pid)


def runtime_of(process: int) -> float:
    """Seconds that a process's first thread has run, by the scheduler."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


class Lab:
    """Makes containers, and removes all of it when it is left."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self.name = f"{PREFIX}-{os.getpid()}"
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}-"))
        self.program = _load_program()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._namespaces: list[str] = []
        self._cgroups: list[Path] = []
        self._bridges: list[str] = []

    def __enter__(self) -> Lab:
        self.cgroup("")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:  # all first: beside a flood, a receiver with a limit takes long to end
            process.kill()
        for process in list(self._processes):
            self.stop(process)
        for name in self._namespaces:
            _run("ip", "netns", "delete", name)
        for name in self._bridges:
            with contextlib.suppress(subprocess.CalledProcessError):  # it ended with a container that is not the lab's
                _run("ip", "link", "delete", name)
        for cgroup in reversed(self._cgroups.copy()):
            self.remove(cgroup)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pattern(self) -> str:
        """What `--cgroup` is given to watch the containers of this lab only."""
        return f"{self.name}/*"

    def cgroup(self, name: str) -> Path:
        """A new control group in the hierarchy with the cpu controller."""
        folder = self.hierarchy.folder / self.name / name
        folder.mkdir(exist_ok=True)
        self._cgroups.append(folder)
        if not name and not self.hierarchy.is_v1 and "cpu" in (folder / "cgroup.controllers").read_text().split():
            (folder / "cgroup.subtree_control").write_text("+cpu")
        return folder

    def limited(self, name: str, percent: int) -> Path:
        """A new control group with a limit, in percent of one CPU."""
        folder = self.cgroup(name)
        if self.hierarchy.is_v1:
            (folder / "cpu.cfs_quota_us").write_text(str(1000 * percent))
        else:
            (folder / "cpu.max").write_text(f"{1000 * percent} 100000")
        return folder

    def prefer(self) -> None:
        """Let the control groups have the CPUs before other tasks of the machine, whose load would change a figure."""
        name, weight = ("cpu.shares", 262144) if self.hierarchy.is_v1 else ("cpu.weight", 10000)
        (self.hierarchy.folder / self.name / name).write_text(str(weight))

    def v2_cgroup(self, name: str) -> Path | None:
        """A control group of v2 beside one of v1, in which sockets are known; None where v2 has both, or is missing."""
        root = self.hierarchy.v2_folder
        if root is None or not self.hierarchy.is_v1:
            return None
        for folder in (root / self.name, root / self.name / name):
            if not folder.exists():
                folder.mkdir()
                self._cgroups.append(folder)
        return root / self.name / name

    def remove(self, cgroup: Path) -> None:
        """Remove a control group, whose processes may still be on their way out."""
        for _ in range(100):
            with contextlib.suppress(OSError):
                if cgroup.exists():
                    cgroup.rmdir()
                if cgroup in self._cgroups:
                    self._cgroups.remove(cgroup)
                return
            time.sleep(0.02)

    def namespace(self, cpu: int | None = None, bridge: str | None = None) -> tuple[str, str]:
        """A new network namespace with a link to the host's; its name, and its address.

        cpu: the CPU on which it receives (receive packet steering). bridge: a bridge of the host that joins the links,
        in place of an address of the host.
        """
        number = next(_LINKS)
        name = f"{self.name}-{number}"
        subnet = "10.89.0" if bridge else f"10.89.{number}"
        outer, inner = f"sli{number}h{os.getpid() % 100000}", "link0"
        _run("ip", "netns", "add", name)
        self._namespaces.append(name)
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
        if bridge:
            _run("ip", "link", "set", outer, "master", bridge)
        else:
            _run("ip", "address", "add", f"{subnet}.1/24", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        address = f"{subnet}.{number + 1}"
        _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", inner)
        _run("ip", "-n", name, "link", "set", inner, "up")
        _run("ip", "-n", name, "link", "set", "lo", "up")
        if cpu is not None:
            steer = f"echo {1 << cpu:x} > /sys/class/net/{inner}/queues/rx-0/rps_cpus"
            _run("ip", "netns", "exec", name, "sh", "-c", steer)
        return name, address

    def link_to(self, process: str) -> str:
        """A link from the host to the network namespace of a process that is not the lab's; the address there."""
        number = next(_LINKS)
        outer, address = f"sli{number}h{os.getpid() % 100000}", f"10.89.{number}.{number + 1}"
        inside = ("nsenter", "--net", "--target", process, "ip")
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "link0", "netns", process)
        self._bridges.append(outer)
        _run("ip", "address", "add", f"10.89.{number}.1/24", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        _run(*inside, "address", "add", f"{address}/24", "dev", "link0")
        _run(*inside, "link", "set", "link0", "up")
        return address

    def host_address(self, namespace: str) -> str:
        """The host's address on its link to a namespace."""
        return f"10.89.{namespace.rsplit('-', 1)[1]}.1"

    def host_end(self, namespace: str) -> str:
        """The name of the host's end of that link."""
        return f"sli{namespace.rsplit('-', 1)[1]}h{os.getpid() % 100000}"

    def bridge(self) -> str:
        """A new bridge in the host's namespace."""
        name = f"slib{os.getpid() % 100000}"
        _run("ip", "link", "add", name, "type", "bridge")
        self._bridges.append(name)
        _run("ip", "link", "set", name, "up")
        return name

    def remove_namespace(self, name: str) -> None:
        """Remove a namespace before the lab ends."""
        self._namespaces.remove(name)
        _run("ip", "netns", "delete", name)

    def thread_napi(self, namespace: str, cgroup: Path | None = None, cpu: int | None = None) -> None:
        """Let a thread of the kernel poll a namespace's link, in place of softirqs; in a control group, on a CPU."""
        inside = ("ip", "netns", "exec", namespace)
        before = _napi_threads()
        _run(*inside, "ethtool", "-K", "link0", "gro", "on")  # without, the link does not poll
        _run(*inside, "sh", "-c", "echo 1 > /sys/class/net/link0/threaded")
        for thread in _napi_threads() - before:
            if cpu is not None:
                os.sched_setaffinity(thread, {cpu})
            if cgroup is not None:
                (cgroup / ("tasks" if self.hierarchy.is_v1 else "cgroup.threads")).write_text(str(thread))

    def without_tso(self, namespace: str) -> None:
        """Let the host's end of a link send no packets that the other end would not poll for."""
        _run("ethtool", "-K", self.host_end(namespace), "tso", "off")

    def tunnel(self, namespace: str) -> str:
        """A tunnel (VXLAN) over a namespace's link; the address of its end inside."""
        number = int(namespace.rsplit("-", 1)[1])
        here, there = f"10.89.{number}.1", f"10.89.{number}.{number + 1}"
        outer = f"slit{number}h{os.getpid() % 100000}"
        options = f"type vxlan id {number} dstport 4789"
        _run("ip", "link", "add", outer, *options.split(), "local", here, "remote", there)
        self._bridges.append(outer)
        _run("ip", "address", "add", f"10.90.{number}.1/24", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        _run("ip", "-n", namespace, "link", "add", "tun0", *options.split(), "local", there, "remote", here)
        _run("ip", "-n", namespace, "address", "add", f"10.90.{number}.2/24", "dev", "tun0")
        _run("ip", "-n", namespace, "link", "set", "tun0", "up")
        return f"10.90.{number}.2"

    def shape(self, namespace: str, rate: str) -> None:
        """Shape what a namespace sends, with HTB."""
        inside = ("ip", "netns", "exec", namespace, "tc")
        _run(*inside, *"qdisc add dev link0 root handle 1: htb default 1".split())
        _run(*inside, *f"class add dev link0 parent 1: classid 1:1 htb rate {rate}".split())

    def start(
        self,
        *arguments: str,
        cgroup: Path | None = None,
        v2_cgroup: Path | None = None,
        namespace: str | None = None,
        cpu: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """A process of the load program in a container, on one CPU; it is there, and in its namespace, on return."""
        command = [str(self.program), *arguments]
        process = self.start_program(command, cgroup=cgroup, v2_cgroup=v2_cgroup, namespace=namespace, cpu=cpu)
        if namespace:  # `ip netns exec` is in the control group before it is in the namespace
            self._await_program(process)
        return process

    def start_program(
        self,
        command: list[str],
        *,
        cgroup: Path | None = None,
        v2_cgroup: Path | None = None,
        namespace: str | None = None,
        cpu: int | None = None,
        output: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """A process of any program in a container, on one CPU. output: a file for what it prints."""
        inside = ["ip", "netns", "exec", namespace] if namespace else []

        def enter() -> None:
            for folder in (cgroup, v2_cgroup):
                if folder is not None:
                    (folder / "cgroup.procs").write_text(str(os.getpid()))
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})

        with output.open("wb") if output else contextlib.nullcontext() as out:
            process = subprocess.Popen([*inside, *command], preexec_fn=enter, stdout=out)
        self._processes.append(process)
        return process

    def _await_program(self, process: subprocess.Popen[bytes]) -> None:
        for _ in range(1000):
            if process.poll() is not None:  # it had little to do
                return
            with contextlib.suppress(OSError):
                if os.path.samefile(f"/proc/{process.pid}/exe", self.program):
                    return
            time.sleep(0.01)
        raise AssertionError(f"{self.program} was not started in its network namespace")

    def burn(self, cgroup: Path | None = None, namespace: str | None = None, cpu: int | None = None) -> Burner:
        """A process that computes, in a container, on one CPU."""
        handle, name = tempfile.mkstemp(dir=self.folder)
        os.ftruncate(handle, 8)
        counter = mmap.mmap(handle, 8, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(handle)
        return Burner(self.start("burn", name, cgroup=cgroup, namespace=namespace, cpu=cpu), counter)

    def pause(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process for a while; what it sent has arrived when this returns."""
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.01)

    def resume(self, process: subprocess.Popen[bytes]) -> None:
        """Let it continue; it has sent something when this returns."""
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a process."""
        process.kill()
        process.wait(timeout=60)
        if process in self._processes:
            self._processes.remove(process)


@cache
def _load_program() -> Path:
    """The load program, compiled once per run of the tests."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    compiler = shutil.which("gcc") or shutil.which("clang") or "cc"
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", folder / "load", _SOURCE], check=True, timeout=300)
    return folder / "load"


def _napi_threads() -> set[int]:
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text().startswith("napi/link0"):
                found.add(int(folder.name))
    return found


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=300)


@cache
def why_not() -> str:
    """What keeps containers from being made and accounted here; empty when they can be."""
    if os.geteuid() != 0:
        return "control groups, network namespaces and BPF need root"
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    if missing or not any(map(shutil.which, COMPILERS)):
        return f"there is no {missing[0] if missing else 'clang'} (scripts/setup.sh --isolate)"
    if not Path("/usr/include/bpf/bpf_helpers.h").exists():
        return "there are no headers of libbpf (scripts/setup.sh --isolate)"
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return "the kernel has no BTF"
    if len(os.sched_getaffinity(0)) < 2:
        return "a sender and a receiver need two CPUs"
    return _why_no_containers() or _why_no_bpf()


def why_no_limit(hierarchy: Hierarchy) -> str:
    """What keeps a CPU limit from being written in a hierarchy; empty when it can be."""
    folder = hierarchy.folder
    if not hierarchy.is_v1 and "cpu" not in (folder / "cgroup.subtree_control").read_text().split():
        return f"{folder}/cgroup.subtree_control does not have the cpu controller"
    probe = folder / f"{PREFIX}-probe-{os.getpid()}"
    try:
        probe.mkdir()
        if hierarchy.is_v1:
            (probe / "cpu.cfs_quota_us").write_text("20000")
        else:
            (probe / "cpu.max").write_text("20000 100000")
    except OSError as error:
        return f"no CPU limit can be written in {folder}: {error.strerror}"
    finally:
        with contextlib.suppress(OSError):
            probe.rmdir()
    return ""


def _why_no_containers() -> str:
    name = f"{PREFIX}-probe-{os.getpid()}"
    try:
        if reason := why_no_limit(find_hierarchy()):
            return reason
        _run("ip", "netns", "add", name)
        _run("ip", "netns", "delete", name)
    except IsolateError as error:
        return str(error)
    except OSError as error:
        return f"cgroups cannot be read: {error.strerror}"
    except subprocess.CalledProcessError as error:
        return f"no network namespace can be made: {error.stderr.decode().strip()}"
    return ""


def _why_no_bpf() -> str:
    """A container without the capability cannot even make a table."""
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        return "there is no libbpf (scripts/setup.sh --isolate)"
    array = 2
    descriptor = library.bpf_map_create(array, b"probe", 4, 4, 1, None)
    if descriptor < 0:
        return f"the kernel refuses BPF: {os.strerror(ctypes.get_errno())}"
    os.close(descriptor)
    return ""
