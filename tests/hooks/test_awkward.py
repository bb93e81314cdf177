"""Declarations of functions in C are read as the compiler reads them: comments, conditions, macros, own headers."""

import subprocess
from pathlib import Path

import pytest

from sluice.engine.box import compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.compiler import INCLUDES, compiler
from sluice.hooks.function import CFunction
from sluice.hooks.subscription import HookError
from sluice.ir.hook import Hook
from sluice.stacks.find import find_stack

TCP = Hook("tcp", "data")
UDP = Hook("udp", "created")

SUBSCRIPTIONS: dict[str, tuple[str, set[Hook]]] = {
    "plain": ("SLUICE_ON(tcp, data) { }", {TCP}),
    "line comment": ("// SLUICE_ON(udp, created) { }\nSLUICE_ON(tcp, data) { }", {TCP}),
    "block comment": ("/*\nSLUICE_ON(udp, created) { }\n*/\nSLUICE_ON(tcp, data) { }", {TCP}),
    "comment that continues": ("// a \\\nSLUICE_ON(udp, created) { }\nSLUICE_ON(tcp, data) { }", {TCP}),
    "comment within": ("SLUICE_ON(/* which */ tcp, data /* of it */) { }", {TCP}),
    "string": ('static const char *text = "\\nSLUICE_ON(udp, created)";\nSLUICE_ON(tcp, data) { (void)text; }', {TCP}),
    "string of a mark": (
        'static const char *text = "SLUICE_DECLARED(\\"on\\", \\"udp\\", \\"created\\")";\n'
        "SLUICE_ON(tcp, data) { (void)text; }",
        {TCP},
    ),
    "if 0": ("#if 0\nSLUICE_ON(udp, created) { }\n#endif\nSLUICE_ON(tcp, data) { }", {TCP}),
    "else": ("#if 1\nSLUICE_ON(tcp, data) { }\n#else\nSLUICE_ON(udp, created) { }\n#endif", {TCP}),
    "ifdef": ("#define WANTED\n#ifdef WANTED\nSLUICE_ON(tcp, data) { }\n#endif", {TCP}),
    "undefined": ("#ifdef NOT_WANTED\nSLUICE_ON(udp, created) { }\n#endif\nSLUICE_ON(tcp, data) { }", {TCP}),
    "indented": ("    SLUICE_ON(tcp, data) { }", {TCP}),
    "several on a line": ("SLUICE_ON(tcp, data) { } SLUICE_ON(udp, created) { }", {TCP, UDP}),
    "continued line": ("SLUICE_ON(tcp, \\\n  data) { }", {TCP}),
    "continued word": ("SLUICE_\\\nON(tcp, data) { }", {TCP}),
    "several lines": ("SLUICE_ON(\n    tcp,\n    data)\n{\n}", {TCP}),
    "blanks": ("SLUICE_ON ( tcp , data ) { }", {TCP}),
    "static before": ("struct s { int a; }; SLUICE_ON(tcp, data) { }", {TCP}),
    "macro of a whole line": ("#define EACH SLUICE_ON(tcp, data) { } SLUICE_ON(udp, created) { }\nEACH", {TCP, UDP}),
    "macro with a parameter": (
        "#define OF(layer, event) SLUICE_ON(layer, event) { }\nOF(tcp, data)\nOF(udp, created)",
        {TCP, UDP},
    ),
    "macro that is not used": ("#define OF(layer) SLUICE_ON(layer, created) { }\nSLUICE_ON(tcp, data) { }", {TCP}),
    "macro undefined again": (
        "#define X SLUICE_ON(tcp, data) { }\nX\n#undef X\nSLUICE_ON(udp, created) { }",
        {TCP, UDP},
    ),
    "any layer": ("SLUICE_ON(any, created) { }", {Hook("*", "created")}),
    "digraphs": ("SLUICE_ON(tcp, data) <% %>", {TCP}),
    "carriage returns": ("SLUICE_ON(tcp, data)\r\n{\r\n}\r\n", {TCP}),
    "character constants": (
        "SLUICE_ON(tcp, data) { char a = '\"'; (void)a; }\nSLUICE_ON(udp, created) { }",
        {TCP, UDP},
    ),
    "on demand": ("SLUICE_ON_DEMAND(tcp, data) { }", {TCP}),
    "line directive": ('#line 7 "other.c"\nSLUICE_ON(tcp, data) { }', {TCP}),
    "pragma": ("#pragma GCC diagnostic push\nSLUICE_ON(tcp, data) { }\n#pragma GCC diagnostic pop", {TCP}),
    "name in a comment of a body": ("SLUICE_ON(tcp, data) { /* SLUICE_ON(udp, created) */ }", {TCP}),
}


def read(text: str, path: str = "f.c") -> CFunction:
    return read_c_function("f", text, path)


@pytest.mark.parametrize("case", SUBSCRIPTIONS)
def test_subscriptions(case: str) -> None:
    text, hooks = SUBSCRIPTIONS[case]
    assert set(read(text).hooks) == hooks


