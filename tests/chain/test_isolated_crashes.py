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
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.process import Process, read_result
from sluice.chain.processes.program import IsolatedChain
from tests.chain.running import Came, checked, compiled_chain, run_isolated, talk

COUNTS = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_WRITES(ipv4, FIELD)
SLUICE_PARAMETER(mode, number, 0, "what it does wrong")
SLUICE_COUNTER(packets, "of TCP")
SLUICE_COUNTER(digest, "of these, in order")
SLUICE_COUNTER(lost, "of connections whose state is lost")
static void misbehave(const struct sl_event *event, uint64_t mode, uint64_t number) {
    volatile uint8_t *packet = (volatile uint8_t *)(uintptr_t)sl_packet_frame(event)->at;
    if (mode == ABORT)
        abort();
    if (mode == SLOW)
        usleep(50);
    if (mode == LOOP && number == 15)
        for (;;)
            (void)*packet;
    if (number % 10 != 5)
        return;
    if (mode == NULL_POINTER)
        *(volatile int *)(uintptr_t)8 = 1;
    if (mode == PACKET)
        *packet = 0xff;
    if (mode == OWN)   /* all that it may write of the shared memory, up to where that ends */
        for (volatile uint64_t *at = (volatile uint64_t *)(uintptr_t)sl_iso_own();; at++)
            *at = 0xfefefefefefefefe;
}
SLUICE_ON(tcp, packet) {
    uint64_t *digest = &SLUICE_COUNTER_OF(event->box, digest), number = sl_packet_number(event);
    uint8_t value = 9;
    *digest = (*digest * 1000003 + number) % 1000000007;
    SLUICE_COUNTER_OF(event->box, packets)++;
    SLUICE_COUNTER_OF(event->box, lost) += sl_flow_lost(event);
    misbehave(event, SLUICE_PARAMETER_OF(event->box, mode), number);
    SLUICE_REWRITE(event->box, sl_packet_frame(event)->at + 14 + PLACE, &value, 1);
}
"""
HEALTHY, ABORT, SLOW, LOOP, NULL_POINTER, PACKET, OWN = range(7)
MODES = {"ABORT": ABORT, "SLOW": SLOW, "LOOP": LOOP, "NULL_POINTER": NULL_POINTER, "PACKET": PACKET, "OWN": OWN}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions; they are compiled once."""
    made = tmp_path_factory.mktemp("crashes")
    for name, field, place in (("bad", "ttl", "8"), ("good", "tos", "1")):
        text = COUNTS.replace("FIELD", field).replace("PLACE", place)
        for word, number in MODES.items():
            text = re.sub(rf"== {word}\b", f"== {number}", text)
        (made / f"{name}.c").write_text(text)
    return made


def chain_of(folder: Path, mode: int, failure: str = "open") -> IsolatedChain:
    """bad >> good: what happens to the first must not harm the second."""
    bad = function(str(folder / "bad.c"), mode=mode).isolated(failure=failure)
    return compiled_chain(checked(bad >> function(str(folder / "good.c"))))


def run(chain: IsolatedChain, folder: Path, packets: tuple[bytes, ...] | None = None, **more: Any) -> Came:
    return run_isolated(chain.plan, folder / "out.pcap", packets, chain, **more)


@pytest.fixture(scope="module")
def healthy(folder: Path) -> Came:
    """What the chain comes to without a crash."""
    return run(chain_of(folder, HEALTHY), folder)


def of(came: Came, name: str) -> dict[str, int]:
    return {figure: value for figure, value in came.reports.items() if figure.startswith(f"{name}.")}


def fives() -> int:
    return sum(number % 10 == 5 for number in range(1, len(talk()) + 1))


@pytest.mark.parametrize("mode", [NULL_POINTER, PACKET, OWN], ids=["null", "packets", "own memory"])
def test_packets_pass_and_others_go_on_where_a_function_crashes(
    folder: Path, healthy: Came, mode: int, capfd: pytest.CaptureFixture[str]
) -> None:
    came = run(chain_of(folder, mode), folder)
    assert len(came.left) == len(talk())
    assert of(came, "good") == of(healthy, "good")
    assert came.counters == healthy.counters
    assert 0 < came.reports["bad.crashes"] <= fives()  # after the third, it goes on with the next batch
    assert re.search(
        r"warning: 'bad' crashed \(signal 11, Segmentation fault\); it is restarted", capfd.readouterr().err
    )


