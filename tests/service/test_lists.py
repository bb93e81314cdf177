"""Lists as values: of variables, parameters, results, state and records, with their cardinalities; lists in messages;
compiled and interpreted alike.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from sluice.service.lang.errors import ServiceError
from sluice.service.load import Service, load_source
from sluice.service.serve import Backend, wire
from tests.service.trial import Compiled, interpreted
from tests.support.budget import examples

TRADES = """\
type price = unit {
  %byteorder = little;
  value  : int32;
  size   : uint8;
  name   : string &length = self.size;
         : uint8;
};
type trade = unit {
  %byteorder = big;
  kind   : uint8;
  n      : uint8;
  prices : list<price>[self.n];
  m      : uint16;
  counts : uint16[self.m] if (self.kind != 9);
  rest   : uint8;
  flags  : list<int<16>> &length = self.rest;
};
"""

RECORDS = """\
type price: record
  value : integer
  name  : string

type trade: record
  kind   : integer
  prices : [price]{4}
  counts : [integer]
  flags  : [integer]{3}

"""

PROGRAM = """\
process P: (trade/trade c, [-/price] ds)
  local last : [price]{5} := []
  local sums : [integer]{3} := [1]
  let m = ? c
  let found = pick(m.prices, m.kind)
  let doubled = map(double, m.counts)
  c ! change(m, found, doubled)
  for p in found: ds[p.value mod 2] ! p
  sums := fold(add, sums, m.flags)
  if len(last) > 0: ds[len(sums) mod 2] ! head(last) with value = len(last)
  last := found
  except limit: ds[0] ! price(-1, "limit")
  except failure: ds[1] ! price(-2, "failure")
  except malformed_message: ds[1] ! price(-3, "malformed")

fun pick: (prices: [price], kind: integer) -> ([price]{5})
  switch kind:
    0: prices
    1: filter p in prices: p.value > 0
    2: price(kind, "made") :: prices
    3: map p in prices: p with name = (p.name @ "!")
    4: prices @ prices
    _: tail(prices)

fun change: (m: trade, prices: [price], counts: [integer]) -> (trade)
  if m.kind = 5: m
  else if m.kind = 6: m with prices = (if prices = m.prices: [] else: prices)
  else if m.kind = 7: m with counts = counts with flags = [len(prices), m.kind]
  else if m.kind = 8: trade(8, prices, len(counts) :: counts, m.flags)
  else: m with prices = prices with counts = [hash(p.name) mod 70000 - 1 for_each]

fun double: (x: integer) -> (integer): 2 * x
fun add: (x: integer, sums: [integer]{3}) -> ([integer]{3}): if x > 0: x :: sums else: sums
"""
PROGRAM = PROGRAM.replace("[hash(p.name) mod 70000 - 1 for_each]", "map p in prices: hash(p.name) mod 70000 - 1")


def price(value: int, name: bytes) -> bytes:
    return value.to_bytes(4, "little", signed=True) + bytes([len(name)]) + name + b"\x7f"


def trade(kind: int, prices: list[bytes], counts: list[int], flags: list[int]) -> bytes:
    out = bytes([kind, len(prices)]) + b"".join(prices) + len(counts).to_bytes(2, "big")
    if kind != 9:
        out += b"".join(each.to_bytes(2, "big") for each in counts)
    return out + bytes([2 * len(flags)]) + b"".join(each.to_bytes(2, "big", signed=True) for each in flags)


def message(rng: random.Random) -> bytes:
    prices = [price(rng.randint(-3, 3), rng.choice([b"", b"a", b"name"])) for _ in range(rng.randrange(6))]
    counts = [rng.choice([0, 1, 40000]) for _ in range(rng.randrange(4))]
    return trade(rng.randrange(10), prices, counts, [rng.randint(-2, 2) for _ in range(rng.randrange(5))])


@pytest.fixture(scope="module")
def service() -> Service:
    return load_source(TRADES + RECORDS + PROGRAM)


@pytest.fixture(scope="module")
def compiled(service: Service) -> Compiled:
    return Compiled(service)


@for_all(st.integers(0, 1 << 40))
@settings(max_examples=examples(300, 80))
def test_lists_in_messages(service: Service, compiled: Compiled, seed: int) -> None:
    """Lists of messages are taken, changed, made, sent one by one, and held; faults of their limits are handled."""
    rng = random.Random(seed)
    given = {("c", 0): b"".join(message(rng) for _ in range(rng.randrange(6)))}
    wanted = interpreted(service, given, {"ds": 2})
    for budget in (1 << 20, rng.randint(1, 40)):
        assert compiled.run(given, {"ds": 2}, buffer_size=65536, budget=budget, piece=budget) == wanted


def test_each_item_of_a_list(compiled: Compiled) -> None:
    """What a message's lists are, and what is made of them, in bytes."""
    prices = [price(-2, b"b"), price(3, b"cc")]
    given = {("c", 0): trade(8, prices, [7], [-1, 5]) + trade(1, prices, [9], [])}
    found = compiled.run(given, {"ds": 2})
    eight = trade(8, [price(3, b"cc")], [1, 14], [-1, 5])  # tail(prices), and the number of the doubled counts
    assert found.fault == "" and found.sent["c", 0].startswith(eight)
    assert found.sent["c", 0][len(eight) :][:2] == b"\x01\x01"  # one price is above 0
    assert found.sent["ds", 1] == price(3, b"cc") + price(3, b"cc")
    assert found.sent["ds", 0] == price(1, b"cc")  # the head of `last`, changed


