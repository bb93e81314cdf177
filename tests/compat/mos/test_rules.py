"""Order and validity of callbacks: a test for each rule of the interface, by its number in docs/mos.md."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.compat.mos.programs import configuration, rules, run
from tests.support.capture import pcap_packets
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.packets import UDP, eth, ip4, scale, udp

SYN_EVENTS = ["PKT_IN", "CONN_START", "STATE_CHANGE"]


def talk(*payloads: bytes) -> tuple[Host, Host, list[bytes]]:
    """A connection whose client sends these."""
    client, server = pair(checksums=True)
    return client, server, handshake(client, server) + [client.data(payload) for payload in payloads]


def of(lines: list[str], *starts: str) -> list[str]:
    """The lines that begin with one of these."""
    return [line for line in lines if line.startswith(starts)]


def test_rule_1_raw_sockets_hear_of_every_ip_packet_that_their_filter_accepts(tmp_path: Path) -> None:
    """Of TCP before the flow's own callbacks; of other protocols, too."""
    _, _, packets = talk()
    lines = rules(tmp_path, [packets[0], eth(ip4(udp(1, 2), UDP)), packets[1]], "raw", "snd")
    assert of(lines, "RAW", "SND")[:-2] == [  # but for the end of the capture
        "RAW 1 PKT_IN protocol 6",
        *(f"SND 3 cli {event} SYN_SENT LISTEN packet 0 0" for event in SYN_EVENTS),
        "RAW 1 PKT_IN protocol 17",
        "RAW 2 PKT_IN protocol 17",
        "RAW 1 PKT_IN protocol 6",
        "SND 3 svr PKT_IN SYN_SENT SYN_RCVD packet 0 0",
    ]
    assert of(lines, "filter", "none") == ["filter 0", "filter -1", "none 0"]


def test_rule_2_only_a_syn_makes_a_flow_and_what_has_none_is_an_orphan(tmp_path: Path) -> None:
    _, _, packets = talk(b"abc")
    lines = rules(tmp_path, packets[1:], "orphan", "snd")
    assert lines == [f"NULL 0 both ORPHAN errno=88 errno=88 packet 0 {n}" for n in (0, 0, 3)]
    lines = rules(tmp_path, packets, "orphan")
    assert lines == []


def test_rule_2_packets_after_the_end_of_a_flow_are_orphans(tmp_path: Path) -> None:
    client, server, packets = talk()
    packets += [*goodbye(client, server), client.send("A")]
    assert rules(tmp_path, packets, "orphan") == ["NULL 0 both ORPHAN errno=88 errno=88 packet 0 0"]


def test_rule_3_the_senders_side_first_then_the_receivers(tmp_path: Path) -> None:
    """Each hook after the update of its own side's state, and of that only."""
    client, server, packets = talk()
    packets += goodbye(client, server)
    lines = [line.split()[:6] for line in rules(tmp_path, packets, "snd", "rcv") if "PKT_IN" in line]
    assert [[line[0], line[2], *line[4:]] for line in lines] == [
        ["SND", "cli", "SYN_SENT", "LISTEN"],
        ["RCV", "svr", "SYN_SENT", "SYN_RCVD"],
        ["SND", "svr", "SYN_SENT", "SYN_RCVD"],
        ["RCV", "cli", "ESTABLISHED", "SYN_RCVD"],
        ["SND", "cli", "ESTABLISHED", "SYN_RCVD"],
        ["RCV", "svr", "ESTABLISHED", "ESTABLISHED"],
        ["SND", "cli", "FIN_WAIT_1", "ESTABLISHED"],
        ["RCV", "svr", "FIN_WAIT_1", "CLOSE_WAIT"],
        ["SND", "svr", "FIN_WAIT_1", "LAST_ACK"],
        ["RCV", "cli", "TIME_WAIT", "LAST_ACK"],
        ["SND", "cli", "TIME_WAIT", "LAST_ACK"],
        ["RCV", "svr", "TIME_WAIT", "CLOSED"],
    ]


