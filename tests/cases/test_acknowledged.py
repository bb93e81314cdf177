"""Acknowledgements decide: the initial number, byte 0, what lies outside, and whether a hole will be filled."""

from __future__ import annotations

from tests.cases.trace import trace
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.run import run
from tests.support.stacks import whole

FAR = 1_900_000_000


def established() -> tuple[Host, Host, list[bytes]]:
    client, server = pair()
    return client, server, handshake(client, server)


def test_of_two_syn_acks_the_acknowledged_one_counts() -> None:
    client, server = pair()
    syn = client.send("S")
    first = server.send("SA", number=99_999_999)
    rest = [server.send("SA"), client.send("A"), client.data(b"abc"), server.data(b"defg"), *goodbye(client, server)]
    row = trace(syn, first, rest).row
    assert (row["src_stream"], row["dst_stream"], row["gaps"], row["state"]) == (3, 4, [], "TERMINATED")


def test_a_syn_ack_that_nobody_acknowledges_changes_nothing() -> None:
    client, server, begin = established()
    stray = server.send("SA", number=server.isn + FAR)
    row = trace(begin, client.data(b"abc"), stray, server.data(b"defg"), goodbye(client, server)).row
    assert (row["src_stream"], row["dst_stream"], row["gaps"], row["state"]) == (3, 4, [], "TERMINATED")


def test_a_fin_far_outside_the_window_makes_no_gap() -> None:
    client, server, begin = established()
    data, stray = server.data(b"defg"), server.send("FA", number=server.next + FAR)
    row = trace(begin, data, stray, client.send("A"), goodbye(client, server)).row
    assert (row["dst_stream"], row["gaps"], row["state"]) == (4, [], "TERMINATED")


def test_a_fin_far_before_byte_0_does_not_change_the_state() -> None:
    client, server, begin = established()
    data, stray = client.data(b"abc"), client.send("FA", number=client.next - FAR)
    row = trace(begin, data, stray, server.send("A"), server.data(b"defg"), client.send("A")).row
    assert (row["src_stream"], row["dst_stream"], row["gaps"], row["state"]) == (3, 4, [], "ESTABLISHED")


def test_forged_payload_and_a_stray_syn_do_not_end_a_connection() -> None:
    client, server, begin = established()
    forged = server.send("A", b"forged", number=server.next + FAR)
    stray = server.send("S", number=server.next + FAR // 2)
    rest = [server.data(b"defg"), client.send("A"), *goodbye(client, server)]
    row = trace(begin, server.data(b"abc"), client.send("A"), forged, stray, rest).row
    assert (row["dst_stream"], row["dst_outside"], row["state"]) == (7, 6, "TERMINATED")


def test_payload_far_outside_the_window_is_counted_apart() -> None:
    client, server, begin = established()
    stray = client.send("A", b"forged", number=client.next + FAR)
    row = trace(begin, client.data(b"abc"), server.send("A"), stray, client.data(b"def"), goodbye(client, server)).row
    assert (row["src_stream"], row["src_outside"], row["gaps"]) == (6, 6, [])


def test_a_keep_alive_first_in_the_capture_is_not_byte_0() -> None:
    client, server, _ = established()
    probe, answer = client.send("A", number=client.next - 1), server.send("A")
    row = trace(probe, answer, client.data(b"abc"), server.send("A"), goodbye(client, server)).row
    assert (row["src_stream"], row["gaps"], row["state"]) == (3, [], "TERMINATED")


def test_a_capture_that_begins_within_a_loss() -> None:
    client, server, _ = established()
    lost, later, last = client.data(b"aaaa"), client.data(b"bbbb"), client.data(b"cccc")
    duplicate = server.send("A", ack=client.isn + 1)
    result = trace(later, duplicate, last, lost, server.send("A"), goodbye(client, server))
    assert result.stream(40000) == b"aaaabbbbcccc" and result.row["src_before"] == 0


def test_bytes_before_byte_0_are_counted_once() -> None:
    client, server, _ = established()
    old, new = client.data(b"aaaa"), client.data(b"bbbb")
    row = trace(new, server.send("A"), old, old, client.send("A"), goodbye(client, server)).row
    assert (row["src_stream"], row["src_before"], row["src_rexmit"]) == (4, 4, 4)


def test_a_hole_that_the_receiver_acknowledged_is_given_up_after_the_grace_period() -> None:
    client, server, begin = established()
    frames = [*begin, client.data(b"aaaa")]
    client.data(b"lost")
    frames += [client.data(b"bbbb"), server.send("A"), server.send("A"), client.data(b"cccc"), client.send("FA")]
    result = run(whole(), frames, [0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.2, 100, 100.1])
    (gap,) = result.named("gap")
    assert (gap.offset, gap.length, gap.cause) == (4, 4, "acknowledged")
    assert result.row["gaps"] == [{"side": "src", "offset": 4, "length": 4, "cause": "acknowledged"}]
    held = next(event for event in result.named("data") if event.bytes == b"bbbb")
    assert held.packet == 7, "not with the packet that comes 100 s later"


def test_an_acknowledgement_captured_before_its_data_loses_nothing() -> None:
    client, server, begin = established()
    one, two = client.data(b"aaaa"), client.data(b"bbbb")
    row = trace(begin, two, server.send("A"), one, goodbye(client, server)).row
    assert (row["src_stream"], row["gaps"]) == (8, [])


def test_a_stray_syn_in_an_established_connection_changes_nothing() -> None:
    client, server, begin = established()
    stray = client.send("S", number=client.isn + 123_456)
    result = trace(begin, client.data(b"abc"), server.send("A"), stray, client.data(b"def"), goodbye(client, server))
    assert (result.row["src_stream"], result.state) == (6, "TERMINATED")


def test_a_syn_that_the_other_side_accepts_begins_a_new_connection() -> None:
    client, server, begin = established()
    old = [*begin, client.data(b"abc"), server.send("A")]
    again, other = pair(isn=900_000, peer_isn=700_000)
    result = trace(old, handshake(again, other), again.data(b"xyz"), other.send("A"), goodbye(again, other))
    assert result.rows[0]["src_stream"] == 3
    assert len(result.rows) == 2 and result.rows[0]["end"] == "reused"


def test_a_megabyte_and_thousands_of_pieces_after_a_hole_do_not_end_the_stream() -> None:
    client, server = pair()
    scale = bytes([3, 3, 8])
    begin = handshake(client, server, scale)
    first, rest = client.data(bytes(1000)), [client.data(bytes([n & 255]) * 1000) for n in range(2000)]
    result = run(whole(), [*begin, *rest, first, *goodbye(client, server)])
    assert result.row["src_stream"] == 2_001_000 and result.row["gaps"] == []


def test_an_acknowledgement_far_beyond_all_that_was_sent_is_not_believed() -> None:
    """One forged packet with any number: a segment that comes after another one is no hole."""
    client, server = pair()
    begin = [*handshake(client, server, bytes([3, 3, 5])), client.data(b"first"), server.send("A")]
    forged = server.send("A", number=server.isn + (1 << 30), ack=client.isn + (1 << 28))
    missing, rest = client.data(b"last"), [client.data(bytes([number]) * 100) for number in range(200)]
    result = run(whole(), [*begin, forged, *rest, missing, *goodbye(client, server)])
    assert result.stream(client.port) == b"firstlast" + b"".join(bytes([number]) * 100 for number in range(200))
    assert result.row["gaps"] == []
