"""Makes capture.pcap: two requests, one of which carries an SQL injection, a connection to port 23, and one of SSH.

.venv/bin/python examples/chain/make_capture.py
"""

from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

BEGIN = 1_700_000_000
HOSTS, WORLD = "02:00:00:00:00:01", "02:00:00:00:00:02"
SERVER = "198.51.100.7"


def packets():
    """All packets, with their times."""
    found = []

    def connection(client, sport, dport, segments):
        """`segments`: (from the server, bytes), after the handshake."""
        ends = [1000, 9000]

        def add(back, flags, payload=b""):
            link = Ether(src=WORLD, dst=HOSTS) if back else Ether(src=HOSTS, dst=WORLD)
            source, target = (SERVER, client) if back else (client, SERVER)
            ports = (dport, sport) if back else (sport, dport)
            acknowledged = ends[1 - back] if "A" in flags else 0
            segment = TCP(sport=ports[0], dport=ports[1], seq=ends[back], ack=acknowledged, flags=flags)
            packet = link / IP(src=source, dst=target, id=len(found)) / segment / payload
            packet.time = BEGIN + len(found) / 100
            found.append(packet)
            ends[back] += len(payload) + ("S" in flags) + ("F" in flags)

        add(0, "S")
        add(1, "SA")
        add(0, "A")
        for back, payload in segments:
            add(back, "PA", payload)
        add(0, "FA")
        add(1, "FA")
        add(0, "A")

    page = (1, b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
    connection("10.0.0.11", 50000, 80, [(0, b"GET /index.html HTTP/1.1\r\nHost: shop\r\n\r\n"), page])
    connection("10.0.0.12", 50001, 23, [(0, b"root\r\n")])
    connection(
        "10.0.0.13",
        50002,
        80,
        [
            (0, b"POST /search HTTP/1.1\r\nHost: shop\r\nContent-Length: 30\r\n\r\n"),
            (0, b"q=1 UNION SELECT card FROM all"),
            page,
        ],
    )
    connection("10.0.0.14", 50003, 22, [(1, b"SSH-2.0-server\r\n"), (0, b"SSH-2.0-client\r\n")])
    return found


if __name__ == "__main__":
    wrpcap(str(Path(__file__).with_name("capture.pcap")), packets())
