"""What users of mOS added to its interface: mos_ext.h and mos_tls.h."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.mos.programs import configuration, forwarded, run
from tests.support.capture import pcap
from tests.support.connection import Host, goodbye, handshake, pair


def talk(*payloads: bytes) -> tuple[Host, Host, list[bytes]]:
    """A connection whose client sends these."""
    client, server = pair(checksums=True)
    return client, server, handshake(client, server) + [client.data(payload) for payload in payloads]


def extensions(folder: Path, scenario: str, packets: list[bytes], **items: int) -> list[str]:
    """The lines of programs/extensions.c, on packets a second apart."""
    capture = folder / "in.pcap"
    capture.write_bytes(pcap(packets))
    return run("extensions", [str(configuration(folder, capture, folder / "out.pcap", **items)), scenario]).splitlines()


def test_a_context_is_told_before_its_first_callback(tmp_path: Path) -> None:
    lines = extensions(tmp_path, "start", talk(b"abc")[2])
    assert lines[:2] == ["start 0 argument", "again -1 errno=1"]
    assert lines[2] == "data 1 [abc]"


def test_bytes_are_read_without_a_copy_up_to_where_the_buffer_turns_round(tmp_path: Path) -> None:
    lines = extensions(tmp_path, "view", talk(b"abcdef", b"ghij")[2], rmem_size=8)
    assert [line for line in lines if line.startswith("view")] == [
        *("view 1 [abcdef]", "view 0"),
        *("view 1 [gh]", "view 1 [ij]", "view 0"),
    ]
    assert lines.count("too far -1 errno=22") == lines.count("consume 0") == 3


def test_a_flow_is_found_by_its_ends(tmp_path: Path) -> None:
    lines = extensions(tmp_path, "find", talk(b"abc")[2])
    assert lines[:4] == ["found 1", "turned -1 errno=2", "of a flow -1 errno=22", "family -1 errno=97"]


@pytest.mark.parametrize("hook", ["", " received"])
def test_both_ends_are_reset_with_the_numbers_that_they_expect(hook: str, tmp_path: Path) -> None:
    """At both hooks: the packet does not reach the receiver."""
    _, _, packets = talk(b"abc", b"last", b"more")
    lines = extensions(tmp_path, f"reset{hook}", packets)
    assert lines == (
        ["data 1 [abc]", "reset 0", "data 1 [last]", "end 1 after 5 packets"]
        if hook
        else ["data 1 [abc]", "reset without a packet -1 errno=61", "reset 0", "end 1 after 5 packets"]
    )
    out = forwarded(tmp_path)
    assert out[:4] == packets[:4] and out[6:] == packets[5:]
    to_server, to_client = (packet[34:] for packet in out[4:6])
    assert (to_server[:4], to_client[:4]) == (packets[3][34:38], packets[1][34:38])
    assert [int.from_bytes(segment[4:8], "big") for segment in (to_server, to_client)] == [1004, 5001]
    assert [int.from_bytes(segment[8:12], "big") for segment in (to_server, to_client)] == [5001, 1004]
    assert {segment[13] for segment in (to_server, to_client)} == {0x14}
    assert out[4][:14] == packets[3][:14] and out[5][:14] == packets[3][6:12] + packets[3][:6] + packets[3][12:14]
    assert (out[4][26:34], out[5][26:34]) == (packets[3][26:34], packets[1][26:34])


def test_a_flow_that_was_stopped_is_watched_again(tmp_path: Path) -> None:
    """What comes meanwhile is not read, and not lost."""
    client, server, packets = talk(b"abc", b"def", b"ghi", b"jkl")
    lines = extensions(tmp_path, "resume", packets + goodbye(client, server))
    assert lines == ["stop 0", "resume 0", "side -1 errno=22", "data 1 [jkl]", "end 1 after 8 packets"]


def test_a_flow_that_is_offloaded_passes_without_callbacks(tmp_path: Path) -> None:
    client, server, packets = talk(b"abc", b"def", b"ghi", b"jkl")
    packets += goodbye(client, server)
    lines = extensions(tmp_path, "bypass", packets)
    assert lines == ["offload 0", "take back 0", "data 1 [jkl]", "end 1 after 8 packets"]
    assert forwarded(tmp_path) == packets


def test_a_flow_that_is_offloaded_may_be_dropped(tmp_path: Path) -> None:
    """Its packets do not reach the ends: what follows them lies after a hole."""
    _, _, packets = talk(b"abc", b"def", b"ghi", b"jkl")
    lines = extensions(tmp_path, "drop", packets)
    assert lines == ["offload 0", "take back 0", "end 1 after 5 packets"]
    assert forwarded(tmp_path) == packets[:4] + packets[6:]


def test_a_flow_that_another_monitor_watches_is_not_offloaded(tmp_path: Path) -> None:
    assert extensions(tmp_path, "two", talk()[2])[0] == "offload -1 errno=16"


def test_frames_are_injected(tmp_path: Path) -> None:
    _, _, packets = talk()
    lines = extensions(tmp_path, "inject", packets)
    assert lines[:3] == ["inject 0", "nothing -1 errno=90", "nowhere -1 errno=101"]
    assert forwarded(tmp_path) == [packets[0], *packets]


def test_the_hash_is_that_of_both_directions(tmp_path: Path) -> None:
    assert extensions(tmp_path, "hash", talk()[2])[:3] == ["hash 1"] * 3


def test_one_callback_is_deregistered(tmp_path: Path) -> None:
    assert extensions(tmp_path, "deregister", talk(b"abc")[2]) == ["deregister 0", "end 1 after 4 packets"]


def test_the_receive_buffers_size_is_read_and_set_as_it_runs(tmp_path: Path) -> None:
    assert extensions(tmp_path, "size", talk()[2])[:4] == ["size 0", "get 0", "16", "8192"]


def test_calls_without_a_flow_fail(tmp_path: Path) -> None:
    assert extensions(tmp_path, "calls", [])[:6] == [
        "reset -1 errno=107",
        "resume -1 errno=9",
        "offload -1 errno=107",
        "find -1 errno=2",
        "inject -1 errno=101",
        "context -1 errno=13",
    ]


def record(kind: int, body: bytes) -> bytes:
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


def test_events_of_tls_follow_records_across_segments(tmp_path: Path) -> None:
    client, server, packets = talk()
    hello, keys, data = record(22, b"h" * 40), record(20, b"\1"), record(23, b"d" * 30)
    packets += [client.data(hello[:3]), client.data(hello[3:]), server.data(hello + keys), server.data(data[:20])]
    packets += [server.data(data[20:]), client.data(keys + data), client.data(data)]
    assert extensions(tmp_path, "tls", packets) == [
        *("define 0", "same 1"),
        *("records 1 22:0+40", "handshake 1"),
        *("records 0 22:0+40 20:45+1", "handshake 0"),
        "records 0 23:51+30",
        *("records 1 20:45+1 23:51+30", "session 1"),
        "records 1 23:86+30",
    ]


def test_what_is_no_tls_has_no_events_of_it(tmp_path: Path) -> None:
    assert extensions(tmp_path, "tls", talk(b"GET / HTTP/1.1\r\n\r\n")[2])[2:] == []


def test_a_record_that_is_longer_than_the_buffer_is_followed(tmp_path: Path) -> None:
    """Its header is not there any more when it is whole. Reading makes room."""
    client, _, packets = talk()
    data = record(23, b"d" * 300)
    packets += [client.data(data[:100]), client.data(data[100:200]), client.data(data[200:]), client.data(data[:100])]
    lines = extensions(tmp_path, "tls", packets, rmem_size=128)
    assert lines[2:] == ["records 1 overwritten"]
