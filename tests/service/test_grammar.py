"""Message grammars: what parses, what comes out again, and the compiled parser beside the one that defines it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.service.grammar.codec import MalformedError, parse, property_of, serialise
from sluice.service.grammar.declarations import parse_grammars
from sluice.service.grammar.plan import Plan, plan
from sluice.service.grammar.ready import find_grammars, ready_names
from sluice.service.lang.errors import ServiceError
from sluice.service.load import load_source
from sluice.service.lower.program import lower
from tests.service.programs import command
from tests.service.trial import Compiled, interpreted

MEMCACHED = plan(find_grammars("memcached_binary")[0])

EVERYTHING = """\
type t = unit {
  %byteorder = little;
  %limit = 4096;
           : "\\x01#";
  kind     : uint8;
  wide     : int32 &byteorder = "big";
  size     : uint16;
  var half : uint16 &parse = self.size / 2 &serialize = self.size = $$ * 2;
  extra    : int16 if (self.kind == 1 || self.wide < 0);
           : uint8;
  first    : bytes &length = self.half;
           : bytes &length = self.kind & 3;
  end_     : uint8 if (!(self.kind > 2));
  last     : string &length = self.end_;
};
"""


def unit(text: str) -> Plan:
    return plan(parse_grammars(text, "test")[0])


def test_listing_2_reads_a_request() -> None:
    data = command(b"key", b"value", b"extra", opcode=1, opaque=7)
    found = parse(MEMCACHED, data + b"rest")
    assert found is not None and found.end == len(data)
    assert (found.values["key"], found.values["value"], found.values["extras"]) == (b"key", b"value", b"extra")
    assert found.values["value_len"] == 5


def test_lengths_and_variables_are_serialised_in_reverse() -> None:
    data = serialise(MEMCACHED, {"magic_code": 0x80, "opcode": 1, "key": b"longer", "value": b"v", "opaque": 9})
    assert data == command(b"longer", b"v", opcode=1, opaque=9)
    changed = serialise(MEMCACHED, {"key": b"k"}, command(b"key", b"value", b"extra"))
    assert changed == command(b"k", b"value", b"extra")


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=20))
def test_a_message_that_is_not_changed_serialises_to_itself(key: bytes, value: bytes, extras: bytes) -> None:
    data = command(key, value, extras)
    assert serialise(MEMCACHED, {}, data) == data
    assert all(parse(MEMCACHED, data[:cut]) is None for cut in range(len(data)))


def test_a_value_that_does_not_fit_is_refused() -> None:
    for fields in ({"opcode": 256}, {"opcode": -1}, {"key": b"k" * 65536}):
        try:
            serialise(MEMCACHED, fields)
        except MalformedError:
            continue
        raise AssertionError(fields)


def test_ready_grammars_are_plans() -> None:
    for name in ready_names():
        assert all(plan(each) for each in find_grammars(name))


@pytest.mark.parametrize(
    ("name", "message", "answered"),
    [
        ("redis", b"PING\r\n", True),
        ("redis", b"  \r\n", False),
        ("redis", b"*0\r\n", False),
        ("redis", b" *0\r\n", True),
        ("redis", b"*-1\r\n", False),
        ("redis", b"*1\r\n$0\r\n\r\n", True),
        ("redis", b"$3 key\r\n", True),
        ("redis", b"%1\r\n", True),
        ("redis", b"~2\r\n", True),
    ],
)
def test_which_requests_have_an_answer(name: str, message: bytes, answered: bool) -> None:
    unit = plan(find_grammars(name)[0])
    found = parse(unit, message)
    assert found is not None and found.end == len(message)
    assert property_of(unit, found, "answered", 1) == answered


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("memcached_text", b"get a\nget b\r\n"),
        ("redis", b"PING\nPING\r\n"),
        ("redis", b"*1\r\n*1\r\n"),
        ("redis", b"*1\r\n$-1\r\n"),
        ("redis", b"*2000000\r\n"),
        ("redis", b'GET "a b"\r\n'),
        ("redis", b"GET\ta\r\n"),
    ],
)
def test_what_servers_could_read_otherwise_is_malformed(name: str, message: bytes) -> None:
    with pytest.raises(MalformedError):
        parse(plan(find_grammars(name)[0]), message)


PROGRAM = EVERYTHING + (
    "type t: record\n  kind : integer\n  wide : integer\n  extra : integer\n  first : string\n  last : string\n"
    "process P: (t/t c, -/t d)\n"
    "  let m = ? c\n"
    "  c ! m\n"
    "  if m.kind < 128: d ! m with last = m.first with wide = m.wide + m.extra\n"
)
SERVICE = load_source(PROGRAM)
COMPILED = Compiled(SERVICE)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    kind, wide, half = draw(st.integers(0, 255)), draw(st.integers(-5, 5)), draw(st.integers(0, 9))
    out = b"\x01#" + bytes([kind]) + wide.to_bytes(4, "big", signed=True) + (2 * half).to_bytes(2, "little")
    if kind == 1 or wide < 0:
        out += draw(st.binary(min_size=2, max_size=2))
    out += b"?" + draw(st.binary(min_size=half, max_size=half)) + draw(st.binary(min_size=kind & 3, max_size=kind & 3))
    last = draw(st.binary(max_size=9))
    return out + (bytes([len(last)]) + last if kind <= 2 else b"")


@given(st.lists(messages(), max_size=6), st.integers(1, 50))
@settings(max_examples=150)
def test_the_compiled_parser_and_serialiser_agree_with_the_grammar(given: list[bytes], budget: int) -> None:
    data = {("c", 0): b"".join(given)}
    found, wanted = COMPILED.run(data, budget=budget), interpreted(SERVICE, data)
    assert found.fault == wanted.fault
    if not found.fault:
        assert found == wanted
        assert found.sent["c", 0] == data["c", 0]


@given(messages(), st.data())
@settings(max_examples=100)
def test_they_agree_on_broken_messages(message: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(message) - 1))
    broken = message[:at] + data.draw(st.binary(max_size=3)) + message[at + 1 :]
    given = {("c", 0): broken}
    found, wanted = COMPILED.run(given), interpreted(SERVICE, given)
    assert (found.fault == "") == (wanted.fault == "")
    assert found.sent["c", 0] == wanted.sent["c", 0] or found.fault


@given(st.text(alphabet='typeuni{}=;:&|()+-*/<>!?$.,0123456789abself \n#"%\\', max_size=80))
@settings(max_examples=150)
def test_any_text_is_a_grammar_or_refused(text: str) -> None:
    try:
        for each in parse_grammars("type t = unit {" + text, "test"):
            plan(each)
    except ServiceError:
        pass


ANNOTATED = """\
type t: record
  kind : integer
    { byte_size = 1 }
  total : integer
    { byte_size = 2, byte_order = little }
  _ : string
    { byte_size = 3 }
  wide : integer { signed = true, byte_size = 4 }
  key : string
    { byte_size = total - 9, encoding = ascii }
