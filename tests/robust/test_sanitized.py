"""The generated code and the runtime under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import sluice
from sluice.engine.cache import cache_folder
from sluice.engine.compiler import compiler
from tests.robust import cuts
from tests.support.budget import examples

ROOT = Path(__file__).resolve().parents[2]
SLUICE = Path(sluice.__file__).resolve().parents[1]
OPTIMISED = f"-O{examples(1, 0)}"
"""With the sanitizers, a compilation with the optimiser takes a minute."""
SANITIZERS = f"-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer {OPTIMISED}"


def sanitizer_library() -> tuple[str, str] | None:
    """AddressSanitizer's library, to be loaded before Python, and the compiler's options; None without."""
    # clang also knows where gcc's library is, which is not the one for its code
    names = {f"libclang_rt.asan-{platform.machine()}.so": " -shared-libsan", "libasan.so": ""}
    for name, more in names.items():
        asked = subprocess.run([*compiler(), f"-print-file-name={name}"], capture_output=True, text=True, timeout=300)
        path = Path(asked.stdout.strip())
        if asked.returncode == 0 and path.is_absolute() and path.exists():
            return str(path.resolve()), SANITIZERS + more
    return None


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of a Python that can load the stack that is compiled here; it is kept for the next time."""
    found = sanitizer_library()
    if found is None:
        pytest.skip("the C compiler has no AddressSanitizer library to load into Python")
    library, flags = found
    monkeypatch.setenv("SLUICE_CFLAGS", flags)
    monkeypatch.setenv("SLUICE_CACHE", str(cache_folder() / "sanitized"))
    cuts.stack.__wrapped__()  # compiled here: the compiler itself is not to run under the sanitizer
    return {
        **os.environ,
        "PYTHONPATH": f"{SLUICE}{os.pathsep}{ROOT}",
        "LD_PRELOAD": library,
        # Python keeps much to its end; a stack's pools are counted, not freed one by one
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:handle_segv=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
    }


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.sanitizer
def test_everything_is_clean(environment: dict[str, str]) -> None:
    run = subprocess.run(
        [sys.executable, "-P", "-m", "tests.robust.sanitized"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr[-6000:]
    assert int(run.stdout.split()[0]) > examples(100_000, 10_000)


@pytest.mark.sanitizer
def test_the_sanitizer_is_there(environment: dict[str, str]) -> None:
    """A read after a block is found: without that, the test above would say nothing."""
    program = (
        "import ctypes\n"
        "from tests.robust.cuts import stack\n"
        "c = ctypes.CDLL(str(stack().compiled.path))\n"
        "assert c.__asan_report_load4\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype = ctypes.c_void_p\n"
        "frame = (ctypes.c_uint64 * 6)(libc.malloc(12), 60 | 60 << 32, 0, 1, 1, 0)\n"
        "from sluice.engine.box import Box\n"
        "box = Box(stack(), function_options=['out=/dev/null', ''])\n"
        "c.tcp_ip_process(box._box, ctypes.byref(frame), ctypes.c_size_t(1), None)\n"
    )
    # no names in its report: clang's program for them hangs when it has to load the library too
    environment = {**environment, "ASAN_OPTIONS": environment["ASAN_OPTIONS"] + ":symbolize=0"}
    run = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode != 0
    assert "heap-buffer-overflow" in run.stderr
