"""FTP through nat: what inside hosts announce has the external address, and the numbers of the control connection fit.

Both directions are as on the wire.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from sluice.engine.box import RunError
from tests.functions.boxes.test_nat import EXTERNAL, FAR, FAR2, IN, OTHER, ends
from tests.functions.security import Ran, run, wrong_checksums
from tests.support.connection import Host

NAT = "first_port=2000,last_port=2009"


@dataclass
class Talk:
    """A control connection between an inside host and an outside one; each knows what the box shows of the other."""

    inside: Host
    outside: Host
    frames: list[bytes] = field(default_factory=list[bytes])

    @classmethod
    def of(cls, port: int = 5000, other: int = 21, external: int = 2000, first: int = 0xFFFFFFF0) -> Talk:
        """The inside host has `port`, which outside is `external`. Its numbers wrap."""
        inside, outside = Host(IN, port, first, checksums=True), Host(FAR, other, 9000, checksums=True)
        inside.peer = Host(FAR, other, 9000)
        outside.peer = Host(EXTERNAL, external, first)
        return cls(inside, outside)

    def open(self) -> Talk:
        """The inside host opens it."""
        self.say("S")
        self.answer("SA")
        return self

    def say(self, flags: str, text: bytes = b"", number: int | None = None) -> None:
        """A segment of the inside host."""
        assert self.inside.peer
        self.inside.peer.next = self.outside.next
        self.frames.append(self.inside.send(flags, text, number=number))
        self.inside.next &= 0xFFFFFFFF

    def answer(self, flags: str, text: bytes = b"", ack: int | None = None, options: bytes = b"") -> None:
        """A segment of the outside host, which has got `ack`: by default what the inside host has sent."""
        self.frames.append(
            self.outside.send(flags, text, ack=self.inside.next if ack is None else ack, options=options)
        )

    def run(self, more: list[bytes] | None = None, parameters: str = "") -> Ran:
        ran = run("nat", [*self.frames, *(more or [])], f"{NAT},{parameters}".rstrip(","), rows=False)
        assert not any(map(wrong_checksums, ran.left))
        return ran


def number(frame: bytes) -> int:
    return int.from_bytes(frame[38:42], "big")


def acknowledged(frame: bytes) -> int:
    return int.from_bytes(frame[42:46], "big")


def text(frame: bytes) -> bytes:
    return frame[34 + 4 * (frame[46] >> 4) :]


INSIDE_END, EXTERNAL_END = b"10,0,0,5,4,1", b"192,0,2,1,7,209"
MORE = len(EXTERNAL_END) - len(INSIDE_END)
"""What inside port 1025 is announced as, external port 2001, and how much longer that is."""


def test_an_announced_end_has_the_external_address_and_the_numbers_fit() -> None:
    talk = Talk.of().open()
    talk.say("A", b"PORT " + INSIDE_END + b"\r\n")
    after = talk.inside.next
    blocks = (
        b"\1\1\5\12" + ((after + MORE) % 2**32).to_bytes(4, "big") + ((after + MORE + 6) % 2**32).to_bytes(4, "big")
    )
    talk.answer("A", b"200 ok\r\n", ack=after + MORE, options=blocks)
    talk.say("A", b"LIST\r\n")
    talk.answer("A", ack=talk.inside.next + MORE)
    talk.say("FA")
    left = talk.run().left
    assert [text(frame) for frame in left[2:]] == [
        b"PORT " + EXTERNAL_END + b"\r\n",
        b"200 ok\r\n",
        b"LIST\r\n",
        b"",
        b"",
    ]
    assert [number(left[n]) for n in (2, 4, 6)] == [0xFFFFFFF1, (after + MORE) % 2**32, (after + 6 + MORE) % 2**32]
    assert [acknowledged(left[n]) for n in (3, 5)] == [after, after + 6]
    assert left[3][58:66] == after.to_bytes(4, "big") + (after + 6).to_bytes(4, "big")
    assert {ends(frame) for frame in left[::2]} == {(EXTERNAL, 2000, FAR, 21)}


def test_what_is_sent_again_is_edited_as_its_first_copy() -> None:
    """Also where it is divided otherwise: within the announcement, and together with what follows."""
    talk = Talk.of().open()
    first, line = talk.inside.next, b"PORT " + INSIDE_END + b"\r\n"
    talk.say("A", line)
    talk.say("A", b"NOOP\r\n")
    talk.say("A", line + b"NOOP\r\n", number=first)
    talk.say("A", (line + b"NOOP\r\n")[9:], number=first + 9)
    talk.answer("A", ack=first + 10)
    ran = talk.run()
    edited = b"PORT " + EXTERNAL_END + b"\r\n"
    assert [text(frame) for frame in ran.left[4:6]] == [edited + b"NOOP\r\n", b"\r\nNOOP\r\n"]
    assert [(number(frame) - first) % 2**32 for frame in ran.left[4:6]] == [0, len(edited) - 2]
    assert acknowledged(ran.left[6]) == first + 5  # the announcement was received in part
    assert ran.reports["ftp_announced"] == 1 and ran.reports["translated"] == 1


def test_the_data_connection_reaches_the_inside_host() -> None:
    """It is translated in both directions, also with a filter, from any port of the server and none of others."""
    talk = Talk.of().open()
    talk.say("A", b"EPRT |1|10.0.0.5|1025|\r\n")
    server, stranger = Host(FAR, 20, 7, checksums=True), Host(FAR2, 20, 7, checksums=True)
    data, client = Host(EXTERNAL, 2001, 77), Host(IN, 1025, 77, checksums=True)
    server.peer = stranger.peer = data
    client.peer = Host(FAR, 20, 8)
    more = [
        server.send("S"),
        client.send("SA"),
        server.send("A", ack=78),
        client.send("A", b"rows"),
        stranger.send("S"),
    ]
    for kind in ("address", "port"):
        ran = talk.run(more, f"filter={kind}")
        assert text(ran.left[2]) == b"EPRT |1|192.0.2.1|2001|\r\n"
        there, back = (FAR, 20, IN, 1025), (EXTERNAL, 2001, FAR, 20)
        assert [ends(frame) for frame in ran.left[3:]] == [there, back, there, back]
        assert (ran.reports["filtered"], ran.reports["unsolicited"]) == (1, 0)
    assert Talk.of().open().run(more[:2]).reports["unsolicited"] == 1  # no one has announced it


def test_a_server_inside_is_reached_by_a_forwarded_port() -> None:
    """RFC 959, 227; RFC 2428, 229: the server's announcements are replaced."""
    for reply, wanted in (
        (b"227 Entering Passive Mode (10,0,0,5,4,1).\r\n", b"227 Entering Passive Mode (192,0,2,1,7,208).\r\n"),
        (b"229 Entering Extended Passive Mode (|||1025|)\r\n", b"229 Entering Extended Passive Mode (|||2000|)\r\n"),
    ):
        talk = Talk.of(21, 6000, 21, 500)
        talk.answer("S")
        talk.say("SA")
        talk.answer("A")
        talk.say("A", b"220 ready\r\n" + reply)
        talk.answer("A", b"LIST\r\n", ack=talk.inside.next + len(wanted) - len(reply))
        left = talk.run(parameters="filter=port,forward=21:10.0.0.5:21").left
        assert [ends(frame) for frame in left[:2]] == [(FAR, 6000, IN, 21), (EXTERNAL, 21, FAR, 6000)]
        assert text(left[3]) == b"220 ready\r\n" + wanted
        assert acknowledged(left[4]) == talk.inside.next


