"""Units within units, switches, lists, bitfields, labels, constants and regular expressions of grammars: what
parses, and the compiled parser and serialiser beside those that define it.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.service.grammar.codec import MalformedError, parse, serialise
from sluice.service.grammar.declarations import parse_grammars
from sluice.service.grammar.pattern import compile_pattern
from sluice.service.grammar.plan import Plan, plan
from sluice.service.grammar.scan import EndError
from sluice.service.lang.errors import Place, ServiceError
from sluice.service.load import Service, load_source
from tests.service.trial import Compiled, interpreted

GRAMMAR = """\
module everything;
%byteorder = little;
const MARK = "\\x7fM";
const LEAST : uint8 = 2;
type Kind = enum { NONE, TEXT = 5, PAIRS };
type number = uint16;
type point = unit { x : uint8; y : number; };
type pair = unit {
  %byteorder = big;
  size  : uint16;
  points : point[self.size & 1];
  text  : bytes &length = self.size;
};
type head = unit (least : uint8) {
  %byteorder = big;
  size : uint16;
  var large : bool &parse = self.size >= least;
  more : uint8 if (self.large);
};
export type t = unit {
         : MARK;
  head   : head(LEAST);
  kind   : uint8 &transform = Kind($$);
  flags  : bitfield(16) { quick : 0; last : 1; level : 4..9; };
         : bitfield(8) { low : 0..3; };
  switch (self.kind) {
    Kind::TEXT -> word : string &length = self.head.size;
    Kind::PAIRS, 9 -> { count : uint8; pairs : list<pair>[self.count]; }
    * -> wide : uint<24>;
  };
  digits : /[0-9]+(\\.[0-9]{1,3})?/ | /-/;
         : ";";
  n      : uint8;
  numbers : number[self.n];
  where  : point if (self.flags.last == 1);
};
"""

PROGRAM = """
type t: record
  head_size   : integer
  kind        : integer
  flags_level : integer
  low         : integer
  word        : string
  pairs       : string
  digits      : string
  n           : integer
  numbers     : string
  where_y     : integer

process P: (t/t c, -/t d)
  let m = ? c
  c ! m
  if m.kind != 1: d ! m with flags_level = m.low with numbers = (m.numbers @ "ab") with digits = "7" with where_y = m.n
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    path = tmp_path_factory.mktemp("grammar") / "everything.grammar"
    path.write_text(GRAMMAR)
    return load_source(PROGRAM, [str(path)])


@pytest.fixture(scope="module")
def program(service: Service) -> Compiled:
    return Compiled(service)


def unit(text: str) -> Plan:
    return plan(parse_grammars(text, "test")[-1])


def message(kind: int, size: int, flags: int, rest: bytes, digits: bytes, numbers: list[int]) -> bytes:
    out = b"\x7fM" + size.to_bytes(2, "big") + (b"m" if size >= 2 else b"") + bytes([kind])
    out += flags.to_bytes(2, "little") + b"\xa5" + rest + digits + b";" + bytes([len(numbers)])
    out += b"".join(each.to_bytes(2, "little") for each in numbers)
    return out + (b"x\x34\x12" if flags & 2 else b"")


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    kind, size, flags = (
        draw(st.sampled_from([0, 1, 5, 6, 9, 200])),
        draw(st.integers(0, 9)),
        draw(st.integers(0, 65535)),
    )
    rest = draw(st.binary(min_size=3, max_size=3))
    if kind == 5:
        rest = draw(st.binary(min_size=size, max_size=size))
    elif kind in (6, 9):
        texts = draw(st.lists(st.binary(max_size=4), max_size=4))
        rest = bytes([len(texts)])
        rest += b"".join(len(each).to_bytes(2, "big") + b"p\1\0" * (len(each) & 1) + each for each in texts)
    digits = draw(st.sampled_from([b"0", b"12.5", b"7.123", b"-", b"99999"]))
    return message(kind, size, flags, rest, digits, draw(st.lists(st.integers(0, 65535), max_size=4)))


