"""What pointers may point to: each program stores addresses in one way, and the report says where they went."""

from __future__ import annotations

import pytest

from tests.analyze.conftest import Analyses

TARGETS = "static int a, b; static int *found;\n"


def targets(program: Analyses, text: str, name: str = "found", **options: object) -> set[str]:
    """What the variable `name` points to in a program with this text as the body of main, after functions."""
    before, _, body = text.rpartition("---")
    analysis = program(f"{TARGETS}{before}\nint main(int argc, char **argv) {{ {body} return found == 0; }}", **options)
    return set(next(one for one in analysis.variables if one.name == name).points_to)


CASES = {
    "assignment": ("int *p = &a; found = p;", {"a"}),
    "registers are followed in their order": ("int *p = &a; found = p; p = &b; *p = 1;", {"a"}),
    "members are told apart": ("static struct { int *x, *y; } s; s.x = &a; s.y = &b; found = s.y;", {"b"}),
    "elements are not": ("static int *p[4]; p[0] = &a; p[argc] = &b; found = p[1];", {"a", "b"}),
    "members of elements are": (
        "struct s { int *x, *y; }; struct s *p = malloc(argc * sizeof(*p)); p[argc].x = &a; p[1].y = &b; found = p->y;",
        {"b"},
    ),
    "an initialiser": ("static struct { int n; int *p; } s[] = {{1, &a}, {2, &b}}; found = s[argc].p;", {"a", "b"}),
    "two levels": ("int *p = &a, **q = &p; *q = &b; found = p;", {"a", "b"}),
    "a structure is copied with its members": (
        "struct s { int *x, *y; } s, t; s.x = &a; s.y = &b; t = s; found = t.y;",
        {"b"},
    ),
    "memcpy of a part": (
        "struct s { long n; int *x, *y; } s; int *t[2]; s.x = &a; s.y = &b; "
        "memcpy(t, &s.x, sizeof(t)); found = t[argc];",
        {"a", "b"},
    ),
    "memcpy between several structures": (
        "struct s { int *x, *y; } s = {&a, 0}, t = {0, &b}, u, v; struct s *from = argc > 1 ? &s : &t, "
        "*to = argc > 2 ? &u : &v; memcpy(to, from, argc * 8); found = v.y;",
        {"b"},
    ),
    "memcpy out of a buffer": (
        "char buffer[64]; struct s { int *x, *y; } s = {&a, 0}, t; memcpy(buffer + argc, &s, sizeof(s)); "
        "memcpy(&t, buffer + argc, sizeof(t)); found = t.y;",
        {"a"},
    ),
    "from a member to what contains it": (
        "struct s { int *x; long member; } *s = malloc(sizeof(*s)); s->x = &a; long *m = &s->member; "
        "found = ((struct s *)((char *)m - 8))->x;",
        {"a"},
    ),
    "from the member of an array's element": (
        "struct s { int *x; long member[4]; } s; s.x = &a; long *m = &s.member[2]; "
        "found = ((struct s *)((char *)m - 24))->x;",
        {"a"},
    ),
    "a header before the data": (
        "struct h { int *x; } *h = malloc(64); h->x = &a; char *data = (char *)(h + 1); "
        "found = ((struct h *)data)[-1].x;",
        {"a"},
    ),
    "an integer": ("uintptr_t n = (uintptr_t)&a | 1; found = (int *)(n & ~(uintptr_t)1);", {"a"}),
    "a union": ("union { int *p; uintptr_t n; } u; u.n = (uintptr_t)&a; found = u.p;", {"a"}),
    "a list": (
        "struct l { struct l *next; int *x; } *l = 0; "
        "for (int i = 0; i < argc; i++) { struct l *n = malloc(sizeof(*n)); n->x = i ? &a : &b; n->next = l; "
        "l = n; } found = l->next->next->x;",
        {"a", "b"},
    ),
    "realloc keeps the contents": ("int **p = malloc(8); *p = &a; p = realloc(p, 16); found = *p;", {"a"}),
    "allocation sites are told apart": ("int **p = malloc(8), **q = malloc(8); *p = &a; *q = &b; found = *q;", {"b"}),
    "a function that returns its argument": ("int *id(int *p) { return p; } --- found = id(&a);", {"a"}),
    "a function pointer": (
        "int *one(void) { return &a; } int *two(void) { return &b; } int *(*f)(void) = one; --- found = f();",
        {"a"},
    ),
    "a table of functions": (
        "int *one(void) { return &a; } int *two(void) { return &b; } static int *(*f[])(void) = {one, two}; --- "
        "found = f[argc]();",
        {"a", "b"},
    ),
    "functions of a section": (
        "int *one(void) { return &a; } typedef int *(*call)(void); "
        '__attribute__((section("calls"), used)) static call known = one; '
        'extern call first[] __asm__("__start_calls"), last[] __asm__("__stop_calls"); --- '
        "for (call *at = first; at < last; at++) found = (*at)();",
        {"a"},
    ),
    "functions that the program registers at its start": (
        "struct start { void (*call)(void *); void *data; }; static void *first, *second; "
        "static void add(void *data) { first = data; } static void put(void *data) { second = data; } "
        "static const struct start one = {add, &a}, two = {put, &b}; "
        '__attribute__((section("starts"), used)) static const struct start *in[] = {&one, &two}; '
        "extern const struct start *__start_starts, *__stop_starts; --- "
        "for (const struct start **at = &__start_starts; at < &__stop_starts; at++) (*at)->call((*at)->data); "
        "found = second;",
        {"b"},
    ),
    "entries of a table that is constant": (
        "int *same(int *p) { return p; } int *none(int *p) { return 0; } "
        "struct entry { int *(*call)(int *); int *data; }; "
        "static const struct entry table[] = {{same, &a}, {none, &b}}; --- "
        "const struct entry *entry = &table[argc]; found = entry->call(entry->data);",
        {"a"},
    ),
    "entries of a table that changes": (
        "int *same(int *p) { return p; } int *none(int *p) { return 0; } "
        "struct entry { int *(*call)(int *); int *data; }; "
        "static struct entry table[] = {{same, &a}, {none, &b}}; --- "
        "struct entry *entry = &table[argc]; found = entry->call(entry->data);",
        {"a", "b"},
    ),
    "an entry of which another argument is passed": (
        "static int argument; int *same(int *p, int *q) { return argument ? p : q; } "
        "struct entry { int *(*call)(int *, int *); int *data; }; "
        "static const struct entry table[] = {{same, &a}}; --- "
        "const struct entry *entry = &table[argc]; found = entry->call(entry->data, &b);",
        {"a", "b"},
    ),
    "an entry that changes before its argument is read": (
        "int *same(int *p) { return p; } struct entry { int *(*call)(int *); int *data; }; "
        "static const struct entry one = {same, &a}, two = {0, &b}; static const struct entry *at = &one; "
        "--- "
        "int *(*call)(int *) = at->call; at = &two; found = call(at->data);",
        {"a", "b"},
    ),
    "variable arguments": (
        "#include <stdarg.h>\nint *last(int n, ...) { va_list l; va_start(l, n); int *p = va_arg(l, int *); va_end(l); "
        "return p; } --- found = last(2, &a, &b);",
        {"a", "b"},
    ),
    "a structure by value": (
        "struct big { int *x[4]; int *y; }; int *y(struct big s) { return s.y; } --- "
        "struct big s = {{&a}, &b}; found = y(s);",
        {"b"},
    ),
    "a structure returned": (
        "struct s { int *x, *y; }; struct s make(void) { struct s s = {&a, &b}; return s; } --- found = make().y;",
        {"a", "b"},  # one register has both
    ),
    "a library's callback": (
        "int compare(const void *x, const void *y) { found = *(int **)x; return 0; } --- "
        "int *p[2] = {&a, &b}; qsort(p, 2, sizeof(*p), compare);",
        {"a", "b"},
    ),
    "an unknown function": ("int *unknown(int *); --- found = unknown(&a);", {"a"}),
    "what an unknown function may store": (
        "void unknown(int ***); --- int *p, **q = &p; unknown(&q); p = &b; found = *q;",
        {"b"},
    ),
    "inline assembly": ('int *p = 0; __asm__("lodsq" : "=a"(p) : "S"(&a)); found = p;', {"a"}),
    "assembly of known instructions moves values": (
        'int *p = 0; __asm__("lock; xchgq %0, %1" : "=r"(p) : "m"(*&found), "0"(&a)); '
        'int *q = &b, *r; __asm__("movq (%1), %0" : "=r"(r) : "r"(&q)); found = r;',
        {"a", "b"},
    ),
    "assembly without operands changes nothing": (
        'int *p = &a, **q = &p; __asm__ volatile("rep; nop; mfence" ::: "memory"); found = *q;',
        {"a"},
    ),
    "a barrier": ('int *p = &a; __asm__("" : "+r"(p)); found = p;', {"a"}),
    "the difference of two pointers is none": ("static int c[4]; long n = &c[argc] - c; found = &a + n * 0;", {"a"}),
    "code that is never called": ("void dead(void) { found = &b; } --- found = &a;", {"a"}),
}


@pytest.mark.parametrize("what", CASES)
def test_a_pointer_points_to_what_was_stored(what: str, program: Analyses) -> None:
    text, expected = CASES[what]
    assert targets(program, text) & {"a", "b"} == expected


@pytest.mark.parametrize("what", CASES)
def test_without_members_it_points_to_no_less(what: str, program: Analyses) -> None:
    text, expected = CASES[what]
    assert targets(program, text, field_insensitive=True) >= expected


def test_an_assumption_narrows(program: Analyses) -> None:
    text = CASES["an unknown function"][0]
    assert "a" not in targets(program, text, assume=["unknown"])
    assert "a" not in targets(program, text, assume=["externals"])
    assert "a" not in targets(program, CASES["inline assembly"][0], assume=["assembly"])
