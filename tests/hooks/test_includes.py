"""What a function includes from its own folder becomes part of it; what it names by SLUICE_SOURCE is linked with it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.compiler import compiler
from sluice.engine.functions import FunctionError, find_functions
from sluice.hooks.includes import with_own_includes
from sluice.stacks.find import find_stack
from tests.support.connection import handshake, pair


def test_a_file_is_compiled_once_wherever_it_is_included(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.h").write_text('#include "b.h"\nint a;\n')
    (tmp_path / "deep" / "b.h").write_text("int b;\n")
    text = '#include "sluice.h"\n#include "deep/a.h"\n#include "deep/a.h"\n#include <b.h>\nint c;\n'
    found = with_own_includes(text, str(tmp_path / "f.c"))
    assert found.count("int a;") == 2 and f'#line 3 "{tmp_path}/f.c"' in found
    words = [*compiler(), "-E", "-P", "-D__USER_LABEL_PREFIX__=", "-x", "c", "-"]
    plain = found.replace('#include "sluice.h"\n', "").replace("#include <b.h>\n", "")
    done = subprocess.run(words, input=plain, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["int b;", "int a;", "int c;", ""]


def test_the_compiler_knows_headers_as_such(tmp_path: Path) -> None:
    """clang warns of functions that are not used, but not in headers; gcc of markers of headers that do not nest."""
    (tmp_path / "a.h").write_text('#include "b.h"\nstatic inline int a(void) { return b(); }\n')
    (tmp_path / "b.h").write_text("static inline int b(void) { return 2; }\nstatic inline int c(void) { return 3; }\n")
    (tmp_path / "c.h").write_text('#include "b.h"\nstatic inline int d(void) { return 4; }\n')
    text = with_own_includes(
        '#include "a.h"\n#include "c.h"\n#include "a.h"\nint x;\n#error here\n', str(tmp_path / "f.c")
    )
    for name in filter(shutil.which, ("gcc", "clang")):
        words = [name, "-Wall", "-Wextra", "-fsyntax-only", "-x", "c", "-"]
        done = subprocess.run(words, input=f'#line 1 "other.c"\n{text}', capture_output=True, text=True)
        assert f"{tmp_path}/f.c:5:" in done.stderr and "warning" not in done.stderr, done.stderr


def test_what_an_included_file_declares_is_declared(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text('SLUICE_COUNTER(seen, "connections")\n')
    counts = "SLUICE_ON(tcp, created) { SLUICE_COUNTER_OF(event->box, seen)++; }\n"
    (tmp_path / "f.c").write_text('#include "sluice.h"\n#include "own.h"\n' + counts)
    (function,) = find_functions([str(tmp_path / "f.c")]).c
    assert function.counters == (("seen", "connections"),)


def test_what_a_header_declares_that_calls_itself_one_of_the_system_is_declared(tmp_path: Path) -> None:
    """The text of the system's own headers is not searched for declarations; this header has one."""
    (tmp_path / "own.h").write_text('#pragma GCC system_header\nSLUICE_COUNTER(seen, "connections")\n')
    counts = "SLUICE_ON(tcp, created) { SLUICE_COUNTER_OF(event->box, seen)++; }\n"
    (tmp_path / "f.c").write_text('#include <stdio.h>\n#include "own.h"\n' + counts)
    (function,) = find_functions([str(tmp_path / "f.c")]).c
    assert function.counters == (("seen", "connections"),)


LINKED = """#include "sluice.h"
SLUICE_SOURCE("others/twice.c")
SLUICE_COUNTER(doubled, "twice the bytes of payload")
unsigned twice(unsigned x);
SLUICE_ON(tcp, data) { SLUICE_COUNTER_OF(event->box, doubled) += twice(data->bytes.length); }
"""


def doubled(path: Path) -> int:
    """What LINKED counts of a connection with three bytes."""
    stack = compile_stack(find_stack("tcp_ip"), tuple(find_functions([str(path)]).c))
    client, server = pair()
    with Box(stack, Settings(max_instances=1 << 10)) as box:
        for number, frame in enumerate([*handshake(client, server), client.data(b"abc")]):
            box.packet(frame, number, 1, len(frame))
        box.finish()
        return box.reports()["doubled"]


def test_a_source_is_compiled_again_when_it_or_its_header_changes(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "factor.h").write_text("enum { FACTOR = 2 };\n")
    (tmp_path / "others" / "twice.c").write_text(
        '#include "factor.h"\nunsigned twice(unsigned x);\nunsigned twice(unsigned x) { return FACTOR * x; }\n'
    )
    (tmp_path / "f.c").write_text(LINKED)
    assert doubled(tmp_path / "f.c") == 6
    (tmp_path / "others" / "factor.h").write_text("enum { FACTOR = 3 };\n")
    assert doubled(tmp_path / "f.c") == 9


def test_a_source_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(LINKED)
    with pytest.raises(FunctionError, match=r'f.c:2: SLUICE_SOURCE\("others/twice.c"\): there is no file'):
        find_functions([str(tmp_path / "f.c")])


def test_libraries_are_named_alone(tmp_path: Path) -> None:
    event = "SLUICE_ON(tcp, created) { }\n"
    (tmp_path / "f.c").write_text(f'#include "sluice.h"\nSLUICE_LIBRARY("m")\nSLUICE_LIBRARY("stdc++")\n{event}')
    (function,) = find_functions([str(tmp_path / "f.c")]).c
    assert function.libraries == ("m", "stdc++")
    (tmp_path / "f.c").write_text(f'#include "sluice.h"\nSLUICE_LIBRARY("-lm -o x")\n{event}')
    with pytest.raises(FunctionError, match=r'f.c:2: SLUICE_LIBRARY\("-lm -o x"\): write a name'):
        find_functions([str(tmp_path / "f.c")])
