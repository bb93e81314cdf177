"""The oracle runs a program and finds what changed although the analysis does not call it updateable."""

from __future__ import annotations

import json
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sluice.analyze.oracle.bits import build_bits
from sluice.analyze.oracle.check import Check, build, check
from sluice.analyze.toolchain import CLANG
from tests.analyze.conftest import SUBJECTS, to_bitcode
from tests.cli.conftest import Command
from tests.support.budget import thinned

REPLAY = SUBJECTS.parent / "replay" / "replay.c"
PCAP = "-l:libpcap.so.0.8"
NAMES = ["aliases", "callback", "detectors", "flows", "handlers", "limiter", "lists", "lookup", "nat", "queue"]
NAMES += ["scratch", "summary", "unions"]
"""Subjects that read packets by libpcap, in one thread, and link."""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 packets of IPv4, as `struct packet` of the subjects has them, among 40 addresses and several protocols."""
    if not shutil.which(CLANG):
        pytest.skip("no clang")
    probe = [CLANG, "-x", "c", "-", "-o", "/dev/null", PCAP]
    if (
        subprocess.run(probe, input="int main(void){return 0;}", text=True, capture_output=True, timeout=300).returncode
        != 0
    ):
        pytest.skip("no libpcap to link with")
    draw = random.Random(44)
    path = tmp_path_factory.mktemp("capture") / "packets.pcap"
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for number in range(1000):
            source, destination = draw.randrange(40), draw.choice([0x0A000001, draw.randrange(1 << 32)])
            ports = struct.pack("<HH", draw.randrange(1024, 1040), draw.choice([53, 80, 1024, 1025]))
            start = bytes([4, 0]) + struct.pack("<HHH", draw.randrange(20, 1500), number & 0xFFFF, 0)
            middle = bytes([draw.randrange(256), draw.choice([1, 6, 6, 6, 17])]) + struct.pack("<H", 0)
            flags = bytes([80, draw.choice([2, 2, 16, 18])])
            packet = start + middle + struct.pack("<II", source, destination) + ports + struct.pack("<II", number, 0)
            packet += flags + bytes(60)
            file.write(
                struct.pack("<IIII", 1_000_000 + number // 10, 0, len(packet), len(packet) + draw.randrange(900))
            )
            file.write(packet)
    return path


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subjects write their logs where they run."""
    monkeypatch.chdir(tmp_path)


def run(name: str, capture: Path, folder: Path, *without: str, build: Callable[..., object] = build) -> Check:
    program = folder / name
    module = to_bitcode(SUBJECTS / f"{name}.c", folder / f"{name}.bc")
    build(str(module), program, [str(REPLAY), PCAP], without)
    return check(program, [str(capture)], 60)


@pytest.mark.parametrize("name", thinned(NAMES, 3))
def test_no_update_is_missed(name: str, capture: Path, tmp_path: Path) -> None:
    found = run(name, capture, tmp_path)
    assert found.status == 0 and found.packets >= 1000 and found.not_watched == 0
    assert found.missed == []
    assert found.changed


@pytest.mark.parametrize("name", ["flows", "nat"])
def test_every_label_that_is_removed_is_found(name: str, capture: Path, tmp_path: Path) -> None:
    changed = {one.name for one in run(name, capture, tmp_path).changed}
    removed = {name.rpartition("at ")[2] for name in changed}
    found = run(name, capture, tmp_path, *removed)
    assert {one.name for one in found.missed} == changed and found.changed == []


def test_the_command_says_what_was_missed(sluice: Command, capture: Path, tmp_path: Path) -> None:
    module = to_bitcode(SUBJECTS / "nat.c", tmp_path / "nat.bc")
    link = (f"--link={REPLAY}", f"--link={PCAP}")
    done = sluice("analyze", "check", "--json", *link, module, "--", capture)
    assert done.status == 0 and json.loads(done.out)["missed"] == []
    done = sluice("analyze", "check", *link, "--without", "next_port", module, "--", capture)
    assert done.status == 1 and "missed: next_port changed (byte " in done.out and "1 updates were missed" in done.err
    done = sluice("analyze", "check", "--bits", *link, module, "--", capture)
    assert done.status == 0 and "3 changed: bindings, next_port, used" in done.out
    done = sluice("analyze", "check", module, "--", capture)
    assert done.status == 1 and "does not link; name what it needs by --link" in done.err


run_bits = partial(run, build=build_bits)


@pytest.mark.parametrize("name", thinned(NAMES, 6))
def test_what_changed_has_its_byte_set(name: str, capture: Path, tmp_path: Path) -> None:
    found = run_bits(name, capture, tmp_path)
    assert found.status == 0 and found.packets >= 1000 and found.not_watched == 0
    assert found.missed == []
    assert found.changed


@pytest.mark.parametrize("name", thinned(["queue", "flows", "nat", "unions"], 4))
def test_every_byte_that_is_not_set_is_found(name: str, capture: Path, tmp_path: Path) -> None:
    changed = {one.name for one in run_bits(name, capture, tmp_path).changed}
    found = run_bits(name, capture, tmp_path, *changed)
    assert {missed.name for missed in found.missed} == changed and found.changed == []
    one = min(changed)
    assert {missed.name for missed in run_bits(name, capture, tmp_path, one).missed} == {one}