def test_the_fields_of_a_message() -> None:
    found = parse(unit(GRAMMAR), message(5, 3, 0b1000010010, b"abc", b"3.14", [258, 3]) + b"rest")
    assert found is not None
    wanted = {
        "head_size": 3, "head_more": 109, "kind": 5, "flags_quick": 0, "flags_last": 1, "flags_level": 33, "low": 5,
        "word": b"abc", "pairs": b"", "wide": 0, "digits": b"3.14", "n": 2, "numbers": b"\2\1\3\0", "where_x": 120,
        "where_y": 0x1234,
    }  # fmt: skip
    assert {name: found.values[name] for name in wanted} == wanted


@given(st.lists(messages(), max_size=5), st.integers(1, 40))
@settings(max_examples=150)
def test_compiled_and_interpreted_agree(service: Service, program: Compiled, given: list[bytes], budget: int) -> None:
    data = {("c", 0): b"".join(given)}
    found, wanted = program.run(data, budget=budget), interpreted(service, data)
    assert found.fault == wanted.fault
    if not found.fault:
        assert found == wanted and found.sent["c", 0] == data["c", 0]


@given(messages(), st.data())
@settings(max_examples=150)
def test_they_agree_on_broken_messages(
    service: Service, program: Compiled, message: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(message) - 1))
    given = {("c", 0): message[:at] + data.draw(st.binary(max_size=3)) + message[at + 1 :]}
    found, wanted = program.run(given), interpreted(service, given)
    assert (found.fault == "") == (wanted.fault == "")
    assert found.sent["c", 0] == wanted.sent["c", 0] or found.fault


@given(messages())
def test_a_message_is_there_with_its_last_byte(message: bytes) -> None:
    found = unit(GRAMMAR)
    assert serialise(found, {}, message) == message
    assert all(parse(found, message[:cut]) is None for cut in range(len(message)))


def test_what_is_changed_comes_out_changed() -> None:
    found = unit(GRAMMAR)
    before = message(1, 0, 2, b"abc", b"1", [1])
    changed = serialise(found, {"flags_level": 63, "numbers": b"abcdef", "digits": b"2.5"}, before)
    assert changed == message(1, 0, 0x3F2, b"abc", b"2.5", [0x6261, 0x6463, 0x6665])
    for fields in ({"flags_level": 64}, {"low": -1}, {"digits": b"1.2345"}, {"numbers": b"odd"}):
        with pytest.raises(MalformedError):
            serialise(found, fields, before)


def test_a_value_of_no_case_is_malformed() -> None:
    found = unit(
        "type t = unit { a : uint8; switch (self.a) { 1 -> b : uint8; 2, 3 -> { c : uint16; } } if (self.a < 9); };"
    )
    assert parse(found, b"\1x") is not None and parse(found, b"\2xy") is not None and parse(found, b"\x09") is not None
    with pytest.raises(MalformedError):
        parse(found, b"\4x")


BY_CONSTANT = """
type word = unit { : "WORD "; size : uint8; text : bytes &length = self.size; };
type t = unit {
  kind : uint8;
  switch { word : word; number : "NUM"; : "W"; * -> { rest : uint16; } } if (self.kind > 0);
  last : uint8;
};
"""


@pytest.fixture(scope="module")
def by_constant() -> Compiled:
    record = "type t: record\n  word_text : string\n  last : integer\nprocess P: (t/t c)\n  c => c\n"
    return Compiled(load_source(BY_CONSTANT + record))


@given(
    st.lists(st.sampled_from([b"\0", b"\1WORD \2ab", b"\1NUM", b"\2W", b"\2xy", b"\1WO"]), max_size=5),
    st.integers(1, 20),
)
def test_a_switch_by_the_constant_that_comes_next(by_constant: Compiled, parts: list[bytes], budget: int) -> None:
    data = {("c", 0): b"".join(part + b"z" for part in parts)}
    found, wanted = by_constant.run(data, budget=budget), interpreted(by_constant.service, data)
    assert found.fault == wanted.fault and (found.fault or found == wanted)
    assert found.fault or found.sent["c", 0] == data["c", 0]


def test_the_case_of_a_constant_is_known_with_its_last_byte() -> None:
    found = unit(BY_CONSTANT)
    assert parse(found, b"\1WOR") is None, "a longer constant may come"
    short = parse(found, b"\1WOAz")
    assert short is not None and short.end == 3 and short.values["last"] == ord("O")
    long = parse(found, b"\1WORD \1az")
    assert long is not None and (long.values["word_text"], long.values["last"]) == (b"a", ord("z"))


