"""Where packets come from (sluice/runtime/io/source.h): each form of a capture gives the same packets, and rows.

Files, several files in the order of time, pipes, compressed and growing files; and what is said when one is damaged.
"""

from __future__ import annotations

import bz2
import ctypes
import gzip
import json
import lzma
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, Outcome, RunError, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.engine.inputs import Inputs
from tests.support.bounded import joined
from tests.support.capture import pcap
from tests.support.packets import A4, UDP, eth, ip4, udp
from tests.support.small_stacks import small_ip

ROOT = Path(__file__).resolve().parents[3]
CAPTURE = ROOT / "tests" / "corpus" / "gen__tcp_loss_reorder.pcap"
PCAPNG = ROOT / "tests" / "corpus" / "seladb_PcapPlusPlus__pcapng-example.pcapng"
HEADER = 24
PATIENCE = 60.0


@pytest.fixture(scope="module")
def stack() -> CompiledStack:
    return compile_stack(small_ip(), tuple(find_functions(["flow_log"]).c))


def rows(stack: CompiledStack, inputs: Inputs | Path, folder: Path) -> tuple[list[object], Outcome]:
    """The flows of inputs, and what the run came to."""
    out = folder / "rows.jsonl"
    settings = Settings(seed=1, timeouts=False, max_instances=1 << 16)
    with Box(stack, settings, function_options=[f"out={out}"]) as box:
        outcome = box.run(inputs)
    return [json.loads(line) for line in out.read_text().splitlines()], outcome


def small_stack_file(folder: Path) -> str:
    """A file that describes the same stack for a command."""
    path = folder / "small.py"
    path.write_text("from tests.support.small_stacks import small_ip\n\nstack = small_ip()\n")
    return str(path)


@pytest.fixture(scope="module")
def expected(stack: CompiledStack, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    found, outcome = rows(stack, CAPTURE, tmp_path_factory.mktemp("plain"))
    assert outcome.fault is None and outcome.packets == len(records(CAPTURE)) and len(found) > 1
    return found


def records(path: Path) -> list[bytes]:
    """The records of a pcap file, each with its header."""
    data, at, found = path.read_bytes(), HEADER, list[bytes]()
    while at < len(data):
        size = 16 + struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at : at + size])
        at += size
    return found


def deal(folder: Path, parts: list[list[bytes]]) -> Inputs:
    """Files of some records each."""
    head = CAPTURE.read_bytes()[:HEADER]
    for number, part in enumerate(parts):
        (folder / f"{number}.pcap").write_bytes(head + b"".join(part))
    return Inputs(tuple(f"file:{folder}/{number}.pcap" for number in range(len(parts))))


def command(program: str, *options: str) -> Callable[[bytes], bytes]:
    """Compression by a program."""

    def compress(data: bytes) -> bytes:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} (Debian: {program})")
        return subprocess.run(
            [program, "-c", "-q", *options], input=data, capture_output=True, check=True, timeout=300
        ).stdout

    return compress


