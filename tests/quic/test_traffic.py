"""What applications sent over QUIC is what the stack delivers: connections by aioquic, lost, late and moved packets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, Settings
from sluice.stacks.find import find_stack
from tests.quic.traffic import MOVED, NAME, Link, Run, Traffic, make
from tests.support.run import Result, run, watch_all


@pytest.fixture(scope="module")
def quic() -> CompiledStack:
    return watch_all(find_stack("quic"), ("tls_client_hello", "hello"), ("quic_stream", "reset"))


def seen(quic: CompiledStack, traffic: Traffic, folder: Path, keylog: bool = True, **settings: Any) -> Result:
    """What the stack makes of the traffic."""
    path = folder / "keys"
    path.write_text(traffic.keylog)
    natives = {"keylog": str(path)} if keylog else {}
    made = Settings(seed=1, max_instances=1 << 12, natives=natives, **settings)
    return run(quic, traffic.packets, traffic.times, settings=made)


def streams(result: Result) -> dict[tuple[int, int], bytes]:
    """By stream id and sender (0 the client), what was delivered."""
    found: dict[tuple[int, int], bytearray] = {}
    for event in result.named("data"):
        if event.layer == "quic_stream":
            found.setdefault((event.key["stream"], event.key["sender"]), bytearray()).extend(event.bytes)
    return {key: bytes(data) for key, data in found.items()}


def talk(size: int, count: int = 4) -> list[Any]:
    """Streams of both kinds, from both sides, several at a time."""

    def both(run: Run) -> None:
        for n in range(count):
            run.send(4 * n, bytes([n, 1]) * (size + n))
        run.send(2, b"one way" * size)

    def answers(run: Run) -> None:
        for n in range(count):
            run.send(4 * n, bytes([n, 2]) * (size - n), from_server=True)
        run.send(3, b"other way" * size, from_server=True)

    return [both, answers]


def check_all_opened(result: Result) -> None:
    dropped = {
        name: value
        for layer, counters in result.counters.items()
        if layer.startswith("quic_over")
        for name, value in counters.items()
        if name.startswith("dropped:") and value
    }
    assert not dropped


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("cipher", ["aes128", "aes256", "chacha20"])
def test_streams(version: int, cipher: str, quic: CompiledStack, tmp_path: Path) -> None:
    traffic = make(*talk(3000), version=version, cipher=cipher)
    result = seen(quic, traffic, tmp_path)
    assert streams(result) == traffic.sent
    check_all_opened(result)
    (hello,) = result.named("hello")
    assert (hello.server_name, hello.protocols) == (NAME.encode(), b"\x06test-1\x06test-2")
    assert result.count("quic", "instances") == 1


@pytest.mark.parametrize("seed", range(6))
def test_a_link_that_loses_and_reorders(seed: int, quic: CompiledStack, tmp_path: Path) -> None:
    """All was captured, lost or not: copies and late packets change nothing of what is delivered."""
    traffic = make(*talk(20000), version=1 + seed % 2, link=Link(loss=0.08, late=0.3, seed=seed))
    result = seen(quic, traffic, tmp_path)
    assert streams(result) == traffic.sent


def test_what_was_not_captured_is_a_gap_or_came_again(quic: CompiledStack, tmp_path: Path) -> None:
    """Every stream is delivered up to what is missing, and goes on after it."""
    traffic = make(*talk(20000))
    del traffic.packets[40:44], traffic.times[40:44]
    result = seen(quic, traffic, tmp_path)
    gaps = [event for event in result.named("gap") if event.layer == "quic_stream"]
    found = streams(result)
    lost = sum(event.length for event in gaps)
    assert lost > 0
    assert sum(map(len, found.values())) + lost == sum(map(len, traffic.sent.values()))


@pytest.mark.parametrize("missed", [0, 3])
def test_streams_that_are_given_up(missed: int, quic: CompiledStack, tmp_path: Path) -> None:
    """By their sender, and because their receiver asked for it; bytes in front of the end that never came are gaps."""

    def begin(run: Run) -> None:
        run.client.send_stream_data(40, b"given up" * 4000)
        run.client.send_stream_data(44, b"not wanted" * 4000)

    def give_up(run: Run) -> None:
        assert run.server is not None
        run.client.reset_stream(40, 7)
        run.server.stop_stream(44, 8)

    traffic = make(*talk(500), begin, give_up, link=Link(late=0.3))
    for at in [at for at, packet in enumerate(traffic.packets) if len(packet) > 1200][-1 : -1 - missed : -1]:
        del traffic.packets[at], traffic.times[at]
    result = seen(quic, traffic, tmp_path)
    found = streams(result)
    lost = Counter[int]()
    for gap in result.named("gap"):
        lost[gap.key["stream"]] += gap.length
    for stream, text, error in ((40, b"given up", 7), (44, b"not wanted", 8)):
        (end,) = [event for event in result.named("reset") if event.stream == stream]
        assert (len(found[stream, 0]) + lost[stream], end.error) == (end.final_size, error)
        assert lost[stream] or (text * 4000).startswith(found[stream, 0])
    assert bool(lost) == bool(missed)
    assert {key: data for key, data in found.items() if key[0] < 40} == traffic.sent


def test_retry(quic: CompiledStack, tmp_path: Path) -> None:
    """The Initial packets after it have keys of the id that it gave."""
    traffic = make(*talk(500), retry=True)
    result = seen(quic, traffic, tmp_path)
    assert streams(result) == traffic.sent
    check_all_opened(result)
    assert len(result.named("hello")) == 2  # one that Retry answered, and one that the server did


def moving(ids: str, id_lengths: tuple[int, int], link: Link | None = None) -> Traffic:
    """The client comes from another address, as behind a NAT, or on its own account with another connection id."""

    def move(run: Run) -> None:
        if ids == "changed":
            run.client.change_connection_id()
        run.client_address = MOVED

    return make(
        *talk(500),
        move,
        lambda run: run.send(100, b"moved" * 900),
        lambda run: run.send(100, b"seen" * 900, from_server=True),
        id_lengths=id_lengths,
        link=link,
    )


@pytest.mark.parametrize("id_length", [4, 5, 7, 8, 9, 20])
@pytest.mark.parametrize("ids", ["changed", "kept"])
def test_migration(ids: str, id_length: int, quic: CompiledStack, tmp_path: Path) -> None:
    """The ids that a side has may be of any length from 4 to 20 bytes."""
    traffic = moving(ids, (id_length, id_length))
    result = seen(quic, traffic, tmp_path)
    assert streams(result) == traffic.sent
    check_all_opened(result)
    assert result.count("quic", "instances") == 1
    assert result.count("udp", "instances") == 2


@pytest.mark.parametrize("ids", ["changed", "kept"])
@pytest.mark.parametrize("id_lengths", [(0, 8), (0, 4), (0, 20), (3, 8), (0, 8)])
def test_migration_of_a_side_without_an_id(
    id_lengths: tuple[int, int], ids: str, quic: CompiledStack, tmp_path: Path
) -> None:
    """Packets towards it carry none, or one too short to be looked for: they go where its own come from."""
    traffic = moving(ids, id_lengths)
    result = seen(quic, traffic, tmp_path)
    assert streams(result) == traffic.sent
    check_all_opened(result)
    assert result.count("quic", "instances") == 1
    assert result.count("udp", "instances") == 2


@pytest.mark.parametrize("id_length", [1, 3])
def test_ids_that_are_too_short_are_not_followed(id_length: int, quic: CompiledStack, tmp_path: Path) -> None:
    """Up to the change of addresses all is as with longer ones; after it packets are of no connection."""
    traffic = moving("kept", (id_length, id_length))
    result = seen(quic, traffic, tmp_path)
    moved = {key: data for key, data in traffic.sent.items() if key[0] == 100}
    assert {key: data for key, data in streams(result).items() if key[0] != 100} == {
        key: data for key, data in traffic.sent.items() if key not in moved
    }
    assert result.count("quic", "dropped:no connection") > 0 == result.count("quic", "dropped:not authentic")
    assert result.count("quic", "instances") == 1


def test_key_update(quic: CompiledStack, tmp_path: Path) -> None:
    steps: list[Any] = []
    for n in range(5):
        steps.append(lambda run, n=n: run.send(4 * n, bytes([n]) * 5000))
        steps.append(lambda run: run.client.request_key_update())
    traffic = make(*steps, lambda run: run.send(80, b"last"), link=Link(late=0.3))
    result = seen(quic, traffic, tmp_path)
    assert streams(result) == traffic.sent
    check_all_opened(result)


def test_early_data(quic: CompiledStack, tmp_path: Path) -> None:
    """A second connection resumes the first, and sends before the server has answered."""
    tickets: dict[bytes, Any] = {}
    first = make(*talk(100), tickets=tickets)
    assert first.ticket is not None
    early = Run(1, "aes128", Link(), False, first.ticket, tickets)
    early.send(0, b"early" * 300)
    traffic = early.run([lambda run: run.send(0, b"answer", from_server=True)])
    result = seen(quic, traffic, tmp_path)
    assert streams(result) == traffic.sent
    check_all_opened(result)


def test_without_a_key_log_the_handshake_is_seen_and_nothing_else(quic: CompiledStack, tmp_path: Path) -> None:
    traffic = make(*talk(500))
    result = seen(quic, traffic, tmp_path, keylog=False)
    assert streams(result) == {}
    (hello,) = result.named("hello")
    assert hello.server_name == NAME.encode()
    assert result.count("quic", "dropped:no key") > 10
    assert result.count("quic", "dropped:not authentic") == 0


def test_a_key_log_that_is_written_while_traffic_runs(quic: CompiledStack, tmp_path: Path) -> None:
    """What is missing is looked for at growing intervals; a line that is still being written is waited for."""
    traffic = make(*talk(3000))
    path = tmp_path / "keys"
    lines = sorted(traffic.keylog.splitlines(keepends=True), key=lambda line: line.startswith("SERVER_TRAFFIC"))
    written = "".join(lines)  # the last line tells how to open what the server sends
    opened: list[int] = []
    for beginning in ("", written[:-20]):
        path.write_text(beginning)
        opened.clear()
        with Box(quic, Settings(seed=1, natives={"keylog": str(path)}), [], [f"out={tmp_path / 'rows'}"]) as box:
            for number, packet in enumerate(traffic.packets):
                if number == 20:
                    with path.open("a") as file:
                        file.write(written[len(beginning) :])
                box.packet(packet, number)
                layers = box.counters().items()
                opened.append(sum(found.get("passed", 0) for layer, found in layers if "quic_over" in layer))
            box.finish()
        assert beginning or opened[19] < 8, "the log is not there yet"
        assert opened[-1] - opened[-11] >= 10, "both directions are opened in the end"