def test_a_list_has_a_bound() -> None:
    found = unit("type one = unit { a : uint8; }; type t = unit { n : uint32; all : list<one>[self.n]; };")
    assert parse(found, (65536).to_bytes(4, "big") + bytes(65536)) is not None
    with pytest.raises(MalformedError):
        parse(found, (65537).to_bytes(4, "big"))


def test_bytes_up_to_the_end_of_the_connection() -> None:
    text = "type t = unit { a : uint8; rest : bytes &eod &chunked; };"
    program = Compiled(load_source(text + "\ntype t: record\n  a : integer\nprocess P: (t/t c)\n  c => c\n"))
    data = {("c", 0): b"a" + bytes(1000)}
    assert program.run(data, budget=7).sent["c", 0] == data["c", 0]
    assert parse(unit(text), b"abc") is None
    found = parse(unit(text), b"abc", ended=True)
    assert found is not None and found.values["rest"] == b"bc"


def test_views_and_other_files(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "point.grammar").write_text(
        "module point; type point = unit { x : uint8; };\nconst TWO = 2;\n"
    )
    text = """
import parts.point;
include "parts/../other.grammar";
import records;
type line = unit { from : point; to : other; more : bytes &length = TWO; };
instantiate unit line as short { more &transient; %limit = 4; };
"""
    (tmp_path / "other.grammar").write_text("type other = unit { y : int8; };")
    units = {each.name: plan(each) for each in parse_grammars(text, str(tmp_path / "line.grammar"))}
    assert sorted(units) == ["line", "other", "point", "record4", "short"]
    found = parse(units["short"], b"\1\xffab")
    assert found is not None and (found.values["to_y"], found.values["more"]) == (-1, b"ab")
    assert units["short"].limit == 4
    (tmp_path / "other.grammar").write_text('include "line.grammar";')
    (tmp_path / "line.grammar").write_text(text)
    with pytest.raises(ServiceError, match="includes itself"):
        parse_grammars(text, str(tmp_path / "line.grammar"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("type t = unit { a : t; };", "the unit 't' contains itself"),
        ("type t = unit { n : uint8; a : list<t>[self.n]; };", "the unit 't' contains itself"),
        ("type u = unit { a : t; }; type t = unit { a : u; };", "the unit 'u' contains itself"),
        ("type t = unit { a : pont; }; type point = unit { x : uint8; };", "there is no type 'pont'"),
        ("type h = unit (n : uint8) { a : uint8; }; type t = unit { h : h; };", "'h' takes 1 arguments, not 0"),
        ("type t = unit { a : uint8; switch (self.a) { }; };", "this switch has no case"),
        ("type t = unit { switch { a : uint8; }; };", "does not begin with a constant"),
        ("type t = unit { switch { a : u; }; }; type u = unit { a : u; };", "does not begin with a constant"),
        ("type t = unit { a : uint8; switch (self.a) { 1 -> { b : uint8;", "this switch does not end"),
        ("type t = unit { a : list<uint8>; };", "nothing says how many items the list 'a' has"),
        ("type t = unit { a : string[2]; };", "the items of the list 'a' are neither integers nor units"),
        ("type t = unit { a : bitfield(7) { b : 0; }; };", "a bitfield cannot have 7 bits"),
        ("type t = unit { a : bitfield(8) { b : 0..8; }; };", "'8' is no bit"),
        ("type t = unit { a : bitfield(8) { b : 3..1; }; };", "the bits of 'b' are 3 to 1"),
        ("type t = unit { a : bitfield(8) { b : 1; b : 2; }; };", "'b' stands twice in this bitfield"),
        ("type K = enum { A }; type t = unit { a : K; };", "nothing says how many bytes 'a' has"),
        ("type K = enum { A, A };", "'A' stands twice in 'K'"),
        ("type K = enum { A }; type t = unit { a : uint8 &transform = L; };", "'L' is neither an enum nor a bitset"),
        ("const A = 1; const A = 2;", "the constant 'A' is declared twice"),
        ("type t = unit { a : /[0-9/; };", "this regular expression has no end"),
        ("type t = unit { a : /ab; };", "this regular expression does not end"),
        ("type t = unit { a : /b*/; };", "a message of unit 't' can be empty"),
        ("type t = unit { a : uint<20>; };", "there is no uint<20>"),
        ("type t = unit { a : bytes &length = 010; };", "the character '0' has no meaning"),
        ("type t = unit { a : map<int, int>; };", "'map' has no form on the wire"),
        ("type t = unit { a : uint8 -> sink; };", "a sink has no meaning here"),
        ("type t = unit { a_b : uint8; a : p; }; type p = unit { b : uint8; };", "'a_b' stands twice in unit 't'"),
        ("instantiate unit t as u { };", "there is no unit 't'"),
        ("type t = unit { a : uint8; }; instantiate unit t as u { b; };", "the unit 't' has no field 'b'"),
        ("import nothing.at.all;", "cannot be read"),
        ("int f() { return 1; }", "functions belong into the program"),
        ("type e = unit { a : bytes &eod; }; type t = unit { n : uint8; a : e[self.n]; };", "depend on their message"),
        (
            "type e = unit { a : uint8; b : uint8 if (note == 1); }; type t = unit { n : uint8; a : e[self.n]; };",
            "depend on their message",
        ),
        (
            "type t = unit (n : uint8) { a : uint8 if (n); }; type u = unit { t : t(self.m); };",
            "'self.m' is not known here",
        ),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(ServiceError, match=re.escape(message)):
        for each in parse_grammars(text, "test"):
            plan(each)


def test_many_fields_are_refused() -> None:
    units = "".join(f"type u{i} = unit {{ a : u{i + 1}; b : u{i + 1}; }};" for i in range(40))
    with pytest.raises(ServiceError, match="more than 4096 fields"):
        parse_grammars(units + "type u40 = unit { c : uint8; };", "test")


PATTERNS = [
    "abc", "a*b", "(ab|a)c?", "[a-c]+", "[^b]", "a{2}", "a{1,3}b", "a{2,}", "(a|b)*c", r"\d+\.?\d*", r"a\.b",
    "(?:ab)+", ".", "", "a?",
    r"[]a]b", r"[a\]]", "(a{1,2}){2}", r"\x61b", r"\w\W", "[ab-]+",
]  # fmt: skip


@given(st.sampled_from(PATTERNS), st.text(alphabet="abc.]-1\n", max_size=8), st.booleans())
@settings(max_examples=400)
def test_the_longest_match_is_that_of_re(pattern: str, text: str, ended: bool) -> None:
    """Python's `re` finds the first alternative that matches, so that each prefix is tried."""
    data = text.encode()
    known = [size for size in range(len(data) + 1) if re.fullmatch(pattern.encode(), data[:size])]
    automaton = compile_pattern(pattern, Place("test", 1))
    with contextlib.suppress(EndError, MalformedError):
        assert automaton.match(data, ended) == max(known)
        return
    if ended:
        assert not known


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", "no end"), ("a)", "a ')' without its '('"), ("*", "'*' with nothing before it"),
        ("^a", "a match always begins"), ("[b-a]", "a range whose ends"), (r"\q", r"'\q', which has no meaning"),
        ("a{2,1}", "bounds are in the wrong order"), ("a{x}", "a repetition that is not"),
        ("(.*a.{30}){9}", "states"), ("a{9999}", "more than 2048 characters"), (r"\xg0", "without two digits"),
        ("é€", "a character above 255"), ("(" * 60 + "a" + ")" * 60, "too many groups"),
        (r"[^\x00-\xff]", "a class without a byte"),
    ],
)  # fmt: skip
def test_what_is_no_pattern(pattern: str, message: str) -> None:
    with pytest.raises(ServiceError, match=re.escape(message)):
        compile_pattern(pattern, Place("test", 1))


