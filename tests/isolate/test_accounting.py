"""Accounting against a known load: what the scheduler says a process ran, and what work it did."""

from __future__ import annotations

import shutil
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.isolate.accounting import HOST, IDLE, Counters
from sluice.isolate.cgroups import Hierarchy, find_hierarchy
from sluice.isolate.interrupts import measure
from sluice.isolate.session import Sample, Session
from tests.isolate.lab import Burner, Lab, why_not

pytestmark = pytest.mark.root
CPU, OTHER_CPU = 0, 1
PORT = "5000"


@pytest.fixture(scope="module")
def running() -> Iterator[Session]:
    """One for all tests, whose labs have the same pattern. The interrupt cost matters only to the test that measures
    it.
    """
    if why_not():
        pytest.skip(why_not())
    with Lab(find_hierarchy()) as lab:
        pattern = lab.pattern
    with Session([pattern], interrupt_ns=0) as made:
        yield made


@pytest.fixture
def session(lab: Lab, running: Session) -> Session:
    """Without the containers of the test before."""
    del lab
    running.sample()
    running.sample()
    return running


def of(sample: Sample, name: str) -> Counters:
    """The counters of the container with that last name."""
    return next(usage.counters for usage in sample.containers if usage.container.name.split("/")[-1] == name)


def sampled(session: Session, seconds: float) -> Sample:
    """A sample of some seconds, beginning now."""
    session.sample()
    session.wait(seconds)
    return session.sample()


class Reading:
    """A sample, and what the scheduler said of a burner before and after it, as other load may delay this process."""

    def __init__(self, session: Session, burner: Burner) -> None:
        self.before = burner.runtime
        self.sample = session.sample()
        self.after = burner.runtime

    def assert_charged(self, name: str, earlier: Reading, within: float = 0.05) -> None:
        """The container with that last name was charged what the burner ran since the earlier reading."""
        run = of(self.sample, name).run / 1e9
        assert run >= (self.before - earlier.after) * (1 - within) - 0.03
        assert run <= (self.after - earlier.before) * (1 + within) + 0.03


def stopped(lab: Lab, burner: Burner) -> float:
    """Stops a burner. Returns the seconds that it ran, as far as the scheduler said before its end."""
    burner.process.send_signal(signal.SIGSTOP)
    time.sleep(0.05)
    ran = burner.runtime
    lab.stop(burner.process)
    return ran


def test_a_lone_burner_is_charged_what_it_ran_and_no_network(lab: Lab, session: Session) -> None:
    """The trap: it is never switched out, so that its time shows in no switch of tasks."""
    burner = lab.burn(lab.cgroup("v"), cpu=CPU)
    session.wait(0.2)
    earlier = Reading(session, burner)
    for _ in range(3):
        session.wait(0.2)
        reading = Reading(session, burner)
        found = of(reading.sample, "v")
        assert found.network == 0
        assert found.charged == pytest.approx(found.run, rel=0.005)
        reading.assert_charged("v", earlier)
        earlier = reading


def test_a_task_that_is_not_switched_out_is_in_its_container_once_that_is_found(lab: Lab, session: Session) -> None:
    """It ran in no container before, and may run alone for long: no switch, and no timer, says what it is in now."""
    burner = lab.burn(cpu=CPU)
    for number in range(4):
        time.sleep(0.2)
        cgroup = lab.cgroup(f"v{number}")
        (cgroup / "cgroup.procs").write_text(str(burner.process.pid))
        earlier = Reading(session, burner)
        time.sleep(0.1)
        Reading(session, burner).assert_charged(f"v{number}", earlier)


def test_a_snapshot_charges_all_time_up_to_now(lab: Lab, session: Session) -> None:
    """On every CPU, whatever happens there or does not."""
    del lab
    for cpu in range(session.accounting.cpus):
        begin, end, total = point(session, cpu)
        for _ in range(50):
            time.sleep(0.002)
            next_begin, next_end, next_total = point(session, cpu)
            assert next_begin - end <= next_total - total <= next_end - begin
            begin, end, total = next_begin, next_end, next_total


def point(session: Session, cpu: int) -> tuple[int, int, int]:
    """All time of a CPU that is accounted, and the clock before and after."""
    for _ in range(100):
        begin = time.monotonic_ns()
        if session.accounting.interrupt(cpu) == 0:
            break
    total = sum(session.accounting.read_cpu(slot, cpu).run for slot in (HOST, IDLE))
    return begin, time.monotonic_ns(), total


