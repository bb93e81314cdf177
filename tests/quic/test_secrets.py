"""Key logs that a capture carries along: Decryption Secrets Blocks of pcapng, with secrets of type TLS Key Log."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.measure import Candidate, measure
from sluice.stacks.find import find_stack
from tests.differential.both import Packet, Secrets, assert_same
from tests.quic import stacks
from tests.quic.stacks import compared_quic
from tests.quic.test_commands import passed
from tests.quic.test_traffic import check_all_opened, streams, talk
from tests.quic.traffic import Link, Traffic, make
from tests.runtime.io.test_capture import block, enhanced, interface, secrets_block, section
from tests.support.run import Result, run_capture

BEGIN = section() + interface()


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return make(*talk(800), link=Link(late=0.1))


@pytest.fixture(scope="module")
def quic() -> CompiledStack:
    return stacks.quic()


def packets(traffic: Traffic, low: int = 0, high: int | None = None) -> bytes:
    """Those of the traffic, as blocks."""
    both = list(zip(traffic.packets, traffic.times, strict=True))[low:high]
    return b"".join(enhanced(packet, int(at * 1e6)) for packet, at in both)


def seen(quic: CompiledStack, file: bytes, folder: Path, keylog: str = "") -> Result:
    """What the stack makes of a capture file."""
    path = folder / "capture.pcapng"
    path.write_bytes(file)
    natives: dict[str, str] = {}
    if keylog:
        (folder / "keys").write_text(keylog)
        natives["keylog"] = str(folder / "keys")
    return run_capture(quic, path, settings=Settings(seed=1, max_instances=1 << 12, natives=natives))


def test_they_open_what_a_key_log_would(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    result = seen(quic, BEGIN + secrets_block(traffic.keylog.encode()) + packets(traffic), tmp_path)
    assert streams(result) == traffic.sent
    check_all_opened(result)


def test_both_may_be_given(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """Each of them has some of the secrets; and they come in several blocks."""
    lines = traffic.keylog.splitlines(keepends=True)
    blocks = b"".join(secrets_block(line.encode()) for line in lines[::2])
    assert 1 < len(lines[::2]) < len(lines)
    result = seen(quic, BEGIN + blocks + packets(traffic), tmp_path, keylog="".join(lines[1::2]))
    assert streams(result) == traffic.sent
    alone = seen(quic, BEGIN + blocks + packets(traffic), tmp_path)
    assert streams(alone) != traffic.sent


def test_from_where_they_stand_on(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """Packets in front of them, but for those that are read along with them, stay closed."""
    many = make(*talk(40000))
    file = BEGIN + packets(many, 0, 120) + secrets_block(many.keylog.encode()) + packets(many, 120)
    result = seen(quic, file, tmp_path)
    assert result.count("quic", "dropped:no key") > 80
    assert result.count("quic", "passed") > 80


HOSTILE = {
    "another kind": secrets_block(b"\x01" * 300, kind=0x57474B4C),
    "nothing": secrets_block(b""),
    "shorter than its own head": block(10, b"abcd"),
    "a length that is a lie": secrets_block(b"CLIENT_TRAFFIC_SECRET_0 00", length=2**32 - 1),
    "no text": secrets_block(bytes(range(256)) * 9 + b"\n"),
    "a long line": secrets_block(b"CLIENT_TRAFFIC_SECRET_0 " + b"0" * 3000 + b"\n"),
    "no end": secrets_block(b"CLIENT_RANDOM 12"),
    "only ends": secrets_block(b"\n" * 4000 + b"\r\n\0\n"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_others_beside_them_do_no_harm(name: str, traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    own = secrets_block(traffic.keylog.encode())
    for blocks in (HOSTILE[name] + own, own + HOSTILE[name]):
        assert streams(seen(quic, BEGIN + blocks + packets(traffic), tmp_path)) == traffic.sent


@pytest.mark.parametrize("seed", range(3))
def test_altered_ones(seed: int, traffic: Traffic) -> None:
    """Between any packets: interpreter and compiled code make the same of them."""
    rnd = random.Random(seed)
    inputs: list[Packet | Secrets] = []
    for number, packet in enumerate(traffic.packets[:40]):
        if rnd.random() < 0.3 or number == 5:
            text = bytearray(traffic.keylog.encode())
            for _ in range(0 if number == 5 else rnd.randrange(1, 9)):
                text[rnd.randrange(len(text))] = rnd.choice(b"\n 0aX\0\xff")
            inputs.append(Secrets(bytes(text)))
        inputs.append(Packet(packet, number))
    assert_same(compared_quic(), inputs)


def test_on_the_command_line(traffic: Traffic, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "capture.pcapng"
    found: list[int] = []
    for keys in (b"", traffic.keylog.encode()):
        path.write_bytes(BEGIN + secrets_block(keys) + packets(traffic))
        assert main(["run", "quic", "-r", str(path), "--json"]) == 0
        found.append(passed(json.loads(capfd.readouterr().out)["layers"]))
    assert found[0] < 6 < 20 < found[1]


def test_a_benchmark_has_them_too(traffic: Traffic, tmp_path: Path) -> None:
    """Every run of it, and the same counters as a run."""
    made = compile_stack(find_stack("quic"))
    path = tmp_path / "capture.pcapng"
    path.write_bytes(BEGIN + secrets_block(traffic.keylog.encode()) * 20 + packets(traffic))
    settings = Settings(seed=1, max_instances=1 << 12)
    with Box(made, settings) as box:
        counters = box.run(path).counters
    [measured] = measure([Candidate(made, settings)], str(path), 2)
    assert measured.counters == [counters[layer][name] for layer, name in made.generated.counters]
    assert passed(counters) > 20