COMPRESSIONS = {"gz": gzip.compress, "xz": lzma.compress, "zst": command("zstd"), "lz4": command("lz4", "-B4")}


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_compressed_capture_gives_the_same_rows(
    stack: CompiledStack, expected: list[object], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"capture.pcap.{kind}"
    path.write_bytes(COMPRESSIONS[kind](CAPTURE.read_bytes()))
    found, outcome = rows(stack, path, tmp_path)
    assert outcome.fault is None and found == expected


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_compressed_members_one_after_the_other_are_one_capture(
    stack: CompiledStack, expected: list[object], tmp_path: Path, kind: str
) -> None:
    path, data = tmp_path / f"capture.pcap.{kind}", CAPTURE.read_bytes()
    path.write_bytes(b"".join(COMPRESSIONS[kind](data[at : at + 300_000]) for at in range(0, len(data), 300_000)))
    found, outcome = rows(stack, path, tmp_path)
    assert outcome.fault is None and found == expected


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_compressed_capture_that_was_cut_is_a_fault_after_its_packets(
    stack: CompiledStack, tmp_path: Path, kind: str
) -> None:
    path, whole = tmp_path / f"capture.pcap.{kind}", COMPRESSIONS[kind](CAPTURE.read_bytes())
    path.write_bytes(whole[: len(whole) * 3 // 4])
    _, outcome = rows(stack, path, tmp_path)
    assert outcome.fault is not None and outcome.fault.startswith(f"{path}: byte ")
    assert "cut short: the compressed data ends in the middle" in outcome.fault
    assert 0 < outcome.packets < len(records(CAPTURE))


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_damaged_compressed_data_is_a_fault(stack: CompiledStack, tmp_path: Path, kind: str) -> None:
    path, whole = tmp_path / f"capture.pcap.{kind}", bytearray(COMPRESSIONS[kind](CAPTURE.read_bytes()))
    middle = len(whole) // 2
    whole[middle : middle + 64] = bytes(64)
    path.write_bytes(whole)
    _, outcome = rows(stack, path, tmp_path)
    assert outcome.fault is not None and "corrupt" in outcome.fault


def test_a_library_that_is_missing_is_named(tmp_path: Path) -> None:
    """In a process of its own, whose dlopen finds no libz: a library in front of it says so."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no gcc and no clang")
    (tmp_path / "none.c").write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <string.h>\nvoid *dlopen(const char *name, int flags) {\n"
        '    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");\n'
        '    return name && strcmp(name, "libz.so.1") == 0 ? (void *)0 : real(name, flags);\n}\n'
    )
    subprocess.run(
        [compiler, "-shared", "-fPIC", "none.c", "-o", "none.so", "-ldl"], cwd=tmp_path, check=True, timeout=300
    )
    (tmp_path / "x.pcap.gz").write_bytes(gzip.compress(CAPTURE.read_bytes()))
    small = small_stack_file(tmp_path)
    environment = {**os.environ, "LD_PRELOAD": str(tmp_path / "none.so"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "sluice", "run", small, "-r", "x.pcap.gz"],
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300,
    )  # fmt: skip
    if "LD_PRELOAD" in os.environ:
        pytest.skip("another library is preloaded")
    assert done.returncode == 1
    assert "sluice: x.pcap.gz: is compressed by gzip, and the library libz.so.1 is missing: install it" in done.stderr
    assert "Debian: zlib1g" in done.stderr


def test_another_format_is_told_as_such(stack: CompiledStack, tmp_path: Path) -> None:
    for name, data in {"x.gz": gzip.compress(b"no capture"), "x.bz2": bz2.compress(b"x")}.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(RunError, match=f"{path}: unknown format, neither pcap nor pcapng"):
            rows(stack, path, tmp_path)


@pytest.mark.parametrize("capture", [CAPTURE, PCAPNG], ids=["pcap", "pcapng"])
@pytest.mark.parametrize("piece", [1, 7, 4096, 1 << 20])
def test_a_pipe_gives_the_same_rows_however_it_is_cut(
    stack: CompiledStack, tmp_path: Path, capture: Path, piece: int
) -> None:
    plain, _ = rows(stack, capture, tmp_path)
    data, pipe = capture.read_bytes(), tmp_path / "pipe"
    data = data[:9_000] if piece < 10 else data
    os.mkfifo(pipe)

    def write() -> None:
        with open(pipe, "wb", buffering=0) as to:
            for at in range(0, len(data), piece):
                to.write(data[at : at + piece])

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    found, outcome = rows(stack, pipe, tmp_path)
    joined(writer)
    if piece >= 10:
        assert outcome.fault is None and found == plain
    else:
        assert outcome.packets == whole_packets(stack, data, tmp_path)


def whole_packets(stack: CompiledStack, data: bytes, folder: Path) -> int:
    """How many whole packets some first bytes of a capture have."""
    path = folder / "cut"
    path.write_bytes(data)
    return rows(stack, path, folder)[1].packets


def test_a_pipe_that_ends_within_a_packet_is_cut_short_at_the_same_place_as_a_file(
    stack: CompiledStack, tmp_path: Path
) -> None:
    cut = CAPTURE.read_bytes()[:-1]
    (tmp_path / "cut.pcap").write_bytes(cut)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(cut,), daemon=True)
    writer.start()
    _, piped = rows(stack, tmp_path / "pipe", tmp_path)
    joined(writer)
    _, filed = rows(stack, tmp_path / "cut.pcap", tmp_path)
    assert piped.fault is not None and filed.fault is not None
    assert piped.fault.partition(": ")[2] == filed.fault.partition(": ")[2] and piped.packets == filed.packets


def test_a_pipe_that_claims_a_large_packet_takes_no_memory_for_it(stack: CompiledStack, tmp_path: Path) -> None:
    claim = CAPTURE.read_bytes()[:HEADER] + struct.pack("<IIII", 1, 0, 250 << 20, 250 << 20) + bytes(1000)
    (tmp_path / "claim.pcap.gz").write_bytes(gzip.compress(claim))
    before = peak()
    _, outcome = rows(stack, tmp_path / "claim.pcap.gz", tmp_path)
    assert outcome.fault is not None and "cut short" in outcome.fault
    assert peak() - before < 100 << 20


def peak() -> int:
    """The most memory that this process had, in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024


def test_ten_consecutive_files_are_one_capture(stack: CompiledStack, expected: list[object], tmp_path: Path) -> None:
    all_of_them = records(CAPTURE)
    size = len(all_of_them) // 10 + 1
    inputs = deal(tmp_path, [all_of_them[at : at + size] for at in range(0, len(all_of_them), size)])
    found, outcome = rows(stack, Inputs(inputs.uris[::-1]), tmp_path)  # whatever their order
    assert outcome.fault is None and found == expected


def test_ten_files_that_share_the_time_are_merged_by_it(
    stack: CompiledStack, expected: list[object], tmp_path: Path
) -> None:
    all_of_them = records(CAPTURE)
    found, outcome = rows(stack, deal(tmp_path, [all_of_them[at::10] for at in range(10)]), tmp_path)
    assert outcome.fault is None and outcome.packets == len(all_of_them) and found == expected


def test_of_several_files_one_with_a_fault_does_not_keep_the_others_from_being_read(
    stack: CompiledStack, tmp_path: Path
) -> None:
    all_of_them = records(CAPTURE)
    inputs = deal(tmp_path, [all_of_them[0::2], all_of_them[1::2]])
    path = tmp_path / "0.pcap"
    path.write_bytes(path.read_bytes()[:5000])
    _, outcome = rows(stack, inputs, tmp_path)
    assert outcome.fault is not None and outcome.fault.startswith(f"{path}: byte ")
    assert outcome.packets > len(all_of_them) // 2


PORTS = """
from sluice.functions import on
seen = []
@on("udp", "packet")
def packet(event):
    seen.append((event.packet, event.sport, event.time))
"""


def test_packets_of_equal_time_come_in_the_order_of_the_inputs(tmp_path: Path) -> None:
    for number in (2, 1):
        packets = [eth(ip4(udp(number * 100 + at, 9), UDP, A4, A4)) for at in range(3)]
        (tmp_path / f"{number}.pcap").write_bytes(pcap(packets, [1000, 1001, 1001]))
    (tmp_path / "ports.py").write_text(PORTS)
    wanted = find_functions([str(tmp_path / "ports.py")])
    compiled = compile_stack(small_ip(), (), wanted.python_hooks())
    with Box(compiled, Settings(seed=1), wanted.python) as box:
        outcome = box.run(Inputs(tuple(f"file:{tmp_path}/{number}.pcap" for number in (2, 1))))
    seen = wanted.python[0].handlers[0][2].__globals__["seen"]
    assert outcome.packets == 6
    assert [(number, port) for number, port, _ in seen] == list(enumerate([200, 100, 201, 202, 101, 102], 1))


def position(process: subprocess.Popen[str], path: Path) -> int:
    """How far a process has read a file; -1: it has not opened it."""
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        if entry.exists() and entry.samefile(path):
            text = Path(f"/proc/{process.pid}/fdinfo/{entry.name}").read_text()
            return int(text.split("pos:")[1].split()[0])
    return -1


def test_a_growing_file_is_followed_until_a_signal(expected: list[object], tmp_path: Path) -> None:
    data, path, out = CAPTURE.read_bytes(), tmp_path / "growing.pcap", tmp_path / "rows.jsonl"
    args = ["flows", "--stack", small_stack_file(tmp_path), "-r", str(path), "--follow", "-o", str(out), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    path.write_bytes(b"")
    process = subprocess.Popen([sys.executable, "-m", "sluice", *args], stdout=-1, text=True, env=environment)
    try:
        for first, last in ((0, 10), (10, 100), (100, 100_000), (100_000, 100_001), (100_001, len(data))):
            with path.open("ab") as file:
                file.write(data[first:last])
            wait_for(lambda size=last: position(process, path) == size)
        process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    summary = json.loads(text)
    assert process.returncode == 0 and summary["stopped"] and summary["packets"] == len(records(CAPTURE))
    assert [json.loads(line) for line in out.read_text().splitlines()] == expected


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_followed_file_that_is_truncated_is_a_fault(stack: CompiledStack, tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(CAPTURE.read_bytes()[:50_000])

    def truncate() -> None:
        time.sleep(0.3)
        os.truncate(path, 100)

    thread = threading.Thread(target=truncate, daemon=True)
    thread.start()
    _, outcome = rows(stack, Inputs((f"file:{path}",), follow=True), tmp_path)
    joined(thread)
    assert outcome.fault is not None and "was truncated to 100 bytes, of which 50000 had been read" in outcome.fault


def test_no_source_is_opened_without_a_name_in_its_message(stack: CompiledStack) -> None:
    library = ctypes.CDLL(str(stack.compiled.path))
    handle, message = ctypes.c_void_p(), ctypes.create_string_buffer(512)
    for uri, said in {
        b"/absent": "/absent: cannot open: No such file or directory",
        b"file:/": "/: cannot open: is a directory",
        b"af_packet:absent0": "absent0: ",
    }.items():
        assert library.sl_source_open(ctypes.byref(handle), uri, None, message, ctypes.c_size_t(512)) == -1
        assert not handle and message.value.decode().startswith(said)