def payloads_of(capture: Path) -> list[bytes]:
    """Payloads of the TCP segments of a capture, of those that have any."""
    frames = pcap_packets(capture)
    found = [frame[34 + (frame[46] >> 4) * 4 : 14 + struct.unpack_from("!H", frame, 16)[0]] for frame in frames]
    return [payload for payload in found if payload]


@pytest.mark.parametrize("length", [(), ("length",)])
@pytest.mark.parametrize(
    "how, sent, read", [("drop", [], []), ("chomp", [b"adef"], ["adef"]), ("insert", [b"a<>!bcdef"], ["a<>!bcdef"])]
)
def test_rule_3_a_packet_is_changed_at_snd_only_and_the_receiver_sees_it_so(
    how: str, sent: list[bytes], read: list[str], length: tuple[str, ...], tmp_path: Path
) -> None:
    """Also where the program sets the IP packet's length before, as mOS's manual says."""
    _, _, packets = talk(b"abcdef")
    lines = rules(tmp_path, packets, "snd", "rcv", "data", how, *length)
    assert of(lines, "change") == (["change 0 errno=0"] if how == "drop" else ["change 0 errno=0", "change -1 errno=1"])
    assert [line.split()[-1] for line in of(lines, "read")] == read
    assert payloads_of(tmp_path / "out.pcap") == sent


def test_rule_3_the_receiver_has_the_bytes_of_the_packet(tmp_path: Path) -> None:
    """At MOS_HK_RCV the stack of its side is updated, its buffer too; a retransmission was raised before that."""
    client, _, packets = talk(b"abc")
    packets += [client.at(6, b"ghi"), client.at(3, b"def"), client.at(3, b"DEF")]
    lines = of(rules(tmp_path, packets, "rcv", "peek"), "RCV 1 svr PKT_IN", "RCV 1 svr REXMIT", "read", "held")[-8:]
    assert [line.split()[3] if line.startswith("RCV") else line.split()[-1] for line in lines] == [
        *("PKT_IN", "abc", "PKT_IN", "PKT_IN", "defghi"),
        *("REXMIT", "DEF", "PKT_IN"),
    ]


def test_fragments_are_counted_and_a_buffer_has_sequence_numbers(tmp_path: Path) -> None:
    client, _, packets = talk(b"abc")
    packets += [client.at(6, b"ghi"), client.at(12, b"mn"), client.at(3, b"def")]
    lines = of(rules(tmp_path, packets, "rcv", "fragments"), "fragments")
    assert [line.partition(" room -1 errno=22 ")[::2] for line in lines[2:]] == [
        ("fragments 0 0+3 end 0", "info 0 4 3"),
        ("fragments 0 0+3 6+3 end 0", "info 0 4 9"),
        ("fragments 0 0+3 6+3 12+2 end 0", "info 0 4 14"),
        ("fragments 0 0+9 12+2 end 0", "info 0 10 14"),
    ]
    without = of(rules(tmp_path, packets, "rcv", "fragments", "buffer=0"), "fragments")
    assert all(line.startswith("fragments -1") for line in without)


def test_rule_3_both_ends_close_at_once(tmp_path: Path) -> None:
    """RFC 9293, figure 13: each end is CLOSING after the other's FIN, and TIME_WAIT after its acknowledgement."""
    client, server, packets = talk()
    first, second = client.send("FA"), server.send("FA", ack=client.isn + 1)
    packets += [first, second, server.send("A"), client.send("A")]
    lines = [line.split() for line in rules(tmp_path, packets, "rcv") if "PKT_IN" in line][-4:]
    assert [" ".join(line[4:6]) for line in lines] == [
        "FIN_WAIT_1 CLOSE_WAIT", "CLOSING LAST_ACK", "TIME_WAIT LAST_ACK", "TIME_WAIT CLOSED",
    ]  # fmt: skip