def test_what_is_not_translated_is_counted() -> None:
    """Another host's address, a port of services (RFC 2577, 3), numbers in two segments."""
    for lines in ([b"PORT 10,0,0,6,19,137\r\n"], [b"PORT 10,0,0,5,0,22\r\n"], [b"PORT 10,0,0,5,", b"19,137\r\n"]):
        talk = Talk.of().open()
        for line in lines:
            talk.say("A", line)
        ran = talk.run()
        assert [text(frame) for frame in ran.left[2:]] == lines
        assert (ran.reports["ftp_refused"], ran.reports["ftp_announced"]) == (1, 0)
    talk = Talk.of().open()
    talk.say("A", b"PORT 10,0,0,5,19,137\r\n")
    assert text(talk.run(parameters="ftp=0").left[2]) == b"PORT 10,0,0,5,19,137\r\n"


def test_a_line_in_several_segments() -> None:
    """Its end may be in another segment than its beginning, if its numbers are in one."""
    whole = b"PORT " + INSIDE_END + b"\r\n"
    for parts in ([b"PORT ", INSIDE_END + b"\r\n"], [b"NOOP\r\nPO", b"RT", b" " + INSIDE_END + b"\r", b"\nNOOP\r\n"]):
        talk = Talk.of().open()
        for part in parts:
            talk.say("A", part)
        ran = talk.run()
        divided = INSIDE_END in b"".join(parts[:-1])  # then the numbers have gone out before their line was whole
        wanted = b"".join(parts) if divided else b"".join(parts).replace(INSIDE_END, EXTERNAL_END)
        assert b"".join(text(frame) for frame in ran.left) == wanted
        assert (ran.reports["ftp_announced"], ran.reports["ftp_refused"]) == (1 - divided, int(divided))
    long = b"227 " + 90 * b"x" + b"(10,0,0,5,4,1)\r\n"
    talk = Talk.of(21, 6000, 21, 500)
    talk.answer("S")
    talk.say("SA")
    for part in (long[:80], long[80:], whole.replace(b"PORT ", b"227 (")):
        talk.say("A", part)
    ran = talk.run(parameters="forward=21:10.0.0.5:21")
    assert (ran.reports["ftp_announced"], ran.reports["ftp_refused"]) == (1, 1)


