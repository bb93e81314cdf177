"""Makes capture.pcap: two requests of HTTP on two streams of an association of SCTP.

.venv/bin/python examples/sctp_logs/make_capture.py
"""

from pathlib import Path

from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.layers.sctp import (
    SCTP,
    SCTPChunkCookieAck,
    SCTPChunkCookieEcho,
    SCTPChunkData,
    SCTPChunkInit,
    SCTPChunkInitAck,
    SCTPChunkShutdown,
    SCTPChunkShutdownAck,
    SCTPChunkShutdownComplete,
)
from scapy.utils import wrpcap

BEGIN = 1_700_000_000
CLIENT, SERVER = ("10.0.0.11", 41000), ("192.0.2.80", 80)
TAGS = {CLIENT: 0x0C11E47, SERVER: 0x05E4E4}
NEAR, FAR = "02:00:00:00:00:01", "02:00:00:00:00:02"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"


class Association:
    """Packets that come a millisecond apart, each with a chunk."""

    def __init__(self):
        self.packets = []
        self.tsn = {CLIENT: 1000, SERVER: 5000}
        self.messages = {}

    def send(self, src, chunk, tag=None):
        dst = SERVER if src == CLIENT else CLIENT
        near, far = (NEAR, FAR) if src == CLIENT else (FAR, NEAR)
        sctp = SCTP(sport=src[1], dport=dst[1], tag=TAGS[dst] if tag is None else tag) / chunk
        frame = Ether(bytes(Ether(src=near, dst=far) / IP(src=src[0], dst=dst[0]) / sctp))
        frame.time = BEGIN + len(self.packets) * 0.001
        self.packets.append(frame)

    def say(self, src, stream, message, most=1000):
        """A message, in chunks of at most so many bytes."""
        number = self.messages.get((src, stream), 0)
        for at in range(0, len(message), most):
            part = message[at : at + most]
            begins, ends = int(at == 0), int(at + most >= len(message))
            self.send(
                src,
                SCTPChunkData(
                    beginning=begins, ending=ends, tsn=self.tsn[src], stream_id=stream, stream_seq=number, data=part
                ),
            )
            self.tsn[src] += 1
        self.messages[src, stream] = number + 1


def packets():
    """All of them."""
    a = Association()
    a.send(
        CLIENT, SCTPChunkInit(init_tag=TAGS[CLIENT], a_rwnd=65536, n_out_streams=4, n_in_streams=4, init_tsn=1000), 0
    )
    a.send(
        SERVER, SCTPChunkInitAck(init_tag=TAGS[SERVER], a_rwnd=65536, n_out_streams=4, n_in_streams=4, init_tsn=5000)
    )
    a.send(CLIENT, SCTPChunkCookieEcho(cookie=b"cookie"))
    a.send(SERVER, SCTPChunkCookieAck())
    a.say(CLIENT, 0, b"GET / HTTP/1.1\r\nHost: www.example\r\n\r\n")
    a.say(CLIENT, 1, b"GET /large HTTP/1.1\r\nHost: www.example\r\n\r\n")
    a.say(SERVER, 1, HEAD % 2500)
    a.say(SERVER, 0, HEAD % 6 + b"hello\n")
    a.say(SERVER, 1, b"x" * 2500)
    a.send(CLIENT, SCTPChunkShutdown(cumul_tsn_ack=a.tsn[SERVER] - 1))
    a.send(SERVER, SCTPChunkShutdownAck())
    a.send(CLIENT, SCTPChunkShutdownComplete())
    return a.packets


if __name__ == "__main__":
    wrpcap(str(Path(__file__).with_name("capture.pcap")), packets())