def test_rule_4_what_comes_from_the_server_meets_the_monitors_the_other_way_round(tmp_path: Path) -> None:
    _, _, packets = talk()
    lines = [line.split() for line in rules(tmp_path, packets[:2], "snd", "rcv", "two") if "PKT_IN" in line]
    assert [(line[0], line[1]) for line in lines] == [
        ("SND", "2"), ("SND", "3"), ("RCV", "2"), ("RCV", "3"),
        ("SND", "3"), ("SND", "2"), ("RCV", "3"), ("RCV", "2"),
    ]  # fmt: skip


def test_rule_5_events_in_the_order_of_their_bits_each_followed_by_those_of_the_user(tmp_path: Path) -> None:
    """Depth first; children without a subscriber are asked when their children are; raised ones come last."""
    _, _, packets = talk(b"x" * 100, b"y" * 20, b"z")
    lines = rules(tmp_path, packets, "snd", "user")
    events = [(line.split()[-1], line.split()[3]) for line in of(lines, "SND")]
    assert events[:3] == [("0", event) for event in SYN_EVENTS]
    assert [event for size, event in events if size == "100"] == ["PKT_IN", "PAYLOAD", "LONGER", "RAISED"]
    assert [event for size, event in events if size == "20"] == ["PKT_IN", "PAYLOAD"]
    # payload: each of 6 packets; long: the 3 with payload; longer (which asks twice itself): the 2 that are long
    assert of(lines, "asked") == ["asked 13"] and "not shared" not in lines


def test_rule_6_some_events_may_not_be_registered_at_some_hooks(tmp_path: Path) -> None:
    lines = rules(tmp_path, [], "errors")
    assert of(lines, "register") == [
        f"register {event} errno=22"
        for event in (
            "CONN_START null", "NEW_DATA rcv", "NEW_DATA snd", "ERROR rcv", "ERROR snd", "STATE_CHANGE null",
            "ORPHAN rcv", "ORPHAN snd", "REXMIT null", "CONN_END null",
        )
    ]  # fmt: skip


def test_rule_7_new_data_comes_after_the_packet_and_without_one(tmp_path: Path) -> None:
    """Once for a stream with something to read, not for what is out of order."""
    client, _, packets = talk()
    packets += [client.at(3, b"def"), client.at(0, b"abc")]
    lines = rules(tmp_path, packets, "snd", "rcv", "data")
    assert of(lines, "NULL", "read") == [
        "NULL 1 svr NEW_DATA ESTABLISHED ESTABLISHED - errno=61",
        "read 1 svr 6 abcdef",
    ]
    assert lines.index("NULL 1 svr NEW_DATA ESTABLISHED ESTABLISHED - errno=61") > lines.index(
        "RCV 1 svr PKT_IN ESTABLISHED ESTABLISHED packet 0 3"
    )


@pytest.mark.parametrize("policy, stays", [([], "abcdef"), (["overlap"], "abcDEF")])
def test_rule_8_a_retransmission_is_told_while_the_old_bytes_are_held(
    policy: list[str], stays: str, tmp_path: Path
) -> None:
    """Adjacent bytes are none; a repeated SYN and SYN/ACK are."""
    client, _, packets = talk(b"abc", b"def")
    packets = [packets[0], *packets[:2], *packets[1:], client.at(3, b"DEF")]
    lines = rules(tmp_path, packets, "snd", "rcv", "null", *policy)
    told = of(lines, "RCV 1 cli REXMIT", "RCV 1 svr REXMIT")
    assert [line.split()[2] + " " + line.split()[-1] for line in told] == ["svr 0", "cli 0", "svr 3"]
    assert of(lines, "held") == ["held 3 def new DEF"]
    again = rules(tmp_path, [*packets, client.at(0, b"......")], "rcv", "null", *policy)
    assert of(again, "held")[1] == f"held 6 {stays} new ......"