def test_all_time_of_all_cpus_is_accounted(lab: Lab, session: Session) -> None:
    """Containers, host and idle together, with packets and without; idle is what the kernel says it is."""
    lab.burn(lab.cgroup("v"), cpu=CPU)
    namespace, address = lab.namespace(cpu=CPU)
    lab.start("receive", PORT, cgroup=lab.cgroup("i"), namespace=namespace, cpu=CPU)
    for rate in (None, "20000"):
        if rate:
            lab.start("send", address, PORT, rate, "100", "0", cpu=OTHER_CPU)
        session.sample()
        idle = idle_of_kernel()
        session.wait(0.6)
        sample = session.sample()
        idle = idle_of_kernel() - idle
        assert sample.accounted == pytest.approx(1.0, abs=0.005)
        assert sample.idle.run / 1e9 == pytest.approx(idle, abs=0.02 * sample.seconds * sample.cpus + 0.02)
    assert session.total().accounted == pytest.approx(1.0, abs=0.02)
    assert not any(session.losses.values())


def idle_of_kernel() -> float:
    """Seconds that all CPUs have been idle, by /proc/stat, in ticks of 10 ms."""
    words = Path("/proc/stat").read_text().split()
    return (int(words[4]) + int(words[5])) / 100


class Windows:
    """Work and time of a container's burner, summed over windows."""

    def __init__(self, session: Session, slot: int, burner: Burner) -> None:
        self._session, self._slot, self._burner = session, slot, burner
        self.units = 0.0
        self.counters = Counters()

    def add(self, seconds: float) -> None:
        """One more window."""
        units, counters = self._read()
        time.sleep(seconds)
        end_units, end_counters = self._read()
        self.units += end_units - units
        self.counters += end_counters - counters

    def _read(self) -> tuple[float, Counters]:
        """Both at the same time, but for some units."""
        before, after, counters = 0, 1000, Counters()
        for _ in range(50):
            before = self._burner.units
            counters = self._session.accounting.snapshot().slots[self._slot]
            after = self._burner.units
            if after - before < 200:
                break
        return (before + after) / 2, counters

    @property
    def own(self) -> int:
        """What accounting says it ran for itself."""
        return self.counters.run - self.counters.for_others


def test_the_victims_own_time_is_its_work(lab: Lab) -> None:
    """Packets arrive at a CPU where a burner runs: softirqs, and interrupts of which a part is hidden, take time from
    it. What accounting leaves as its own must be the work that it did, by its speed without traffic; what it is said to
    do for others, the work that is missing. Windows with and without traffic and measurements of interrupts alternate,
    as other load changes the speed of the CPU. The receiver never reads, so that no task is woken, which would cost the
    burner more than packets.
    """
    burner = lab.burn(lab.cgroup("v"), cpu=CPU)
    namespace, address = lab.namespace(cpu=CPU)
    lab.start("hold", PORT, cgroup=lab.cgroup("i"), namespace=namespace, cpu=CPU)
    sender = lab.start("send", address, PORT, "60000", "1400", "0", cpu=OTHER_CPU)
    own: list[float] = []
    for_others: list[float] = []
    unaccounted: list[float] = []
    for _ in range(3):
        lab.pause(sender)
        with Session([lab.pattern], interrupt_ns=0) as session:
            slots = {one.name.split("/")[-1]: slot for slot, one in session.containers.current.items()}
            quiet, busy = (Windows(session, slots["v"], burner) for _ in range(2))
            for _ in range(6):
                lab.pause(sender)
                session.accounting.control.interrupt_ns = measure(session.accounting, milliseconds=60).hidden_ns
                quiet.add(0.06)
                lab.resume(sender)
                busy.add(0.06)
            worked = busy.units * quiet.own / quiet.units
            own.append(busy.own / worked)
            for_others.append(busy.counters.for_others / (busy.counters.run - worked))
            unaccounted.append(busy.counters.run / worked)
            both = session.accounting.snapshot().slots
            assert both[slots["i"]].by_containers == pytest.approx(both[slots["v"]].for_others, rel=0.05)
            assert both[slots["i"]].interrupts_ns > 0
    assert statistics.median(own) == pytest.approx(1.0, abs=0.1)
    assert statistics.median(for_others) == pytest.approx(
        1.0, abs=0.35
    )  # other load on the CPU counts as work for others
    assert statistics.median(unaccounted) > 1.06, "the load must be one that matters"


