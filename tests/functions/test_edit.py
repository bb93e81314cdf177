"""`-f edit`: streams whose bytes are changed, however they are divided, reordered and repeated; both ends' TCP goes on.

The two ends here are models of TCP, which check every number that they get; tests/live/test_edit.py has the kernel's.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, RunError, Settings, compile_stack
from sluice.engine.functions import find_functions
from tests.chain.running import small_stack
from tests.functions.tcp_ends import Link, pair, talk
from tests.support.unoptimised import unoptimised

MS = 10**6


@cache
def compiled() -> CompiledStack:
    with unoptimised():
        return compile_stack(small_stack(), tuple(find_functions(["edit:pattern=x"]).c))


class Middle(Link):
    """A box with `edit` between two ends."""

    def __init__(self, folder: Path, options: str) -> None:
        self.path = folder / "out.pcap"
        self.at = 24
        values = [pair.split("=", 1) for pair in options.split(",")]
        settings = Settings(max_instances=1 << 8, memory=1 << 24)
        self.box = Box(compiled(), settings, function_options=[dict(values)], output=self.path)
        self.now = 1000 * 10**9
        self.reports: dict[str, int] = {}

    def through(self, packets: list[bytes]) -> list[bytes]:
        self.now += MS
        self.box.burst([(packet, self.now, 1, None) for packet in packets])
        return self.left()

    def left(self) -> list[bytes]:
        """What has left since the last call."""
        self.box._library.sl_source_flush(self.box._writer.handle)  # type: ignore[union-attr]
        written = self.path.read_bytes()
        found: list[bytes] = []
        while self.at < len(written):
            size = int.from_bytes(written[self.at + 8 : self.at + 12], "little")
            found.append(written[self.at + 16 : self.at + 16 + size])
            self.at += 16 + size
        return found

    def end(self) -> dict[str, int]:
        self.box.finish()
        assert self.box.failure() is None
        self.reports = self.box.reports()
        self.box.close()
        return self.reports


def edited(text: bytes, mode: str) -> bytes:
    return text.replace(
        b"secret", {"mask": b"******", "remove": b"", "replace": b"public knowledge", "alert": b"secret"}[mode]
    )


TEXT = b"secretsecret" + b"a secre not, a secsecret, " * 40 + b"s" * 5 + b"secret" + bytes(range(256)) * 3 + b"secret"


@pytest.mark.parametrize("mode", ["alert", "mask", "remove", "replace"])
@pytest.mark.parametrize("seed", range(4))
def test_streams_are_edited_and_both_ends_go_on(mode: str, seed: int, tmp_path: Path) -> None:
    """Segments of random sizes in both directions; before and after the box, some are lost, overtaken or repeated."""
    chosen = random.Random(seed)
    both = TEXT, (b"answer " + TEXT[::-1] + b"secret")[: 500 + 200 * seed]
    middle = Middle(tmp_path, f"pattern=secret,mode={mode},with=public knowledge,out={tmp_path / 'rows'}")
    ends = talk(middle, chosen, both, sizes=(1, (700, 50, 400, 9)[seed]), faults=0.08 if seed else 0.0)
    assert bytes(ends[1].got) == edited(both[0], mode)
    assert bytes(ends[0].got) == edited(both[1], mode)
    reports = middle.end()
    assert reports["found"] == sum(text.count(b"secret") for text in both)
    assert reports["not_mapped"] == reports["no_room"] == 0


@pytest.mark.parametrize("mode", ["mask", "remove", "replace"])
def test_wherever_the_match_is_cut(mode: str, tmp_path: Path) -> None:
    for cut in range(1, 6):
        middle = Middle(tmp_path, f"pattern=secret,mode={mode},with=public knowledge")
        text = b"my secret"
        ends = talk(middle, random.Random(1), (text, b""), cuts=[3 + cut])
        assert bytes(ends[1].got) == edited(text, mode)
        middle.end()


@pytest.mark.parametrize("mode", ["mask", "replace"])
def test_bytes_that_were_edited_do_not_leave_after_their_acknowledgement(mode: str, tmp_path: Path) -> None:
    """It is lost after the box, and the sender repeats them: the box acknowledges them in the receiver's place."""
    middle = Middle(tmp_path, f"pattern=secret,mode={mode},with=public")
    client, server = pair((b"my secret", b""), random.Random(1), (6, 6), [])
    middle.connect(client, server)
    (packet,) = middle.through([client.packet("A", 0, b"my secret")])
    server.feed(packet)
    assert bytes(server.got) == b"my " + edited(b"secret", mode).replace(b" knowledge", b"")
    middle.through([server.packet("A", 0)])
    for repeated in (b"my secret", b"my secret and more"):
        left = middle.through([client.packet("A", 0, repeated)])
        assert left and not any(b"secret" in packet or b"my" in packet for packet in left)
    assert left[-1].endswith(b" and more") and middle.end()["not_mapped"] == 0


