"""What a program that embeds stacks can rely on: names, facts about events, reasons, several stacks in one program."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.cli.test_build import CAPTURE, FIRST, STRICT, compiler, make, run

SECOND = """
from sluice.lang import *

class beacon_hdr(layout):
    id = UInt(16)

class record(layout):
    id = UInt(16)
    rest = Bytes()

def beacon_parser():
    beacon = Connectionless()
    beacon.header = beacon_hdr
    beacon.selector = [beacon.header.id]
    beacon.timeout = 5
    beacon.event.record = Assign(record.id, beacon.header.id) + Assign(record.rest, beacon.payload) + Callback(record)
    return beacon

stack = Stack("beacons")
stack.beacon = beacon_parser()
"""

PROGRAM = r"""
#include "hello.h"
#include "beacons.h"
#include "io/capture.h"
#include <stdio.h>
#include <string.h>

struct seen { unsigned records, ends, packets, flows[16]; unsigned long long last; struct sl_box *box; };

void hello_record(const struct sl_event_info *event, const struct hello_record *data) {
    struct seen *seen = event->user;
    seen->box = event->box;
    seen->records++;
    seen->last = event->packet;
    printf("%s packet %llu flow %llu side %u at %llu: %u\n", event->layer, (unsigned long long)event->packet,
           (unsigned long long)event->flow, event->side, (unsigned long long)(event->time / 1000000000), data->celsius);
}
void hello_on_end(const struct sl_event_info *event, const struct sl_on_end *data) {
    (void)data;
    ((struct seen *)event->user)->ends += event->flow != 0 && event->packet == 0;
}
void hello_on_packet(const struct sl_event_info *event, const struct sl_on_packet *data) {
    ((struct seen *)event->user)->packets += data->length != 0 && !strcmp(event->layer, "udp");
}
void beacons_record(const struct sl_event_info *event, const struct beacons_record *data) {
    printf("beacon %u, %u bytes, user %s\n", data->id, (unsigned)data->rest.length, (const char *)event->user);
}

int main(int count, char **arguments) {
    struct seen seen = {0};
    char why[SL_OPEN_MESSAGE], message[SL_CAPTURE_MESSAGE];
    struct sl_options options = {.seed = 1, .memory = 1 << 26, .max_instances = 1 << 10, .timeouts = true,
                                 .user = &seen, .message = why, .message_size = sizeof why};
    struct sl_box *hello = hello_open(&options);
    options.user = (void *)"mine";
    struct sl_box *beacons = beacons_open(&options);
    struct sl_capture *capture;
    struct sl_frame frame;
    if (count != 2 || !hello || !beacons || sl_capture_open(&capture, arguments[1], message, sizeof message))
        return 1;
    while (sl_capture_next(capture, &frame) == 1)
        hello_process(hello, &frame, 1, NULL);
    struct sl_frame one = {.at = (const uint8_t *)"\0\7abc", .captured = 5, .length = 5, .link_type = 147, .number = 1};
    beacons_process(beacons, &one, 1, NULL);
    hello_finish(hello);
    beacons_finish(beacons);
    printf("records %u, ends %u, packets %u, own box %d, counted %llu %llu\n", seen.records, seen.ends, seen.packets,
           seen.box == hello, (unsigned long long)sl_box_counters(hello)[0],
           (unsigned long long)sl_box_counters(beacons)[0]);
    hello_close(hello);
    beacons_close(beacons);
    options.memory = UINT64_MAX / 2;
    printf("%s: %s\n", hello_open(&options) ? "opened" : "refused", why);
    options.memory = 1 << 26;
    options.size = sizeof options - 8;
    printf("%s: %s\n", hello_open(&options) ? "opened" : "refused", why);
    options.size = sizeof options, options.version = SL_OPTIONS_VERSION + 1;
    printf("%s: %s\n", hello_open(&options) ? "opened" : "refused", why);
    options.version = SL_OPTIONS_VERSION;
    printf("%s: %s\n", (hello = hello_open(&options)) ? "opened" : "refused", why);
    hello_close(hello);
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stacks, built into folders of one: hello, with built-in events, and beacons."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    folder = tmp_path_factory.mktemp("two")
    (folder / "beacons.py").write_text(SECOND)
    hello = ["build", str(FIRST / "hello.py"), "-o", str(folder / "hello")]
    assert main([*hello, "--event", "hello:end,udp:packet"]) == 0
    assert main(["build", str(folder / "beacons.py"), "-o", str(folder / "beacons")]) == 0
    for name in ("hello", "beacons"):
        make(folder / name, f"lib{name}.a", "CFLAGS=-O0")
    return folder


def test_every_global_symbol_carries_the_prefix_of_the_stack(folder: Path) -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm")
    for name in ("hello", "beacons"):
        command = ["nm", "-g", "--defined-only", "-P", folder / name / f"lib{name}.a"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = {line.split()[0] for line in listed.splitlines() if len(line.split()) > 2}
        assert len(names) > 50
        assert {found for found in names if not found.startswith(f"{name}_")} == set()


def test_two_stacks_in_one_program(folder: Path) -> None:
    """Callbacks of one name and one layout's name; functions get box, user, time, packet, flow, side and layer."""
    (folder / "both.c").write_text(PROGRAM)
    out = folder / "both"
    includes = [f"-I{folder}/hello", f"-I{folder}/beacons", f"-I{folder}/hello/runtime"]
    libraries = [folder / "hello/libhello.a", folder / "beacons/libbeacons.a", "-ldl", "-lm", "-lpthread"]
    done = run(*compiler(), *STRICT.split(), *includes, folder / "both.c", *libraries, "-o", out)
    assert done.returncode == 0, done.stderr
    lines = run(out, CAPTURE).stdout.splitlines()
    assert re.fullmatch(r"hello packet 1 flow [1-9]\d* side 0 at 1[67]\d{8}: 18", lines[0])
    assert "beacon 7, 3 bytes, user mine" in lines
    assert lines[-5].startswith("records 7, ends 3, packets 12, own box 1, counted 22 1")
    assert lines[-4] == "refused: there is no memory for what all sequences may hold (memory)"
    other = "refused: the program is compiled with another struct sl_options than the stack"
    assert lines[-3:-1] == [other, other]  # its size, its version
    assert lines[-1] == "opened: "


def test_the_program_of_a_stack_still_runs(folder: Path) -> None:
    make(folder / "hello", "hello-run", "CFLAGS=-O0")
    found = json.loads(run(folder / "hello/hello-run", "--json", CAPTURE).stdout)
    assert found["layers"]["hello"]["packets"] == 12


@pytest.mark.parametrize("text", ["end", "tcp:end", "hello:ends", "hello:", ":end"])
def test_an_event_that_is_none_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", str(FIRST / "hello.py"), "-o", str(tmp_path / "c"), "--event", text]) == 1
    told = capsys.readouterr().err
    assert "--event" in told and ("built-in event" in told or "no layer of that name has the event" in told)
