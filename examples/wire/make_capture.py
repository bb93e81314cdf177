"""Makes capture.pcap: a request that passes, and one that is cut within the word, with its parts in the wrong order."""

from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import wrpcap


def segment(port: int, number: int, flags: str, payload: bytes = b"", back: bool = False) -> Packet:
    """A segment of the client, or of the server."""
    ends = [("10.99.0.1", port, "02:00:00:00:00:01"), ("10.99.0.2", 8000, "02:00:00:00:00:02")]
    (source, sport, smac), (destination, dport, dmac) = reversed(ends) if back else ends
    ip = IP(src=source, dst=destination, id=1)
    tcp = TCP(sport=sport, dport=dport, seq=number, ack=0 if flags == "S" else 101 if back else 7001, flags=flags)
    return Ether(src=smac, dst=dmac) / ip / tcp / (Raw(payload) if payload else b"")


def packets() -> list[Packet]:
    """All packets, half a second apart."""
    found: list[Packet] = []
    for port, parts in ((40001, [b"GET /hello HTTP/1.0\r\n\r\n"]), (40002, [b"GET /sec", b"ret HTTP/1.0\r\n\r\n"])):
        found += [segment(port, 100, "S"), segment(port, 7000, "SA", back=True), segment(port, 101, "A")]
        numbers = [101 + sum(map(len, parts[:part])) for part in range(len(parts))]
        found += [segment(port, number, "PA", part) for number, part in zip(numbers, parts, strict=True)][::-1]
    for number, packet in enumerate(found):
        packet.time = 1_700_000_000 + number / 100
    return found


if __name__ == "__main__":
    wrpcap(str(Path(__file__).with_name("capture.pcap")), packets())
