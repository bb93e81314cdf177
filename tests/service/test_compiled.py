"""Compiled programs do what the interpreter says: random programs, random messages, at random cuts."""

from __future__ import annotations

import random

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from sluice.service.load import load_source
from tests.service.random_programs import Writer, message
from tests.service.trial import Compiled, interpreted
from tests.support.budget import examples

COUNTS = {"ds": 3}


@for_all(st.integers(0, 1 << 40))
@settings(max_examples=examples(10, 4))
def test_random_programs(seed: int) -> None:
    source = Writer(seed).program()
    service = load_source(source)
    compiled = Compiled(service, ("-O0", "-fwrapv"))
    rng = random.Random(seed)
    for _ in range(12):
        given = {("c", 0): b"".join(message(rng) for _ in range(rng.randrange(8)))}
        wanted = interpreted(service, given, COUNTS)
        for budget in (1 << 20, rng.randint(1, 40)):
            found = compiled.run(given, COUNTS, buffer_size=65536, budget=budget, piece=budget)
            assert found.fault == wanted.fault, source
            if wanted.fault:  # what was sent before a fault may be there or not
                assert all(wanted.sent[place].startswith(data) for place, data in found.sent.items()), source
            else:
                assert found == wanted, source


REFERS = """\
type t = unit { n : uint32; };
type t: record
  n : integer

process P: (t/t c)
  let m = ? c
  c ! t(count(m.n))

fun count: (n: integer) -> (integer)
  local total : integer := 5
  add(total, n)
  add(total, n)
  total

fun add: (sum: ref integer, n: integer) -> ()
  sum := sum + n
"""


def test_a_parameter_refers_to_a_functions_own_state() -> None:
    service = load_source(REFERS)
    given = {("c", 0): b"".join(n.to_bytes(4, "big") for n in (1, 2, 3))}
    found = Compiled(service).run(given)
    assert found == interpreted(service, given)
    assert found.sent["c", 0] == b"".join(n.to_bytes(4, "big") for n in (7, 9, 11))


READY = """\
type t = unit { n : uint32; };
type t: record
  n : integer

process P: (-/t c, [t/-] ds)
  let at = first_ready(ds)
  let m = ? ds[at]
  c ! t(m.n * 10 + ketama(ds, "key") + ketama_weighted(ds, int_to_string(m.n)) + at)
"""


def test_the_first_channel_that_is_ready() -> None:
    """Messages of each channel come in order, and none is lost, at any cut."""
    service = load_source(READY)
    given = {("ds", i): b"".join((100 * i + n).to_bytes(4, "big") for n in range(5)) for i in range(3)}
    wanted = interpreted(service, given, COUNTS)
    for budget in (1 << 20, 1, 2, 3, 5):
        found = Compiled(service).run(given, COUNTS, budget=budget)
        assert (found.fault, found.ended) == (wanted.fault, wanted.ended) == ("", True)
        got, ours = (
            sorted(int.from_bytes(each.sent["c", 0][at : at + 4], "big") for at in range(0, 60, 4))
            for each in (found, wanted)
        )
        assert got == ours and len(got) == 15
