"""State of connections whose function reads streams, or knows a connection by another one: it moves with them, and
outlives the process that had it. The rows are those of one instance that nothing happens to.
"""

from __future__ import annotations

import random
import re
import ssl
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from sluice.chain.description import Arrangement, function
from sluice.functions.detect.rules import Reader
from sluice.functions.detect.table import table
from sluice.state.location import Location
from tests.functions.detect.boxes import needs_ids
from tests.functions.logs.hellos import client_hello, extension, message, record, server_hello, vector
from tests.functions.logs.test_filelog_tls import GREETING, MAIL
from tests.functions.logs.test_http_tls import needs_libcrypto, needs_openssl, secured_talk
from tests.state.boxes import missing
from tests.state.instances import (
    BURST,
    Action,
    Ran,
    compiled,
    each,
    kill,
    kill_running,
    move,
    plan_of,
    run_ideal,
    run_instances,
)
from tests.state.test_stored import FILLER, INSIDE, OUTSIDE, dialogue, reordered, stack
from tests.state.traffic import address
from tests.support.connection import Host, goodbye, handshake
from tests.support.unoptimised import unoptimised

LOGS = {"account": {"partial": True}}
"""Functions with parameters."""
TOGETHER = (("tlslog", "httplog", "flowlog", "account"), ("filelog",))
SETTLED = [FILLER] * 140
"""Each with a burst: more than the packet log has, so that the store has what came before."""

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

