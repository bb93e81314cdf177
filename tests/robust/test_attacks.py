"""Attacks on the cost of a packet, each with good traffic beside it: what is too much is counted, and the good traffic
keeps its bytes. Costs are counted in instructions, not in time.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.engine.box import Settings
from sluice.engine.compiler import INCLUDES
from sluice.engine.options import BUNDLE
from sluice.stacks.find import find_stack
from tests.protocols.test_sctp_interleaved import BEGIN, PACKETS, idata, packet
from tests.support.packets import eth, ip4, udp
from tests.support.run import Result, run, watch_all
from tests.support.unoptimised import unoptimised

PROTOCOLS = Path(__file__).resolve().parents[2] / "sluice/protocols"

KEY_LOG = """
#include "native/key_log.h"
int main(int count, char **arguments) {
    struct key_log log = {0};
    char line[256];
    int lines = atoi(arguments[1]), alike = atoi(arguments[2]);
    if (count != 3 || key_log_open(&log, ""))
        return 2;
    for (int i = 0; i < lines; i++) {
        int length = snprintf(line, sizeof line, "CLIENT_TRAFFIC_SECRET_0 %08x%056x %064x\\n",
                              alike ? 7u : 2654435761u * (unsigned)i, (unsigned)i, (unsigned)i);
        key_log_text(&log, (sl_bytes){(const uint8_t *)line, (uint32_t)length, (uint32_t)length});
    }
    int found = (int)log.count == lines;
    key_log_close(&log);
    return !found;
}
"""


@pytest.fixture(scope="module")
def key_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that reads so many entries of a key log, whose client randoms begin alike or not."""
    if not shutil.which("gcc") or not shutil.which("valgrind"):
        pytest.skip("needs gcc and valgrind, which counts instructions (Debian: valgrind)")
    folder = tmp_path_factory.mktemp("log")
    (folder / "log.c").write_text(KEY_LOG)
    includes = [f"-I{PROTOCOLS}", *INCLUDES]
    command = ["gcc", "-O1", "-w", *includes, str(folder / "log.c"), "-o", str(folder / "log"), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "log"


def instructions(program: Path, *arguments: int) -> int:
    """The number of instructions that a program executes."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program)]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


def test_key_logs_whose_client_randoms_begin_alike_cost_no_more(key_log: Path) -> None:
    """The cost is linear in the entries, and that of any other log."""
    few, many = instructions(key_log, 1000, 1), instructions(key_log, 4000, 1)
    assert many < 5 * few
    assert many < 1.2 * instructions(key_log, 4000, 0)


def initial(connection: bytes, size: int = 24) -> bytes:
    """An Initial packet of QUIC version 1 that nothing opens."""
    body = bytes(range(4)) + bytes(size)
    head = b"\xc3\0\0\0\1" + bytes([len(connection)]) + connection + b"\0\0"
    return head + (0x4000 | len(body)).to_bytes(2, "big") + body


def quic_run(packets: list[bytes], folder: Path, keys: str, bundle: int = BUNDLE, **bounds: int) -> Result:
    (folder / "keys").write_text(keys)
    with unoptimised():
        made = watch_all(find_stack("quic"))
    natives = {"keylog": str(folder / "keys")}
    settings = Settings(seed=1, max_instances=1 << 12, natives=natives, bundle=bundle, **bounds)  # type: ignore[arg-type]
    return run(made, packets, settings=settings)


def test_coalesced_quic_initials_beside_a_good_connection(tmp_path: Path) -> None:
    """Of 25 Initial packets of a datagram three are tried; the streams of the good connection are all there."""
    pytest.importorskip("aioquic")
    from tests.quic.test_traffic import streams, talk
    from tests.quic.traffic import make

    good = make(*talk(1500))
    chance = random.Random(3)
    packets: list[bytes] = []
    for number, frame in enumerate(good.packets):
        packets.append(frame)
        datagram = b"".join(initial(chance.randbytes(8)) for _ in range(25))
        packets.append(eth(ip4(udp(2000 + number % 50, 443, datagram), 17, bytes([10, 9, 9, 9]), bytes([10, 9, 9, 8]))))
    attacks = len(good.packets)
    result = quic_run(packets, tmp_path, good.keylog, 16)
    assert streams(result) == good.sent
    assert result.count("quic", "lost:bundle") == attacks
    result = quic_run(packets, tmp_path, good.keylog, 100)
    assert streams(result) == good.sent
    assert result.count("quic", "dropped:too many that cannot be opened") == 22 * attacks
    assert result.count("quic", "dropped:no key") <= 3 * attacks


def test_derivations_of_keys_are_bounded_on_average(tmp_path: Path) -> None:
    """Beyond those that are saved, Initial packets derive keys for some of them; others are dropped and counted.
    A connection that began before loses nothing.
    """
    pytest.importorskip("aioquic")
    from tests.quic.test_traffic import streams, talk
    from tests.quic.traffic import make

    good = make(*talk(1500))
    frames, saved, rest = [bytes(packet) for packet in good.packets], 16384 // 64, 800
    flood = [
        eth(ip4(udp(1 + number % 60000, 443, initial(number.to_bytes(8, "big"))), 17, number.to_bytes(4, "big")))
        for number in range(saved + rest)
    ]
    result = quic_run([*frames[:10], *flood, *frames[10:]], tmp_path, good.keylog, derivations=1)
    assert streams(result) == good.sent
    denied = result.count("quic", "dropped:too many derivations of keys")
    assert 0.9 * rest < denied < rest  # 64 packets earn one
    assert result.count("quic", "dropped:no key") == len(flood) - denied


def sealed(frames: bytes, number: int) -> bytes:
    """An Initial packet of another connection that its connection id opens, as anyone can make it."""
    from aioquic.quic.crypto import CryptoPair
    from aioquic.quic.packet import QuicProtocolVersion

    connection, body = number.to_bytes(8, "big"), frames + bytes(max(0, 24 - len(frames)))
    head = b"\xc0\0\0\0\1\x08" + connection + b"\0\0" + (0x4000 | len(body) + 17).to_bytes(2, "big") + b"\0"
    pair = CryptoPair()
    pair.setup_initial(connection, is_client=True, version=QuicProtocolVersion.VERSION_1)
    return pair.encrypt_packet(head, body, 0)


def test_frames_with_handshake_messages_are_bounded_on_average(tmp_path: Path) -> None:
    """Of many CRYPTO frames with a message each, only their packet earns further ones."""
    pytest.importorskip("aioquic")
    each, saved, count = 100, 8192, 130
    frames = b"".join(b"\x06" + (0x4000 | 4 * at).to_bytes(2, "big") + b"\4\x18\0\0\0" for at in range(each))
    packets = [eth(ip4(udp(2000 + number, 443, sealed(frames, number)), 17)) for number in range(count)]
    result = quic_run(packets, tmp_path, "", bundle_mean=1)
    assert saved / 2 < result.count("tls_handshake", "packets") < saved
    assert result.count("quic_frame", "lost:bundle") > 0


def test_initial_packets_have_no_streams(tmp_path: Path) -> None:
    """RFC 9000, 12.4: a packet that anyone can make begins none."""
    pytest.importorskip("aioquic")
    frames = [b"\x0a" + bytes([stream]) + b"\0" for stream in range(60)]
    packets = [eth(ip4(udp(2000 + number, 443, sealed(b"\x01" + b"".join(frames), number)), 17)) for number in range(4)]
    result = quic_run(packets, tmp_path, "")
    assert result.count("quic_frame", "malformed:frame type in such a packet") == 4  # the rest of each
    assert result.count("quic_stream", "packets") == 0
    allowed = [b"\x01", b"\x02\0\0\0\0", b"\x03" + bytes(7), b"\x06\0\1a", b"\x1c\0\0\0"]
    result = quic_run([eth(ip4(udp(2000, 443, sealed(b"".join(allowed), 7)), 17))], tmp_path, "")
    assert result.count("quic_frame", "packets") == len(allowed) + 1  # and padding


def test_the_memory_of_a_key_log_is_within_that_of_the_box(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Half of --memory at most; secrets beyond are counted. Those before, and the packets, lose nothing."""
    pytest.importorskip("aioquic")
    from tests.quic.test_traffic import streams, talk
    from tests.quic.traffic import make

    good = make(*talk(1500))
    others = "".join(f"CLIENT_TRAFFIC_SECRET_0 {number:064x} {number:064x}\n" for number in range(5000))
    result = quic_run(good.packets, tmp_path, good.keylog + others, memory=1 << 20)
    assert streams(result) == good.sent
    found = re.search(r"(\d+) secrets were not stored for want of memory", capfd.readouterr().err)
    assert found is not None
    assert 3000 < int(found[1]) < 4000  # an entry has 33 bytes and six secrets of up to 48


def test_sctp_messages_that_never_end_beside_a_good_association() -> None:
    """Beyond the messages that one packet may have, chunks are lost, and counted; good messages are all delivered."""
    with unoptimised():
        made = watch_all(find_stack("sctp"), ("sctp_message", "message"))
    attack = [
        packet(b"".join(idata(80 * n + i, b"x", BEGIN, i, n) for i in range(80)), "10.9.9.1", "10.9.9.2").data
        for n in range(20)
    ]
    good = [item.data for item in PACKETS]
    alone = run(made, good)
    mixed: list[bytes] = []
    for number in range(max(len(good), len(attack))):
        mixed += [*good[number : number + 1], *attack[number : number + 1]]
    both = run(made, mixed, settings=Settings(seed=1, max_instances=1 << 12, memory=1 << 24, bundle=1 << 20, work=64))
    assert len(alone.named("message")) > 4
    assert len(both.named("message")) == len(alone.named("message"))
    assert both.count("sctp", "lost:work") == len(attack)
    fewer = run(made, attack[:2], settings=Settings(seed=1, max_instances=1 << 12, bundle=1 << 20, work=8))
    assert fewer.count("sctp", "packets") == 2 * 8
    assert fewer.count("sctp", "lost:work") == 2
    both = run(made, mixed, settings=Settings(seed=1, max_instances=1 << 12, memory=1 << 24, bundle=16))
    assert len(both.named("message")) == len(alone.named("message"))
    assert both.count("sctp", "lost:bundle") == len(attack)
    # each begins a message, and so counts three times; those that wait for earlier ones begin none
    assert both.count("sctp", "packets") - alone.count("sctp", "packets") <= 16 * len(attack)
