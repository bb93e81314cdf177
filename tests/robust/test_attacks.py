"""Attacks on the cost of a packet, each with good traffic beside it: what is too much is counted, and the good traffic
keeps its bytes. Costs are counted in instructions, not in time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.engine.box import Settings
from sluice.engine.compiler import INCLUDES
from sluice.stacks.find import find_stack
from tests.protocols import test_dns as dns
from tests.protocols.test_sctp import data, handshake
from tests.protocols.test_sctp_interleaved import BEGIN, PACKETS, idata, packet
from tests.support.run import run, watch_all
from tests.support.unoptimised import unoptimised

PROTOCOLS = Path(__file__).resolve().parents[2] / "sluice/protocols"

KEY_LOG = """
#include "native/key_log.h"
int main(int count, char **arguments) {
    struct key_log log = {0};
    char line[256];
    int lines = atoi(arguments[1]), alike = atoi(arguments[2]);
    if (count != 3 || key_log_open(&log, ""))
        return 2;
    for (int i = 0; i < lines; i++) {
        int length = snprintf(line, sizeof line, "CLIENT_TRAFFIC_SECRET_0 %08x%056x %064x\\n",
                              alike ? 7u : 2654435761u * (unsigned)i, (unsigned)i, (unsigned)i);
        key_log_text(&log, (sl_bytes){(const uint8_t *)line, (uint32_t)length, (uint32_t)length});
    }
    int found = (int)log.count == lines;
    key_log_close(&log);
    return !found;
}
"""


@pytest.fixture(scope="module")
def key_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that reads so many entries of a key log, whose client randoms begin alike or not."""
    if not shutil.which("gcc") or not shutil.which("valgrind"):
        pytest.skip("needs gcc and valgrind, which counts instructions (Debian: valgrind)")
    folder = tmp_path_factory.mktemp("log")
    (folder / "log.c").write_text(KEY_LOG)
    includes = [f"-I{PROTOCOLS}", *INCLUDES]
    command = ["gcc", "-O1", "-w", *includes, str(folder / "log.c"), "-o", str(folder / "log"), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "log"


def instructions(program: Path, *arguments: int) -> int:
    """The number of instructions that a program executes."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program)]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


def test_key_logs_whose_client_randoms_begin_alike_cost_no_more(key_log: Path) -> None:
    """The cost is linear in the entries, and that of any other log."""
    few, many = instructions(key_log, 1000, 1), instructions(key_log, 4000, 1)
    assert many < 5 * few
    assert many < 1.2 * instructions(key_log, 4000, 0)


def test_a_sender_of_many_small_messages_loses_none_beside_an_attack() -> None:
    """Twenty chunks of each packet are a message each; other packets have had what was saved."""
    with unoptimised():
        made = watch_all(find_stack("sctp"), ("sctp_message", "message"))
    attack = [
        packet(b"".join(data(1 + 140 * n + 2 * i, b"x") for i in range(70)), "10.9.9.1", "10.9.9.2").data
        for n in range(2000)
    ]
    good = [packet(b"".join(data(20 * n + i, bytes(56)) for i in range(20))).data for n in range(60)]
    mixed = [*(item.data for item in handshake()), *attack[:1900]]
    for number, one in enumerate(good):
        mixed += [one, attack[1900 + number]]
    result = run(made, mixed, settings=Settings(seed=1))
    assert result.count("sctp", "lost:bundle") > 100
    assert len([event for event in result.named("message") if event.data == bytes(56)]) == 20 * len(good)


def test_a_sender_of_jumbo_frames_full_of_chunks_loses_none() -> None:
    """Sixty chunks of a packet of 9,000 bytes cost no more, byte for byte, than ten of one of 1,500."""
    with unoptimised():
        made = watch_all(find_stack("sctp"), ("sctp_message", "message"))
    frames = [item.data for item in handshake()]
    frames += [packet(b"".join(data(60 * n + i, bytes(134)) for i in range(60))).data for n in range(1800)]
    result = run(made, frames, settings=Settings(seed=1, bundle_mean=5))
    assert result.count("sctp", "lost:bundle") == 0
    assert len(result.named("message")) == 60 * 1800


def test_records_are_bounded_on_average() -> None:
    """Names of many labels: beyond what is saved, each packet has some records, and good messages have all."""
    long = b"\1a" * 127 + b"\0"
    attack = dns.in_udp(dns.message([], [dns.record(long)] * 5))
    good = dns.in_udp(dns.message([dns.question(dns.name("www.example.org"))], [dns.record(dns.pointer(12))] * 8), 53)
    result = run(dns.stack(), [attack] * 2500 + [good, attack] * 10, settings=Settings(seed=1, bundle_mean=4))
    assert result.count("box", "too many records") > 0
    answered = [event for event in result.named("answered") if event.values["name"] == dns.pointer(12)]
    assert len(answered) == 80


def test_sctp_messages_that_never_end_beside_a_good_association() -> None:
    """Beyond the messages that one packet may have, chunks are lost, and counted; good messages are all delivered."""
    with unoptimised():
        made = watch_all(find_stack("sctp"), ("sctp_message", "message"))
    attack = [
        packet(b"".join(idata(80 * n + i, b"x", BEGIN, i, n) for i in range(80)), "10.9.9.1", "10.9.9.2").data
        for n in range(20)
    ]
    good = [item.data for item in PACKETS]
    alone = run(made, good)
    mixed: list[bytes] = []
    for number in range(max(len(good), len(attack))):
        mixed += [*good[number : number + 1], *attack[number : number + 1]]
    both = run(made, mixed, settings=Settings(seed=1, max_instances=1 << 12, memory=1 << 24, bundle=1 << 20, work=64))
    assert len(alone.named("message")) > 4
    assert len(both.named("message")) == len(alone.named("message"))
    assert both.count("sctp", "lost:work") == len(attack)
    fewer = run(made, attack[:2], settings=Settings(seed=1, max_instances=1 << 12, bundle=1 << 20, work=8))
    assert fewer.count("sctp", "packets") == 2 * 8
    assert fewer.count("sctp", "lost:work") == 2
    both = run(made, mixed, settings=Settings(seed=1, max_instances=1 << 12, memory=1 << 24, bundle=16))
    assert len(both.named("message")) == len(alone.named("message"))
    assert both.count("sctp", "lost:bundle") == len(attack)
    # each begins a message, and so counts three times; those that wait for earlier ones begin none
    assert both.count("sctp", "packets") - alone.count("sctp", "packets") <= 16 * len(attack)