def test_a_connection_is_reset_at_both_ends(tmp_path: Path) -> None:
    """No byte of the last segment of the pattern arrives; both resets have the number that their receiver expects."""
    middle = Middle(tmp_path, "pattern=secret,mode=close")
    ends = talk(middle, random.Random(1), (b"say secret now", b""), cuts=[8])
    assert [end.reset for end in ends] == [True, True]
    assert bytes(ends[1].got) == b"say "
    assert middle.end()["closed"] == 1


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "in the middle"])
def test_an_end_that_does_not_accept_its_reset_gets_another_one(seen: bool, tmp_path: Path) -> None:
    """The server's answer is on its way to the client when both are reset, so that the client has another number by
    then. The server's reset is lost. Each gets one for its next packet; a reset is not answered.
    """
    middle = Middle(tmp_path, "pattern=secret,mode=close")
    client, server = pair((b"say secret", b""), random.Random(1), (6, 6), [])
    for sender, receiver in ((client, server), (server, client)):
        packets = [sender.syn()]
        for packet in middle.through(packets) if seen else packets:
            receiver.feed(packet)
    for packet in middle.through([client.packet("A", 0, b"say ")]):
        server.feed(packet)
    client.sent, server.sent = 10, 9
    (answer,) = middle.through([server.packet("A", 0, b"an answer")])
    assert len(middle.through([client.packet("A", 4, b"secret")])) == 2
    client.feed(answer)
    again = middle.through([client.packet("A", 4, b"secret")]) + middle.through([server.packet("A", 0, b"an answer")])
    for end in (client, server):
        end.feed(next(packet for packet in again if packet[30:34] == end.address))
    assert client.reset and server.reset and not any(b"secret" in packet for packet in again)
    assert middle.through([client.packet("R", 10)]) == []
    reports = middle.end()
    assert (reports["closed"], reports["reset_again"]) == (1, 2)


@pytest.mark.parametrize("mode, changed", [("alert", False), ("mask", True), ("close", True)])
def test_requests_for_compressed_bodies(mode: str, changed: bool, tmp_path: Path) -> None:
    """A body that is to be searched must come as it is, also where a match ends the connection."""
    middle = Middle(tmp_path, f"pattern=secret,mode={mode},out={tmp_path / 'rows'}")
    text = b"GET / HTTP/1.1\r\nHost: it\r\nAccept-Encoding: gzip\r\n\r\n"
    ends = talk(middle, random.Random(1), (text, b""))
    assert bytes(ends[1].got) == (text.replace(b"Accept", b"Xccept") if changed else text)
    middle.end()


