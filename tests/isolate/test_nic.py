"""Dropping at interfaces of the host by destination, and what it says where it cannot."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from sluice.isolate.accounting import FIRST
from sluice.isolate.enforcer import Enforcer
from sluice.isolate.errors import IsolateError
from sluice.isolate.gates import Dropped
from sluice.isolate.nic import NicGate, Nics
from tests.isolate.lab import Lab

pytestmark = pytest.mark.root
PERCENT = 3
FOREVER = (1 << 63) - 1


@pytest.fixture
def joined(lab: Lab) -> tuple[str, str, str]:
    """Two namespaces that a bridge of the host joins: the name of an outside one, the address of the other, and the
    interface of the host by which packets from outside arrive. A packet has passed: all neighbours are known.
    """
    bridge = lab.bridge()
    outside, _ = lab.namespace(bridge=bridge)
    inside, address = lab.namespace(bridge=bridge)
    lab.start("hold", "5000", namespace=inside)
    send(lab, outside, address, 8)
    sent = Path(f"/sys/class/net/{lab.host_end(inside)}/statistics/tx_bytes")
    for _ in range(1000):
        if int(sent.read_text()) >= 8 * 142:
            break
        time.sleep(0.01)
    return outside, address, lab.host_end(outside)


def send(lab: Lab, namespace: str, address: str, count: int) -> None:
    lab.start("send", address, "5000", "20000", "100", str(count), namespace=namespace).wait(timeout=60)


def test_packets_to_a_closed_address_are_dropped_and_counted_by_reason(lab: Lab, joined: tuple[str, str, str]) -> None:
    outside, address, nic = joined
    nics = Nics([nic], 2, FIRST + 4)
    try:
        assert nics.places == [f"xdp {nic}"]
        gate, other = NicGate(nics, 3), NicGate(nics, 4)
        send(lab, outside, address, 80)
        assert gate.dropped() == {"spent": Dropped(), "early": Dropped()}
        gate.addresses = frozenset({address, "fd00::1"})
        gate.set("spent", FOREVER)
        send(lab, outside, address, 80)
        gate.set("early", FOREVER)
        send(lab, outside, address, 40)
        gate.set("early", 1)  # a time that has passed
        send(lab, outside, address, 40)
        gate.close()
        send(lab, outside, address, 40)
        found = gate.dropped()
        assert (found["spent"].packets, found["early"].packets) == (80, 40)
        assert found["spent"].bytes == 80 * (100 + 8 + 20 + 14)
        assert other.dropped()["spent"] == Dropped()
        assert NicGate(nics, 3).dropped()["spent"] == Dropped(), "a row that is used again counts from 0"
    finally:
        nics.close()
    show = subprocess.run(["ip", "link", "show", nic], capture_output=True, text=True, check=True, timeout=300).stdout
    assert "prog/xdp" not in show


def test_an_interface_that_is_not_there_is_named(lab: Lab) -> None:
    del lab
    with pytest.raises(IsolateError, match="there is no interface nosuch0; the host has"):
        Nics(["nosuch0"], 2, FIRST + 4)


def test_a_flood_from_outside_is_dropped_before_the_host_switches_it(lab: Lab, tmp_path: Path) -> None:
    """What is dropped there does not reach the gate at the container's link."""
    bridge = lab.bridge()
    outside, _ = lab.namespace(bridge=bridge)
    inside, address = lab.namespace(cpu=0, bridge=bridge)
    nic = lab.host_end(outside)
    lab.start("receive", "5000", cgroup=lab.limited("i", PERCENT), namespace=inside, cpu=0)
    lab.start("send", address, "5000", "30000", "1400", "0", namespace=outside, cpu=1)
    with Enforcer([lab.pattern], interrupt_ns=0, state_folder=tmp_path / "state", nics=[nic]) as enforcer:
        for _ in range(100):
            enforcer.wait(0.1)
            (state,) = enforcer.sample().states
            (one,) = enforcer.enforced.values()
            assert one.nic is not None
            assert one.gates is not None
            if one.nic.dropped()["spent"].packets > 100:
                break
        assert f"xdp {nic}" in state.places  # pyright: ignore[reportPossiblyUnboundVariable]
        assert one.nic.dropped()["spent"].packets > 100  # pyright: ignore[reportPossiblyUnboundVariable,reportOptionalMemberAccess]
        assert one.gates.dropped()["spent"].packets < one.nic.dropped()["spent"].packets  # pyright: ignore[reportPossiblyUnboundVariable,reportOptionalMemberAccess]