def test_rule_8_ranges_that_only_touch_are_no_retransmission(tmp_path: Path) -> None:
    client, _, packets = talk(b"abc")
    packets += [client.at(10, b"klm"), client.at(13, b"nop"), client.at(7, b"hij"), client.at(3, b"defg")]
    assert "REXMIT" not in " ".join(rules(tmp_path, packets, "snd", "rcv"))
    packets.append(client.at(15, b"pq"))
    assert "REXMIT" in " ".join(rules(tmp_path, [*packets[:-2], packets[-1]], "rcv"))


@pytest.mark.parametrize(
    "what, lost, read",
    [
        (["null"], [], []),
        (["data"], [], ["a" * 6, "b" * 6]),
        (["null", "drain"], [], ["a" * 6]),
        (["null", "enlarge"], [], []),
    ],
)
def test_rule_9_an_error_where_unread_bytes_would_be_overwritten(
    what: list[str], lost: list[str], read: list[str], tmp_path: Path
) -> None:
    """The handler may read or enlarge; who reads in time sees none."""
    _, _, packets = talk(b"a" * 6, b"b" * 6)
    lines = rules(tmp_path, packets, "buffer=8", *what)
    errors = of(lines, "NULL 1 svr ERROR")
    assert len(errors) == (0 if "data" in what else 1)
    assert all(error.endswith("packet 6 6") for error in errors)
    assert [line.split()[-1] for line in of(lines, "read")] == read
    assert of(lines, "lost") == lost


def test_rule_9_otherwise_the_next_read_fails_once_with_what_was_lost(tmp_path: Path) -> None:
    client, server, packets = talk(b"a" * 6, b"b" * 6)
    packets += [server.send("A"), client.data(b"c" * 7)]
    lines = rules(tmp_path, packets, "buffer=8", "null", "drain")
    assert of(lines, "read", "lost") == ["read 1 svr 6 aaaaaa", "read 1 svr 6 bbbbbb"]
    lines = rules(tmp_path, packets, "buffer=4", "data")
    assert [line.split()[1] if line.startswith("lost") else line.split()[-1] for line in of(lines, "read", "lost")] == [
        "2", "aaaa", "2", "bbbb", "3", "cccc",
    ]  # fmt: skip
    assert all(line.endswith("errno=61") for line in of(lines, "lost"))


def test_rule_9_an_error_beyond_the_receive_window(tmp_path: Path) -> None:
    """What lies there is not kept where it would push out what counts."""
    client, server = pair(window=100, checksums=True)
    packets = handshake(client, server, scale(0))
    packets += [client.at(0, b"abc"), client.at(50_000, b"far"), client.at(3, b"def")]
    lines = rules(tmp_path, packets, "buffer=1000", "data")
    assert of(lines, "NULL 1 svr ERROR") == ["NULL 1 svr ERROR ESTABLISHED ESTABLISHED packet 50000 3"]
    assert [line.split()[-1] for line in of(lines, "read")] == ["abc", "def"]


def test_rule_10_the_end_at_both_hooks_with_a_change_of_state_and_no_packet(tmp_path: Path) -> None:
    client, server, packets = talk()
    packets += goodbye(client, server)
    lines = rules(tmp_path, packets, "snd", "rcv")
    assert lines[-4:] == [
        "RCV 1 svr STATE_CHANGE CLOSED CLOSED - errno=61",
        "RCV 1 svr CONN_END CLOSED CLOSED - errno=61",
        "SND 1 cli STATE_CHANGE CLOSED CLOSED - errno=61",
        "SND 1 cli CONN_END CLOSED CLOSED - errno=61",
    ]
    assert sum("CONN_END" in line for line in lines) == 2


