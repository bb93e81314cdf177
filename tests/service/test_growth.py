"""Short programs and grammars that would take exponential time or memory to compile: each has a bound and a message."""

from __future__ import annotations

import pytest

from sluice.service.grammar.declarations import parse_grammars
from sluice.service.grammar.plan import plan
from sluice.service.lang.errors import ServiceError
from sluice.service.load import load_source
from sluice.service.lower.program import lower

CHANNEL = "type t = unit { n : uint8; };\ntype t: record\n  n : integer\n\n"


def repeated(count: int, line: str) -> str:
    """A line for each number, where N is the number and M the one before."""
    return "".join(line.replace("N", str(n)).replace("M", str(n - 1)) for n in range(1, count))


GRAMMARS = {
    "more than 4096 fields": "type u0 = unit { a : uint8; };\n"
    + repeated(40, "type uN = unit { a : uM; b : uM; };\n"),
    "more than 4096 fields ": "type u0 = unit { a : uint8; };\n"
    + repeated(40, "type uN = unit { n : uint8; a : uM[self.n]; b : uM[self.n]; };\n"),
    "units within units are more than 100 deep": "type u0 = unit { a : uint8; };\n"
    + repeated(300, "type uN = unit { a : uM; };\n"),
    "this expression has more than 10,000 parts": "const C0 = 1;\n" + repeated(60, "const CN = CM + CM;\n")
    + "type t = unit { n : uint8; b : bytes &length = C59; };\n",
    "this expression is more than 100 deep": "const C0 = 1;\n" + repeated(3000, "const CN = CM + 1;\n")
    + "type t = unit { n : uint8; b : bytes &length = C2999; };\n",
    "this expression is more than 100 deep ": f"type t = unit {{ n : uint8; b : bytes &length = {'1 + ' * 5000}1; }};",
    "have more than 200,000 parts|this expression has more than": "type u0 = unit (x : uint8) { a : uint8[x]; };\n"
    + repeated(60, "type uN = unit (x : uint8) { a : uM(x + x); };\n")
    + "type t = unit { n : uint8; b : u59(self.n); };\n",
    "this expression is too deep": f"type t = unit {{ n : uint8; b : bytes &length = {'-' * 5000}1; }};",
    "this expression is too deep ": f"type t = unit {{ n : uint8; b : bytes &length = {'(' * 5000}1; }};",
    "this switch without a value has more than 200 cases": "type t = unit { switch { "
    + "".join(f': "c{n}"; ' for n in range(3000)) + "}; };",
    "this regular expression takes too long": "type t = unit { a : /x(){90000000}/; };",
    "this regular expression takes too long ": "type t = unit { a : /x(((){9000}){9000}){9000}/; };",
    "this regular expression takes too long|needs more than 255 states": "type t = unit { a : /x("
    + "a?|" * 1500 + "b)*/; };",
    "more than 2048 characters with its repetitions": "type t = unit { a : /x((((a{9}){9}){9}){9})/; };",
}  # fmt: skip


@pytest.mark.parametrize("wanted", GRAMMARS)
def test_a_grammar_that_grows(wanted: str) -> None:
    with pytest.raises(ServiceError, match=wanted.strip()):
        for each in parse_grammars(GRAMMARS[wanted], "test"):
            plan(each)


PROGRAMS = {
    "more than 10,000 calls of functions": "process P: (t/t c)\n  let m = ? c\n  f39(m)\n"
    "fun f0: (m: t) -> ()\n  let x = m.n\n" + repeated(40, "fun fN: (m: t) -> ()\n  fM(m)\n  fM(m)\n"),
    "more than 10,000 calls of functions ": "process P: (t/t c)\n  let m = ? c\n  f39(c, m)\n"
    "fun f0: (t/t c; m: t) -> ()\n  c ! m\n"
    + repeated(40, "fun fN: (t/t c; m: t) -> ()\n  if m.n = N: fM(c, m)\n  else: fM(c, m)\n"),
    "functions within functions are more than 50 deep": "process P: (t/t c)\n  let m = ? c\n  c ! t(f299(m))\n"
    "fun f0: (m: t) -> (integer): m.n\n" + repeated(300, "fun fN: (m: t) -> (integer): fM(m)\n"),
    "functions within functions are more than 50 deep ": "process P: (t/t c)\n  let m = ? c\n  c ! t(f2000(m))\n"
    + "".join(f"fun f{n}: (m: t) -> (integer): f{n - 1}(m)\n" for n in range(2000, 0, -1))
    + "fun f0: (m: t) -> (integer): m.n\n",
    "expressions in functions that 'P' calls are too deep": "process P: (t/t c)\n  let m = ? c\n  c ! t(f49(m))\n"
    "fun f0: (m: t) -> (integer): m.n\n"
    + repeated(50, f"fun fN: (m: t) -> (integer): {'if m.n = 1: 0 else: (' * 20}fM(m){')' * 20}\n"),
    "a value of this type has more than 10,000 parts": "type r0: record\n  x : integer\n"
    + repeated(40, "type rN: record\n  a : rM\n  b : rM\n") + "process P: (t/t c)\n  c => c\n",
    "a value of this type has more than 10,000 parts ": "type a0: <integer * integer>\n"
    + repeated(40, "type aN: <aM * aM>\n") + "process P: (t/t c)\n  c => c\n",
    "a value of this type has more than 10,000 parts  ": "process P: (t/t c)\n  let m = ? c\n  let x0 = <m.n, m.n>\n"
    + repeated(40, "  let xN = <xM, xM>\n") + "  c ! m\n",
    "a value of type node stands here, which contains itself by 'ref'": "type node: record\n  n : integer\n"
    "  next : ref node\nprocess P: (t/t c)\n  local l : [node] := []\n  let m = ? c\n  c ! t(len(l))\n",
}  # fmt: skip


@pytest.mark.parametrize("wanted", PROGRAMS)
def test_a_program_that_grows(wanted: str) -> None:
    with pytest.raises(ServiceError, match=wanted.strip()) as error:
        service = load_source(CHANNEL + PROGRAMS[wanted])
        lower(service, service.process())
    assert error.value.place.line > 1


def test_what_is_below_the_bounds_is_compiled() -> None:
    functions = "fun f0: (m: t) -> (integer): m.n\n" + repeated(9, "fun fN: (m: t) -> (integer): fM(m) + fM(m)\n")
    service = load_source(CHANNEL + "process P: (t/t c)\n  let m = ? c\n  c ! t(f8(m))\n" + functions)
    lower(service, service.process())
    functions = "fun f0: (m: t) -> (integer): m.n\n" + repeated(50, "fun fN: (m: t) -> (integer): fM(m)\n")
    service = load_source(CHANNEL + "process P: (t/t c)\n  let m = ? c\n  c ! t(f49(m))\n" + functions)
    lower(service, service.process())
    text = "type u0 = unit { a : uint8; };\n" + repeated(11, "type uN = unit { a : uM; b : uM; };\n")
    assert len(plan(parse_grammars(text, "test")[-1]).items) == 1024