STRINGS = """\
type t = unit { n : uint8; text : bytes &length = self.n; };
type t: record
  text : string

type pair: record
  key  : string
  seen : [integer]{2}

process P: (t/t c)
  local words : [string]{3} := []
  local table : [[integer]{2}]{3} := [[]]
  local pairs : [pair]{2} := []
  global all : [<integer * string>] := []
  local d : dictionary [string] [integer]{2} := empty_dictionary
  let m = ? c
  d[m.text] := len(m.text) :: d[m.text]
  table := (for x in 0 .. (len(m.text) mod 4) initially rows = table: grow(rows, x))
  words := m.text :: words
  pairs := pair(m.text, d[m.text]) :: (if len(pairs) = 2: tail(pairs) else: pairs)
  all := <len(all), m.text> :: all
  c ! t(joined(words))
  c ! t(int_to_string(len(all) + len(d[m.text]) + fold(total, 0, table)) @ head(pairs).key @ head(all).2)
  except limit: reset(words, table)
  except failure: c ! t("failure")

fun joined: (words: [string]) -> (string)
  for w in words initially all = "": all @ w @ ","

fun grow: (rows: [[integer]{2}], x: integer) -> ([[integer]{2}]{3})
  if x = 0: rows
  else: (x :: (if len(rows) = 0: [] else: head(rows))) :: (if len(rows) > 1: tail(rows) else: rows)

fun total: (row: [integer], sum: integer) -> (integer): fold(sum_of, sum, row)
fun sum_of: (x: integer, sum: integer) -> (integer): x + sum

fun reset: (words: ref [string]{3}, table: ref [[integer]{2}]{3}) -> ()
  words := ["again"]
  table := [[], [1]]
"""


@pytest.fixture(scope="module")
def strings() -> Compiled:
    return Compiled(load_source(STRINGS))


@for_all(st.lists(st.sampled_from([b"", b"a", b"bc", b"def", b"long" * 9]), max_size=9), st.integers(1, 30))
@settings(max_examples=examples(200, 60))
def test_lists_of_strings_lists_records_and_tuples(strings: Compiled, texts: list[bytes], budget: int) -> None:
    given = {("c", 0): b"".join(bytes([len(each)]) + each for each in texts)}
    wanted = interpreted(strings.service, given)
    assert strings.run(given, buffer_size=65536, budget=budget) == wanted
    assert not wanted.fault