def test_a_restarted_function_continues_with_the_next_event_and_knows_which_flows_it_lost(
    folder: Path, healthy: Came
) -> None:
    came = run(chain_of(folder, NULL_POINTER), folder)
    crashes = [number for number, packet in enumerate(came.left, 1) if packet[14 + 8] != 9]
    assert crashes == [number for number in range(1, len(talk()) + 1) if number % 10 == 5]  # these alone are unchanged
    assert came.reports["bad.events_skipped"] == fives()
    assert came.reports["bad.packets"] == len(talk()) - crashes[-1]  # since the last crash
    assert came.reports["bad.lost"] > 0 and came.reports["bad.flows_lost"] > 0
    assert came.reports["good.lost"] == 0


def test_a_function_that_fails_closed_lets_no_packet_pass_that_it_has_not_handled(folder: Path) -> None:
    came = run(chain_of(folder, NULL_POINTER, failure="closed"), folder)
    assert len(came.left) == len(talk()) - fives()
    assert all(packet[14 + 8] == 9 for packet in came.left)
    assert came.reports["packets_dropped"] == fives()


def test_a_batch_whose_function_damaged_its_memory_does_not_pass_if_it_fails_closed(folder: Path) -> None:
    came = run(chain_of(folder, OWN, failure="closed"), folder)
    assert came.left == []  # each batch has a packet at which it crashes
    assert came.reports["isolated_closed_drops"] == len(talk())


@pytest.mark.parametrize("failure", ["open", "closed"])
def test_a_function_that_crashes_at_every_event_is_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failure: str, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sluice.chain.processes.controller.CRASHES_MOST", 3)
    came = run(chain_of(folder, ABORT, failure), folder)
    assert len(came.left) == (len(talk()) if failure == "open" else 0)
    assert came.reports["bad.crashes"] == 4
    assert "it is left out, and packets " in capfd.readouterr().err


def test_a_function_that_does_not_return_is_killed(folder: Path, healthy: Came) -> None:
    came = run(chain_of(folder, LOOP), folder, controller=lambda running: setattr(running, "patience", 3))
    assert of(came, "good") == of(healthy, "good")
    assert came.reports["bad.crashes"] == 1
    assert len(came.left) == len(talk())


