"""A second instance takes over in the middle of a capture, and puts out what one instance would have."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from sluice.analyze.state.instrument import Instrumented, instrument, link
from sluice.analyze.state.serialise import serialise
from sluice.analyze.toolchain import CLANG
from tests.analyze.conftest import SUBJECTS, to_bitcode
from tests.analyze.test_oracle import NAMES, PCAP, REPLAY
from tests.analyze.test_oracle import capture as capture  # the fixture
from tests.support.budget import thinned

STOP = 400


def split(capture: Path, rest: Path) -> Path:
    data = capture.read_bytes()
    at = 24
    for _ in range(STOP):
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    rest.write_bytes(data[:24] + data[at:])
    return rest


def run(program: Path, capture: Path, **environment: str) -> bytes:
    done = subprocess.run(
        [program, capture],
        env=os.environ | environment,
        capture_output=True,
        timeout=60,
        cwd=program.parent,
        check=True,
    )
    log = program.parent / "flows.log"
    return done.stdout + (log.read_bytes() if log.exists() else b"")


def build(source: Path, folder: Path) -> tuple[Path, Instrumented]:
    """A program that exports and imports its state, and what was instrumented."""
    module, code, program = to_bitcode(source, folder / "a.bc", f"-I{SUBJECTS}"), folder / "state.c", folder / "a"
    done = instrument(str(module), folder / "i.bc")
    code.write_text(serialise(str(module)).text, encoding="utf-8")
    link(folder / "i.bc", program, [str(code), str(REPLAY), PCAP])
    return program, done


@pytest.mark.parametrize("name", ["flows", pytest.param("nat", marks=pytest.mark.slow_matrix)])
def test_a_standby_takes_over(name: str, capture: Path, tmp_path: Path) -> None:
    program, done = build(SUBJECTS / f"{name}.c", tmp_path)
    assert done.pruned and done.comparisons
    rest = split(capture, tmp_path / "rest.pcap")
    whole = run(program, capture)
    sizes: list[int] = []
    for model in ("all", "flow", "changed", "difference"):
        to, summary = str(tmp_path / model), tmp_path / "summary"
        first = run(
            program,
            capture,
            SLUICE_STATE_TO=to,
            SLUICE_STATE_MODEL=model,
            SLUICE_STATE_STOP=str(STOP),
            SLUICE_STATE_SUMMARY=str(summary),
        )
        assert first + run(program, rest, SLUICE_STATE_FROM=to) == whole
        sizes.append(json.loads(summary.read_text())["bytes"])
    assert sizes == sorted(sizes, reverse=True)
    assert first + run(program, rest) != whole  # without the state


@pytest.mark.parametrize("name", thinned(NAMES, 6))
def test_instrumentation_changes_no_output(name: str, capture: Path, tmp_path: Path) -> None:
    module = to_bitcode(SUBJECTS / f"{name}.c", tmp_path / "a.bc")
    plain, instrumented = tmp_path / "plain", tmp_path / "instrumented"
    subprocess.run([CLANG, "-O2", "-w", "-o", plain, module, REPLAY, PCAP, "-pthread"], check=True, timeout=300)
    instrument(str(module), tmp_path / "i.bc")
    link(tmp_path / "i.bc", instrumented, [str(REPLAY), PCAP])
    assert run(instrumented, capture) == run(plain, capture)


THREADED = """
#include <pcap.h>
#include <pthread.h>
#include <unistd.h>
static unsigned long seen;
static void *rest(void *of) { for (;;) pause(); return of; }
static void take(unsigned char *user, const struct pcap_pkthdr *head, const unsigned char *at) {
    (void)user, (void)at;
    seen += head->caplen;
}
int main(int count, char **word) {
    char message[PCAP_ERRBUF_SIZE];
    pthread_t thread;
    if (count < 2 || pthread_create(&thread, 0, rest, 0))
        return 2;
    pcap_loop(pcap_open_offline(word[1], message), -1, take, 0);
    return seen == 0;
}
"""


def test_a_program_with_threads_is_not_exported(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(THREADED)
    program, _ = build(tmp_path / "a.c", tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(program, capture, SLUICE_STATE_TO=str(tmp_path / "to"))
    assert caught.value.returncode == 70 and b"several threads" in caught.value.stderr
    run(program, capture, SLUICE_STATE_TO=str(tmp_path / "to"), SLUICE_STATE_SETTLE="1")


TRUNCATED = """
#include "box.h"
#include <stddef.h>
#include <stdio.h>
struct bucket {
  struct bucket *next;
  unsigned long count;
  union {
    struct { unsigned ttl; } small;
    struct { char name[64]; struct bucket *inner; } large;
  } u;
};
static struct bucket *buckets;
int main(int argc, char **argv) {
  char error[256];
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) return 0;
    struct bucket *at = buckets;
    while (at && at->u.small.ttl != packet->ttl) at = at->next;
    if (!at) {
      at = calloc(1, offsetof(struct bucket, u) + sizeof(at->u.small));
      at->u.small.ttl = packet->ttl;
      at->next = buckets;
      buckets = at;
    }
    printf("%u %lu\\n", packet->ttl, ++at->count);
  }
}
"""


def test_objects_that_end_in_a_member_of_a_union_have_their_pointers(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(TRUNCATED)
    program, _ = build(tmp_path / "a.c", tmp_path)
    rest, to = split(capture, tmp_path / "rest.pcap"), str(tmp_path / "to")
    first = run(program, capture, SLUICE_STATE_TO=to, SLUICE_STATE_MODEL="changed", SLUICE_STATE_STOP=str(STOP))
    assert first + run(program, rest, SLUICE_STATE_FROM=to) == run(program, capture)