MESSAGES = """\
type t = unit { n : uint8; };
type t: record
  n : integer

type v: variant
  many : [integer]{3}
  one  : integer

process P: (t/t c)
  local s : v := many([1, 2])
  local held : [t]{3} := []
  global d : dictionary [integer] [t] := empty_dictionary
  let m = ? c
  s := (if m.n mod 3 > 0: many(m.n :: of(s)) else: one(m.n))
  held := m :: (if len(held) = 3: tail(held) else: held)
  d[m.n mod 4] := m :: d[m.n mod 4]
  for x in d[m.n mod 4]: c ! x
  c ! held[len(held) - 1] with n = fold(total, len(of(s)), held) mod 256
  switch 1 .. m.n mod 4:
    []: c ! t(0)
    [1, 2]: c ! m
    _: for x in (map x in [m, m]: x with n = x.n / 2): c ! x
  if many([m.n]) = s: c ! t(99)

fun of: (s: v) -> ([integer])
  switch s:
    many(l): if len(l) = 3: [] else: l
    one(x): [x]

fun total: (m: t, sum: integer) -> (integer): m.n + sum
"""


@pytest.fixture(scope="module")
def messages() -> Compiled:
    return Compiled(load_source(MESSAGES))


@for_all(st.binary(max_size=12), st.integers(1, 12))
@settings(max_examples=examples(200, 60))
def test_lists_of_messages_in_variants_state_and_dictionaries(messages: Compiled, data: bytes, piece: int) -> None:
    given = {("c", 0): data}
    wanted = interpreted(messages.service, given)
    assert messages.run(given, buffer_size=65536, piece=piece) == wanted
    assert not wanted.fault and len(wanted.sent["c", 0]) >= 3 * len(data)


CASES = """\
1: c ! t(take(0 .. 1)) -> 2
2: c ! t(take(0 .. 2)) -> LIMIT
3: c ! t(rows([1 .. m.n, [1]])) -> LIMIT
4: c ! t(rows([3 .. m.n, [1]])) -> 2
5: c ! t(second(<1, 1 .. m.n>)) -> LIMIT
6: c ! t(len(cut(4 .. m.n))) -> LIMIT
7: two := m.n :: two; two := 1 :: two; c ! t(len(two)) -> 2
8: two := m.n :: two; two := 1 :: two; two := 1 :: two; c ! t(len(two)) -> LIMIT
9: free := m.n :: free; free := free @ free; c ! t(len(free)) -> 4
10: c ! t(len(for x in 1 .. 9 initially a = [0]: x :: a)) -> 10
11: c ! t(len(1 :: wide(m.n))) -> 1
12: c ! t(len(9 :: (if m.n = 12: 0 .. 9 else: [1]))) -> 11
13: c ! t(len(1 :: two @ free)) -> 2
14: c ! t(push(two)) -> 1
15: d[0] := 1 .. 3; c ! t(1) -> LIMIT
16: d[0] := 1 .. 2; c ! t(len(1 :: d[0])) -> 3
17: c ! t(len((for x in 1 .. 9 initially a = <0, []>: <a.1 + x, x :: a.2>).2)) -> 9
18: pair := <m.n :: pair.1, 2>; pair := <m.n :: pair.1, 3>; c ! t(len(pair.1)) -> 3
"""
"""A number that is received, what is done, and what is sent, or the fault."""

CARDINALITIES = """\
type t = unit { n : uint8; };
type t: record
  n : integer

process P: (t/t c)
  local two : [integer]{2} := []
  local free := [1]
  local pair := <[1], 2>
  local d : dictionary [integer] [integer]{2} := []
  let m = ? c
  switch m.n:
"""
FUNCTIONS = """\

fun take: (l: [integer]{2}) -> (integer): len(l)
fun rows: (l: [[integer]{2}]) -> (integer): len(l)
fun second: (p: <integer * [integer]{2}>) -> (integer): len(p.2)
fun cut: (l: [integer]) -> ([integer]{2}): l
fun wide: (n: integer) -> ([integer]{300}): if n = 0: 0 .. 255 else: []
fun fill: (d: dictionary [integer] [integer]{3}) -> ()
  d[1] := [1, 2, 3]
fun push: (l: ref [integer]{2}) -> (integer)
  l := 7 :: l
  len(l)
"""