def test_the_compiler_defines_a_function_for_each() -> None:
    """The names that the marks give are the functions that the compilation has."""
    for case, (text, hooks) in SUBSCRIPTIONS.items():
        source = '#include "function/sluice.h"\n#define SLUICE_FUNCTION f\n'
        for hook in hooks:
            name = "any" if hook.layer == "*" else hook.layer
            source += f"#define sl_data_{name}_{hook.event} struct sl_on_{hook.event}\n"
        calls = "".join(
            f"(void)f_{'any' if hook.layer == '*' else hook.layer}_{hook.event};" for hook in sorted(hooks, key=str)
        )
        source += f"{text}\nvoid use(void);\nvoid use(void) {{ {calls} }}\n"
        words = [*compiler(), "-std=gnu11", "-fsyntax-only", *INCLUDES, "-x", "c", "-"]
        done = subprocess.run(words, input=source, capture_output=True, text=True)
        assert done.returncode == 0, (case, done.stderr)


def test_headers_of_its_own(tmp_path: Path) -> None:
    """They are found beside the function, and a declaration in one counts; the compilation finds them, too."""
    (tmp_path / "own.h").write_text(
        "#pragma once\nSLUICE_ON(udp, created) { (void)sl_packet_time(event); }\nstatic const int limit = 3;\n"
    )
    text = '#include "sluice.h"\n#include "own.h"\nSLUICE_ON(tcp, data) { (void)limit; }\n'
    function = read(text, str(tmp_path / "f.c"))
    assert set(function.hooks) == {TCP, UDP} and function.needs == {"packet"}
    made = compile_stack(find_stack("tcp_ip"), (function,), passes="none")
    (tmp_path / "own.h").write_text((tmp_path / "own.h").read_text().replace("= 3", "= 4"))
    function = read(text, str(tmp_path / "f.c"))
    assert compile_stack(find_stack("tcp_ip"), (function,), passes="none").compiled.path != made.compiled.path


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("(void)event->side;", set()),
        ("(void)sl_packet_time(event);", {"packet"}),
        ("(void)sl_packet_number (event);", {"packet"}),
        ("(void)sl_packet_frame(event);", {"packet"}),
        ("(void)sl_path_depth(event);", {"path"}),
        ("(void)sl_path(event->box);", {"path"}),
        ("/* sl_packet_time(event) */", set()),
        ("#if 0\nsl_packet_time(event);\n#endif", set()),
        ('(void)"sl_packet_time(event)";', set()),
    ],
)
def test_needs_follow_from_accessors(text: str, needs: set[str]) -> None:
    assert read(f"SLUICE_ON(tcp, data) {{\n{text}\n}}").needs == needs


@pytest.mark.parametrize(
    ("text", "fields", "key"),
    [
        ("(void)event->owner -> field[0].name;", {"*"}, False),
        ("/* owner->field */", set(), False),
        ("#define ALL(layer) (layer)->field\n(void)ALL(event->owner);", {"*"}, False),
        ('(void)"instance + 1";', set(), False),
        ("(void)((const char *)event->instance + event->owner->number_offset);", set(), True),
        ("(void)sl_instance_key(event->instance);", set(), True),
    ],
)
def test_accesses_are_those_that_the_compiler_sees(text: str, fields: set[str], key: bool) -> None:
    function = read(f"SLUICE_ON(tcp, data) {{\n{text}\n}}")
    assert (function.fields, function.key) == (fields, key)


def test_needs_of_a_helper_count() -> None:
    """A helper that drops makes the function one that is inline, wherever the helper stands."""
    helper = "static void refuse(struct sl_box *box) { sl_drop(box); }\n"
    assert read(helper + "SLUICE_ON(tcp, data) { refuse(event->box); }").inline
    assert not read("SLUICE_ON(tcp, data) { (void)event; }").inline


def test_values_from_macros() -> None:
    function = read(
        '#define PORTS "80,443"\n#define LIMIT 4096\nSLUICE_PARAMETER(ports, text, PORTS, "which " "ports")\n'
        'SLUICE_KEEP(tcp, LIMIT)\nSLUICE_COUNTER(seen, "what was\\" seen")\nSLUICE_ON(tcp, data) { }'
    )
    (parameter,) = function.parameters
    assert (parameter.value, parameter.help) == ("80,443", "which ports")
    assert function.kept == (("tcp", 4096),) and function.counters == (("seen", 'what was" seen'),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int a;", "f.c: no SLUICE_ON"),
        ("SLUICE_ON(tcp, data) { }\n\nSLUICE_ON(tcp, data) { }", "f.c:3: 'data' of 'tcp' is hooked already"),
        ("\nSLUICE_DESTROY { }\nSLUICE_ON(tcp, data) { }", "f.c:2: SLUICE_DESTROY without SLUICE_STATE"),
        (
            "SLUICE_ON(tcp, data) {\n sl_buffer(event, 0, 1); }",
            "f.c:2: this controls an instance: declare SLUICE_CONTROL",
        ),
        ("SLUICE_ON(tcp, data) { }\nSLUICE_KEEP(tcp, many)", "f.c:2: SLUICE_KEEP(tcp, many): write a number"),
        ("SLUICE_ON(tcp, data) { }\nSLUICE_EVENT(tcp, end, data) { }", "f.c:2: 'end' is a built-in event"),
        ('SLUICE_ON(tcp, data) { }\nSLUICE_COUNTER(int, "a")', "f.c:2: 'int' is a word of C"),
        ("SLUICE_ON(tcp) { }", "f.c:1"),
        ('#include "nowhere.h"\n', "nowhere.h"),
        ("#if 1\nSLUICE_ON(tcp, data) { }\n", "unterminated"),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(HookError) as refused:
        read(text)
    assert message in str(refused.value)