def test_packets_are_charged_at_each_device_on_their_path(lab: Lab, session: Session) -> None:
    """From a container over a bridge of the host to another: the sender pays at the bridge, the receiver in its own
    namespace.
    """
    bridge = lab.bridge()
    a, _ = lab.namespace(bridge=bridge)
    b, address = lab.namespace(bridge=bridge)
    sender = lab.cgroup("a")
    lab.start("hold", PORT, cgroup=sender, namespace=a)
    lab.start("hold", PORT, cgroup=lab.cgroup("b"), namespace=b)
    session.wait(0.3)
    session.sample()
    lab.start("send", address, PORT, "10000", "100", "2000", cgroup=sender, namespace=a).wait(timeout=60)
    sample = session.sample()
    assert 2000 <= of(sample, "a").received < 2100
    assert 2000 <= of(sample, "b").received < 2100
    assert of(sample, "b").network > 0


def test_packets_from_outside_are_charged_by_address_on_the_host(lab: Lab, session: Session) -> None:
    """The sender is in no container, as another machine would be."""
    bridge = lab.bridge()
    outside, _ = lab.namespace(bridge=bridge)
    b, address = lab.namespace(bridge=bridge)
    lab.start("hold", PORT, cgroup=lab.cgroup("b"), namespace=b)
    session.wait(0.3)
    session.sample()
    lab.start("send", address, PORT, "10000", "100", "2000", namespace=outside).wait(timeout=60)
    assert 4000 <= of(session.sample(), "b").received < 4200


@pytest.mark.parametrize("host", [False, True])
def test_in_a_shared_namespace_packets_are_their_sockets(lab: Lab, session: Session, host: bool) -> None:
    """Two containers in one namespace, as in a pod, or in the host's."""
    if lab.hierarchy.v2_folder is None:
        pytest.skip("there is no cgroup v2, by which sockets are known")
    outside, _ = lab.namespace()
    bridge = lab.bridge()
    sending, _ = lab.namespace(bridge=bridge)
    shared, address = lab.namespace(bridge=bridge)
    namespace, to, source = (None, lab.host_address(outside), outside) if host else (shared, address, sending)
    for name, port in (("a", "5001"), ("b", "5002")):
        lab.start("hold", port, cgroup=lab.cgroup(name), v2_cgroup=lab.v2_cgroup(name), namespace=namespace)
    session.wait(0.3)
    session.sample()
    lab.start("send", to, "5001", "10000", "100", "2000", namespace=source).wait(timeout=60)
    lab.start("send", to, "5002", "10000", "100", "1000", namespace=source).wait(timeout=60)
    sample = session.sample()
    assert 2000 <= of(sample, "a").received < 2100
    assert 1000 <= of(sample, "b").received < 1100


def test_the_interrupt_of_another_cpu_is_its_senders_work(lab: Lab, session: Session) -> None:
    """With receive packet steering, a softirq that sees no packet interrupts the other CPU."""
    namespace, address = lab.namespace(cpu=CPU)
    lab.start("hold", PORT, cgroup=lab.cgroup("i"), namespace=namespace)
    lab.start("send", address, PORT, "20000", "100", "0", cgroup=lab.cgroup("s"), cpu=OTHER_CPU)
    session.wait(0.3)
    sample = sampled(session, 0.5)
    assert of(sample, "s").own_network > 0
    assert of(sample, "s").for_others < 0.2 * of(sample, "s").own_network
    assert sample.host.network < 0.1 * of(sample, "i").network


def test_packets_that_a_shaper_holds_back_are_charged_to_their_sender(lab: Lab, session: Session) -> None:
    """HTB sends them later, from a softirq in the context of whatever runs then."""
    namespace, _ = lab.namespace()
    lab.shape(namespace, "20mbit")
    lab.burn(lab.cgroup("v"), cpu=OTHER_CPU)
    to = lab.host_address(namespace)
    lab.start("send", to, PORT, "5000", "1400", "0", cgroup=lab.cgroup("s"), namespace=namespace, cpu=OTHER_CPU)
    session.wait(0.3)
    sample = sampled(session, 1.0)
    assert of(sample, "s").transmitted > 200
    assert of(sample, "s").by_containers > 0
    assert of(sample, "v").for_others > 0
    assert of(sample, "v").network == 0


def test_what_a_thread_of_napi_polls_is_charged_to_its_packets_container(lab: Lab, session: Session) -> None:
    if shutil.which("ethtool") is None:
        pytest.skip("there is no ethtool (scripts/setup.sh --isolate)")
    namespace, address = lab.namespace()
    lab.thread_napi(namespace)
    lab.start("hold", PORT, cgroup=lab.cgroup("i"), namespace=namespace)
    session.wait(0.3)
    session.sample()
    lab.start("send", address, PORT, "10000", "100", "2000").wait(timeout=60)
    session.wait(0.1)
    found = of(session.sample(), "i")
    assert 2000 <= found.received < 2100
    assert found.by_host > 0
    assert not any(session.losses.values())