def test_cardinalities() -> None:
    """A list that may have more items than its place is tested when it comes there, also within lists and tuples."""
    text, wanted = CARDINALITIES, dict[int, str]()
    for line in CASES.splitlines():
        number, _, rest = line.partition(": ")
        done, _, wanted[int(number)] = rest.partition(" -> ")
        text += f"    {number}:\n" + "".join(f"      {each}\n" for each in done.split("; "))
    service = load_source(text + "    _: c ! m\n" + FUNCTIONS)
    compiled = Compiled(service, ("-O0",))
    for number, result in wanted.items():
        given = {("c", 0): bytes([number])}
        found = compiled.run(given)
        assert found.fault == interpreted(service, given).fault
        assert (found.fault or str(found.sent["c", 0][0])) == result, number


WRONG = {
    "let l : [integer]{2} = [1, 2, 3]": "'l' has at most 2 items, and this list has 3",
    "fill(d)": r"refers to dictionary \[integer\] \[integer\]\{3\}, and 'd' is dictionary \[integer\] \[integer\]\{2\}",
    "push(free)": r"refers to \[integer\]\{2\}, and 'free' is \[integer\]",
}


@pytest.mark.parametrize("line", WRONG)
def test_cardinalities_that_do_not_fit(line: str) -> None:
    with pytest.raises(ServiceError, match=WRONG[line]):
        load_source(f"{CARDINALITIES}    1: c ! m\n  {line}\n{FUNCTIONS}")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("prices : [integer]", r"'prices' is \[integer\] here, and string, or \[price\] in the unit 'trade'"),
        ("counts : [price]", r"'counts' is \[price\] here, and string, or \[integer\] in the unit 'trade'"),
        ("kind : [integer]", r"'kind' is \[integer\] here, and integer in the unit 'trade'"),
        ("flags : integer", r"'flags' is integer here, and string, or \[integer\] in the unit 'trade'"),
    ],
)
def test_a_list_of_another_type_than_that_of_the_message(field: str, message: str) -> None:
    text = (
        TRADES
        + f"type trade: record\n  {field}\ntype price: record\n  value : integer\nprocess P: (trade/- c)\n  c => _\n"
    )
    with pytest.raises(ServiceError, match=message):
        load_source(text)


def test_items_that_are_units_of_another_name(tmp_path: Path) -> None:
    path = tmp_path / "trades.grammar"
    path.write_text(TRADES)
    record = "type trade: record\n  prices : [price]\ntype price: record\n  value : integer\n"
    record += "process P: (trade/- c)\n  c => _\n"
    load_source(record, [str(path)])
    with pytest.raises(ServiceError, match="the items of 'prices' are other units than 'price' of this program"):
        load_source("type price = unit { value : uint8; };\n" + record, [str(path)])
    with pytest.raises(ServiceError, match=r"'prices' is \[price\] here"):
        load_source(record.replace("price: record", "price: variant"), [str(path)])


def test_units_that_contain_each_other_within_bytes() -> None:
    """Their sizes bound them. They are a list where that is known, and else bytes."""
    text = "type a = unit { n : uint8; bs : list<b> &length = self.n; };\n"
    text += "type b = unit { k : uint8; as : a[self.k]; };\n"
    record = "type a: record\n  bs : string\nprocess P: (a/a c)\n  c => c\n"
    load_source(text + record)
    with pytest.raises(ServiceError, match="'bs' is"):
        load_source(text + record.replace("string", "[integer]"))