@pytest.mark.parametrize("seen", [True, False], ids=["edited", "not edited"])
def test_the_ports_of_a_connection_that_was_reset_are_used_again(seen: bool, tmp_path: Path) -> None:
    """At once, by a SYN that the server accepts; what the next connection says is searched as that of the first was."""
    middle = Middle(tmp_path, "pattern=secret,mode=close")
    client, server = pair((b"say secret", b""), random.Random(1), (6, 6), [])
    for sender, receiver in ((client, server), (server, client)):
        packets = [sender.syn()]
        for packet in middle.through(packets) if seen else packets:
            receiver.feed(packet)
    if not seen:
        for packet in (client.packet("A", 0, b"say "), server.packet("A", 0, b"an answer")):
            middle.through([packet])
    assert len(middle.through([client.packet("A", 0 if seen else 4, b"say secret")])) == 2, "two resets"
    client, server = pair((b"hello secret", b""), random.Random(1), (6, 6), [])
    client.isn, server.isn = 0x40000000, 0x50000000
    middle.connect(client, server)
    for packet in middle.through([client.packet("A", 0), client.packet("A", 0, b"hello ")]):
        server.feed(packet)
    assert bytes(server.got) == b"hello "
    client.sent = 12
    for packet in middle.through([client.packet("A", 6, b"secret")]):
        (server if packet[30:34] == server.address else client).feed(packet)
    assert client.reset and server.reset and bytes(server.got) == b"hello "
    assert middle.end()["closed"] == 2


def test_a_connection_on_the_ports_of_one_that_was_reset_is_edited(tmp_path: Path) -> None:
    """The first one's body in chunks ended in an error."""
    middle = Middle(tmp_path, "pattern=secret,mode=remove")
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    for number, text in enumerate((head + b"3\r\nabcX", b"a secret plan")):
        client, server = pair((text, b""), random.Random(1), (6, 6), [])
        client.isn, server.isn = client.isn + (number << 28), server.isn + (number << 28)
        middle.connect(client, server)
        for packet in middle.through([client.packet("A", 0), client.packet("A", 0, text)]):
            if packet[30:34] == server.address:
                server.feed(packet)
    assert bytes(server.got) == b"a  plan"
    reports = middle.end()
    assert (reports["closed"], reports["found"], reports["not_edited"]) == (1, 1, 0)


@pytest.mark.parametrize("garbage", [b"", b"x"], ids=["empty", "a byte"])
@pytest.mark.parametrize("with_", ["", "public knowledge"])
def test_a_keep_alive_after_an_edit_is_answered_by_the_receiver(garbage: bytes, with_: str, tmp_path: Path) -> None:
    """It lies before the number that the receiver expects, and the box does not answer it in the receiver's place."""
    middle = Middle(tmp_path, f"pattern=secret,mode=replace,with={with_}")
    client, server = pair((b"my secret", b""), random.Random(1), (6, 6), [])
    middle.connect(client, server)
    for packet in middle.through([client.packet("A", 0), client.packet("A", 0, b"my secret")]):
        server.feed(packet)
    assert bytes(server.got) == b"my " + with_.encode()
    client.sent = 9
    (answer,) = middle.through([server.packet("A", 0)])
    client.feed(answer)
    assert client.una == 9
    (probe,) = middle.through([client.packet("A", 8, garbage)])
    assert probe[30:34] == server.address
    assert int.from_bytes(probe[38:42], "big") == (client.isn + len(server.got)) & 0xFFFFFFFF
    assert middle.end()["acknowledged"] == 0


def test_what_may_be_the_beginning_leaves_after_a_while_or_with_the_end(tmp_path: Path) -> None:
    """ "sec" waits for 0.2 s of packet time; "se" leaves at once, with the FIN."""
    middle = Middle(tmp_path, "pattern=secret,mode=remove,wait=0.2")
    client, server = pair((b"my secse", b""), random.Random(1), (6, 6), [6])
    middle.connect(client, server)
    first = client.packet("A", 0, b"my sec")
    client.sent = 6
    for packet in middle.through([first]):
        server.feed(packet)
    assert bytes(server.got) == b"my "
    middle.now += 300 * MS
    for packet in middle.through([client.packet("A", 6)]):
        server.feed(packet)
    assert bytes(server.got) == b"my sec"
    for packet in middle.through([client.packet("A", 6, b"se"), client.packet("FA", 8)]):
        server.feed(packet)
    assert bytes(server.got) == b"my secse" and server.fin_got
    assert middle.end()["waited"] == 1


