"""Instances on other hosts: over UDP tunnels the output and the state are those of the ideal chain, also when a
process, an agent or the network of another host fails.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from sluice.chain.description import function
from sluice.chain.hosts import tunnel
from sluice.chain.hosts.agent import LogFile
from sluice.chain.hosts.engine import CommandEngine, EngineError, RayEngine, find_engine
from sluice.chain.hosts.relay import Hosts, run_relay
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.memory import Memory
from sluice.chain.processes.program import isolate
from sluice.state.embedded import find_server
from sluice.state.location import Location
from tests.live.veth import CLIENT, ROOT, Veth, why_not
from tests.state.boxes import missing
from tests.state.instances import SETTINGS, Action, Ran, compiled, move, plan_of, process_of, run_ideal, run_instances
from tests.state.traffic import mixed, write
from tests.support.bounded import PATIENCE, killed_after
from tests.support.unoptimised import unoptimised

HERE = Hosts(CommandEngine(("env",)), "127.0.0.1")
"""Agents on this host, by UDP over loopback."""
NAT = function("nat", inside="10.1.0.0/16", first_port=2000, last_port=2999)

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    return mixed(7, 150)


@pytest.fixture(scope="module")
def ideal(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    with unoptimised():
        return run_ideal(plan_of(NAT >> function("portscan", wait=0.2)), packets, tmp_path_factory.mktemp("ideal"))


def ran(packets: list[bytes], folder: Path, store: Location, actions: dict[int, Action]) -> Ran:
    chain = compiled(plan_of(NAT >> function("portscan", wait=0.2)), {"nat": 2, "portscan": 2})
    return run_instances(chain, packets, folder, store, actions, hosts=HERE)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have: a relay's agent, then the instance's."""
    found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(other for one in found for other in descendants(one))]


def to_process(label: str, act: Callable[[list[int]], None]) -> Action:
    """An action on the processes of an instance that are on the other host: its agent, and its own."""

    def done(controller: Controller) -> None:
        process = process_of(controller, label)
        if process.pid:
            act(descendants(process.pid))

    return done


def test_instances_on_another_host(packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location) -> None:
    """Functions in sequence, one of which drops packets, whose traffic moves from one instance to the other."""
    found = ran(packets, tmp_path, store, {3: move("nat", 1), 6: move("nat", 0)})
    assert found.left == ideal.left and found.state == ideal.state and found.failure is None
    assert len(found.left) > 300
    assert found.reports["nat.tunnel_sent"] > 10 and found.reports["portscan#1.tunnel_received"] > 10


def test_processes_of_another_host_are_killed(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    """The process of an instance, the agent of one, the relay of one."""

    def kill(place: int) -> Callable[[list[int]], None]:
        return lambda found: os.kill(found[place], signal.SIGKILL)

    def kill_relay(controller: Controller) -> None:
        process = process_of(controller, "nat#1")
        os.kill(process.pid, signal.SIGKILL)

    actions = {2: to_process("nat", kill(-1)), 4: to_process("portscan#1", kill(0)), 6: kill_relay}
    found = ran(packets, tmp_path, store, actions)
    assert found.left == ideal.left and found.state == ideal.state and found.failure is None
    assert found.reports["nat.crashes"] >= 1


def test_a_host_that_cannot_be_reached_is_replaced(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent is silent, and its process goes on: the store refuses what that updates."""
    monkeypatch.setattr(tunnel, "SILENCE", 1.0)
    stopped: list[int] = []

    def stop(found: list[int]) -> None:
        stopped.append(found[0])
        os.kill(found[0], signal.SIGSTOP)

    found = ran(packets, tmp_path, store, {3: to_process("nat", stop)})
    assert found.left == ideal.left and found.state == ideal.state and found.failure is None
    assert stopped and found.reports["nat.crashes"] == 1


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_chain_on_two_hosts(packets: list[bytes], tmp_path: Path) -> None:
    """Namespaces of the kernel are the hosts: packets between them are datagrams on a link."""
    capture, chain = write(tmp_path / "in.pcap", packets), tmp_path / "chain.py"
    chain.write_text(
        "from sluice.chain import Chain, function\n"
        "from tests.state.instances import stack\n"
        'chain = Chain(function("nat", inside="10.1.0.0/16"), stack=stack(), name="hosts")\n'
    )
    veth = Veth("sluicehosts")
    try:
        words = ["ip", "netns", "exec", veth.client, find_server(), "--bind", CLIENT, "--protected-mode", "no"]
        with subprocess.Popen([*words, "--save", "", "--dir", str(tmp_path)], stdout=subprocess.DEVNULL) as server:
            with killed_after(server):
                words = ["ip", "netns", "exec", veth.client, sys.executable, "-m", "sluice", "chain", str(chain)]
                words += ["-r", str(capture), "-w", str(tmp_path / "out.pcap"), "--isolate", "--instances", "nat=2"]
                words += ["--store", f"valkey://{CLIENT}", "--check-equivalence", "--json", "--tunnel", CLIENT]
                words += ["--engine", f"command:ip netns exec {veth.server}"]
                done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
            server.kill()
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["reports"]["equivalence_differences"] == 0
    finally:
        veth.close()


@pytest.mark.slow_matrix
def test_actors_of_ray_run_instances(packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location) -> None:
    """Two nodes on this machine. One is ended: Ray places the actors that take the place of its own on the other."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
    try:
        node = cluster.add_node(num_cpus=4)
        cluster.wait_for_nodes()
        hosts = Hosts(RayEngine(cluster.address), "127.0.0.1")
        chain = compiled(plan_of(NAT >> function("portscan", wait=0.2)), {"nat": 2})
        found = run_instances(chain, packets, tmp_path, store, {3: lambda _: cluster.remove_node(node)}, hosts=hosts)
    finally:
        cluster.shutdown()
    assert found.left == ideal.left and found.state == ideal.state and found.failure is None


def test_the_log_of_an_agent_is_freed(tmp_path: Path) -> None:
    """What was transmitted of it takes no room on the other host; what is written then is read, too."""
    log, whole, found = LogFile(tmp_path), os.urandom(3 << 20), b""
    os.write(log.file, whole[:-10])
    while data := log.read():
        found += data
    os.write(log.file, whole[-10:])
    assert found + log.read() == whole and log.read() == b""
    assert os.fstat(log.file).st_blocks * 512 < 2 << 20 and not os.listdir(tmp_path)
    os.close(log.file)


def test_an_agent_may_remove_its_files(tmp_path: Path) -> None:
    """A program that an engine started gets the time to end by itself."""
    done = tmp_path / "done"
    words = ("sh", "-c", f"cat > {tmp_path / 'task'}; sleep 0.2; touch {done}")
    CommandEngine(words).start("nat#1", b"task").stop()
    assert done.exists() and (tmp_path / "task").read_bytes() == b"task"


def test_a_relay_never_returns_to_the_controller() -> None:
    """An error that no one has thought of ends its process, which has forked from the controller."""
    part = isolate(plan_of(NAT), {"nat": 2}, stores=True).parts[0]
    memory = Memory(1)
    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            run_relay(HERE, part, memory, SETTINGS, True, -1, (), cast(Any, None))
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 70
    memory.close()


def test_engines_that_make_no_sense_are_refused() -> None:
    for text, why in (("kubernetes", "is no engine"), ("command:", "write the words"), ("command:'", "quotation")):
        with pytest.raises(EngineError, match=why):
            find_engine(text)
    found = CommandEngine(("sluice-no-such-program", "{name}"))
    with pytest.raises(EngineError, match="sluice-no-such-program"):
        found.start("nat#1", b"")
