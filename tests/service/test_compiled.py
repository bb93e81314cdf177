"""Compiled programs do what the interpreter says: random programs, random messages, at random cuts."""

from __future__ import annotations

import random

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from sluice.service.load import load_source
from tests.service.random_programs import Writer, message
from tests.service.trial import Compiled, interpreted

COUNTS = {"ds": 3}


@for_all(st.integers(0, 1 << 40))
@settings(max_examples=10)
def test_random_programs(seed: int) -> None:
    source = Writer(seed).program()
    service = load_source(source)
    compiled = Compiled(service, ("-O0", "-fwrapv"))
    rng = random.Random(seed)
    for _ in range(12):
        given = {("c", 0): b"".join(message(rng) for _ in range(rng.randrange(8)))}
        wanted = interpreted(service, given, COUNTS)
        for budget in (1 << 20, rng.randint(1, 40)):
            found = compiled.run(given, COUNTS, buffer_size=65536, budget=budget)
            assert found.fault == wanted.fault, source
            if wanted.fault:  # what was sent before a fault may be there or not
                assert all(wanted.sent[place].startswith(data) for place, data in found.sent.items()), source
            else:
                assert found == wanted, source
