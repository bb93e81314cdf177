"""Crashes of isolated functions: the chain continues, the function is restarted, and no other function is harmed."""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from sluice.chain.description import function
from sluice.chain.processes.controller import Controller, Process
from sluice.chain.processes.program import IsolatedChain
from tests.chain.running import Came, checked, compiled_chain, run_isolated, talk

COUNTS = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_WRITES(ipv4, FIELD)
SLUICE_COUNTER(packets, "of TCP")
SLUICE_COUNTER(digest, "of these, in order")
SLUICE_COUNTER(lost, "of connections whose state is lost")
SLUICE_ON(tcp, packet) {
    uint64_t *digest = &SLUICE_COUNTER_OF(event->box, digest), number = sl_packet_number(event);
    uint8_t ttl = 9;
    *digest = (*digest * 1000003 + number) % 1000000007;
    SLUICE_COUNTER_OF(event->box, packets)++;
    SLUICE_COUNTER_OF(event->box, lost) += sl_flow_lost(event);
    BODY
    SLUICE_REWRITE(event->box, sl_packet_frame(event)->at + 14 + PLACE, &ttl, 1);
}
"""
SEGV = "if (number % 10 == 5) *(volatile int *)(uintptr_t)8 = 1;"
WILD = """
    if (number % 10 == 5) {   /* writes into the packet, and over what it can read of the chain */
        volatile uint8_t *at = (volatile uint8_t *)(uintptr_t)sl_packet_frame(event)->at;
        *at = 0xff;
    }
"""
OWN = """
    if (number % 10 == 5)   /* all that it may write of the shared memory, and then it crashes */
        for (volatile uint64_t *at = (volatile uint64_t *)(uintptr_t)sl_iso_own(); ; at++)
            *at = 0xfefefefefefefefe;
