"""What tshark says of the captures of the corpus: messages of HTTP, TLS and DNS, and community-ids.

`python -m tests.functions.logs.truth CORPUS` writes truth.json beside this file. The tests compare rows with that, and
need no tshark. A message is a number, how often it occurs, and its fields: logs and tshark order them
differently.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

TRUTH = Path(__file__).with_name("truth.json")
SEPARATOR, AGGREGATOR = "\x1e", "\x1f"
OPTIONS = ("tcp.check_checksum:FALSE", "ip.defragment:TRUE", "ipv6.defragment:TRUE")

DNS = (
    "dns.id",
    "dns.flags.response",
    "dns.count.queries",
    "dns.qry.name",
    "dns.qry.type",
    "dns.flags.rcode",
    "dns.count.answers",
)
REQUEST = (
    "http.request.method",
    "http.request.uri",
    "http.host",
    "http.request.version",
    "http.user_agent",
    "http.referer",
)
RESPONSE = ("http.response.code", "http.response.version", "http.content_type", "http.content_length_header")
HELLO = ("tls.handshake.ja3", "tls.handshake.extensions_server_name")
ANSWER = ("tls.handshake.ja3s", "tls.handshake.ciphersuite")
DTLS_HELLO = ("dtls.handshake.ja3", "dtls.handshake.extensions_server_name")
DTLS_ANSWER = ("dtls.handshake.ja3s", "dtls.handshake.ciphersuite")
CERTIFICATE = ("x509af.serialNumber", "x509ce.dNSName")
FIELDS = (
    *("frame.protocols", "communityid", "tls.handshake.type"),
    *DNS,
    *REQUEST,
    *RESPONSE,
    *HELLO,
    *ANSWER,
    *DTLS_HELLO,
    *DTLS_ANSWER,
    *CERTIFICATE,
)


def fields_of(path: Path, fields: Sequence[str], *options: str) -> Iterator[dict[str, list[str]]]:
    """Of each packet the occurrences of each field, by tshark with some options."""
    command = ["tshark", "-2", "-r", str(path), "-T", "fields", *options]
    command += ["-E", f"separator={SEPARATOR}", "-E", f"aggregator={AGGREGATOR}", "-E", "occurrence=a"]
    for name in fields:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape")
    for line in done.stdout.split("\n"):
        if line:
            values = [item.split(AGGREGATOR) if item else [] for item in line.split(SEPARATOR)]
            yield dict(zip(fields, values, strict=True))


def packets(path: Path, ordered: bool) -> Iterator[dict[str, list[str]]]:
    """Of each packet the occurrences of each field.

    With `ordered` tshark puts segments in order and shows nothing of a stream after a gap; without, it shows nothing of
    messages whose segments are out of order.
    """
    options = [word for option in (*OPTIONS, f"tcp.reassemble_out_of_order:{ordered}") for word in ("-o", option)]
    return fields_of(path, FIELDS, *options, "--enable-protocol", "communityid")


def at(items: list[str], index: int) -> str:
    """An occurrence, or nothing where there are fewer."""
    return items[index] if index < len(items) else ""


def dns(packet: dict[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """Messages of DNS, mDNS and LLMNR: id, response, the first question, its type, rcode, number of answers."""
    ids, responses, counts, names, types, codes, answers = (packet[name] for name in DNS)
    asked = answered = 0
    for i, id in enumerate(ids):
        response = at(responses, i) in ("1", "True")
        count = int(at(counts, i) or 0)
        question = (at(names, asked), at(types, asked)) if count else ("", "")
        yield str(int(id, 0)), str(int(response)), *question, at(codes, answered) if response else "", at(answers, i)
        answered += response
        asked += count


def each(packet: dict[str, list[str]], names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Messages by the occurrences of the first field; of others that are fewer or more, the first one's."""
    columns = [packet[name] for name in names]
    for i in range(len(columns[0])):
        yield tuple(at(column, i) if len(column) == len(columns[0]) or i == 0 else "?" for column in columns)


def read(path: Path, ordered: bool) -> dict[str, Counter[tuple[str, ...]]]:
    """How often each message occurs, by kind."""
    found: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for packet in packets(path, ordered):
        protocols = ":".join(packet["frame.protocols"])
        found["dns"].update(dns(packet))
        if "ssdp" not in protocols:
            found["request"].update(each(packet, REQUEST))
            found["response"].update(each(packet, RESPONSE))
        for hello, answer in ((HELLO, ANSWER), (DTLS_HELLO, DTLS_ANSWER)):
            found["hello"].update(each(packet, hello))
            found["answer"].update(each(packet, answer))
        if packet["x509af.serialNumber"] and "tls" in protocols and "11" in packet["tls.handshake.type"]:
            found["certificate"][tuple(",".join(packet[name]) for name in CERTIFICATE)] += 1
        for id in packet["communityid"]:
            found["community"][(id,)] = 1
    return found


def truth(path: Path) -> dict[str, list[list[str | int]]]:
    """Of each kind the messages, each with how often it occurs."""
    ordered, unordered = read(path, True), read(path, False)
    found = {kind: ordered[kind] | unordered[kind] for kind in {*ordered, *unordered}}
    return {kind: sorted([count, *row] for row, count in rows.items()) for kind, rows in sorted(found.items()) if rows}


def main(corpus: Path) -> None:
    """Write what tshark says of all captures."""
    captures = sorted([*corpus.glob("*.pcap"), *corpus.glob("*.pcapng")])
    found = {path.name: truth(path) for path in captures}
    lines = [f"{json.dumps(name)}: {json.dumps(rows, separators=(',', ':'))}" for name, rows in found.items() if rows]
    TRUTH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
