"""The examples of the RFCs: keys, header protection and packets (RFC 9001, RFC 9369), packet numbers (RFC 9000)."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from sluice.engine.compiler import INCLUDES, RUNTIME, compiler, flags
from sluice.stacks.find import find_stack
from tests.quic.traffic import CLIENT, SERVER
from tests.support.packets import eth, ip4, udp
from tests.support.run import run, watch_all

PROTOCOLS = RUNTIME.parent / "protocols"

HELLO = bytes.fromhex(
    "010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302010000c000000010000e"
    "00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e00050005010000000000330026"
    "0024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e04030503"
    "06030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff08011001048000"
    "75300901100f088394c8f03e51570806048000ffff"
)
SERVER_HELLO = bytes.fromhex(
    "020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c94"
    "0d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00020304"
)

# of each version: the header of the client's Initial packet, its keys, its first and last bytes; the server's packet
VERSIONS = {
    1: (
        "c300000001088394c8f03e5157080000449e00000002",
        ("1f369613dd76d5467730efcbe3b1a22d", "fa044b2f42a3fd3b46fb255c", "9f50449e04a0e810283a1e9933adedd2"),
        ("c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11", "e221af44860018ab0856972e194cd934"),
        "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4c"
        "f73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7a"
        "af2f58891850abbdca3d20398c276456cbc42158407dd074ee",
    ),
    2: (
        "d36b3343cf088394c8f03e5157080000449e00000002",
        ("8b1a0bc121284290a29e0971b5cd045d", "91f73e2351d8fa91660e909f", "45b95e15235d6f45a6b19cbcb0294ba9"),
        ("d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485", "a18b2faa745b6fe189cf772a9f84cbfc"),
        "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b89237bbf87263017915358230035"
        "f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2c984c707f0a0812d8cd5a6881eaf"
        "21ceda98f4bd23f6fe1a3e2c43edd9ce7ca84bed8521e2e140",
    ),
}


def client_initial(version: int) -> bytes:
    """The packet of appendix A.2, sealed with the published keys: its first and last bytes are the published ones."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    unprotected, keys, ends, _ = VERSIONS[version]
    header = bytearray.fromhex(unprotected)
    key, iv, hp = (bytes.fromhex(text) for text in keys)
    frames = (b"\x06\x00\x40\xf1" + HELLO).ljust(1162, b"\0")
    nonce = iv[:-1] + bytes([iv[-1] ^ 2])
    sealed = AESGCM(key).encrypt(nonce, frames, bytes(header))
    mask = Cipher(algorithms.AES(hp), modes.ECB()).encryptor().update(sealed[:16])
    header[0] ^= mask[0] & 0x0F
    for n in range(4):
        header[18 + n] ^= mask[1 + n]
    packet = bytes(header) + sealed
    assert (packet[:32].hex(), packet[-16:].hex(), len(packet)) == (*ends, 1200)
    return packet


@pytest.mark.parametrize("version", VERSIONS)
def test_initial_packets(version: int) -> None:
    server = bytes.fromhex(VERSIONS[version][3])
    packets = [
        eth(ip4(udp(CLIENT[1], SERVER[1], client_initial(version)), 17, CLIENT[0], SERVER[0])),
        eth(ip4(udp(SERVER[1], CLIENT[1], server), 17, SERVER[0], CLIENT[0])),
    ]
    made = watch_all(find_stack("quic"), ("tls_client_hello", "hello"))
    result = run(made, packets)
    data = [(e.key["sender"], e.bytes) for e in result.named("data") if e.layer == "quic_crypto"]
    assert data == [(0, HELLO), (1, SERVER_HELLO)]
    (hello,) = result.named("hello")
    assert (hello.server_name, hello.protocols) == (b"example.com", b"\x04alpn")
    altered = packets[0][:-1] + bytes([packets[0][-1] ^ 1])
    result = run(made, [altered, packets[1]])
    assert result.count("quic", "dropped:no key") == 2
    assert not result.named("hello", "data")


RETRY = {
    1: "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba",
    2: "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_retry(version: int) -> None:
    """Appendix A.4, after the packet that it answers."""
    packets = [
        eth(ip4(udp(CLIENT[1], SERVER[1], client_initial(version)), 17, CLIENT[0], SERVER[0])),
        eth(ip4(udp(SERVER[1], CLIENT[1], bytes.fromhex(RETRY[version])), 17, SERVER[0], CLIENT[0])),
    ]
    made = watch_all(find_stack("quic"))
    for last, wrong in ((packets[1], 0), (packets[1][:-1] + b"\0", 1)):
        result = run(made, [packets[0], last])
        assert result.count("quic", "dropped:wrong integrity tag") == wrong
        assert result.count("quic", "ended") == 1 - wrong


@pytest.mark.parametrize(("library", "status"), [("", 0), ('-DTLS_CRYPTO_LIBRARIES="no_such.so"', 77)])
def test_keys_header_protection_and_packet_numbers(library: str, status: int, tmp_path: Path) -> None:
    """And, where there is no libcrypto, that nothing is opened and the reason is told."""
    program = tmp_path / "vectors"
    options = [flag for flag in flags() if flag != "-fPIC"]
    includes = [*INCLUDES, f"-I{PROTOCOLS}", *filter(None, [library])]
    source = Path(__file__).with_name("vectors.c")
    subprocess.run([*compiler(), *options, *includes, str(source), "-o", str(program), "-ldl"], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, ""), shlex.join([str(program)])