@pytest.mark.parametrize(
    "last, ends",
    [("R", ["CLOSED CLOSED"]), ("", ["CLOSED CLOSED"])],
    ids=["reset", "end of the capture"],
)
def test_rule_10_however_a_flow_ends(last: str, ends: list[str], tmp_path: Path) -> None:
    client, _, packets = talk()
    packets += [client.send(last)] if last else []
    lines = rules(tmp_path, packets, "snd")
    assert [" ".join(line.split()[4:6]) for line in lines if "CONN_END" in line] == ends


def test_rule_10_a_flow_that_is_quiet_times_out(tmp_path: Path) -> None:
    """At its time, told as TIMEOUT, too; what comes after is an orphan."""
    client, _, packets = talk()
    packets.append(client.send("A"))
    times = [1000.0, 1000.1, 1000.2, 1030.3]
    lines = rules(tmp_path, packets, "snd", "orphan", times=times)
    assert [line.split()[3] for line in lines][-4:] == ["TIMEOUT", "STATE_CHANGE", "CONN_END", "ORPHAN"]
    times[3] = 1030.1
    assert "ORPHAN" not in " ".join(rules(tmp_path, packets, "snd", "orphan", times=times))
    times[3] = 2000.0
    assert "TIMEOUT" not in " ".join(rules(tmp_path, packets, "snd", "orphan", times=times, tcp_timeout=10_000))


def test_rule_10_ports_that_are_used_again(tmp_path: Path) -> None:
    """Behind a FIN another SYN begins another flow; a repeated one does not."""
    client, _, packets = talk()
    packets.append(client.send("FA"))
    lines = rules(tmp_path, [*packets, packets[0]], "snd")
    assert sum("CONN_START" in line for line in lines) == 1
    again, _ = pair(isn=77_000, checksums=True)
    lines = rules(tmp_path, [*packets, again.send("S")], "snd")
    events = [line.split()[3] for line in lines]
    assert events[-5:] == [*SYN_EVENTS, "STATE_CHANGE", "CONN_END"] and events.count("CONN_END") == 2


def test_rule_10_time_wait_lasts_as_configured(tmp_path: Path) -> None:
    client, server, packets = talk()
    packets += [*goodbye(client, server), client.send("A"), client.send("A")]
    times = [1000, 1001, 1002, 1003, 1004, 1005, 1006, 1016]
    lines = rules(tmp_path, packets, "snd", "orphan", times=times, tcp_tw_interval=5)
    assert [line.split()[3] for line in lines][-4:] == ["PKT_IN", "STATE_CHANGE", "CONN_END", "ORPHAN"]


def test_rule_11_a_timer_fires_once_at_its_packet_time(tmp_path: Path) -> None:
    """Its number is the callback's socket; one that sets itself again fires again."""
    _, _, packets = talk()
    lines = rules(tmp_path, packets, "timer", times=[1000.0, 1000.25, 1002.6])
    assert lines == ["TIMER 3 at 1000500000", "TIMER 7 at 1001000000", "TIMER 7 at 1002000000"]


def test_rule_11_timers_of_several_contexts_fire_in_the_order_of_time(tmp_path: Path) -> None:
    _, _, packets = talk()
    lines = rules(tmp_path, packets, "timer", "contexts", times=[1000.0, 1000.25, 1002.6])
    assert [line.split()[1] for line in lines] == ["3", "5", "7", "7"]


def test_rule_11_a_clock_that_jumps_does_not_stop_the_program(tmp_path: Path) -> None:
    """A second after 1970 comes the year 2024: timers catch up with it."""
    _, _, packets = talk()
    lines = rules(tmp_path, packets, "timer", times=[1.0, 1_700_000_000.0, 1_700_000_001.5])
    assert 4000 < len(lines) < 5000


