"""Functions in C reach a box by accessors: a member of struct sl_box is refused, however the text names it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.codegen.stack import generate
from sluice.engine.box import compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.compiler import INCLUDES, RUNTIME, WARNINGS, CompilerError
from sluice.engine.opaque import ACCESSORS, member_of_box
from sluice.hooks.function import Functions
from sluice.lower.build import build
from tests.ir.descriptions import arp_stack

HEAD = '#include "sluice.h"\n#include <stdlib.h>\n'

NAMED = {
    "event->box": ("SLUICE_ON(any, packet) {\n (void)event->box->time; }", "time: .*: call sl_packet_time(event)"),
    "another name": (
        "SLUICE_ON(any, packet) {\n const struct sl_box *of = event->box; (void)(of->seed & 1); }",
        "seed: .*: call sl_seed(box)",
    ),
    "dereferenced": ("SLUICE_ON(any, packet) {\n (void)(*event->box).now; }", "now: .*: call sl_now(box)"),
    "in a macro": (
        "#define DEPTH(of) (of)->depth\nSLUICE_CLOSE { (void)DEPTH(box); }\nSLUICE_ON(any, packet) { }",
        "depth: .*: call sl_path_depth(event)",
    ),
    "by type": (
        "SLUICE_CLOSE {\n __typeof__(box) same = box; free(same->workers[0]); }\nSLUICE_ON(any, packet) { }",
        "workers: .*: call SLUICE_WORKER_OF(box)",
    ),
    "written": (
        "SLUICE_ON(any, packet) {\n event->box->pool.used = 0; }",
        "pool: .*: functions do not use this member",
    ),
}


@pytest.fixture(params=["gcc", "clang"])
def compiler(request: pytest.FixtureRequest) -> str:
    """Each of the compilers that there are."""
    if shutil.which(request.param) is None:
        pytest.skip(f"there is no {request.param}")
    return request.param


def messages(text: str, compiler: str, folder: Path) -> str:
    """What a compiler says of a stack with the function `f`."""
    generated = generate(build(arp_stack()), Functions((read_c_function("f", HEAD + text, "f.c"),)))
    (folder / f"{generated.name}.h").write_text(generated.header)
    (folder / "whole.c").write_text(generated.source)
    words = [compiler, "-std=gnu11", *WARNINGS, *INCLUDES, f"-I{folder}", "-fsyntax-only", str(folder / "whole.c")]
    return subprocess.run(words, capture_output=True, text=True, timeout=300).stderr


@pytest.mark.parametrize(("text", "said"), NAMED.values(), ids=NAMED)
def test_a_member_is_refused_with_its_line(text: str, said: str, compiler: str, tmp_path: Path) -> None:
    member, advice = said.split(".*")
    found = messages(text, compiler, tmp_path)
    places = ("f.c:3", "f.c:4") if "#define" in text else ("f.c:4",)  # gcc names the macro, clang its use
    assert member_of_box(found, RUNTIME) in [f"{place}: {member}struct sl_box is opaque{advice}" for place in places], (
        found
    )


def test_accessors_are_not_and_what_others_deprecate_is_a_warning(compiler: str, tmp_path: Path) -> None:
    """Every declaration of a function expands to accessors, too."""
    text = """
    static __attribute__((deprecated)) int former(void) { return 0; }
    struct all { uint64_t seen; };
    SLUICE_WORKER(struct all)
    SLUICE_COMMON(struct all)
    SLUICE_STATE(struct all)
    SLUICE_PARAMETER(most, number, 1, "packets")
    SLUICE_COUNTER(seen, "packets")
    SLUICE_TIMER(box, tick) { (void)event; }
    SLUICE_OPEN { (void)options; SLUICE_ARM_BOX(box, tick, 1); return former(); }
    SLUICE_ON(any, packet) {
        struct sl_box *box = event->box;
        SLUICE_LOCK(box);
        SLUICE_COMMON_OF(box)->seen += SLUICE_WORKERS(box) + sl_now(box) + sl_seed(box) + sl_max_instances(box);
        SLUICE_UNLOCK(box);
        SLUICE_WORKER_OF(box)->seen += sl_packet_time(event) + sl_packet_number(event) + sl_path_depth(event);
        SLUICE_COUNTER_OF(box, seen) += SLUICE_PARAMETER_OF(box, most) + sl_layer_count(box) + sl_worker_number(box);
        SLUICE_COUNTER_OF(box, seen) += sl_refused_link_types(box) + (sl_box_frame(box) != sl_packet_frame(event));
        (void)data;
        if (event->instance)
            SLUICE_STATE_OF(event)->seen++;
    }
    SLUICE_CLOSE { SLUICE_DISARM_BOX(box, tick); sl_report(box, "all", SLUICE_COMMON_OF(box)->seen); }
    """
    found = messages(text, compiler, tmp_path)
    assert "error" not in found and member_of_box(found, RUNTIME) is None
    assert "former" in found and found.count("warning: ") == 1, found


def test_the_command_refuses_it(tmp_path: Path) -> None:
    """As one library, and by parts for `--quick`."""
    function = read_c_function("f", HEAD + NAMED["event->box"][0], "f.c")
    for quick in (None, lambda: None):
        with pytest.raises(CompilerError, match=r"^f\.c:4: time: struct sl_box is opaque: call sl_packet_time"):
            compile_stack(arp_stack(), (function,), quick=quick)


def test_advice_is_about_members_that_there_are() -> None:
    text = (RUNTIME / "core" / "box.h").read_text()
    begin = text.index("struct sl_box {")
    declared = text[begin : text.index("\n};", begin)]
    members = {line.partition(";")[0] for line in declared.splitlines() if "SL_OPAQUE" in line}
    for name in ACCESSORS:
        assert any(name in line.replace("*", " ").replace("[", " ").split() for line in members), name
    code = re.sub(r"/\*.*?\*/", "", declared, flags=re.DOTALL)
    others = [line for line in code.splitlines()[1:] if line.strip() and "SL_OPAQUE" not in line]
    assert not others, "each member is opaque"
