"""What pointers may point to: each program stores addresses in one way, and the report says where they went."""

from __future__ import annotations

from pathlib import Path

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
    "a function that runs before main": (
        "__attribute__((constructor)) static void early(void) { found = &b; } ---",
        {"b"},
    ),
    "one of two assignments": ("int *p; if (argc > 1) p = &a; else p = &b; found = p;", {"a", "b"}),
    "a choice": ("found = argc > 1 ? &a : &b;", {"a", "b"}),
    "an exchange if they are equal": (
        "int *p = &a, *old = 0; __atomic_compare_exchange_n(&p, &old, &b, 0, 5, 5); found = p;",
        {"a", "b"},
    ),
    "what was there before an exchange": (
        "int *p = &a, *old = 0; __atomic_compare_exchange_n(&p, &old, 0, 0, 5, 5); found = old;",
        {"a"},
    ),
    "an atomic exchange": ("int *p = &a; __atomic_exchange_n(&p, &b, 5); found = p;", {"a", "b"}),
    "what was there before an atomic exchange": ("int *p = &a; found = __atomic_exchange_n(&p, &b, 5);", {"a", "b"}),
    "the second word of a vector": (
        "typedef long pair __attribute__((vector_size(16))); pair p = {0, argc}; p[1] = (long)&b; pair q = p; "
        "long *words = (long *)&q; found = (int *)words[1];",
        {"b"},
    ),
    "a constant vector": (
        "typedef long pair __attribute__((vector_size(16))); pair p = {(long)&a, (long)&b}; found = (int *)p[argc];",
        {"a", "b"},
    ),
    "a structure that is copied by value in two registers": (
        "struct s { int *x, *y; }; static struct s s; void put(struct s given) { s = given; } --- "
        "struct s t; t.x = &a; put(t); found = s.x;",
        {"a"},
    ),
    "an address of a member as an integer": (
        "struct s { long n; int *p; } s; s.p = &a; found = *(int **)((uintptr_t)&s + 8);",
        {"a"},
    ),
    "a constant address of a member as an integer": (
        "static struct { long n; int *p, *q; } s; s.p = &a; s.q = &b; found = *(int **)((uintptr_t)&s + 8);",
        {"a"},
    ),
    "a constant address of a member as a difference": (
        "static struct { long n; int *p, *q; } s; s.p = &a; s.q = &b; uintptr_t end = (uintptr_t)(&s + 1); "
        "found = *(int **)(end - 8);",
        {"b"},
    ),
    "an unknown distance": (
        "struct s { int *x, *y; } s; s.y = &b; found = *(int **)((uintptr_t)&s + (uintptr_t)argc);",
        {"b"},
    ),
    "a copy of a list of arguments": (
        "#include <stdarg.h>\nint *last(int n, ...) { va_list l, m; va_start(l, n); va_copy(m, l); "
        "int *p = va_arg(m, int *); va_end(m); va_end(l); return p; } --- found = last(1, &a);",
        {"a"},
    ),
    "an address that is rounded": ("int *p = &a; found = __builtin_align_down(p, 8);", {"a"}),
    "a function that unknown code may call": (
        "void unknown(void (*)(void)); void called(void) { found = &a; } --- unknown(called);",
        {"a"},
    ),
    "what unknown code may pass": (
        "void unknown(void (*)(int *), int *); void called(int *p) { found = p; } --- unknown(called, &a);",
        {"a"},
    ),
    "what is returned to unknown code": (
        "int *unknown(int *(*)(void)); int *give(void) { return &a; } --- found = unknown(give);",
        {"a"},
    ),
    "what unknown code finds by a pointer": (
        "int *unknown(int **); static int *p; static int **q = &p; --- p = &a; found = unknown(*&q);",
        {"a"},
    ),
    "what is stored in memory that unknown code has": (
        "int *unknown(void *); struct s { long n; int *p; }; --- struct s *s = calloc(1, sizeof(*s)); unknown(s); "
        "s->p = &b; found = unknown(0);",
        {"b"},
    ),
    "a text's place that a library stores": ("char *end; strtol((char *)&a, &end, 0); found = (int *)end;", {"a"}),
    "what a library stores by a pointer": (
        'char *strtok_r(char *, const char *, char **); char *rest; strtok_r((char *)&a, "", &rest); '
        "found = (int *)rest;",
        {"a"},
    ),
    "what a pointer that is given to a library points to": (
        'char *strsep(char **, const char *); char *text = (char *)&a; found = (int *)strsep(&text, "");',
        {"a"},
    ),
    "what a library keeps": ('strtok((char *)&a, ""); found = (int *)strtok(0, "");', {"a"}),
    "a library's copy": (
        "void *(*volatile copy)(void *, const void *, size_t) = memcpy; struct s { int *x, *y; } s = {&a, &b}, t; "
        "copy(&t, &s, 8); found = argc > 1 ? t.x : t.y;",
        {"a"},
    ),
    "a plug-in that uses a variable": (
        "void *dlopen(const char *, int), *dlsym(void *, const char *); int *shared = &a; --- "
        "dlopen(argv[1], 0); found = *(int **)dlsym(0, argv[1]);",
        {"a"},
    ),
    "a plug-in that calls a function": (
        "void *dlopen(const char *, int); void exported(void) { found = &b; } --- dlopen(argv[1], 0);",
        {"b"},
    ),
    "another name of a variable": (
        'static int *named[2] = {&a, &b}; extern int *other[2] __attribute__((alias("named"))); --- '
        "found = other[argc];",
        {"a", "b"},
    ),
    "a member's address as an initialiser": (
        "static struct { long n; int *p; } s; static int **at = &s.p; --- s.p = &a; found = *at;",
        {"a"},
    ),
    "an integer as an initialiser": ("static uintptr_t n = (uintptr_t)&a; found = (int *)n;", {"a"}),
    "arithmetic in an initialiser": ("static uintptr_t n = (uintptr_t)&a + 1; found = (int *)(n - 1);", {"a"}),
    "elements after a step": (
        "struct s { int *x, *y; } s[4]; s[argc].y = &a; struct s *p = s; p = p + 1; found = p->y;",
        {"a"},
    ),
    "a pointer that walks": (
        "struct s { int *x, *y; } *s = malloc(64 * argc), *p = s; s->y = &b; p += argc; p->x = &a; found = s->x;",
        {"a"},
    ),
    "from an array to the member after it": (
        "struct s { char text[8]; int *x; } s; s.x = &a; char *p = &s.text[argc]; "
        "found = *(int **)(p + 8 - (argc - argc));",
        {"a"},
    ),
    "many places": (
        "int *p[12]; static int *q0, *q1, *q2, *q3, *q4, *q5, *q6, *q7, *q8, *q9; "
        "int ***all[] = {(int ***)&q0, (int ***)&q1, (int ***)&q2, (int ***)&q3, (int ***)&q4, (int ***)&q5, "
        "(int ***)&q6, (int ***)&q7, (int ***)&q8, (int ***)&q9}; q0 = &b; int **one = (int **)all[argc]; *one = &a; "
        "found = argc > 2 ? q9 : *one;",
        {"a", "b"},
    ),
    "contents that get a pointer after they were copied": (
        "struct s { int *x; } s, t, *p = &t; memcpy(p, &s, sizeof(s)); if (argc > 1) s.x = &a; memcpy(&t, &s, 8); "
        "found = p->x;",
        {"a"},
    ),
    "members of an array that is copied": (
        "struct s { int *x, *y; } s[4], t[4]; s[argc].y = &a; memcpy(t, s, sizeof(s)); found = t[2].y;",
        {"a"},
    ),
    "elements that are found after a pointer was moved": (
        "struct s { long n; int *p; } *s; int *before(long *n) { return *(int **)((char *)n - 8); } "
        "struct s *at(struct s *all, int i) { return all + i; } struct s *(*volatile get)(struct s *, int) = at; --- "
        "s = malloc(64 * argc); s->p = &a; found = before(&s->n); found = before(&get(s, argc)->n);",
        {"a"},
    ),
    "a copy of a length that a choice bounds": (
        "struct s { char text[16]; int *p; } s, t = {0}; s.p = &a; memcpy(&t, &s, argc > 1 ? 4 : 16); found = t.p;",
        set[str](),
    ),
    "a copy of a length that a mask bounds": (
        "struct s { char text[16]; int *p; } s, t = {0}; s.p = &a; memcpy(&t, &s, argc & 15); found = t.p;",
        set[str](),
    ),
    "a copy of a length of 128 bits": (
        "struct s { char text[16]; int *p; } s, t = {0}; s.p = &a; size_t n = (size_t)argc << 40, m = n; "
        "memcpy(&t, &s, (size_t)(((unsigned __int128)n * m) >> 64)); found = t.p;",
        {"a"},
    ),
    "a copy of a quotient of 128 bits": (
        "struct s { char text[16]; int *p; } s, t = {0}; s.p = &a; unsigned __int128 n = (size_t)argc, m = n << 68; "
        "memcpy(&t, &s, (size_t)(m / ((unsigned __int128)1 << 63))); found = t.p;",
        {"a"},
    ),
    "a copy of a length that is bounded by more": (
        "struct s { char text[16]; int *p; } s, t = {0}; s.p = &a; memcpy(&t, &s, 9 + (argc & 15)); found = t.p;",
        {"a"},
    ),
    "a copy of a length that may overflow": (
        "struct s { char text[16]; int *p; } s, t = {0}; s.p = &a; memcpy(&t, &s, (uint8_t)(argc - 1)); found = t.p;",
        {"a"},
    ),
    "members after a text that is walked through": (
        "struct s { char text[8]; int *x, *y; } *s = calloc(1, sizeof(*s)); s->x = &a; s->y = &b; char *p = s->text; "
        "while (*p) p++; found = argc + *p > 5 ? s->x : 0;",
        {"a"},
    ),
    "members that bytes of a structure in an array are walked to": (
        "struct s { char text[8]; int *x; } s[4]; s[argc].x = &a; char *p = (char *)&s[argc + 1]; "
        "for (int i = 0; i < 8; i++) p++; found = *(int **)p;",
        {"a"},
    ),
    "a structure by value to a function that is chosen": (
        "struct big { int *x[4]; int *y; }; int *y(struct big s) { return s.y; } "
        "int *(*volatile get)(struct big) = y; --- "
        "struct big s = {{&a}, &b}; found = get(s);",
        {"b"},
    ),
    "elements by a pointer to the first": (
        "struct s { int *x[4]; int *y; } *s = malloc(sizeof(*s)); s->x[argc] = &a; int **p = &s->x[0]; found = p[2];",
        {"a"},
    ),
    "elements that are found after they were told apart": (
        "int **at(int **all, int i) { return all + i; } int **(*volatile get)(int **, int) = at; --- "
        "int **p = malloc(64); p[2] = &a; found = *get(p, argc);",
        {"a"},
    ),
    "elements that are found after they were copied": (
        "int **at(int **all, int i) { return all + i; } int **(*volatile get)(int **, int) = at; --- "
        "int **p = malloc(64), **q = malloc(64), **(*h)(int **, int) = 0; p[0] = &b; "
        "for (int i = 0; i < argc; i++) { if (h) *h(p, i) = &a; h = get; } memcpy(q, p, 64); found = q[2];",
        {"a", "b"},
    ),
    "what the first of two pointers that change places points to": (
        "static int *other; int *x = &a, *y = &b, **p = &x, **q = &y; "
        "for (int i = 0; i < argc; i++) { int **r = p; p = q; q = r; } found = *p; other = *q;",
        {"a", "b"},
    ),
    "what the second of two pointers that change places points to": (
        "static int *other; int *x = &a, *y = &b, **p = &x, **q = &y; "
        "for (int i = 0; i < argc; i++) { int **r = p; p = q; q = r; } other = *p; found = *q;",
        {"a", "b"},
    ),
    "what unknown code stores where it has a pointer to": (
        "void unknown(int **, int *); --- int *p = 0; unknown(&p, &a); found = p;",
        {"a"},
    ),
    "assembly that calculates an address": (
        "struct s { int *x, *y; } s = {0, &b}; int **p = &s.x; "
        '__asm__("addq %1, %0" : "+r"(p) : "r"(8L) : "cc"); found = *p;',
        {"b"},
    ),
    "assembly that calculates with a function": (
        "int *one(void) { return &a; } --- int *(*f)(void) = one; "
        '__asm__("addq %1, %0" : "+r"(f) : "r"(0L) : "cc"); found = f();',
        {"a"},
    ),
    "two pointers that point to each other": (
        "int *p = &a, *q = &b; for (int i = 0; i < argc; i++) { int *r = p; p = q; q = r; } found = q;",
        {"a", "b"},
    ),
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


