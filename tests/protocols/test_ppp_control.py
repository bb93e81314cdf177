"""What PPP negotiates: codes, identifiers, lengths and options of LCP and its like."""

from __future__ import annotations

import random
import struct
from functools import cache
from typing import Any

import pytest

from sluice.engine.box import CompiledStack
from sluice.lang import Pred, Stack
from sluice.protocols import ppp_control
from sluice.protocols.ppp import ppp_parser
from tests.support.fields import tell_fields
from tests.support.run import Result, run, watch_all

PARSERS = {
    0xC021: ppp_control.lcp_parser,
    0xC023: ppp_control.pap_parser,
    0xC223: ppp_control.chap_parser,
    0x8021: ppp_control.ipcp_parser,
    0x8057: ppp_control.ipv6cp_parser,
    0x80FD: ppp_control.ccp_parser,
}
LCP, PAP, CHAP, IPCP, IPV6CP, CCP = PARSERS
OPTIONS = (LCP, IPCP, IPV6CP, CCP)


@cache
def stack() -> CompiledStack:
    s: Any = Stack("control")
    s.ppp = ppp_parser()
    for number, parser in PARSERS.items():
        layer = tell_fields(parser())
        setattr(s, layer.name, layer)
        s += (s.ppp >> getattr(s, layer.name)) + Pred(s.ppp.temp.protocol == number)
    return watch_all(s, ("*", "fields"), ("*", "control"))


def control(code: int, data: bytes = b"", id: int = 7, length: int | None = None) -> bytes:
    return struct.pack(">BBH", code, id, 4 + len(data) if length is None else length) + data


def send(protocol: int, *packets: bytes) -> Result:
    return run(stack(), [b"\xff\x03" + struct.pack(">H", protocol) + packet for packet in packets], link_type=9)


def fields(protocol: int, packet: bytes) -> dict[str, Any]:
    """Of one packet: the fields that are not 0 or empty."""
    result = send(protocol, packet)
    assert not [
        key for counters in result.counters.values() for key in counters if "malformed" in key and counters[key]
    ]
    (seen,) = result.named("fields")
    return {key: value for key, value in seen.values.items() if value}


@pytest.mark.parametrize("protocol", PARSERS)
@pytest.mark.parametrize("code", [5, 6, 9, 10, 12, 255])
def test_every_packet_is_told(protocol: int, code: int) -> None:
    result = send(protocol, control(code, b"data", 9), control(code, b"", 10))
    assert [seen.values for seen in result.named("control")] == [{"code": code, "id": 9}, {"code": code, "id": 10}]


def option(kind: int, value: bytes = b"") -> bytes:
    return bytes([kind, 2 + len(value)]) + value


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_options_of_lcp(code: int) -> None:
    packet = control(
        code,
        option(1, b"\x05\xdc")
        + option(2, b"\x00\x0a\x00\x00")
        + option(3, b"\xc2\x23\x81")
        + option(5, b"\xde\xad\xbe\xef")
        + option(7)
        + option(8)
        + option(13, b"\x06"),
    )
    found = fields(LCP, packet)
    wanted = {
        "code": code,
        "mru": 1500,
        "accm": 0x000A0000,
        "authentication": 0xC223,
        "authentication_data": b"\x81",
        "magic": 0xDEADBEEF,
        "protocol_compression": 7,
        "address_compression": 8,
        "option_type": 13,
        "option_data": b"\x06",
    }
    assert {key: found.get(key) for key in wanted} == wanted


def test_options_of_the_others() -> None:
    found = fields(
        IPCP, control(1, option(2, b"\x00\x2d\x0f\x01") + option(3, bytes([10, 0, 0, 7])) + option(129, b"dns!"))
    )
    assert (found["compression"], found["compression_data"]) == (0x2D, b"\x0f\x01")
    assert (found["address"], found["option_type"], found["option_data"]) == (0x0A000007, 129, b"dns!")
    assert fields(IPV6CP, control(1, option(1, bytes(range(8)))))["identifier"] == 0x0001020304050607
    assert fields(CCP, control(1, option(18, b"\x01\0\0\x60")))["option_data"] == b"\x01\0\0\x60"


def test_passwords_and_challenges() -> None:
    assert fields(PAP, control(1, b"\x04user\x06secret"))["peer"] == b"user"
    assert fields(PAP, control(1, b"\x04user\x06secret"))["password"] == b"secret"
    for code in (1, 2):
        assert fields(CHAP, control(code, b"\x10" + bytes(range(16)) + b"name"))["value"] == bytes(range(16))


@pytest.mark.parametrize("protocol", OPTIONS)
@pytest.mark.parametrize("rubbish", [b"\x01", b"\x01\x00", b"\x63\x01", b"\x63\xff", b"\x05\x06\x01"])
def test_options_that_are_none_end_the_list(protocol: int, rubbish: bytes) -> None:
    result = send(protocol, control(1, option(99, b"ok") + rubbish))
    (seen,) = result.named("fields")
    assert seen.values["option_data"] == b"ok" and len(result.named("control")) == 1


@pytest.mark.parametrize("protocol", PARSERS)
def test_length(protocol: int) -> None:
    layer = PARSERS[protocol]().name
    for length in (0, 3, 9, 65535):
        assert send(protocol, control(9, b"data", length=length)).count(layer, "malformed:length") == 1
    for length in (4, 8):
        assert len(send(protocol, control(9, b"data", length=length)).named("control")) == 1
    assert send(protocol, control(9)[:3]).count(layer, "malformed:header too short") == 1


def test_padding_after_the_length_is_no_option() -> None:
    found = fields(LCP, control(1, option(7), length=6) + option(8))
    assert found["protocol_compression"] == 7 and "address_compression" not in found
    assert "address_compression" not in fields(LCP, control(1, b"", length=4) + option(8))


def test_noise() -> None:
    rnd = random.Random(4)
    for protocol in PARSERS:
        packets = [control(rnd.randrange(6), rnd.randbytes(rnd.randrange(30))) for _ in range(300)]
        packets += [rnd.randbytes(rnd.randrange(30)) for _ in range(300)]
        send(protocol, *packets)
