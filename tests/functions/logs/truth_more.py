"""What tshark says of the captures of the corpus: SSH, DHCP, ICMP, GTP, SCTP, FTP.

`python -m tests.functions.logs.truth_more CORPUS` writes truth_more.json beside this file; the tests need no tshark.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

TRUTH = Path(__file__).with_name("truth_more.json")
SEPARATOR, AGGREGATOR = "\x1e", "\x1f"
FIELDS = (
    *("frame.protocols", "ssh.kex.hassh", "ssh.kex.hasshserver", "ssh.protocol"),
    *("dhcp.id", "dhcp.option.dhcp", "dhcp.hw.mac_addr", "dhcpv6.msgtype", "dhcpv6.xid"),
    *("icmp.type", "icmp.code", "icmpv6.type", "icmpv6.code"),
    *("gtp.message", "gtp.teid", "gtpv2.message_type", "gtpv2.seq", "e212.imsi"),
    *("ftp.request.command", "ftp.response.code"),
    *("sctp.init_initiate_tag", "sctp.initack_initiate_tag", "sctp.data_payload_proto_id"),
)
Packet = dict[str, list[str]]


def packets(path: Path) -> Iterator[Packet]:
    """Of each packet the occurrences of each field."""
    command = ["tshark", "-2", "-r", str(path), "-T", "fields", "-o", "ip.defragment:TRUE"]
    command += ["-E", f"separator={SEPARATOR}", "-E", f"aggregator={AGGREGATOR}", "-E", "occurrence=a"]
    for name in FIELDS:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape")
    for line in done.stdout.split("\n"):
        if line:
            values = [item.split(AGGREGATOR) if item else [] for item in line.split(SEPARATOR)]
            yield dict(zip(FIELDS, values, strict=True))


def messages(packet: Packet) -> Iterator[tuple[str, str]]:
    """The kind and the text of each message that the logs have, too."""
    for kind in ("hassh", "hasshserver"):
        yield from ((kind, value) for value in packet[f"ssh.kex.{kind}"])
    yield from (("ssh", value) for value in packet["ssh.protocol"])
    for number in packet["dhcp.id"]:
        kind = packet["dhcp.option.dhcp"][:1] or [""]
        yield "dhcp", " ".join([str(int(number, 0)), kind[0], *packet["dhcp.hw.mac_addr"][:1]])
    if packet["dhcpv6.msgtype"]:
        yield "dhcpv6", packet["dhcpv6.msgtype"][-1]
    for protocol in ("icmp", "icmpv6"):  # what an error quotes follows
        if packet[f"{protocol}.type"]:
            yield protocol, f"{packet[f'{protocol}.type'][0]} {packet[f'{protocol}.code'][0]}"
    if packet["gtp.message"][:1] in (["255"], ["0xff"]) and packet["gtp.teid"]:
        yield "tunnel", str(int(packet["gtp.teid"][0], 0))
    for kind, number in zip(packet["gtpv2.message_type"], packet["gtpv2.seq"], strict=False):
        yield "gtpv2", f"{int(kind, 0)} {int(number, 0)}"
    yield from (("imsi", value) for value in packet["e212.imsi"] if packet["gtpv2.message_type"])
    yield from (("command", value.upper()) for value in packet["ftp.request.command"])
    yield from (("reply", value) for value in packet["ftp.response.code"])
    for name in ("sctp.init_initiate_tag", "sctp.initack_initiate_tag"):
        yield from (("tag", str(int(value, 0))) for value in packet[name])


def main(corpus: Path) -> None:
    """Write the truth of all captures."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for path in sorted(corpus.glob("*.pcap*")):
        kinds: dict[str, Counter[str]] = defaultdict(Counter)
        for packet in packets(path):
            for kind, text in messages(packet):
                kinds[kind][text] += 1
        if kinds:
            found[path.name] = {kind: dict(sorted(texts.items())) for kind, texts in sorted(kinds.items())}
    TRUTH.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