@pytest.mark.parametrize("other", ["public", "known"])
def test_the_length_of_a_body_of_http_1_0(other: str, tmp_path: Path) -> None:
    """Its receiver knows no chunks, so only edits that leave the length alone are made."""
    middle = Middle(tmp_path, f"pattern=secret,mode=replace,with={other}")
    texts = b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\na secret."
    ends = talk(middle, random.Random(1), texts, sizes=(100, 100))
    same = len(other) == 6
    assert bytes(ends[0].got) == (texts[1].replace(b"secret", other.encode()) if same else texts[1])
    assert middle.end()["not_edited"] == (not same)


BODY = b"a secret and a secret."


@pytest.mark.parametrize("mode", ["mask", "remove", "replace"])
def test_a_head_that_is_too_long_lets_no_length_change(mode: str, tmp_path: Path) -> None:
    """The body after it has a Content-Length that is not known, so it leaves with as many bytes as it came."""
    middle = Middle(tmp_path, f"pattern=secret,mode={mode},with=public knowledge")
    head = b"POST / HTTP/1.1\r\n" + b"x: " + b"y" * 17000 + b"\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    ends = talk(middle, random.Random(1), (head + BODY, b""), sizes=(100, 700))
    body = BODY.replace(b"secret", b"******") if mode == "mask" else BODY
    assert bytes(ends[1].got) == head + body
    assert middle.end()["not_edited"] == (0 if mode == "mask" else 2)


@pytest.mark.parametrize("mode", ["mask", "remove"])
@pytest.mark.parametrize("text", [b"GET / HTTP/1.1\r\n", b"EHLO host\r\n"])
def test_a_head_that_does_not_come_in_time(mode: str, text: bytes, tmp_path: Path) -> None:
    """What has waited leaves. If it may be HTTP, no length changes after it; another protocol is edited."""
    middle = Middle(tmp_path, f"pattern=secret,mode={mode},wait=0.2")
    rest = b"Content-Length: 6\r\n\r\nsecret"
    client, server = pair((text + rest, b""), random.Random(1), (6, 6), [])
    middle.connect(client, server)
    middle.through([client.packet("A", 0, text)])
    middle.now += 300 * MS
    left = middle.through([client.packet("A", len(text))]) + middle.through([client.packet("A", len(text), rest)])
    same = text.startswith(b"GET") and mode == "remove"
    found = b"".join(packet[54:] for packet in left if packet[26:30] == client.address)
    changed = rest if same else rest.replace(b"secret", b"******" if mode == "mask" else b"")
    assert found.endswith(changed) and (b"secret" in found) == same
    reports = middle.end()
    assert (reports["waited"], reports["not_edited"]) == (1, int(same))


def test_a_gap_in_a_body_that_leaves_in_chunks(tmp_path: Path) -> None:
    """The server acknowledges bytes that the box has not seen: what follows would be taken for chunks."""
    middle = Middle(tmp_path, "pattern=secret,mode=remove")
    head = b"POST / HTTP/1.1\r\nContent-Length: 300\r\n\r\n"
    client, server = pair((head + b"a" * 300, b""), random.Random(1), (6, 6), [])
    middle.connect(client, server)
    for packet in middle.through(
        [client.packet("A", 0, head + b"a" * 100), client.packet("A", len(head) + 200, b"a" * 100)]
    ):
        if packet[14 + 16 : 14 + 20] == server.address:
            server.feed(packet)
    seen = bytes(server.got)
    server.got += b"?" * 300
    left = middle.through([server.packet("A", 0), client.packet("A", len(client.text))])
    assert seen.endswith(b"64\r\n" + b"a" * 100 + b"\r\n")
    assert not any(b"a" * 100 in packet for packet in left)
    assert middle.end()["closed"] == 1