ENCRYPTED = b"\x14\x03\x03" + vector(b"\1") + b"\x17\x03\x03" + vector(bytes(40))
SECURED = (
    (True, record(client_hello(session=b"i" * 32), 100)),
    (
        False,
        record(server_hello(0xC02F, b"i" * 32, extension(16, vector(vector(b"h2", 1)))) + message(11, bytes(3)), 60),
    ),
    (True, ENCRYPTED),
    (False, ENCRYPTED),
)
WEB = (
    (True, b"GET /a/long/path?with=a&query=too HTTP/1.1\r\nHost: www.example\r\nUser-Agent: a test\r\n\r\n"),
    (False, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 60\r\n\r\n" + b"x" * 60),
    (True, b"POST /b HTTP/1.1\r\nHost: www.example\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (False, b"HTTP/1.1 100 Continue\r\n\r\n"),
    (True, b"1e\r\n" + b"y" * 30 + b"\r\n10\r\n" + b"z" * 16 + b"\r\n0\r\n\r\nHEAD /c HTTP/1.1\r\nHost: b\r\n\r\n"),
    (False, b"HTTP/1.1 201 Created\r\nLocation: /b/1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    (False, b"HTTP/1.1 404 Not Found\r\nContent-Length: 900\r\nServer: a\r\n\r\n"),
    (True, b"MKTHI"),
    (True, b"NG /until/the/\xff/end HTTP/1.0\r\n\r\n"),
    (False, b"HTTP/1.0 200 OK\r\n\r\n" + b"all that follows " * 20),
)
LETTER = (
    (False, b"220 there\r\n"),
    (True, b"EHLO here\r\n"),
    (False, b"250 there\r\n"),
    (True, b"MAIL FROM:<a@b>\r\n"),
    (False, b"250 ok\r\n"),
    (True, b"RCPT TO:<c@d>\r\n"),
    (False, b"250 ok\r\n"),
    (True, b"DATA\r\n"),
    (False, b"354 go on\r\n"),
    (True, b"Subject: files\r\nContent-Type: multipart/mixed; boundary=here\r\n\r\n--here\r\n\r\nsome text\r\n"),
    (True, b'--here\r\nContent-Type: image/png; name="a.png"\r\nContent-Transfer-Encoding: base64\r\n'),
    (
        True,
        b"Content-Disposition: attachment\r\n\r\n" + b"QUJD" * 15 + b"\r\n" + b"REVG" * 15 + b"\r\n--here--\r\n.\r\n",
    ),
    (False, b"250 stored\r\n"),
    (True, b"QUIT\r\n"),
    (False, b"221 bye\r\n"),
)


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    choose = random.Random(12)
    streams: list[list[bytes]] = []
    for host in range(1, 15):
        client = address(INSIDE, host)
        streams += [dialogue(client, 2000 + host, 443, *SECURED), dialogue(client, 3000 + host, 80, *WEB)]
        streams += [reordered(client, 4000 + host), dialogue(client, 5000 + host, 25, *LETTER)]
    out: list[bytes] = []
    while streams:
        stream = choose.choice(streams)
        out.append(stream.pop(0))
        streams = [each for each in streams if each]
    return out


def logs(folder: Path, names: Iterable[str], **parameters: str) -> Arrangement:
    """Each with a file of its rows."""
    folder.mkdir(exist_ok=True)
    first, *others = (function(name, out=str(folder / name), **LOGS.get(name, {}), **parameters) for name in names)
    found: Arrangement = first
    for one in others:
        found = found | one
    return found


def rows(folder: Path) -> dict[str, list[str]]:
    return {path.name: sorted(path.read_text().splitlines()) for path in sorted(folder.iterdir())}


@pytest.fixture(
    scope="module",
    params=[pytest.param(TOGETHER[0], id="logs"), pytest.param(TOGETHER[1], id="files", marks=pytest.mark.slow_matrix)],
)
def ideal(
    packets: list[bytes], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, list[str]]:
    """The rows of functions, by name."""
    folder = tmp_path_factory.mktemp("ideal")
    with unoptimised():
        run_ideal(plan_of(logs(folder / "rows", request.param), stack()), packets, folder)
    return rows(folder / "rows")


def ran(packets: list[bytes], names: Iterable[str], folder: Path, store: Location, actions: dict[int, Action]) -> Ran:
    with unoptimised():
        chain = compiled(plan_of(logs(folder / "rows", names), stack()), dict.fromkeys(names, 2))
    return run_instances(chain, packets, folder, store, actions)


def test_streams_move_with_connections(
    packets: list[bytes], ideal: dict[str, list[str]], tmp_path: Path, store: Location
) -> None:
    to = [each(ideal, lambda name, instance=instance: move(name, instance)) for instance in (0, 1)]
    found = ran(packets, list(ideal), tmp_path, store, {3: to[1], 6: to[0], 9: to[1]})
    assert found.failure is None and not found.reports.get("state_refused")
    assert {name: len(found) for name, found in ideal.items()} in (
        {"tlslog": 14, "httplog": 14 * 4, "flowlog": 14 * 4, "account": 14 * 4},
        {"filelog": 14 * 5},
    )
    assert rows(tmp_path / "rows") == ideal


def test_streams_outlive_their_process(
    packets: list[bytes], ideal: dict[str, list[str]], tmp_path: Path, store: Location
) -> None:
    one, other = (kill_running(*(name + suffix for name in ideal)) for suffix in ("", "#1"))
    found = ran(packets, list(ideal), tmp_path, store, {n: other if n % 4 else one for n in range(2, 16, 2)})
    assert found.failure is None and not found.reports.get("state_refused")
    assert {name: found.reports[f"{name}.crashes"] >= 2 for name in ideal} == dict.fromkeys(ideal, True)
    assert rows(tmp_path / "rows") == ideal


# --- one instance, killed before each of some packets ---


def apart(frames: list[bytes]) -> list[bytes]:
    """Each is the first of a burst."""
    return [one for frame in frames for one in (frame, *[FILLER] * (BURST - 1))]


def both(
    name: str, frames: list[bytes], killed: Iterable[int], folder: Path, store: Location, **parameters: str
) -> Ran:
    """The rows of a run whose process is killed before these frames, which are those of the ideal chain."""
    packets = apart(frames)
    with unoptimised():
        run_ideal(plan_of(logs(folder / "ideal", [name], **parameters), stack()), packets, folder / "one")
    chain = compiled(plan_of(logs(folder / "rows", [name], **parameters), stack()), {name: 1})
    found = run_instances(chain, packets, folder, store, dict.fromkeys(killed, kill(name)))
    assert found.failure is None and found.reports[f"{name}.crashes"] >= 1
    for kind in ("rows", "ideal"):  # what is recognised is not inspected further by another process
        path = folder / kind / name
        path.write_text(re.sub(r',"inspected":[0-9]+', "", path.read_text()))
    assert rows(folder / "rows") == rows(folder / "ideal")
    return found


@cache
def transfers() -> list[bytes]:
    """Control connections of FTP, each with a data connection: one ends before the last reply, one after the control
    connection.
    """
    out: list[bytes] = []
    for host, survives in ((1, False), (2, True)):
        client, server = address(INSIDE, host), address(OUTSIDE, 8)
        a, b = Host(client, 7000, 1000), Host(server, 21, 9000)
        c, d = Host(client, 7001, 5000), Host(server, 0x0101, 6000)
        a.peer, b.peer, c.peer, d.peer = b, a, d, c
        announced = b"227 Entering Passive Mode (" + b",".join(b"%d" % one for one in server) + b",1,1)\r\n"
        out += [*handshake(a, b), b.data(b"220 ready\r\n"), a.data(b"USER some"), a.data(b"one\r\n")]
        out += [b.data(b"230 welcome\r\n"), a.data(b"PASV\r\n"), b.data(announced), *handshake(c, d)]
        out += [a.data(b"RETR /a/file\r\n"), d.data(b"some bytes"), b.data(b"150 here it comes\r\n"), d.data(b"others")]
        if survives:
            out += [b.data(b"226 done\r\n"), *goodbye(a, b), d.data(b"the rest"), *goodbye(d, c)]
        else:
            out += [d.data(b"the rest"), *goodbye(d, c), b.data(b"226 done\r\n"), *goodbye(a, b)]
    return out


@pytest.mark.parametrize(
    ("name", "first", "step"),
    [
        ("ftplog", 3, 4),
        *(pytest.param("ftplog", 4 + n, 4, marks=pytest.mark.slow_matrix) for n in range(3)),
        *(pytest.param("filelog", 3 + n, 8, marks=pytest.mark.slow_matrix) for n in range(8)),
    ],
)
def test_transfers_outlive_their_process(name: str, first: int, step: int, tmp_path: Path, store: Location) -> None:
    both(name, transfers(), range(first, len(transfers()), step), tmp_path, store)
    found = (tmp_path / "rows" / name).read_text()
    assert found.count('"data_bytes":24' if name == "ftplog" else '"length":24') == 2


@pytest.mark.skipif(not Path("/usr/include/ndpi/ndpi_api.h").is_file(), reason="there is no libndpi-dev")
def test_an_application_that_was_recognised_outlives_its_process(tmp_path: Path, store: Location) -> None:
    a, b = Host(address(INSIDE, 1), 7000, 1000), Host(address(OUTSIDE, 8), 22, 9000)
    a.peer, b.peer = b, a
    frames = [*handshake(a, b), b.data(b"SSH-2.0-there\r\n"), a.data(b"SSH-2.0-here\r\n")]
    frames += SETTLED
    known = len(frames)
    frames += [a.data(b"x" * 40), b.data(b"y" * 40), *goodbye(a, b)]
    found = both("dpi", frames, range(known, len(frames)), tmp_path, store)
    assert '"application":"SSH"' in (tmp_path / "rows" / "dpi").read_text()
    assert not found.reports["dpi.dpi_begun_anew"]


@pytest.mark.skipif(not Path("/usr/include/ndpi/ndpi_api.h").is_file(), reason="there is no libndpi-dev")
def test_the_name_of_a_host_outlives_two_processes(tmp_path: Path, store: Location) -> None:
    """The second one gets a packet that is not inspected: it is out of order."""
    a, b = Host(address(INSIDE, 1), 7000, 1000), Host(address(OUTSIDE, 8), 80, 9000)
    a.peer, b.peer = b, a
    frames = [*handshake(a, b), a.data(b"GET / HTTP/1.1\r\nHost: www.example\r\nUser-Agent: curl/8.5.0\r\n\r\n")]
    frames += SETTLED
    known = len(frames)
    first, second = a.data(b"x" * 40), a.data(b"y" * 40)
    frames += [second, first, *goodbye(a, b)]
    both("dpi", frames, range(known, len(frames)), tmp_path, store)
    assert '"hostname":"www.example"' in (tmp_path / "rows" / "dpi").read_text()


RULES = """
alert tcp any any -> any any (msg:"in two segments"; content:"attack at dawn"; sid:1;)
alert tcp any any -> any any (msg:"sets a bit"; content:"user in"; flowbits:set,in; flowbits:noalert; sid:2;)
alert tcp any any -> any any (msg:"tests a bit"; content:"secret"; flowbits:isset,in; sid:3;)
alert tcp any any -> any any (msg:"both"; content:"one"; content:"two"; distance:0; sid:4;)
alert tcp any any -> any any (msg:"a name"; content:"a.example"; tls.sni; sid:5;)
alert tcp any any -> any any (msg:"once"; content:"once"; sid:6;)
"""


@needs_ids
@pytest.mark.slow_matrix
def test_rules_hold_across_processes(tmp_path: Path, store: Location) -> None:
    """What a rule needs lies in several segments, with another process for each."""
    a, b = Host(address(INSIDE, 1), 7000, 1000), Host(address(OUTSIDE, 8), 443, 9000)
    c, d = Host(address(INSIDE, 2), 7000, 1000), Host(address(OUTSIDE, 8), 80, 9000)
    a.peer, b.peer, c.peer, d.peer = b, a, d, c
    hello = record(client_hello())
    frames = [*handshake(a, b), *(a.data(hello[at : at + 80]) for at in range(0, len(hello), 80)), *handshake(c, d)]
    for text in (b"an attack at", b" dawn, user ", b"in, one", b" and t", b"wo, a sec", b"ret, once", b" more, once"):
        frames.append(c.data(text))
    frames += [d.data(b"sec"), d.data(b"ret"), *goodbye(c, d), *goodbye(a, b)]
    reader = Reader({})
    reader.read(RULES, "test.rules")
    (tmp_path / "table").write_bytes(table(reader.found.rules))
    both("ids", frames, range(4, len(frames), 3), tmp_path, store, table=str(tmp_path / "table"))
    alerts = (tmp_path / "rows" / "ids").read_text()
    assert [alerts.count(f'"signature_id":{sid},') for sid in (1, 2, 3, 4, 5, 6)] == [1, 0, 2, 1, 1, 1]


def test_http_2_is_not_read_further_and_counted(tmp_path: Path, store: Location) -> None:
    a, b = Host(address(INSIDE, 1), 7000, 1000), Host(address(OUTSIDE, 8), 80, 9000)
    a.peer, b.peer = b, a
    settings = b"\0\0\0\4\0\0\0\0\0"
    frames = [
        *handshake(a, b),
        a.data(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings),
        b.data(settings),
        *SETTLED,
    ]
    begun = len(frames)
    frames += [a.data(settings), b.data(settings), *goodbye(a, b)]
    packets = apart(frames)
    with unoptimised():
        chain = compiled(plan_of(logs(tmp_path / "rows", ["httplog"]), stack()), {"httplog": 1})
    found = run_instances(chain, packets, tmp_path, store, {begun: kill("httplog")})
    assert found.failure is None
    assert found.reports["httplog.http_not_continued"] == 1, {name: n for name, n in found.reports.items() if n}


@needs_libcrypto
@needs_openssl
def test_tls_of_smtp_is_not_read_further_and_counted(tmp_path: Path, store: Location) -> None:
    """From the beginning of its connection, on port 465: at its move there is no session yet."""
    talk, keys = secured_talk(tmp_path, ssl.TLSVersion.TLSv1_3, [*GREETING, *MAIL])
    whole = dialogue(address(INSIDE, 1), 7000, 465, *((who == ">", said) for who, said in talk))
    begun = 3 + 3 + 2  # the handshake of TCP, the ClientHello, and a part of the answer
    frames = [*whole[:begun], *SETTLED, *whole[begun:]]
    with unoptimised():
        chain = compiled(plan_of(logs(tmp_path / "rows", ["smtplog"], keylog=str(keys)), stack()), {"smtplog": 1})
    killed = {begun + len(SETTLED): kill("smtplog"), begun + len(SETTLED) + 4: kill("smtplog")}
    found = run_instances(chain, apart(frames), tmp_path, store, killed)
    assert found.failure is None and found.reports["smtplog.crashes"] >= 1
    assert found.reports["smtplog.smtp_tls_moved"] == 1, {name: n for name, n in found.reports.items() if n}
    assert rows(tmp_path / "rows") == {"smtplog": []}


# --- large states ---


LARGE = """#include "sluice.h"
struct large { uint8_t *bytes; };
SLUICE_STATE(struct large)
SLUICE_SHARED(sum, counter, all, write_mostly, recover, "what connections had counted at their end")
SLUICE_STORED(recover, "much") {
    if (sl_stored_more(stored, state->bytes != NULL))
        state->bytes = sl_stored_block(stored, state->bytes, 1 << 20, 0);
}
SLUICE_DESTROY { free(state->bytes); }
SLUICE_TIMER(tcp, due) { SLUICE_STATE_OF(event)->bytes[(1 << 20) - 1]++; }
SLUICE_ON(tcp, packet) {
    if (!event->instance)
        return;
    struct large *state = SLUICE_STATE_OF(event);
    if (!state->bytes && (state->bytes = calloc(1, 1 << 20)))
        SLUICE_ARM(event, tcp, due, UINT64_C(400000000) - sl_packet_time(event));
    state->bytes[0]++;
}
SLUICE_ON(tcp, end) {
    if (!event->instance)
        return;
    const uint8_t *bytes = SLUICE_STATE_OF(event)->bytes;
    sl_shared_add(SLUICE_SHARED_OF(event, sum), bytes[(1 << 20) - 1] + 100 * bytes[0], NULL);
}
"""


@pytest.mark.slow_matrix
def test_a_batch_may_change_more_than_the_client_holds(tmp_path: Path, store: Location) -> None:
    """The timers of forty connections with a MiB each are due at once; then another process reads all of that."""
    path = tmp_path / "large.c"
    path.write_text(LARGE)
    hosts: list[Host] = []
    frames: list[bytes] = []
    for n in range(40):
        a, b = Host(address(INSIDE, 50 + n), 3000 + n, 1000), Host(address(OUTSIDE, 9), 53, 9000)
        a.peer, b.peer = b, a
        frames += [a.send("S"), *[FILLER] * 7]
        hosts.append(a)
    frames += [FILLER] * (8 * BURST - len(frames))
    frames += [host.send("A") for host in hosts]
    plan = plan_of(function(str(path)), stack())
    with unoptimised():
        ideal = run_ideal(plan, frames, tmp_path / "ideal")
        chain = compiled(plan, {"large": 1})
    found = run_instances(chain, frames, tmp_path, store, {8: kill("large")})
    assert found.failure is None and found.state == ideal.state and found.reports["large.crashes"] == 1
    assert str(40 * (1 + 200)) in ideal.state[0]