FORGES = """
#include "sluice.h"
SLUICE_INLINE
static void put(struct sl_iso_entry entry) {
    struct sl_iso_log *log = sl_iso_receiver.log;
    memcpy((uint8_t *)(log + 1) + log->used, &entry, sizeof entry);
    log->used += sizeof entry;
}
#define PUT(...) put((struct sl_iso_entry){.size = sizeof(struct sl_iso_entry), .frame = sl_iso_receiver.frame, \
                                           .current = 1, .place = sl_iso_receiver.here, __VA_ARGS__})
static void put_apart(uint64_t time, uint32_t link_type) {
    struct { struct sl_iso_entry entry; struct sl_iso_apart apart; uint8_t bytes[16]; } all = {
        {.size = sizeof all, .action = SL_ISO_SEND_APART, .frame = sl_iso_receiver.frame, .current = 1,
         .place = sl_iso_receiver.here, .length = sizeof all.apart + sizeof all.bytes},
        {time, link_type, 0}, {0}};
    struct sl_iso_log *log = sl_iso_receiver.log;
    memcpy((uint8_t *)(log + 1) + log->used, &all, sizeof all);
    log->used += sizeof all;
}
SLUICE_ON(tcp, packet) {
    put_apart(0, 77);
    if (sl_packet_number(event) == 1)
        put_apart(UINT64_MAX, 1);   /* valid, but for its time */
    PUT(.action = SL_ISO_DROP, .place.length = 1000);
    PUT(.action = SL_ISO_DROP, .place.order = UINT64_MAX);
    PUT(.action = SL_ISO_DROP, .frame = 1000000);
    PUT(.action = SL_ISO_REDIRECT, .frame = sl_iso_receiver.frame + 1);
    PUT(.action = SL_ISO_REDIRECT, .frame = sl_iso_receiver.frame - 1);
    PUT(.action = SL_ISO_DROP, .current = 0);
    PUT(.action = SL_ISO_REWRITE, .length = 1 << 20);
    PUT(.action = SL_ISO_SEND, .length = UINT32_MAX);
    PUT(.action = 77);
    if (sl_packet_number(event) == 7)
        sl_iso_receiver.log->drops[sl_iso_receiver.frame - 1] = sl_iso_receiver.here.order;
    PUT(.action = SL_ISO_SEND, .frame = 0, .current = 0, .length = 0);   /* valid: no packet, and no bytes */
    if (sl_packet_number(event) == LAST)
        PUT(.size = 12);
}
"""
DROPS = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_ON(tcp, packet) {
    if (sl_packet_number(event) % 3 == 0)
        SLUICE_DROP(event->box);
}
"""


def test_entries_of_a_log_that_make_no_sense_are_ignored_and_counted(folder: Path) -> None:
    (folder / "forges.c").write_text(FORGES.replace("LAST", str(len(talk()))))
    (folder / "drops.c").write_text(DROPS)
    for first, last in (("drops.c", "forges.c"), ("forges.c", "drops.c")):
        plan = checked(function(str(folder / first)) | function(str(folder / last)))
        came = run_isolated(plan, folder / "out.pcap")
        assert came.reports["isolated_invalid"] == 10 * len(talk()) + 2
        assert bytes(16) in came.left
        passed = [packet for number, packet in enumerate(talk(), 1) if number % 3 and number != 7]
        assert [packet for packet in came.left if packet != bytes(16)] == passed


LIES = """
#include <sys/stat.h>
#include "sluice.h"
SLUICE_COUNTER(packets, "of TCP")
SLUICE_ON(tcp, packet) {
    if (SLUICE_COUNTER_OF(event->box, packets)++ == 0)
        for (int file = 3; file < 1024; file++) {
            struct stat found;
            if (fstat(file, &found) == 0 && S_ISFIFO(found.st_mode) && write(file, "[1]\\n", 4) < 0)
                return;
        }
}
"""


def test_a_result_that_makes_no_sense_is_a_crash(folder: Path) -> None:
    (folder / "lies.c").write_text(LIES)
    came = run_isolated(checked(function(str(folder / "lies.c"))), folder / "out.pcap")
    assert came.reports["lies.crashes"] == 1
    assert "lies.packets" not in came.reports


@pytest.mark.parametrize(
    "text",
    [
        *(b"[1]\n", b"{", b"[" * 100_000, b'{"reports": {"a": "b"}}', b'{"missing": [1]}', b'{"error": 1}', b"\xff\n"),
        *(b'{"tunnel": 1}', b'{"tunnel": {"sent": "b"}}', b'{"tunnel": {"a name that grows the figures": 1}}'),
    ],
)
def test_results_are_checked(text: bytes) -> None:
    assert read_result(text) is None


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


def kill(folder: Path, monkeypatch: pytest.MonkeyPatch, kills: int, times: int) -> None:
    """Many packets, and kills while they pass."""
    monkeypatch.setattr("tests.chain.running.Controller", Killer)
    monkeypatch.setattr(Killer, "most", kills)
    monkeypatch.setattr(Killer, "dice", random.Random(kills))
    monkeypatch.setattr(Killer, "kills", 0)
    files, mappings = len(os.listdir("/proc/self/fd")), Path("/proc/self/maps").read_text().count("memfd:sluice")
    packets = talk() * times
    chain = chain_of(folder, SLOW)
    done = list[Controller]()
    came = run(chain, folder, packets, controller=done.append)
    assert len(came.left) == len(packets)
    assert came.reports["good.packets"] == len(packets)
    assert 0 < came.reports["bad.crashes"] <= kills
    assert came.reports.get("bad.events_skipped", 0) <= came.reports["bad.crashes"]
    unchanged = sum(packet[14 + 8] != 9 for packet in came.left)
    assert unchanged <= came.reports["bad.crashes"]
    assert len(os.listdir("/proc/self/fd")) == files  # memory is returned
    assert Path("/proc/self/maps").read_text().count("memfd:sluice") == mappings


def test_no_packet_is_lost_where_a_function_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill(folder, monkeypatch, kills=100, times=40)


@pytest.mark.slow_matrix
def test_ten_thousand_kills(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill(folder, monkeypatch, kills=10_000, times=10_000)
