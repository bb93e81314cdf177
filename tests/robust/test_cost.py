"""What a packet may not cost: no allocation, no system call, no clock. Every function outside that the library calls is
counted while packets are processed: none but those that move bytes about.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.support.corpus import captures

PURE = {"memcpy", "memmove", "memset", "memcmp", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
"""What may be called: it touches memory that is there."""

COUNT = """
#include "tcp_ip.h"
#include "io/capture.h"
#include <stdio.h>
#include <stdlib.h>
enum { MOST = 30000 };
unsigned long counted;
static struct sl_frame frames[MOST];
int main(int count, char **arguments) {
    struct sl_options options = {.seed = 1, .memory = 1 << 28, .max_instances = 1 << 20, .timeouts = true};
    struct sl_capture *capture;
    char message[SL_CAPTURE_MESSAGE];
    struct sl_box *box = tcp_ip_open(&options);
    size_t filled = 0;
    if (count != 2 || !box || sl_capture_open(&capture, arguments[1], message, sizeof message))
        return 1;
    while (filled < MOST && sl_capture_next(capture, &frames[filled]) == 1)
        filled++;
    unsigned long before = counted;
    tcp_ip_process(box, frames, filled, NULL);
    printf("%lu %lu %lu\\n", before, counted - before, (unsigned long)filled);
    return 0;
}
"""


def called(library: Path) -> list[str]:
    """Functions that a library calls and does not define."""
    names = subprocess.run(
        ["nm", "--undefined-only", "-P", str(library)], capture_output=True, text=True, check=True, timeout=300
    )
    defined = subprocess.run(
        ["nm", "--defined-only", "-P", str(library)], capture_output=True, text=True, check=True, timeout=300
    )
    own = {line.split()[0] for line in defined.stdout.splitlines() if len(line.split()) > 1}
    return sorted({line.split()[0] for line in names.stdout.splitlines() if len(line.split()) > 1} - own)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are counted in the assembly of x86-64")
@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("nm"), reason="needs gcc and nm")
def test_no_allocation_no_system_call_no_clock(tmp_path: Path) -> None:
    assert main(["build", "tcp_ip", "-f", "assemble", "-o", str(tmp_path)]) == 0
    subprocess.run(
        ["make", "-C", str(tmp_path), "CC=gcc", "CFLAGS=-O0", "libtcp_ip.a"],
        check=True,
        capture_output=True,
        timeout=300,
    )
    outside = [name for name in called(tmp_path / "libtcp_ip.a") if name not in PURE]
    assert "mmap" in outside and "calloc" in outside  # the count is of something
    wrappers = "".join(
        f'__asm__(".globl __wrap_{name}\\n__wrap_{name}:\\nincq counted(%rip)\\njmp __real_{name}@PLT\\n");\n'
        for name in outside
    )
    (tmp_path / "count.c").write_text(COUNT + wrappers)
    command = ["gcc", "-O1", f"-I{tmp_path}", f"-I{tmp_path}/runtime", str(tmp_path / "count.c")]
    command += [str(tmp_path / "libtcp_ip.a"), "-o", str(tmp_path / "count"), "-ldl", "-lm", "-no-pie"]
    command += [f"-Wl,--wrap={name}" for name in outside]
    linked = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert linked.returncode == 0, linked.stderr
    packets = 0
    for path in captures():
        if path.name.startswith("gen__tcp"):
            run = subprocess.run(
                [str(tmp_path / "count"), str(path)], capture_output=True, text=True, check=True, timeout=300
            )
            before, during, processed = map(int, run.stdout.split())
            assert before > 0 and during == 0, path.name
            packets += processed
    assert packets > 1000
