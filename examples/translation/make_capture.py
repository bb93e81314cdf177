"""Makes capture.pcap: FTP in active mode, a ping and a traceroute through a NAT, then connections to a service.

Each packet is as it comes to the box: of the inside hosts with their own addresses, of the outside ones to the external
or the virtual address, of the servers with theirs.

.venv/bin/python examples/translation/make_capture.py
"""

from pathlib import Path

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

BEGIN = 1_700_000_000
INSIDE, EXTERNAL, FTP, ROUTER = "10.0.0.5", "192.0.2.1", "198.51.100.21", "203.0.113.1"
VIRTUAL, SERVERS = "192.0.2.10", ("10.9.0.1", "10.9.0.2")


def packets():
    """All packets, with their times."""
    found = []

    def add(source, target, body, payload=b"", after=0.01):
        link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        packet = link / IP(src=source, dst=target, id=len(found)) / body / payload
        packet.time = (found[-1].time if found else BEGIN) + after
        found.append(packet)

    def segment(source, target, flags, number, acknowledged=0, payload=b""):
        (src, sport), (dst, dport) = source, target
        add(src, dst, TCP(sport=sport, dport=dport, flags=flags, seq=number, ack=acknowledged), payload)

    # A control connection: the numbers of the server's answers are those that the box shows it.
    client, server, seen = (INSIDE, 5000), (FTP, 21), (EXTERNAL, 1024)
    segment(client, server, "S", 1000)
    segment(server, seen, "SA", 9000, 1001)
    segment(client, server, "A", 1001, 9001)
    segment(server, seen, "PA", 9001, 1001, b"220 ready\r\n")
    segment(client, server, "PA", 1001, 9012, b"PORT 10,0,0,5,19,137\r\n")
    segment(server, seen, "PA", 9012, 1021, b"200 ok\r\n")  # PORT is two bytes shorter there
    segment(client, server, "PA", 1023, 9020, b"NLST\r\n")
    data, listener, open_port = (FTP, 20), (INSIDE, 5001), (EXTERNAL, 1025)
    segment(data, open_port, "S", 70000)
    segment(listener, data, "SA", 30000, 70001)
    segment(data, open_port, "A", 70001, 30001)
    segment(data, open_port, "PA", 70001, 30001, b"notes.txt\r\n")
    segment(listener, data, "A", 30001, 70012)
    # An echo, and a probe of traceroute that a router on the path discards; it quotes what it got.
    add(INSIDE, FTP, ICMP(type=8, id=7, seq=1), b"abcdefgh")
    add(FTP, EXTERNAL, ICMP(type=0, id=1026, seq=1), b"abcdefgh")
    add(INSIDE, FTP, UDP(sport=40000, dport=33434), b"probe")
    quoted = bytes(IP(src=EXTERNAL, dst=FTP, id=14) / UDP(sport=1027, dport=33434) / b"probe")
    add(ROUTER, EXTERNAL, ICMP(type=11), quoted)
    # Eight connections to the service. The first server answers; the second one is silent.
    for number in range(8):
        caller = (f"203.0.113.{20 + number}", 50000 + number)
        segment(caller, (VIRTUAL, 80), "S", 1000)
        found[-1].time += 2
        if number in (0, 2, 4, 5, 6, 7):
            segment((SERVERS[0], 80), caller, "SA", 9000, 1001)
            segment(caller, (VIRTUAL, 80), "A", 1001, 9001)
    return found


if __name__ == "__main__":
    wrpcap(str(Path(__file__).with_name("capture.pcap")), packets())
