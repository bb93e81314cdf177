"""Fields of a connection (RFC 9110, section 7.6.1): they and what Connection names reach no one beyond, compiled and
interpreted, and the other fields are as they were.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from hypothesis import example, settings
from hypothesis import given as for_all
from hypothesis import strategies as st

from sluice.service.bounds import Limits
from sluice.service.grammar.scan import HOPS, OPTIONS, STAY
from sluice.service.load import load_file
from tests.service.frames import needs_http2
from tests.service.peers import Served, accepting, faults, read_exactly
from tests.service.test_http2 import curl, needs_curl
from tests.service.test_ready import compiled
from tests.service.trial import interpreted
from tests.service.web import HEAD, head_of

NAMES = (b"A", b"X-Drop", b"Foo", b"Cookie", b"Via", b"u", *(each.title() for each in HOPS))
TOKENS = st.sampled_from([b"close", b"keep-alive", b"Upgrade", b"X-Drop", b"foo", b"A", b"u", b"Host", b"", b" "])
CONNECTIONS = st.builds(
    lambda name, tokens, space: name + b":" + space + b",".join(tokens),
    st.sampled_from([b"Connection", b"connection"]), st.lists(TOKENS, max_size=5), st.sampled_from([b"", b" ", b"\t "]),
)  # fmt: skip
FIELDS = st.builds(
    lambda name, value: name + b":" + value,
    st.sampled_from(NAMES), st.sampled_from([b"", b"1", b" a, b ", b" websocket"]),
)  # fmt: skip
BLOCKS = st.lists(FIELDS | CONNECTIONS, max_size=7)


def fields_of(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines)]


def tokens_of(fields: list[tuple[bytes, bytes]]) -> list[bytes]:
    values = [value for name, value in fields if name == b"connection"]
    return [each.strip().lower() for value in values for each in value.split(b",") if each.strip()]


@settings(max_examples=150)
@for_all(lines=BLOCKS)
@example(lines=[b"Foo: 1", b"Connection: Foo"])
@example(lines=[b"A:", b"u:", b"connection:A,u,keep-alive,KEEP-ALIVE"])
@example(lines=[b"Connection: close", b"Connection: close, keep-alive, X-Drop", b"X-Drop: 1", b"Upgrade: h2c"])
def test_only_fields_for_the_other_side_are_forwarded(lines: list[bytes]) -> None:
    program = compiled("http request")
    request = b"\r\n".join([b"GET / HTTP/1.1", b"Host: a", *lines, b"", b""])
    for first in (request, request.replace(b"Host: a\r\n", b"")):
        once = program.run({("from", 0): first})
        assert not once.fault and once == interpreted(program.service, {("from", 0): first})
        sent = once.sent["to", 0]
        assert len(sent) == len(first) and sent.endswith(b"\r\n\r\n")
        before, after = (fields_of(each.split(b"\r\n")[1:-2]) for each in (first, sent))
        named = [each for each in tokens_of(before) if each not in STAY]
        away = (*HOPS, *named, b"connection")
        assert tokens_of(after) in ([], [b"keep-alive"])
        assert [each for each in after if each[0] not in away] == [each for each in before if each[0] not in away]
        assert all(value == b"" for name, value in after if name in (*HOPS, *named))
        kept = [name for name, _ in after if name in (*HOPS, *named)]
        assert len(kept) <= any(name in away for name, _ in before[:1]), "only in the place of the first field"


@pytest.mark.parametrize(("count", "fault"), [(OPTIONS, ""), (OPTIONS + 1, "BAD_MESSAGE")])
def test_the_fields_that_connection_names_are_bounded(count: int, fault: str) -> None:
    program = compiled("http request")
    names = b",".join(b"X%d" % number for number in range(count))
    given = {("from", 0): b"GET / HTTP/1.1\r\nHost: a\r\nConnection: " + names + b"\r\nX0: 1\r\n\r\n"}
    once = program.run(given)
    assert once.fault == fault and once == interpreted(program.service, given)


def test_what_frames_a_message_stays_whatever_connection_names() -> None:
    program = compiled("http request")
    request = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length, host\r\nContent-Length: 2\r\n\r\nhi"
    sent = program.run({("from", 0): request}).sent["to", 0]
    assert b"Content-Length: 2\r\n\r\nhi" in sent and b"Host: a\r\n" in sent and b"content-length, host" not in sent


def give_hops(accepted: socket.socket) -> None:
    """A server that answers with the head of the request, and with fields of its own connection."""
    with accepted:
        head = head_of(accepted)
        fields = b"X-Drop: 1\r\nConnection: X-Drop, close\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\nX-Stays: 1\r\n"
        accepted.sendall((HEAD % len(head)).replace(b"\r\n\r\n", b"\r\n" + fields + b"\r\n") + head)


REQUEST = b"GET / HTTP/1.1\r\nTE: trailers\r\nHost: a\r\nConnection: TE, X-Mine\r\nX-Mine: 1\r\nX-Other: 1\r\n\r\n"


@pytest.mark.parametrize("service", ["http_round_robin", "http_failover", "http_tap"])
def test_services_forward_none_of_them_in_either_direction(service: str) -> None:
    with accepting(give_hops) as port, Served(load_file(service), [port], Limits(down=0)) as served:
        with served.connect() as client:
            for _ in range(2):  # the client's connection goes on
                client.sendall(REQUEST)
                head = head_of(client)
                echoed = read_exactly(client, int(re.findall(rb"Length: (\d+)", head)[0]))
                for text in (b"X-Drop", b"Keep-Alive", b"h2c", b"timeout", b"close"):
                    assert text not in head
                assert b"X-Stays: 1" in head and b"X-Other: 1" in echoed
                assert b"trailers" not in echoed and b"X-Mine" not in echoed
        assert not faults(served.stop())


@needs_http2
@needs_curl
def test_clients_of_http_2_get_none_of_them(tmp_path: Path) -> None:
    limits = Limits(http2=10)
    with accepting(give_hops) as port, Served(load_file("http_round_robin"), [port], limits) as served:
        url = f"http://127.0.0.1:{served.port}/"
        got = curl("--http2-prior-knowledge", "-i", "-H", "TE: trailers", url)
        head, _, echoed = got.partition(b"\r\n\r\n")
        assert fields_of(head.split(b"\r\n")[1:]) == [(b"content-length", b"%d" % len(echoed)), (b"x-stays", b"1")]
        assert b"trailers" not in echoed and b"HTTP/1.1\r\n" in echoed
        assert not faults(served.stop())
