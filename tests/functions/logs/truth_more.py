"""What tshark says of a capture: messages of SSH, DHCP, GTP and FTP."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.functions.logs.truth import fields_of

FIELDS = (
    *("frame.protocols", "ssh.kex.hassh", "ssh.kex.hasshserver", "ssh.protocol"),
    *("dhcp.id", "dhcp.option.dhcp", "dhcp.hw.mac_addr"),
    *("gtp.message", "gtp.teid", "gtpv2.message_type", "gtpv2.seq", "e212.imsi"),
    *("ftp.request.command", "ftp.response.code"),
)
Packet = dict[str, list[str]]


def packets(path: Path) -> Iterator[Packet]:
    """Of each packet the occurrences of each field."""
    return fields_of(path, FIELDS, "-o", "ip.defragment:TRUE")


def messages(packet: Packet) -> Iterator[tuple[str, str]]:
    """The kind and the text of each message that the logs have, too."""
    for kind in ("hassh", "hasshserver"):
        yield from ((kind, value) for value in packet[f"ssh.kex.{kind}"])
    yield from (("ssh", value) for value in packet["ssh.protocol"])
    for number in packet["dhcp.id"]:
        kind = packet["dhcp.option.dhcp"][:1] or [""]
        yield "dhcp", " ".join([str(int(number, 0)), kind[0], *packet["dhcp.hw.mac_addr"][:1]])
    if packet["gtp.message"][:1] in (["255"], ["0xff"]) and packet["gtp.teid"]:
        yield "tunnel", str(int(packet["gtp.teid"][0], 0))
    for kind, number in zip(packet["gtpv2.message_type"], packet["gtpv2.seq"], strict=False):
        yield "gtpv2", f"{int(kind, 0)} {int(number, 0)}"
    yield from (("imsi", value) for value in packet["e212.imsi"] if packet["gtpv2.message_type"])
    yield from (("command", value.upper()) for value in packet["ftp.request.command"])
    yield from (("reply", value) for value in packet["ftp.response.code"])


def truth(path: Path) -> dict[str, Counter[str]]:
    """How often each message occurs, by kind."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for packet in packets(path):
        for kind, text in messages(packet):
            found[kind][text] += 1
    return found