def test_rule_11_a_timer_after_the_end_of_time_never_fires(tmp_path: Path) -> None:
    """pcapng has times beyond 64 bits of nanoseconds."""
    frame = talk()[2][0] + bytes(2)
    late = struct.pack("<IIIIII", 6, 88, 0, 0xFFFFFFFF, 0xFFFFFFFF, 54) + struct.pack("<I", 54) + frame[:56]
    blocks = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28) + struct.pack(
        "<IIHHII", 1, 20, 1, 0, 0, 20
    )
    capture = tmp_path / "in.pcapng"
    capture.write_bytes(blocks + late + struct.pack("<I", 88))
    assert run("rules", [str(configuration(tmp_path, capture)), "timer", "snd"], timeout=20).count("TIMER") == 0


def test_rule_11_events_are_raised_in_filters_only(tmp_path: Path) -> None:
    assert of(rules(tmp_path, [], "errors"), "raise") == ["raise -1 errno=1"]


def test_calls_without_a_context_fail(tmp_path: Path) -> None:
    """EACCES, in each of them."""
    (line,) = of(rules(tmp_path, [], "errors"), "without")
    assert line.split()[1:] == ["13"] * 31


def test_rule_12_is_that_of_getpeername(tmp_path: Path) -> None:
    """Both ends, the client first; EINVAL for one length, EPERM for another thread, ENOTCONN without a flow."""
    lines = rules(tmp_path, talk()[2], "snd", "peers")
    assert of(lines, "peers")[:1] == ["peers 0 10.0.0.1:40000 10.0.0.2:80 cli 0 svr 0 one 22 thread 1 none 107"]


def test_sockets_and_flows_are_of_the_thread_of_the_callbacks(tmp_path: Path) -> None:
    """In another thread, EBADF of mtcp_close, where numbers are those of endpoints, and EPERM of all others."""
    plain, lines = rules(tmp_path, talk()[2], "snd"), rules(tmp_path, talk()[2], "snd", "foreign")
    foreign = of(lines, "foreign")
    assert set(foreign) == {"foreign 9 9" + 6 * " 1" + " 22" + 5 * " 1"}
    assert [line for line in lines if line not in foreign] == plain


@pytest.mark.parametrize("ether", [True, False])
def test_programs_may_write_into_what_they_get_of_a_packet(tmp_path: Path, ether: bool) -> None:
    """It is a copy, with an Ethernet header where the capture has none, and a byte of 0 after the payload."""
    packets = [packet[0 if ether else 14 :] for packet in talk(b"abc", b"defghij")[2]]
    lines = rules(tmp_path, packets, "snd", "rcv", "null", "data", "scribble", link_type=1 if ether else 101)
    assert of(lines, "string") == ["string abc type 0800 aligned 1", "string defghij type 0800 aligned 1"]
    assert of(lines, "read") == ["read 1 svr 3 abc", "read 1 svr 7 defghij"]
    sent = (tmp_path / "out.pcap").read_bytes()
    assert sent.count(b"defghij") == 1 and b"XXX" not in sent


def test_stopped_monitoring_is_silent(tmp_path: Path) -> None:
    """From the callback on that stopped it, and at the flow's end, too; the other monitor goes on."""
    client, server, packets = talk(b"abc", b"def")
    packets += goodbye(client, server)
    lines = rules(tmp_path, packets, "snd", "rcv", "stop")
    assert lines[-2:] == ["SND 1 cli PKT_IN ESTABLISHED ESTABLISHED packet 0 3", "stop 0"]


def test_sockets_may_be_closed_in_their_callbacks(tmp_path: Path) -> None:
    """They hear of nothing any more, nor do their flows; the other monitor goes on."""
    client, _, packets = talk(b"abc")
    packets = [client.send("A"), *packets]
    lines = rules(tmp_path, packets, "snd", "raw", "orphan", "close")
    assert [line.split()[0] for line in lines] == ["filter", "filter", "none", "RAW", "NULL"]
    lines = rules(tmp_path, packets[1:], "snd", "two", "close")
    told = [line.split()[1:4:2] for line in lines]
    assert told[:2] == [["2", "PKT_IN"], ["3", "PKT_IN"]]
    assert {who for who, _ in told[1:]} == {"3"} and told[-1] == ["3", "CONN_END"]