@pytest.mark.parametrize(
    "parts", [[(0, 5), (3, 19)], [(0, 5), (0, 3), (5, 19)], [(0, 4), (2, 4), (4, 19)], [(0, 5), (1, 7)]]
)
def test_parts_of_a_line_that_are_sent_again(parts: list[tuple[int, int]]) -> None:
    """A segment that overlaps the stored beginning of a line, or is all of it."""
    talk = Talk.of().open()
    first, line = talk.inside.next, b"PORT " + INSIDE_END + b"\r\n"
    assert len(line) == 19
    for begin, end in parts:
        talk.say("A", line[begin:end], number=(first + begin) % 2**32)
    talk.say("A", b"", number=(first + parts[-1][1]) % 2**32)
    ran = talk.run()
    whole = parts[-1][1] == len(line)
    assert ran.reports["ftp_announced"] == whole and not any(INSIDE_END in frame for frame in ran.left)
    assert whole == (text(ran.left[-2]).endswith(EXTERNAL_END + b"\r\n"))


def test_segments_that_are_not_read_are_counted() -> None:
    """The line after one of more than 2,048 bytes is read again."""
    talk = Talk.of().open()
    talk.say("A", 400 * b"NOOP\r\n")
    talk.say("A", b"PORT " + INSIDE_END + b"\r\n")
    ran = talk.run()
    assert (ran.reports["ftp_unread"], ran.reports["ftp_announced"]) == (1, 1)


def test_an_announcement_that_is_forgotten_is_not_sent_as_it_is() -> None:
    talk = Talk.of().open()
    first, line = talk.inside.next, b"PORT " + INSIDE_END + b"\r\n"
    for _ in range(5):
        talk.say("A", line)
    talk.say("A", line, number=first)
    ran = talk.run()
    assert ran.reports["ftp_forgotten"] == 1 and not any(INSIDE_END in frame for frame in ran.left)


def test_numbers_fit_after_gibibytes() -> None:
    """An edit stays before what is sent 2^31 and more bytes later."""
    talk = Talk.of().open()
    talk.say("A", b"PORT " + INSIDE_END + b"\r\n")
    for _ in range(6):
        talk.inside.next = (talk.inside.next + (1 << 29)) % 2**32
        talk.say("A", b"NOOP\r\n")
        talk.answer("A", ack=talk.inside.next + MORE)
    ran = talk.run()
    for sent, left in zip(talk.frames[3::2], ran.left[3::2], strict=True):
        assert number(left) == (number(sent) + MORE) % 2**32
    for sent, left in zip(talk.frames[4::2], ran.left[4::2], strict=True):
        assert acknowledged(left) == (acknowledged(sent) - MORE) % 2**32


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            "21:10.0.0.5:21+80:10.0.0.6:8080+21:10.0.0.7:21",
            "21:10.0.0.7:21 has an external port that an earlier one has",
        ),
        ("21:10.0.0.5:21+2121:10.0.0.5:21", "2121:10.0.0.5:21 has an inside end with another external port"),
        ("21:192.168.0.5:21", "21:192.168.0.5:21 has an address that is not in `inside`"),
        ("2000:10.0.0.5:21", "2000:10.0.0.5:21 has an external port that is given out"),
        ("21:10.0.0.5", "21:10.0.0.5 is not PORT:ADDRESS:PORT"),
        ("70000:10.0.0.5:21", "70000:10.0.0.5:21 has a port that is not one"),
    ],
)
def test_forwarded_ports_that_are_refused(given: str, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError):
        Talk.of().open().run(parameters=f"forward={given}")
    assert why in capfd.readouterr().err


