"""Makes capture.pcap: a name is looked up, two pages are fetched from that address, then something over TLS 1.2.

.venv/bin/python examples/logs/make_capture.py
"""

import base64
import struct
from pathlib import Path

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

BEGIN = 1_700_000_000
CLIENT, RESOLVER, SERVER = "10.0.0.11", "192.0.2.53", "192.0.2.80"
NEAR, FAR = "02:00:00:00:00:01", "02:00:00:00:00:02"
CERTIFICATE = base64.b64decode(
    b"MIIB2zCCAYGgAwIBAgICEjQwCgYIKoZIzj0EAwIwNTELMAkGA1UEBhMCRVgxEDAOBgNVBAoMB0V4YW1wbGUxFDASBgNVBAMM"
    b"C3d3dy5leGFtcGxlMB4XDTI2MTEyNjEwMjEwNFoXDTM2MTEyMzEwMjEwNFowNTELMAkGA1UEBhMCRVgxEDAOBgNVBAoMB0V4"
    b"YW1wbGUxFDASBgNVBAMMC3d3dy5leGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQyZibK6Ta96DvwehPhwpKZvx"
    b"N/tQuKyZWkvqCWlKtKbgV7GhohX134TB0WDb7+fvKCJ63grAvsw0xhDaBsRh/qOBgDB+MB0GA1UdDgQWBBTFiDKB5QoZBao1"
    b"a2Gz1bPh5MjYuTAfBgNVHSMEGDAWgBTFiDKB5QoZBao1a2Gz1bPh5MjYuTAPBgNVHRMBAf8EBTADAQH/MCsGA1UdEQQkMCKC"
    b"C3d3dy5leGFtcGxlgg0qLmNkbi5leGFtcGxlhwTAAAJQMAoGCCqGSM49BAMCA0gAMEUCIQDAdqdcSNyS7XmA0hgwmd5Z50F1"
    b"EsEFkrQE8t5aM/mzugIgfb8zXpuhjyaX2w14oH26G35Wn4R62R983WTX/gwMQUM="
)

QUESTION = b"\x03www\x07example\x00\x00\x01\x00\x01"
ASKED = struct.pack(">6H", 4660, 0x0100, 1, 0, 0, 0) + QUESTION
ANSWER = b"\xc0\x0c\x00\x01\x00\x01" + struct.pack(">IH", 60, 4) + bytes([192, 0, 2, 80])
ANSWERED = struct.pack(">6H", 4660, 0x8180, 1, 1, 0, 0) + QUESTION + ANSWER


def vector(data, size=2):
    """Bytes after their length."""
    return len(data).to_bytes(size, "big") + data


def handshake(kind, body):
    """A handshake message in a record of its own."""
    return b"\x16\x03\x03" + vector(bytes([kind]) + vector(body, 3))


def extension(kind, data):
    """An extension of a hello."""
    return struct.pack(">H", kind) + vector(data)


NAME = extension(0, vector(b"\x00" + vector(b"www.example")))
PROTOCOLS = extension(16, vector(vector(b"h2", 1) + vector(b"http/1.1", 1)))
GROUPS = extension(10, vector(struct.pack(">2H", 29, 23))) + extension(11, vector(b"\x00", 1))
SIGNATURES = extension(13, vector(struct.pack(">2H", 0x0403, 0x0804)))
SUITES = vector(struct.pack(">3H", 0xC02B, 0xC02F, 0x009C))
HELLO = b"\x03\x03" + bytes(32) + b"\x00" + SUITES + b"\x01\x00" + vector(NAME + GROUPS + SIGNATURES + PROTOCOLS)
CHOSEN = b"\x03\x03" + bytes(32) + b"\x00" + b"\xc0\x2b\x00" + vector(extension(16, vector(vector(b"http/1.1", 1))))
SECURED = b"\x14\x03\x03\x00\x01\x01" + b"\x16\x03\x03" + vector(bytes(40))


def packets():
    """All packets, with their times."""
    found = []

    def add(back, segment, client=CLIENT, server=SERVER):
        source, target = (server, client) if back else (client, server)
        link = Ether(src=FAR, dst=NEAR) if back else Ether(src=NEAR, dst=FAR)
        packet = link / IP(src=source, dst=target, id=len(found), ttl=57 if back else 64) / segment
        packet.time = BEGIN + len(found) / 500
        found.append(packet)

    def connection(port, sport, talk):
        ports, numbers = (sport, port), [1000, 9000]

        def segment(back, flags, payload=b""):
            head = TCP(sport=ports[back], dport=ports[1 - back], seq=numbers[back], ack=numbers[1 - back], flags=flags)
            add(back, head / payload)
            numbers[back] += len(payload) + ("S" in flags) + ("F" in flags)

        for back, flags in ((0, "S"), (1, "SA"), (0, "A")):
            segment(back, flags)
        for back, payload in talk:
            segment(back, "PA", payload)
        for back, flags in ((0, "FA"), (1, "FA"), (0, "A")):
            segment(back, flags)

    add(0, UDP(sport=40000, dport=53) / ASKED, server=RESOLVER)
    add(1, UDP(sport=53, dport=40000) / ANSWERED, server=RESOLVER)
    get = "GET /{} HTTP/1.1\r\nHost: www.example\r\nUser-Agent: example/1.0\r\n{}\r\n"
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nServer: example\r\n"
    connection(
        80,
        50001,
        [
            (0, get.format("", "").encode()),
            (1, page + b"Content-Length: 12\r\n\r\n"),
            (1, b"<p>hello</p>"),
            (0, get.format("more", "Referer: http://www.example/\r\n").encode()),
            (1, page + b"Transfer-Encoding: chunked\r\n\r\n4\r\nmore\r\n0\r\n\r\n"),
        ],
    )
    certificates = handshake(11, vector(vector(CERTIFICATE, 3), 3))
    connection(
        443,
        50002,
        [
            (0, handshake(1, HELLO)),
            (1, handshake(2, CHOSEN) + certificates[:100]),
            (1, certificates[100:] + handshake(14, b"")),
            (0, handshake(16, bytes(66)) + SECURED),
            (1, SECURED),
        ],
    )
    return found


if __name__ == "__main__":
    wrpcap(str(Path(__file__).with_name("capture.pcap")), packets())