def test_faults_of_lists_in_messages() -> None:
    """A number that does not fit, bytes that are left over, and more items than the record's list has."""
    text = "type t = unit { n : uint8; l : list<uint16> &length = self.n; };\ntype t: record\n  l : [integer]{2}\n\n"
    send = load_source(text + "process P: (t/t c)\n  let m = ? c\n  c ! m with l = map x in m.l: x * 300\n")
    compiled = Compiled(send)
    for data, fault in (
        (b"\4\0\1\0\2", ""), (b"\2\1\0", "UNFIT"), (b"\3abc", "BAD_MESSAGE"), (b"\6abcdef", "LIMIT"),
    ):  # fmt: skip
        given = {("c", 0): data}
        found = compiled.run(given)
        assert found.fault == fault == interpreted(send, given).fault
        assert fault or found.sent["c", 0] == b"\4\x01\x2c\x02\x58"


WORDS = """\
type term = unit { text : /,?[a-z]+/; };
type line = unit { k : uint8; words : term[self.k]; };
type pair = unit { text : /ab?|bb?/; };
type m = unit {
  n     : uint8;
  words : term[self.n];
  x     : uint8;
  size  : uint8;
  lines : list<line> &length = self.size;
  least : uint8;
  pairs : list<pair> &length = self.least;
};
type term: record
  text : string

type line: record
  words : [term]{4}

type pair: record
  text : string

type m: record
  words : [term]{4}
  x     : integer
  lines : [line]{3}
  pairs : [pair]

process P: (m/m c)
  let m = ? c
  c ! changed(m)
  except limit: c ! m([], 99, [], [])

fun changed: (m: m) -> (m)
  switch m.x:
    1: m with words = (term(",made") :: m.words)
    2: m with words = (m.words @ [term("cd")])
    3: m with words = tail(m.words)
    4: m with lines = [line([term(",x"), term(",y")]), line([])]
    5: m with words = (map w in m.words: w with text = (w.text @ "z"))
    6: m with lines = (m.lines @ m.lines)
    7: m with words = head(m.lines).words
    8: m with pairs = [pair("a"), pair("bb")]
    9: m with pairs = [pair("ab"), pair("b")]
    10: m with words = ((map w in m.words: term(w.text)) @ m.words)
    _: m with x = 200
"""
"""Units that end in a regular expression, in lists that are known to end with them."""


def line(words: list[bytes]) -> bytes:
    return bytes([len(words)]) + b"".join(words)


def text(words: list[bytes], x: int, lines: list[bytes], pairs: bytes = b"") -> bytes:
    rows = b"".join(lines)
    return line(words) + bytes([x, len(rows)]) + rows + bytes([len(pairs)]) + pairs


@pytest.fixture(scope="module")
def words() -> Compiled:
    return Compiled(load_source(WORDS))


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (text([b"ab", b",cd"], 0, []), text([b"ab", b",cd"], 200, [])),
        (text([b",ab", b",cd"], 1, []), text([b",made", b",ab", b",cd"], 1, [])),
        (text([b"ab", b",cd"], 1, []), b""),  # one word, ",madeab"
        (text([b"ab", b",cd"], 2, []), b""),
        (text([], 2, []), text([b"cd"], 2, [])),
        (text([b"ab", b",cd"], 3, [line([b"e"])]), text([b",cd"], 3, [line([b"e"])])),
        (text([b"ab"], 4, []), text([b"ab"], 4, [line([b",x", b",y"]), line([])])),
        (text([b"ab", b",cd"], 5, []), text([b"abz", b",cdz"], 5, [])),
        (text([], 6, [line([b"a", b",b"])]), text([], 6, 2 * [line([b"a", b",b"])])),
        (text([b"ab"], 7, [line([b"c", b",d"])]), text([b"c", b",d"], 7, [line([b"c", b",d"])])),
        (text([], 8, [], b"b"), b""),  # "ab" and "b", which are two, but others
        (text([], 9, [], b"b"), text([], 9, [], b"abb")),
    ],
)
def test_units_that_end_in_a_regular_expression(words: Compiled, data: bytes, wanted: bytes) -> None:
    """The last one ends with its list. A list of units that would be others when they are read is refused."""
    given = {("c", 0): data}
    found = words.run(given)
    assert found == interpreted(words.service, given)
    assert (found.fault, found.sent["c", 0]) == ("" if wanted else "UNFIT", wanted)