"""
BLOCKS = "if (number == 15) for (;;) (void)*(volatile const uint8_t *)event->unit.at;"


def put(folder: Path, name: str, body: str) -> str:
    path = folder / f"{name}.c"
    field, place = ("tos", "1") if name == "good" else ("ttl", "8")
    path.write_text(COUNTS.replace("BODY", body).replace("FIELD", field).replace("PLACE", place))
    return str(path)


def chain_of(folder: Path, body: str, failure: str = "open") -> IsolatedChain:
    """bad >> good: what happens to the first must not harm the second."""
    bad = function(put(folder, "bad", body)).isolated(failure=failure)
    good = function(put(folder, "good", ""))
    return compiled_chain(checked(bad >> good))


def run(chain: IsolatedChain, folder: Path, packets: tuple[bytes, ...] | None = None, **more: Any) -> Came:
    return run_isolated(chain.plan, folder / "out.pcap", packets, chain, **more)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Came:
    """What the chain comes to without a crash."""
    folder = tmp_path_factory.mktemp("healthy")
    return run(chain_of(folder, ""), folder)


def of(came: Came, name: str) -> dict[str, int]:
    return {figure: value for figure, value in came.reports.items() if figure.startswith(f"{name}.")}


def fives() -> int:
    return sum(number % 10 == 5 for number in range(1, len(talk()) + 1))


@pytest.mark.parametrize("body", [SEGV, WILD, OWN], ids=["null", "packets", "own memory"])
def test_packets_pass_and_others_go_on_where_a_function_crashes(
    tmp_path: Path, healthy: Came, body: str, capfd: pytest.CaptureFixture[str]
) -> None:
    came = run(chain_of(tmp_path, body), tmp_path)
    assert len(came.left) == len(talk())
    assert of(came, "good") == of(healthy, "good")
    assert came.counters == healthy.counters
    assert 0 < came.reports["bad.crashes"] <= fives()  # after the third, it goes on with the next batch
    assert re.search(
        r"warning: 'bad' crashed \(signal 11, Segmentation fault\); it is restarted", capfd.readouterr().err
    )


def test_a_restarted_function_continues_with_the_next_event_and_knows_which_flows_it_lost(
    tmp_path: Path, healthy: Came
) -> None:
    came = run(chain_of(tmp_path, SEGV), tmp_path)
    crashes = [number for number, packet in enumerate(came.left, 1) if packet[14 + 8] != 9]
    assert crashes == [number for number in range(1, len(talk()) + 1) if number % 10 == 5]  # these alone are unchanged
    assert came.reports["bad.events_skipped"] == fives()
    assert came.reports["bad.packets"] == len(talk()) - crashes[-1]  # since the last crash
    assert came.reports["bad.lost"] > 0 and came.reports["bad.flows_lost"] > 0
    assert came.reports["good.lost"] == 0


def test_a_function_that_fails_closed_lets_no_packet_pass_that_it_has_not_handled(tmp_path: Path) -> None:
    came = run(chain_of(tmp_path, SEGV, failure="closed"), tmp_path)
    assert len(came.left) == len(talk()) - fives()
    assert all(packet[14 + 8] == 9 for packet in came.left)
    assert came.reports["packets_dropped"] == fives()


@pytest.mark.parametrize("failure", ["open", "closed"])
def test_a_function_that_crashes_at_every_event_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sluice.chain.processes.controller.CRASHES_MOST", 3)
    came = run(chain_of(tmp_path, "abort();", failure), tmp_path)
    assert len(came.left) == (len(talk()) if failure == "open" else 0)
    assert came.reports["bad.crashes"] == 4
    assert "it is left out, and packets " in capfd.readouterr().err


def test_a_function_that_does_not_return_is_killed(tmp_path: Path, healthy: Came) -> None:
    came = run(chain_of(tmp_path, BLOCKS), tmp_path, controller=lambda running: setattr(running, "patience", 0.3))
    assert of(came, "good") == of(healthy, "good")
    assert came.reports["bad.crashes"] == 1
    assert len(came.left) == len(talk())


class Killer(Controller):
    """Kills a function at random moments."""

    kills = 0
    most = 0
    dice = random.Random(1)

    def _watch(self, process: Process) -> None:
        super()._watch(process)
        side = self.memory.functions[process.part.number]
        if process.part.name == "bad" and process.pid and side.running and self.kills < self.most:
            for _ in range(self.dice.randrange(2000)):
                pass
            os.kill(process.pid, signal.SIGKILL)
            self.kills += 1


def kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int, healthy: int) -> None:
    """Many packets, and kills while they pass."""
    monkeypatch.setattr("tests.chain.running.Controller", Killer)
    monkeypatch.setattr(Killer, "most", kills)
    monkeypatch.setattr(Killer, "dice", random.Random(kills))
    monkeypatch.setattr(Killer, "kills", 0)
    files, mappings = len(os.listdir("/proc/self/fd")), Path("/proc/self/maps").read_text().count("memfd:sluice")
    packets = talk() * healthy
    chain = chain_of(tmp_path, "usleep(50);" if healthy else "")
    done = list[Controller]()
    came = run(chain, tmp_path, packets, controller=done.append)
    assert len(came.left) == len(packets)
    assert came.reports["good.packets"] == len(packets)
    assert 0 < came.reports["bad.crashes"] <= kills
    assert came.reports.get("bad.events_skipped", 0) <= came.reports["bad.crashes"]
    unchanged = sum(packet[14 + 8] != 9 for packet in came.left)
    assert unchanged <= came.reports["bad.crashes"]
    assert len(os.listdir("/proc/self/fd")) == files  # memory is returned
    assert Path("/proc/self/maps").read_text().count("memfd:sluice") == mappings


def test_no_packet_is_lost_where_a_function_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill(tmp_path, monkeypatch, kills=30, healthy=20)


@pytest.mark.slow_matrix
def test_ten_thousand_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill(tmp_path, monkeypatch, kills=10_000, healthy=10_000)