def test_memory_of_libraries_leads_to_itself(program: Analyses) -> None:
    assert "memory of environ" in targets(program, "extern char **environ; --- found = (int *)environ[argc];")
    assert "memory of arguments" in targets(program, "found = (int *)argv[argc];")


MODEL = """
externals:
  - functions: [fill]
    stores: [{to: arg0+8, value: arg1}]
  - functions: [call]
    calls: [{function: arg0, arguments: []}]
"""


def test_descriptions_say_what_a_function_stores_and_returns(program: Analyses, tmp_path: Path) -> None:
    models = tmp_path / "own.yaml"
    models.write_text(MODEL, encoding="utf-8")
    text = "struct s { int *x, *y; }; void fill(void *, int *); --- struct s s = {0, 0}; fill(&s, &a); found = s.y;"
    assert "a" in targets(program, text, models=[str(models)])
    text = "int *give(void) { return &b; } int *call(int *(*)(void)); --- found = call(give);"
    assert "b" in targets(program, text, models=[str(models)])


def test_an_assumption_narrows(program: Analyses) -> None:
    text = CASES["an unknown function"][0]
    assert "a" not in targets(program, text, assume=["unknown"])
    assert "a" not in targets(program, text, assume=["externals"])
    assert "a" not in targets(program, CASES["inline assembly"][0], assume=["assembly"])