@given(st.text(alphabet="ab()[]{}*+?|^-\\.1,x", max_size=12))
@settings(max_examples=300)
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    with contextlib.suppress(ServiceError):
        compile_pattern(text, Place("test", 1))


def record_of(**fields: str) -> str:
    return "\ntype t: record\n" + "".join(f"  {name} : {type}\n" for name, type in fields.items())


def test_a_match_that_no_byte_makes_longer_ends_at_once() -> None:
    text = "type t = unit { n : uint8; word : /OK|NO!?|[0-9]{3}/; };"
    program = Compiled(load_source(text + record_of(word="string") + "process P: (t/t c)\n  c => c\n"))
    for message in (b"\1OK", b"\1NO!", b"\x01123"):
        found = parse(unit(text), message)
        assert found is not None and found.end == len(message)
        assert program.run({("c", 0): message}, end=False).sent["c", 0] == message
    assert parse(unit(text), b"\1NO") is None and not program.run({("c", 0): b"\1NO"}, end=False).sent["c", 0]


def test_values_out_of_range_for_64_bits_are_refused() -> None:
    text = "type t = unit { f : bitfield(64) { low : 0..3; }; };"
    sends = "process P: (t/t c)\n  let m = ? c\n  c ! m with f_low = m.f_low + 9\n"
    service = load_source(text + record_of(f_low="integer") + sends)
    program, message = Compiled(service), b"\xf1" * 7
    for last, good in ((b"\xf1", True), (b"\xf7", False)):
        data = {("c", 0): message + last}
        found, wanted = program.run(data), interpreted(service, data)
        assert found.fault == wanted.fault and (found.fault == "") == good
        assert found.sent["c", 0] == (message + b"\xfa" if good else b"")
    whole = unit("type t = unit { f : bitfield(64) { all : 0..63; }; };")
    assert serialise(whole, {}, bytes(range(8))) == bytes(range(8))
    assert serialise(whole, {"f_all": -5}, bytes(8)) == b"\xff" * 7 + b"\xfb"