def test_many_announcements_keep_the_last_ports() -> None:
    """Each is translated; those before the last four release their ports, all do at the end."""
    talk = Talk.of().open()
    shift = 0
    for port in range(1025, 1045):
        line = b"EPRT |1|10.0.0.5|%d|\r\n" % port
        talk.say("A", line)
        shift += len(b"192.0.2.1") - len(b"10.0.0.5")
        talk.answer("A", ack=talk.inside.next + shift)
    talk.say("A", 5 * b"PORT 10,0,0,5,8,0\r\n")  # of which one segment has too many
    ran = talk.run()
    assert (ran.reports["ftp_announced"], ran.reports["ftp_refused"], ran.reports["no_port"]) == (24, 1, 0)
    assert acknowledged(ran.left[-2]) == number(talk.frames[-1])
    other = Host(OTHER, 5000, 1, checksums=True, peer=Host(FAR, 80, 1))
    assert ends(talk.run([other.send("S")]).left[-1])[0] == EXTERNAL


def test_connections_between_inside_hosts_are_translated_in_both_directions() -> None:
    """RFC 5382, REQ-8: what the called host answers has its external end, too."""
    caller, called = Host(OTHER, 6000, 1, checksums=True), Host(IN, 5000, 9, checksums=True)
    called.peer = Host(FAR, 80, 1)
    opened = called.send("S")
    caller.peer, called.peer = Host(EXTERNAL, 2000, 9), Host(EXTERNAL, 2001, 2)
    left = run("nat", [opened, caller.send("S"), called.send("SA", number=9)], NAT, rows=False).left
    assert [ends(frame) for frame in left[1:]] == [(EXTERNAL, 2001, IN, 5000), (EXTERNAL, 2000, OTHER, 6000)]


@pytest.mark.parametrize("seed", range(2))
def test_hostile_segments(seed: int) -> None:
    """Any segments of both ends, with any lines, numbers, options and cuts; the sanitizers' build runs it, too."""
    chosen = random.Random(seed)
    words = [b"PORT ", b"EPRT ", b"227 (", b"229 (", b"10,0,0,5,", b"4,1", b"9", b"|", b"%1|", b"1025", b"10.0.0.5"]
    words += [
        b"\r\n",
        b"\n",
        b"PORT 10,0,0,5,4,1\r\n",
        b"EPRT |1|10.0.0.5|2000|\r\n",
        b")\r\n",
        200 * b"|",
        b"NOOP\r\n",
    ]
    frames: list[bytes] = []
    for port in range(5000, 5030):
        server = chosen.random() < 0.3
        talk = Talk.of(21 if server else port, port if server else 21, 21 if server else 2000, chosen.getrandbits(32))
        talk.open()
        base = talk.inside.next
        for _ in range(40):
            flags = "".join(letter for letter in "SAFRP" if chosen.random() < 0.3)
            text = b"".join(chosen.choices(words, k=chosen.choice([0, 1, 3, 20, 200])))[: chosen.choice([40, 3000])]
            options = chosen.choice(
                [b"", b"\1\1\5\12" + chosen.randbytes(8), chosen.randbytes(4 * chosen.randrange(10))]
            )
            near = (base + chosen.choice([chosen.randrange(200), chosen.getrandbits(32)])) % 2**32
            if chosen.random() < 0.7:
                talk.say(flags, text, None if chosen.random() < 0.5 else near)
            else:
                talk.answer(flags, text, near, options)
            last = talk.frames[-1]
            talk.frames[-1] = last[: chosen.choice([len(last), len(last), chosen.randrange(34, len(last) + 1)])]
        frames += talk.frames
    given = "first_port=2000,last_port=2999,forward=21:10.0.0.5:21"
    ran = run("nat", frames, f"{given},filter={chosen.choice(['none', 'port'])}", rows=False)
    assert ran.reports["ftp_announced"] > 10 and ran.reports["ftp_refused"] > 1
