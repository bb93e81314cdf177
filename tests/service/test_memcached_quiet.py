"""Requests of Memcached's text protocol that want no answer: the server is asked for one all the same, so that an error
or a value answers no other request. Compiled and interpreted.
"""

from __future__ import annotations

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from sluice.service.grammar.codec import parse
from sluice.service.grammar.plan import plan
from sluice.service.grammar.ready import find_grammars
from sluice.service.load import load_file
from sluice.service.serve import Backend
from tests.service.peers import Served, faults, memcached, needs_memcached, read_exactly
from tests.service.test_ready import compiled
from tests.service.trial import interpreted


@pytest.mark.parametrize(
    ("message", "quiet", "sent"),
    [
        (b"set k 0 0 1 noreply\r\na\r\n", 1, b"set k 0 0 1        \r\na\r\n"),
        (b"set noreply 0 0 1\r\na\r\n", 0, None),
        (b"set k noreply 0 1\r\na\r\n", 0, None),
        (b"cas k 0 0 1 7 noreply \r\na\r\n", 1, b"cas k 0 0 1 7         \r\na\r\n"),
        (b"get k noreply\r\n", 0, None),
        (b"delete noreply\r\n", 0, None),
        (b"delete noreply noreply\r\n", 1, b"delete noreply        \r\n"),
        (b"incr k 1 noreply\r\n", 1, b"incr k 1        \r\n"),
        (b"flush_all noreply\r\n", 1, b"flush_all        \r\n"),
        (b"mg q v\r\n", 0, None),
        (b"mg q q v\r\n", 2, b"mg q   v\r\n"),
        (b"mg k v t f s k c q Oq\r\n", 2, b"mg k v t f s k c   Oq\r\n"),
        (b"mg k b c f h k l s t v q\r\n", 2, b"mg k b c f h k l s t v  \r\n"),
        (b"ms k 1 q q\r\na\r\n", 2, b"ms k 1    \r\na\r\n"),
        (b"mn\r\n", 0, None),
        (b"mg k q noreply\r\n", 2, b"mg k   noreply\r\n"),
        (b"mg k noreply\r\n", 0, None),
    ],
)
def test_the_words_for_no_answer_are_blanked(message: bytes, quiet: int, sent: bytes | None) -> None:
    unit = plan(find_grammars("memcached_text")[0])
    found = parse(unit, message)
    assert found is not None and found.values["quiet"] == quiet
    program = compiled("memcached_text cmd")
    got = program.run({("from", 0): message})
    assert got.sent["to", 0] == (sent or message) and got == interpreted(program.service, {("from", 0): message})


WORDS = st.sampled_from([b"set", b"mg", b"md", b"q", b"noreply", b"k", b"0", b"1", b"", b"delete", b"qq", b"xnoreply"])


@settings(max_examples=150)
@for_all(words=st.lists(WORDS, max_size=8))
def test_any_line_is_the_same_interpreted(words: list[bytes]) -> None:
    program = compiled("memcached_text cmd")
    message = b" ".join(words) + b"\r\na\r\nget k\r\n"
    assert program.run({("from", 0): message}) == interpreted(program.service, {("from", 0): message})


ROUTES = (
    "text_router",
    "multiget",
    "ketama",
    "failover",
    "miss_failover",
    "all_sync",
    "all_fastest",
    "shadow",
    "warm_up",
)


@needs_memcached
@pytest.mark.parametrize("route", ROUTES)
def test_an_answer_to_a_quiet_request_answers_no_other_one(route: str) -> None:
    steps = [
        (b"set a 0 0 1 noreply\r\nx\r\n", b""),
        (b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n"),
        (b"incr a 1 noreply\r\n", b""),  # an error: x is no number
        (b"set b 0 0 1\r\ny\r\n", b"STORED\r\n"),
        (b"mg a v q\r\n", b"VA 1\r\nx\r\n"),
        (b"mg none v q\r\n", b""),
        (b"ms c 1 q\r\nz\r\n", b""),
        (b"md none q\r\n", b""),
        (b"get c\r\n", b"VALUE c 0 1\r\nz\r\nEND\r\n"),
        (b"delete none noreply\r\n", b""),
        (b"get b\r\n", b"VALUE b 0 1\r\ny\r\nEND\r\n"),
    ]
    with memcached(2) as servers:
        named = {"shadow": ("backends", "shadow"), "warm_up": ("cold", "warm")}
        pools = {name: [Backend("127.0.0.1", port)] for name, port in zip(named.get(route, ()), servers, strict=False)}
        with Served(load_file(f"memcached_{route}"), pools or list(servers)) as served:
            with served.connect() as client:
                client.settimeout(20)
                for command, answer in steps:
                    client.sendall(command)
                    assert read_exactly(client, len(answer)) == answer, command
                client.sendall(b"".join(command for command, _ in steps))
                assert read_exactly(client, sum(len(answer) for _, answer in steps)) == b"".join(a for _, a in steps)
            assert not faults(served.stop())