def test_bits_that_are_the_number_of_integers_follow_these() -> None:
    text = "type t = unit { : bitfield(8) { n : 0..3; m : 4..7; }; all : uint16[self.n]; };"
    sends = 'process P: (t/t c)\n  let m = ? c\n  c ! m with all = (m.all @ "cdef")\n'
    service = load_source(text + record_of(all="string") + sends)
    data = {("c", 0): b"\x51ab"}
    assert serialise(unit(text), {"all": b"abcdef"}, b"\x51ab") == b"\x53abcdef"
    assert Compiled(service).run(data).sent == interpreted(service, data).sent == {("c", 0): b"\x53abcdef"}


def test_a_switch_may_have_many_values() -> None:
    values = ", ".join(map(str, range(1, 1001)))
    text = f"type t = unit {{ a : uint16; switch (self.a) {{ {values} -> b : uint8; * -> c : uint16; }}; }};"
    service = load_source(text + record_of(b="integer", c="integer") + "process P: (t/t c)\n  c => c\n")
    data = {("c", 0): b"\3\xe8x\3\xe9xy\0\1z\0\0zz"}
    assert Compiled(service).run(data).sent == interpreted(service, data).sent == data


def test_a_unit_of_a_program_has_parts_of_another_file(tmp_path: Path) -> None:
    path = tmp_path / "many.grammar"
    path.write_text("type one = unit { a : uint8; }; type many = unit { n : uint8; all : list<one>[self.n]; };")
    text = "type t = unit { many : many; last : uint8; };"
    sends = "process P: (t/t c)\n  c => c\n"
    service = load_source(text + record_of(many_all="string", last="integer") + sends, [str(path)])
    data = {("c", 0): b"\2abz\0y"}
    assert Compiled(service).run(data).sent == interpreted(service, data).sent == data


def test_two_files_may_include_a_third(tmp_path: Path) -> None:
    (tmp_path / "point.grammar").write_text("type point = unit { x : uint8; };")
    for name in ("a", "b"):
        (tmp_path / f"{name}.grammar").write_text(f"import point; type {name} = unit {{ p : point; }};")
    text = 'import a; include "b.grammar"; type t = unit { a : a; b : b; };'
    units = parse_grammars(text, str(tmp_path / "t.grammar"))
    assert sorted(each.name for each in units) == ["a", "b", "point", "t"]
    with pytest.raises(ServiceError, match="'a' is declared twice"):
        parse_grammars(text + "type a = unit { x : uint8; };", str(tmp_path / "t.grammar"))
