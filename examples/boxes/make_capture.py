"""Makes capture.pcap: a scan, a Trojan's sequence, a flood of SYNs and a forged reset, one after the other.

.venv/bin/python examples/boxes/make_capture.py
"""

from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

BEGIN = 1_700_000_000
SERVER = "198.51.100.7"


def packets():
    """All packets, with their times."""
    found = []

    def add(source, target, flags, number, acknowledged=0, payload=b"", ttl=64):
        (src, sport), (dst, dport) = source, target
        link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        segment = TCP(sport=sport, dport=dport, seq=number, ack=acknowledged, flags=flags)
        packet = link / IP(src=src, dst=dst, id=len(found), ttl=ttl) / segment / payload
        packet.time = BEGIN + len(found) / 100
        found.append(packet)

    def connection(client, server, lines):
        """A connection whose client sends lines, from its handshake to its close."""
        add(client, server, "S", 1000)
        add(server, client, "SA", 9000, 1001)
        add(client, server, "A", 1001, 9001)
        number = 1001
        for line in lines:
            add(client, server, "PA", number, 9001, line + b"\r\n")
            number += len(line) + 2
            add(server, client, "A", 9001, number)
        add(client, server, "FA", number, 9001)
        add(server, client, "FA", 9001, number + 1)
        add(client, server, "A", number + 1, 9002)

    for host in range(1, 9):  # a scan of hosts that refuse
        add(("10.0.0.21", 40000 + host), (f"198.51.100.{host}", 445), "S", 1000)
        add((f"198.51.100.{host}", 445), ("10.0.0.21", 40000 + host), "RA", 0, 1001)
    connection(("10.0.0.22", 5000), (SERVER, 22), [b"SSH-2.0-OpenSSH_9.2"])
    connection(("10.0.0.22", 5001), (SERVER, 21), [b"USER me", b"RETR a.html", b"RETR b.zip", b"RETR c.exe"])
    connection(("10.0.0.22", 5002), (SERVER, 6667), [b"NICK me", b"USER a b c d", b"JOIN #x"])
    for port in range(20):  # a flood from forged addresses
        add((f"203.0.113.{port + 1}", 1024 + port), (SERVER, 80), "S", 7)
    client, server = ("10.0.0.23", 50000), (SERVER, 8080)
    add(client, server, "S", 1000)
    add(server, client, "SA", 9000, 1001)
    add(client, server, "A", 1001, 9001)
    add(client, server, "PA", 1001, 9001, b"GET / HTTP/1.0\r\n\r\n")
    add(server, client, "R", 9001, 0, ttl=250)  # forged: another distance, and the server goes on
    add(server, client, "PA", 9001, 1019, b"HTTP/1.0 200 OK\r\n\r\n")
    return found


if __name__ == "__main__":
    wrpcap(str(Path(__file__).with_name("capture.pcap")), packets())