def test_longer_output_acknowledges_no_hole(tmp_path: Path) -> None:
    """The server has acknowledged 800 bytes, which were 300: the hole after these is waited for, whatever is held."""
    middle = Middle(tmp_path, "pattern=secret,mode=replace,with=public knowledge")
    text = b"secret" * 50 + b"a secret in the hole" + b"x" * 880
    client, server = pair((text, b""), random.Random(1), (6, 6), [])
    middle.connect(client, server)
    client.sent = len(text)
    for offset, end in (0, 300), (400, 800), (800, 1000), (1000, 1200), (300, 400):
        middle.now += 200 * MS
        for packet in middle.through([client.packet("A", offset, text[offset:end])]):
            if packet[14 + 16 : 14 + 20] == server.address:
                server.feed(packet)
        middle.through([server.packet("A", 0)])
    assert bytes(server.got) == edited(text, "replace")
    assert middle.end()["not_edited"] == 0


def test_no_byte_of_a_connection_that_was_reset_leaves_in_another(tmp_path: Path) -> None:
    """The chunks of the second end in an error after "abc"; then the first one's "sec" has waited too long."""
    middle = Middle(tmp_path, "pattern=secret,mode=remove,wait=0.2")
    got: dict[int, bytes] = {}
    for port, body in ((40000, b"6\r\nmy sec\r\n"), (40001, b"3\r\nabcX")):
        head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        client, server = pair((head + body, b""), random.Random(1), (6, 6), [])
        client.port = server.peer_port = port
        middle.connect(client, server)
        for packet in middle.through([client.packet("A", 0, head), client.packet("A", len(head), body)]):
            if packet[14 + 16 : 14 + 20] == server.address:
                server.feed(packet)
        if port == 40000:
            first = client, server, head
        got[port] = bytes(server.got)[len(head) :]
    assert got == {40000: b"3\r\nmy \r\n", 40001: b""}
    client, server, head = first
    middle.now += 300 * MS
    for packet in middle.through([client.packet("A", len(client.text))]):
        server.feed(packet)
    assert bytes(server.got)[len(head) :] == b"3\r\nmy \r\n3\r\nsec\r\n"
    reports = middle.end()
    assert (reports["waited"], reports["closed"]) == (1, 1)


@pytest.mark.parametrize(
    "options, said",
    [("pattern=", "give from 1 to 256"), ("pattern=\\q", "give from 1 to 256"), ("pattern=a,mode=eat", "mode=eat")],
)
def test_parameters_that_make_no_sense(
    options: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RunError):
        Middle(tmp_path, options)
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("text", [b"secret", b"GET secret\r\n\r\n"])
def test_a_connection_in_a_tunnel_that_checks_its_content_is_not_edited(text: bytes, tmp_path: Path) -> None:
    """Its packets pass as they are, and the verdict and the row say so."""
    middle = Middle(tmp_path, f"pattern=secret,mode=remove,out={tmp_path / 'rows'}")
    client, server = pair((text, b""), random.Random(1), (6, 6), [])
    signed = bytes([19, 18]) + bytes(16)  # RFC 2385
    packets = [client.syn()]
    server.peer_isn, client.peer_isn = client.isn, server.isn
    packets += [server.syn(), client.packet("A", 0, text, signed)]
    assert middle.through(packets) == packets
    assert middle.box.function_counters()["edit"]["unable_signed"] == 1, "while the box runs"
    reports = middle.end()
    assert (reports["found"], reports["unable_signed"], reports["not_edited"]) == (1, 1, 1)
    assert json.loads((tmp_path / "rows").read_text())["done"] is False
