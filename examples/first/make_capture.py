"""Makes capture.pcap: three weather stations over UDP, and somebody who fetches a page over TCP meanwhile.

.venv/bin/python examples/first/make_capture.py
"""

import struct
from pathlib import Path

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

BEGIN = 1_700_000_000
WAN, LAN = "02:00:00:00:00:01", "02:00:00:00:00:02"
READINGS = [(7, 18), (8, 21), (7, 19), (9, 15), (8, 20), (7, 19), (9, 17), (8, 23), (7, 21), (9, 16)]


def hello(station, celsius, version=1):
    """A report of one station, as bytes."""
    return struct.pack("!BHH", version << 4 | 1, station, celsius)


def packets():
    """All packets, with their times."""
    found = []

    def add(time, source, target, what):
        packet = Ether(src=LAN, dst=WAN) / IP(src=source, dst=target, id=len(found)) / what
        packet.time = BEGIN + time
        found.append(packet)

    for number, (station, celsius) in enumerate(READINGS):
        add(
            number * 2,
            f"10.0.0.{station}",
            "10.0.0.1",
            UDP(sport=40000 + station, dport=4747) / hello(station, celsius),
        )
    add(7, "10.0.0.9", "10.0.0.1", UDP(sport=40009, dport=4747) / hello(9, 90, version=2))
    add(9, "10.0.0.9", "10.0.0.1", UDP(sport=40009, dport=4747) / hello(9, 90)[:3])

    client, server = ("10.0.0.30", 51000), ("10.0.0.1", 80)
    request, page = b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n" + b"sunny " * 300
    mine, its, time = 1000, 9000, 4.5
    half = len(page) // 2

    def tcp(back, flags, payload=b"", skip=0):
        nonlocal time
        time += 0.01
        one, other = (server, client) if back else (client, server)
        own, peer = (its + skip, mine) if back else (mine + skip, its)
        add(
            time,
            one[0],
            other[0],
            TCP(sport=one[1], dport=other[1], seq=own, ack=peer if "A" in flags else 0, flags=flags) / payload,
        )

    tcp(False, "S")
    mine += 1
    tcp(True, "SA")
    its += 1
    tcp(False, "A")
    tcp(False, "PA", request)
    mine += len(request)
    tcp(True, "PA", page[half:], skip=half)  # the second half overtakes the first
    tcp(True, "A", page[:half])
    its += len(page)
    tcp(False, "A")
    tcp(True, "FA")
    its += 1
    tcp(False, "FA")
    mine += 1
    tcp(True, "A")
    return sorted(found, key=lambda packet: packet.time)


if __name__ == "__main__":
    wrpcap(str(Path(__file__).with_name("capture.pcap")), packets())
