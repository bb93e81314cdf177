"""Makes capture.pcap: two subscribers fetch pages; one of them is sent bytes again, the other hides data in that.

.venv/bin/python examples/account/make_capture.py
"""

from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

BEGIN = 1_700_000_000
SUBSCRIBERS, WORLD = "02:00:00:00:00:01", "02:00:00:00:00:02"


def packets():
    """All packets, with their times."""
    found = []

    def connection(subscriber, port, segments):
        """`segments`: (from the server, offset, bytes) after the handshake."""
        server = "198.51.100.7"
        names = ((subscriber, port), (server, 80))
        numbers = (1000, 9000)

        def add(back, flags, number, acknowledged, payload=b""):
            (source, sport), (target, dport) = (names[back], names[1 - back])
            link = Ether(src=WORLD, dst=SUBSCRIBERS) if back else Ether(src=SUBSCRIBERS, dst=WORLD)
            segment = TCP(sport=sport, dport=dport, seq=number, ack=acknowledged, flags=flags)
            packet = link / IP(src=source, dst=target, id=len(found)) / segment / payload
            packet.time = BEGIN + len(found) / 100
            found.append(packet)

        add(0, "S", numbers[0], 0)
        add(1, "SA", numbers[1], numbers[0] + 1)
        add(0, "A", numbers[0] + 1, numbers[1] + 1)
        ends = [0, 0]
        for back, offset, payload in segments:
            add(back, "PA", numbers[back] + 1 + offset, numbers[1 - back] + 1 + ends[1 - back], payload)
            ends[back] = max(ends[back], offset + len(payload))
        add(0, "FA", numbers[0] + 1 + ends[0], numbers[1] + 1 + ends[1])
        add(1, "FA", numbers[1] + 1 + ends[1], numbers[0] + 2 + ends[0])
        add(0, "A", numbers[0] + 2 + ends[0], numbers[1] + 2 + ends[1])

    page = bytes(range(256)) * 8
    request = b"GET / HTTP/1.0\r\n\r\n"
    connection(
        "10.0.0.11",
        50000,
        [
            (0, 0, request),
            (1, 0, page[:1000]),
            (1, 0, page[:1000]),  # again
            (1, 1500, page[1500:2048]),  # early
            (1, 800, page[800:1500]),  # late, and 200 bytes of it again
        ],
    )
    connection(
        "10.0.0.12",
        50001,
        [
            (0, 0, request),
            (1, 0, page[:1000]),
            (0, 0, b"hidden in a copy.."),  # the request again, which is not the request
            (1, 0, b"and so is an answer" + page[19:1000]),
        ],
    )
    return found


if __name__ == "__main__":
    wrpcap(str(Path(__file__).with_name("capture.pcap")), packets())
