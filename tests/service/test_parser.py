"""What the parser understands: the golden files show a program, and its tree after a line of dashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.service.lang import tree
from sluice.service.lang.parser.program import parse_source
from tests.service.programs import LISTING_3, ROUTER
from tests.service.text import program_text, text

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "service"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.fk")), ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    source, _, wanted = path.read_text().partition("----\n")
    program, _ = parse_source(source, path.name)
    assert program_text(program) == wanted


def expression(source: str) -> tree.Expression:
    return parse_source(f"(| {source} |)")[0].expressions[0]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("1 + 2 * 3", "(1 + (2 * 3))"),
        ("3 - 2 - 1", "((3 - 2) - 1)"),
        ("8 / 4 / 2", "((8 / 4) / 2)"),
        ("-a + b", "((- a) + b)"),
        ("- 3", "-3"),
        ("a or b and not c = d", "(a or (b and (not (c = d))))"),
        ("1 :: 2 :: xs @ ys", "(1 :: (2 :: (xs @ ys)))"),
        ("0 .. n - 1", "(0 .. (n - 1))"),
        ("hash(k) mod len(b)", "(hash(k) mod len(b))"),
        ("<1, \"a\", True>.2", '<1 "a" True>.2'),
        ("<(a > b), c>", "<(a > b) c>"),
        ("a.b.c", "a.b.c"),
        ("r with a = 1 + 2 with b = 3", "((r with a=(1 + 2)) with b=3)"),
        ("(r with a = 1) with b = 3", "((r with a=1) with b=3)"),
        ("x typed integer + 1", "((x typed integer) + 1)"),
        ("x unsafe_cast string", "(x cast string)"),
        ("c ! x + 1", "(c ! (x + 1))"),
        ("a and c ! x", "(a and (c ! x))"),
        ("? c", "(? c)"),
        ("?? c[i + 1]", "(?? c[(i + 1)])"),
        ("can ? c and b", "((can (? c)) and b)"),
        ("can c ! x", "(can (c ! x))"),
        ("size c > 3", "((size c) > 3)"),
        ("a; b => f(x) => c", "(a ; b => f(x) => c)"),
        ("c => _", "(c => _)"),
        ("x.f(_, 1)", "x.f(_, 1)"),
        ("f(a <- 1; b <- c)", "f(a <- 1, b <- c)"),
        ("f(-c, 1)", "f((- c), 1)"),
        ("{a = 1, b = \"x\"}", '{a=1 b="x"}'),
        ("d[k] := 1", "(d[k] := 1)"),
        ("if a: 1 else: 2", "if(a, 1, 2)"),
        ("if a: 1 else if b: 2 else: 3", "if(a, 1, if(b, 2, 3))"),
        ("let x : integer = 3", "let(x : integer = 3)"),
        ("a | b | c", "| a\n| b\n| c"),
        ("1.2.3.4 = int_to_address 5", "(1.2.3.4 = (int_to_address 5))"),
        ("address_to_int 1.2.3.4 mod 2", "((address_to_int 1.2.3.4) mod 2)"),
        ("@: 1 + 2 :@", "@(1 + 2)@"),
        ("<>", "<>"),
        ("map x in [1, 2]: x", "map(x in [1 2], x)"),
        ("for x in unordered xs initially a = 0: a + x", "for unordered(x in xs, a=0, (a + x))"),
        ("abs -3", "(abs -3)"),
    ],
)  # fmt: skip
def test_precedence(source: str, wanted: str) -> None:
    assert text(expression(source)) == wanted


@pytest.mark.parametrize("source", ["3 - 2 - 1", "8 / 4 * 2", "a mod b mod c", "-a + b"])
def test_a_warning_where_flicks_compiler_groups_otherwise(source: str) -> None:
    warnings = parse_source(f"(| {source} |)")[1]
    assert len(warnings) == 1 and "use brackets" in warnings[0].what


@pytest.mark.parametrize("source", ["(3 - 2) - 1", "3 - (2 - 1)", "a + b - c", "a * b / c", "-(a + b)", "a + b mod c"])
def test_no_warning_where_it_does_not(source: str) -> None:
    assert parse_source(f"(| {source} |)")[1] == []


def test_the_papers_listings() -> None:
    assert [each.name for each in parse_source(ROUTER.read_text())[0].functions] == ["target_backend"]
    program, _ = parse_source(LISTING_3)
    assert [each.name for each in program.processes] == ["hadoop"]


def test_layout_does_not_count_inside_brackets() -> None:
    assert text(expression("f(1,\n  2,\n      3)")) == "f(1, 2, 3)"


def test_includes(tmp_path: Path) -> None:
    (tmp_path / "types.fk").write_text("type t: record\n  a : integer\n")
    program, _ = parse_source('include "types.fk"\nfun f: (x: t) -> (integer): x.a\n', str(tmp_path / "main.fk"))
    assert [each.name for each in program.types] == ["t"]