@for_all(st.integers(0, 1 << 40))
@settings(max_examples=examples(200, 60))
def test_they_are_what_the_interpreter_makes_of_them(words: Compiled, seed: int) -> None:
    rng = random.Random(seed)

    def some(most: int) -> list[bytes]:
        chosen = [rng.choice([b",a", b",bc", b",d"]) for _ in range(rng.randrange(most))]
        return [chosen[0].lstrip(b","), *chosen[1:]] if chosen and rng.random() < 0.3 else chosen

    def lines() -> list[bytes]:
        return [line(some(6)) for _ in range(rng.randrange(4))]

    data = b"".join(text(some(5), rng.randrange(11), lines(), b"ab") for _ in range(rng.randrange(4)))
    given = {("c", 0): data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data}
    wanted = interpreted(words.service, given)
    for budget in (1 << 20, rng.randint(1, 40)):
        found = words.run(given, buffer_size=65536, budget=budget, piece=budget)
        assert found.fault == wanted.fault and wanted.sent["c", 0].startswith(found.sent["c", 0])
        assert found == wanted or found.fault  # a fault ends the instance before all is written


@pytest.mark.parametrize("grammar", ["text : /,[a-z]+/;", 'k : uint8; switch { : "AB"; : "A"; };'])
def test_items_that_are_not_changed_need_not_be_counted(grammar: str) -> None:
    """Their number is that of the message; one that the program names is counted again."""
    units = f"type term = unit {{ {grammar} }};\ntype m = unit {{ n : uint8; words : term[self.n]; x : uint8; }};\n"
    rest = "process P: (m/m c)\n  let m = ? c\n  c ! m with x = 1\n"
    service = load_source(f"{units}type m: record\n  x : integer\n{rest}")
    data = b"\2,ab,c" if "text" in grammar else b"\2zABzA"
    given = {("c", 0): data + b"\0"}
    found = Compiled(service, ("-O0",)).run(given)
    assert found == interpreted(service, given) and found.sent["c", 0] == data + b"\1"


def test_a_number_of_items_that_the_program_sets_is_counted() -> None:
    """As each length, it is that of the items that are sent, whatever the program says."""
    units = "type term = unit { text : /,[a-z]+/; };\ntype m = unit { n : uint8; words : term[self.n]; x : uint8; };\n"
    rest = "process P: (m/m c)\n  let m = ? c\n  c ! m with n = 1\n"
    service = load_source(f"{units}type m: record\n  n : integer\n{rest}")
    given = {("c", 0): b"\2,ab,c\0"}
    found = Compiled(service, ("-O0",)).run(given)
    assert found == interpreted(service, given) and found.sent["c", 0] == b"\2,ab,c\0"


def test_a_message_that_is_only_in_lists_of_others() -> None:
    """No function that would send it is in its C, which has no warning."""
    text = "type t = unit { n : uint8; l : list<u> &length = self.n; };\ntype u = unit { k : uint8; };\n"
    text += "type u: record\n  k : integer\ntype t: record\n  l : [u]\n"
    service = load_source(text + "process P: (t/t c)\n  let m = ? c\n  c ! m with l = (u(7) :: m.l)\n")
    found = Compiled(service, ("-O0",)).run({("c", 0): b"\1a"})
    assert found == interpreted(service, {("c", 0): b"\1a"}) and found.sent["c", 0] == b"\2\7a"


def test_the_cardinality_of_a_channel_array() -> None:
    text = "type t = unit { n : uint8; };\ntype t: record\n  n : integer\n\n"
    service = load_source(text + "process P: {n} => (t/t c, [t/t]{n} ds)\n  c => ds[0]\n", settings={"n": 2})
    backends = [Backend("127.0.0.1", port) for port in (1, 2, 3)]
    wire(service.process(), ("", ("127.0.0.1", 0)), [("ds", backends[:2])])
    with pytest.raises(ServiceError, match="'ds' has at most 2 channels, and 3 backends are given"):
        wire(service.process(), ("", ("127.0.0.1", 0)), [("ds", backends)])