def test_cgroups_of_v2_are_accounted_alike() -> None:
    """Also where the cpu controller is in v1: accounting does not need it."""
    if why_not():
        pytest.skip(why_not())
    folder = find_hierarchy().v2_folder
    if folder is None:
        pytest.skip("there is no cgroup v2")
    hierarchy = Hierarchy(folder, False, folder)
    with Lab(hierarchy) as lab, Session([lab.pattern], interrupt_ns=0, hierarchy=hierarchy) as session:
        lab.cgroup("v")
        burner = lab.burn(lab.cgroup("v/inner"), cpu=CPU)
        namespace, address = lab.namespace()
        lab.start("hold", PORT, cgroup=lab.cgroup("i"), namespace=namespace)
        lab.start("hold", "5001", cgroup=lab.cgroup("on_host"))
        session.wait(0.3)
        earlier = Reading(session, burner)
        lab.start("send", address, PORT, "10000", "100", "2000").wait(timeout=60)
        lab.start("send", "127.0.0.1", "5001", "10000", "100", "1000").wait(timeout=60)
        reading = Reading(session, burner)
        reading.assert_charged("v", earlier)
        sample = reading.sample
        assert 2000 <= of(sample, "i").received < 2100
        assert of(sample, "on_host").received == 1000
        assert sample.accounted == pytest.approx(1.0, abs=0.005)


def test_descendants_of_a_container_belong_to_it(lab: Lab, session: Session) -> None:
    lab.cgroup("v")
    lab.cgroup("v/init.scope")
    burner = lab.burn(lab.cgroup("v/init.scope/deep"), cpu=CPU)
    session.wait(0.2)
    earlier = Reading(session, burner)
    session.wait(0.3)
    Reading(session, burner).assert_charged("v", earlier)


def test_a_task_that_moves_is_charged_to_its_new_container(lab: Lab, session: Session) -> None:
    """Also while it runs without being switched out."""
    burner, b = lab.burn(lab.cgroup("a"), cpu=CPU), lab.cgroup("b")
    waiting = lab.burn(b, cpu=OTHER_CPU)
    session.wait(0.2)
    lab.stop(waiting.process)
    (b / "cgroup.procs").write_text(str(burner.process.pid))
    session.wait(0.1)
    sample = sampled(session, 0.3)
    assert of(sample, "a").run < 0.01e9
    assert of(sample, "b").run > 0


def test_containers_come_and_go(lab: Lab) -> None:
    """More than there are slots at once; each is charged what it ran once it was found, and is in the total."""
    with Session([lab.pattern], max_containers=3, interrupt_ns=0) as session:
        expected: dict[str, float] = {}
        for number in range(5):
            name = f"c{number}"
            cgroup = lab.cgroup(name)
            burner = lab.burn(cgroup, cpu=CPU)
            session.wait(0.15)
            expected[name] = stopped(lab, burner)
            lab.remove(cgroup)
            sample = session.sample()
            assert next(usage.ended for usage in sample.containers if usage.container.name.endswith(name))
        total = session.total()
        assert sorted(usage.container.name.split("/")[-1] for usage in total.containers) == sorted(expected)
        for name, ran in expected.items():
            assert 0 < of(total, name).run / 1e9 <= ran + 0.05
        assert total.accounted == pytest.approx(1.0, abs=0.02)
        assert not any(session.losses.values())


def test_a_slot_that_is_used_again_counts_from_zero(lab: Lab) -> None:
    """One container is there at the start, and another has its slot when it is gone."""
    a = lab.cgroup("a")
    burner = lab.burn(a, cpu=CPU)
    begin = burner.runtime
    with Session([lab.pattern], max_containers=1, interrupt_ns=0) as session:
        session.wait(0.25)
        expected = {"a": stopped(lab, burner) - begin}
        lab.remove(a)
        session.sample()
        burner = lab.burn(lab.cgroup("b"), cpu=CPU)
        sample = sampled(session, 0.4)
        total = session.total()
        expected["b"] = burner.runtime
        assert of(sample, "b").run <= of(total, "b").run
        for name, ran in expected.items():
            assert 0 < of(total, name).run / 1e9 <= ran + 0.05
        assert total.accounted == pytest.approx(1.0, abs=0.02)


def test_containers_without_a_slot_are_counted(lab: Lab) -> None:
    for name in ("a", "b", "c"):
        lab.burn(lab.cgroup(name), cpu=CPU)
    with Session([lab.pattern], max_containers=2, interrupt_ns=0) as session:
        sample = sampled(session, 0.2)
        assert len(sample.containers) == 2
        assert session.losses["containers without a slot (--max-containers)"] == 1
        assert sample.accounted == pytest.approx(1.0, abs=0.02)
