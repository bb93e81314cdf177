"""Hostile packets: whatever arrives, a program that looks at everything goes on to its end, and in bounds."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.compat.mos.programs import EXTRA, configuration, forwarded, program, rules, run
from tests.support.capture import pcap
from tests.support.connection import handshake, pair
from tests.support.packets import UDP, eth, ip4, scale, udp

ALL = ("snd", "rcv", "null", "data", "raw", "orphan", "two", "user", "timer", "peers")


def talk(rng: random.Random) -> list[bytes]:
    """Connections with overlaps, holes, far jumps, resets and repeated ports, their packets mixed up and damaged."""
    packets: list[bytes] = []
    for port in (40000, 40001):
        client, server = pair(
            rng.randrange(1 << 32), rng.randrange(1 << 32), port=port, window=rng.choice([0, 100, 65535])
        )
        packets += handshake(client, server, rng.choice([b"", scale(14), bytes([3, 255, 1]), bytes([5, 0])]))
        for _ in range(rng.randrange(30)):
            side = rng.choice([client, server])
            flags = rng.choice(["A", "A", "A", "PA", "FA", "R", "S", "SA", "", "SF", "RS"])
            offset = rng.choice([0, rng.randrange(50), rng.randrange(20000), 1 << 31, (1 << 32) - 5])
            packets.append(side.at(offset, bytes(rng.randrange(256) for _ in range(rng.randrange(40))), flags))
    packets.append(eth(ip4(udp(1, 2, b"x"), UDP)))
    for _ in range(rng.randrange(10)):
        packet = bytearray(rng.choice(packets))
        for _ in range(rng.randrange(1, 4)):
            packet[rng.randrange(12, len(packet))] = rng.randrange(256)
        packets.insert(rng.randrange(len(packets)), bytes(packet[: rng.randrange(14, len(packet) + 1)]))
    if rng.random() < 0.3:
        rng.shuffle(packets)
    return packets


@pytest.mark.parametrize("seed", range(24))
def test_whatever_arrives(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    change = rng.choice(["drop", "chomp", "insert", "stop", "overlap", "close"])
    buffer = rng.choice([0, 1, 16, 100, 8192])
    times = [rng.choice([0.0, 1000.0, 4e9, 1000 + rng.random() * 50]) for _ in range(1000)]
    packets = talk(rng)
    rules(tmp_path, packets, *ALL, change, f"buffer={buffer}", times=times[: len(packets)])


@pytest.mark.parametrize("seed", range(24, 32))
def test_a_stream_is_the_same_whether_its_packets_are_looked_at(seed: int, tmp_path: Path) -> None:
    """Bytes that only follow those before them take a shorter path where no callback sees their packets."""
    rng = random.Random(seed)
    client, server = pair()
    packets, sent = handshake(client, server), set[int]()
    for _ in range(60):
        size = rng.randrange(1, 40)
        following = next(at for at in range(len(sent) + 1) if at not in sent)
        offset = rng.choice([*[following] * 4, following + rng.randrange(30), max(0, following - rng.randrange(60))])
        packets.append(client.at(offset, bytes(rng.choice(b"abcdef") for _ in range(size)), rng.choice(["A", "PA"])))
        sent |= set(range(offset, offset + size))
        if rng.random() < 0.3:
            window = rng.choice([10, 60, 65535])
            packets.append(server.send("A", ack=client.isn + 1 + following, window=window))
    packets.append(client.at(max(sent) + 1, b"", "FA"))
    what = ["data", f"buffer={rng.choice([16, 40, 100, 8192])}", *rng.choice([[], ["overlap"], ["drain"], ["two"]])]
    (tmp_path / "in.pcap").write_bytes(pcap(packets))
    path = configuration(tmp_path, tmp_path / "in.pcap")
    seen, looked = (run("rules", [str(path), *what, *more]).splitlines() for more in ((), ("snd", "rcv")))
    kinds = {"read", "lost", "NULL"}
    assert seen and seen == [line for line in looked if line.split()[0] in kinds]


def test_ranges_out_of_order_are_bounded(tmp_path: Path) -> None:
    """Each second byte of 2000: the first holes are given up, and reading goes on after them."""
    client, server = pair()
    packets = handshake(client, server) + [client.at(2 * n, b"x") for n in range(1, 1000)]
    lines = rules(tmp_path, packets, "data")
    assert any(line.startswith("read") for line in lines)


def test_flows_are_bounded(tmp_path: Path) -> None:
    """At max_concurrency the longest quiet give way; each that began ends once."""
    packets: list[bytes] = []
    for port in range(1000, 1200):
        client, _ = pair(port=port)
        packets.append(client.send("S"))
    capture = tmp_path / "in.pcap"
    capture.write_bytes(pcap(packets, [1000.0] * len(packets)))
    path = configuration(tmp_path, capture, max_concurrency=16)
    out = run("rules", [str(path), "snd"])
    assert out.count("CONN_START") == out.count("CONN_END") == 200


def test_flows_that_ended_leave_room(tmp_path: Path) -> None:
    """An open flow outlives many that were refused, however few there may be."""
    open_client, open_server = pair(port=999)
    packets = handshake(open_client, open_server)
    for port in range(1000, 1100):
        client, server = pair(port=port)
        packets += [client.send("S"), server.send("RA")]
    packets.append(open_client.data(b"still here"))
    capture = tmp_path / "in.pcap"
    capture.write_bytes(pcap(packets, [1000.0] * len(packets)))
    path = configuration(tmp_path, capture, max_concurrency=16)
    out = run("rules", [str(path), "data", "orphan"])
    assert "still here" in out and "ORPHAN" not in out


def in_little_memory(folder: Path, packets: list[bytes], *what: str) -> subprocess.CompletedProcess[str]:
    """rules.c with a gigabyte of addresses."""
    (folder / "in.pcap").write_bytes(pcap(packets))
    command = [str(program("rules")), str(configuration(folder, folder / "in.pcap")), *what]
    limited = ["sh", "-c", 'ulimit -v 1000000 && exec "$@"', "sh", *command]
    limited = command if any("sanitize" in word for word in EXTRA) else limited  # which take terabytes
    return subprocess.run(limited, capture_output=True, text=True, check=True, timeout=60)


def test_a_hole_that_was_given_up_is_not_read(tmp_path: Path) -> None:
    """257 pieces out of order: what was not received is told as lost, and is not in what is read."""
    client, server = pair()
    packets = handshake(client, server) + [client.at(1000 + 2 * n, b"x") for n in range(257)]
    lines = rules(tmp_path, packets, "data")
    assert [line.split()[1] for line in lines if line.startswith("lost")] == ["1000"]
    assert set("".join(line.split()[-1] for line in lines if line.startswith("read"))) == {"x"}
    done = in_little_memory(tmp_path, packets, "data")
    assert "1000 bytes of streams were given up" in done.stderr


@pytest.mark.parametrize("window", [0, 1000])
def test_far_beyond_the_window_nothing_is_pushed_out(window: int, tmp_path: Path) -> None:
    """A closed window is one, too."""
    client, server = pair()
    packets = handshake(client, server)
    packets += [server.send("A", window=window), client.at(1 << 30, b"far"), client.data(b"real data")]
    lines = rules(tmp_path, packets, "data")
    assert any("ERROR" in line for line in lines) and any(line.endswith("real data") for line in lines)


def test_a_segment_of_another_connection_before_the_syn_ack(tmp_path: Path) -> None:
    """RFC 9293, figure 9: the answer to a half-open connection does not number the stream."""
    client, server = pair()
    packets = [
        client.send("S"),
        server.send("A", number=77, ack=99),
        client.send("R", number=99),
        *handshake(*pair())[1:],
    ]
    again, answer = pair()
    handshake(again, answer)
    packets.append(answer.data(b"answer"))
    lines = rules(tmp_path, packets, "data", "snd")
    assert any(line.endswith("answer") for line in lines) and "ESTABLISHED ESTABLISHED" in " ".join(lines)


def test_a_fin_far_away_does_not_end_the_stream(tmp_path: Path) -> None:
    client, server = pair()
    packets = handshake(client, server)
    packets += [client.at(1 << 29, b"", "FA"), client.data(b"more"), client.send("FA")]
    states = [line.split()[4] for line in rules(tmp_path, packets, "snd") if "PKT_IN" in line]
    assert states[3:] == ["ESTABLISHED", "ESTABLISHED", "FIN_WAIT_1"]


def test_no_input_is_overwritten(tmp_path: Path) -> None:
    """Two devices that forward to each other are the usual set-up of two network cards; here they are files."""
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes(pcap([]))
    before = (tmp_path / "b.pcap").read_bytes()
    a, b = tmp_path / "a.pcap", tmp_path / "b.pcap"
    path = tmp_path / "mos.conf"
    path.write_text(f"mos {{ netdev {{\n{a} 1\n{b} 1\n}}\nnic_forward_table {{\n{a} {b}\n{b} {a}\n}}\n}}\n")
    done = subprocess.run([str(program("rules")), str(path), "snd"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "forwarded to it would overwrite it" in done.stderr
    assert b.read_bytes() == before


@pytest.mark.parametrize("server_first", [False, True])
def test_a_callback_does_not_begin_a_connection_in_place_of_one(server_first: bool, tmp_path: Path) -> None:
    """A segment after a FIN that a callback makes a SYN with another number: its flow goes on, and ends once."""
    client, server = pair()
    packets = [*handshake(client, server), client.send("FA"), server.send("A")]
    packets += [client.at(0, b"made a SYN") if server_first else server.data(b"made a SYN"), server.data(b"answer")]
    packets += [server.send("FA"), client.send("A"), *handshake(*pair(port=40001))]
    lines = rules(tmp_path, packets, "reopen", "snd", "rcv")
    assert "change 0 errno=0" in lines
    assert sum("CONN_START" in line for line in lines) == 4 and sum("CONN_END" in line for line in lines) == 4
    written = forwarded(tmp_path)
    assert len(written) == len(packets) and written[5][47] == 2 and written[5][38:42] == bytes.fromhex("12345678")


@pytest.mark.skipif(any("sanitize" in word for word in EXTRA), reason="sanitizers take terabytes of addresses")
def test_without_memory_for_a_buffer_its_bytes_are_reported_as_lost(tmp_path: Path) -> None:
    """MOS_ON_ERROR, then an error of mtcp_peek; what comes after that is lost, too. In the end it is counted."""
    client, server = pair()
    packets = [*handshake(client, server), client.data(b"first"), client.data(b"more")]
    done = in_little_memory(tmp_path, packets, "data", "buffer=2147483647")
    lines = done.stdout.splitlines()
    assert [line.split()[3] for line in lines if line.startswith("NULL")] == ["ERROR", "NEW_DATA"] * 2
    assert [line for line in lines if line.startswith("lost")] == ["lost 5 errno=61", "lost 4 errno=61"]
    assert "9 bytes of streams were lost: no memory for receive buffers" in done.stderr


@pytest.mark.skipif(any("sanitize" in word for word in EXTRA), reason="sanitizers take terabytes of addresses")
def test_a_callback_may_set_a_smaller_buffer_where_there_is_no_memory(tmp_path: Path) -> None:
    """Nothing is lost; and a size without memory is refused."""
    client, server = pair()
    packets = [*handshake(client, server), client.data(b"first"), client.data(b"more")]
    done = in_little_memory(tmp_path, packets, "data", "enlarge", "resize", "buffer=2147483647")
    lines = done.stdout.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("read")] == ["first", "more"]
    assert "resize -1 errno=12 size 65536" in lines and "lost" not in done.stdout + done.stderr
