"""Names at file scope that functions share get a copy for each: only these, and only where they mean it."""

from __future__ import annotations

import subprocess

import pytest

from sluice.chain.file_scope import file_scope_names, separated
from sluice.engine.compiler import compiler
from sluice.hooks.subscription import HookError

TEXT = """
#include "sluice.h"
#ifndef MINE_H
#define MINE_H
#define LIMIT 3
#define LARGER(x) ((x) + LIMIT)
#endif
struct row { int length; struct inner { int depth; } inner; };
typedef struct row row_t;
typedef int (*call_t)(int);
enum kind { FIRST, SECOND = LARGER(1), THIRD };
static const char *const names[] = {"length", "FIRST"};
static row_t kept, *last = &kept;
static unsigned a, b = 2, c[LIMIT];
int declared(row_t *row, int helper);
SLUICE_PARAMETER(port, number, 80, "length of LIMIT")
SLUICE_COUNTER(seen, "rows")
__attribute__((unused)) static int length(const struct row *row) { int local = row->length; return local + (int)a; }
SLUICE_ON(tcp, data) {
    struct row row = {.length = LIMIT, .inner = {.depth = SECOND}};
    if (length(&row) > LARGER(FIRST))   /* length */
        SLUICE_COUNTER_OF(event->box, seen)++;
}
"""


def test_names_at_file_scope_are_found() -> None:
    assert file_scope_names(TEXT) == {
        "MINE_H", "LIMIT", "LARGER", "row", "inner", "row_t", "call_t", "kind", "FIRST", "SECOND", "THIRD", "names",
        "kept", "last", "a", "b", "c", "declared", "length",
    }  # fmt: skip


def test_a_macro_at_file_scope_defines_no_name_that_could_be_seen() -> None:
    assert file_scope_names("MAIN(start)\nSLUICE_CLOSE { }\nMORE(x) static int found(void) { return 1; }\n") == {
        "found"
    }


def test_a_name_that_no_other_function_uses_stays() -> None:
    texts = {"one": TEXT, "two": "static int other(void) { return 1; }\nSLUICE_ON(tcp, end) { (void)other; }\n"}
    assert separated(texts) == texts


def test_names_that_are_shared_differ_afterwards() -> None:
    out = separated(
        {"one": TEXT, "two": "static int length;\nSLUICE_ON(tcp, data) { length++; (void)data->length; }\n"}
    )
    assert "static int length__one(const struct row *row) { int local = row->length;" in out["one"]
    assert "{.length = LIMIT" in out["one"] and "if (length__one(&row)" in out["one"]
    assert '{"length", "FIRST"}' in out["one"] and "/* length */" in out["one"] and "{ int length; struct" in out["one"]
    assert out["two"] == ("static int length__two;\nSLUICE_ON(tcp, data) { length__two++; (void)data->length; }\n")


def test_a_macro_of_one_function_does_not_reach_another() -> None:
    """Also where the other one only uses the word."""
    out = separated({"one": "#define kind 3\nint x = kind;\n", "two": "void f(void) { int kind = 1; (void)kind; }\n"})
    assert out["one"] == "#define kind__one 3\nint x = kind__one;\n"
    assert "int kind = 1" in out["two"]


@pytest.mark.parametrize("other", ["seen", "tcp", "data", "port"])
def test_words_that_mean_events_parameters_and_counters_stay(other: str) -> None:
    text = f"static int {other};\n{TEXT}"
    out = separated({"one": text, "two": text})["one"]
    assert f"static int {other}__one;" in out
    for kept in ("SLUICE_COUNTER(seen,", "SLUICE_ON(tcp, data)", "SLUICE_PARAMETER(port,", "_OF(event->box, seen)"):
        assert kept in out


def test_the_same_text_twice_compiles_as_one_unit() -> None:
    plain = TEXT.replace('#include "sluice.h"', "")
    plain = "".join(line + "\n" for line in plain.splitlines() if not line.startswith("SLUICE_"))
    plain = (
        plain.partition("__attribute__")[0] + "int length(const struct row *r) { return r->length + r->inner.depth; }\n"
    )
    both = "\n".join(separated({"one": plain, "two": plain}).values())
    words = [*compiler(), "-std=gnu11", "-Wall", "-Werror", "-Wno-unused", "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(words, input=both, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


HARD = """
static uint64_t seen __attribute__((aligned(64)));
__attribute__((unused)) static _Alignas(8) int placed;
#define ACCEPT "Accept: */*"  // not a comment: /*
static int (*callback)(int);
static int (*const table[2])(int value) = {0};
typedef int (*call_t)(int);
#define QUOTE '"'
static int after;   /* the end */
static int called(int (*inner)(int)) { return inner(1); }
"""


def test_attributes_strings_with_comment_signs_and_pointers_to_functions() -> None:
    names = {"seen", "placed", "ACCEPT", "callback", "table", "call_t", "QUOTE", "after", "called"}
    assert file_scope_names(HARD) == names
    for text in separated({"one": HARD, "two": HARD}).values():
        assert all(f"{name}__" in text for name in names) and "aligned(64)" in text


@pytest.mark.parametrize(
    ("macro", "use"),
    [
        ("#define MAKE(name) static int name##_count", "MAKE(row);"),
        ("#define TEXT(name) #name", "static const char *text = TEXT(row);"),
        ("#define MAKE(name) static int name##_count\n#define ROW MAKE(row)", "ROW;"),
    ],
)
def test_a_macro_that_makes_names_is_refused_at_file_scope(macro: str, use: str) -> None:
    text = f"{macro}\n\n{use}\n"
    line = text.count("\n")
    with pytest.raises(HookError, match=f"dpi.c:{line}: macro .* at file scope.*\n    write out"):
        separated({"one": text, "two": text}, {"one": "dpi.c", "two": "dpi.c"})
    assert separated({"one": text}) == {"one": text}  # alone, it shares nothing


def test_such_a_macro_may_be_used_inside_of_functions() -> None:
    text = '#define TEXT(name) #name\n#define SIGN "#"\nstatic const char *sign = SIGN;\n'
    text += "static const char *f(void) { return TEXT(f); }\n"
    assert separated({"one": text, "two": text})