process P: (t/t c)
  c => c
"""


def test_annotations_describe_a_unit() -> None:
    unit = load_source(ANNOTATED).units["t"]
    data = b"\x05" + (12).to_bytes(2, "little") + b"???" + (-2).to_bytes(4, "big", signed=True) + b"key"
    found = parse(unit, data)
    assert found is not None and found.end == len(data)
    assert {**found.values, "": None} == {"kind": 5, "total": 12, "wide": -2, "key": b"key", "": None}
    given = {("c", 0): data * 3}
    assert Compiled(load_source(ANNOTATED)).run(given).sent["c", 0] == data * 3


VINTS = """\
type t: record
  key_len : integer { signed = false, hadoop_vint = true, endian = big }
  key : string { byte_size = "key_len", encoding = ascii }
process P: (t/t c)
  c => c
"""


def test_annotations_describe_integers_of_variable_size() -> None:
    """As FLICK's examples for Hadoop do. What has no meaning is ignored with a warning."""
    service = load_source(VINTS)
    given = {("c", 0): b"\x8f\xc8" + b"k" * 200 + b"\1k"}
    assert Compiled(service).run(given).sent["c", 0] == given["c", 0] == interpreted(service, given).sent["c", 0]
    assert [str(each) for each in service.warnings if "'endian'" in str(each)]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("kind : integer\n    { byte_size = 3 }", "the integer 'kind' cannot have this size"),
        ("kind : integer\n    { signed = true }", "nothing says how long 'kind' is"),
        ("kind : integer\n    { byte_size = 1, byte_order = middle }", "this is no byte order"),
        ("kind : boolean\n    { byte_size = 1 }", "'kind' has no form on the wire"),
        ("kind : string\n    { byte_size = len }", "'self.len' is not known here"),
    ],
)
def test_wrong_annotations(field: str, message: str) -> None:
    """Only where the record has to stand on a wire."""
    service = load_source(f"type t: record\n  {field}\nprocess P: (t/t c)\n  c => c\n")
    with pytest.raises(ServiceError, match=re.escape(message)):
        lower(service, service.process())
