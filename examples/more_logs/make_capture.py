"""Makes capture.pcap: a host gets an address and the time, pings, logs in by SSH, fetches a file by FTP and sends a
mail; a tunnel of GTP is set up and carries a datagram.

.venv/bin/python examples/more_logs/make_capture.py
"""

import base64
import struct
from pathlib import Path

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

BEGIN = 1_700_000_000
HOST, ROUTER, SERVER, GATEWAY = "10.0.0.11", "10.0.0.1", "192.0.2.80", "10.0.0.2"
NEAR, FAR = "02:00:00:00:00:01", "02:00:00:00:00:02"


class Capture:
    """Packets that come two milliseconds apart."""

    def __init__(self):
        self.packets = []

    def add(self, packet, near=True):
        frame = Ether(src=NEAR if near else FAR, dst=FAR if near else NEAR) / packet
        frame = Ether(bytes(frame))
        frame.time = BEGIN + len(self.packets) * 0.002
        self.packets.append(frame)

    def datagram(self, src, sport, dst, dport, data):
        self.add(IP(src=src, dst=dst) / UDP(sport=sport, dport=dport) / Raw(data), src == HOST)


class Connection:
    """A TCP connection of the host, or one to it."""

    def __init__(self, capture, client, sport, server, dport):
        self.capture, self.ends = capture, ((client, sport), (server, dport))
        self.numbers = [1000, 5000]
        for side, flags in ((0, "S"), (1, "SA"), (0, "A")):
            self.send(side, flags)

    def send(self, side, flags, data=b""):
        (src, sport), (dst, dport) = self.ends[side], self.ends[1 - side]
        ack = self.numbers[1 - side] if "A" in flags else 0
        segment = TCP(sport=sport, dport=dport, seq=self.numbers[side], ack=ack, flags=flags, window=65535)
        self.capture.add(IP(src=src, dst=dst) / segment / Raw(data), src == HOST)
        self.numbers[side] += len(data) + ("S" in flags) + ("F" in flags)

    def says(self, *lines):
        """Lines of the client (">") and the server ("<")."""
        for line in lines:
            self.send(int(line[:1] == b"<"), "PA", line[1:])

    def close(self):
        for side, flags in ((0, "FA"), (1, "FA"), (0, "A")):
            self.send(side, flags)


def kexinit(cipher):
    """An offer of algorithms of SSH."""
    lists = (
        "curve25519-sha256",
        "ssh-ed25519",
        cipher,
        cipher,
        "hmac-sha2-256",
        "hmac-sha2-256",
        "none",
        "none",
        "",
        "",
    )
    payload = b"\x14" + bytes(16) + b"".join(struct.pack(">I", len(one)) + one.encode() for one in lists) + bytes(5)
    padding = 12 - (len(payload) + 5) % 8
    return struct.pack(">IB", len(payload) + padding + 1, padding) + payload + bytes(padding)


def dhcp(capture, reply, options):
    """A message of DHCP."""
    yours = bytes([10, 0, 0, 11]) if reply else bytes(4)
    head = struct.pack(">BBBBIHH4x4s8x", 1 + reply, 1, 6, 0, 0x1234, 0, 0, yours)
    data = head + bytes.fromhex("020000000001") + bytes(202) + b"\x63\x82\x53\x63" + options + b"\xff"
    ends = (ROUTER, 67, HOST, 68) if reply else ("0.0.0.0", 68, "255.255.255.255", 67)
    capture.datagram(*ends, data)


def ntp(mode, stratum, reference, transmit):
    """A message of NTP, version 4."""
    stamp = ((2_208_988_800 + BEGIN) << 32) + transmit
    return struct.pack(">BBbbII4s4Q", 0x20 | mode, stratum, 6, -20, 0, 0, reference, 0, 0, 0, stamp)


MAIL = (
    b"From: A <a@one.example>\r\nTo: B <b@two.example>\r\nSubject: A picture\r\nMessage-ID: <1@one.example>\r\n"
    b"Content-Type: multipart/mixed; boundary=cut\r\n\r\n--cut\r\n\r\nSee below.\r\n--cut\r\n"
    b"Content-Type: image/gif\r\nContent-Transfer-Encoding: base64\r\n"
    b'Content-Disposition: attachment; filename="dot.gif"\r\n\r\n'
    + base64.b64encode(b"GIF89a\x01\0\x01\0\0\0\0;")
    + b"\r\n--cut--\r\n.\r\n"
)


def gtp(capture, reply, elements):
    """A message of GTP-C, version 2."""
    head = struct.pack(">BBHII", 0x48, 32 + reply, len(elements) + 8, 0, 1 << 8)
    ends = (GATEWAY, 2123, HOST, 2123) if reply else (HOST, 2123, GATEWAY, 2123)
    capture.datagram(*ends, head + elements)


def packets():
    """All packets, with their times."""
    """Write the capture."""
    capture = Capture()
    dhcp(capture, 0, b"\x35\x01\x01\x0c\x06laptop\x37\x03\x01\x03\x06")
    dhcp(capture, 1, b"\x35\x01\x02\x36\x04\x0a\0\0\x01\x33\x04\0\0\x0e\x10\x03\x04\x0a\0\0\x01")
    capture.datagram(HOST, 123, SERVER, 123, ntp(3, 0, bytes(4), 0))
    capture.datagram(SERVER, 123, HOST, 123, ntp(4, 1, b"GPS\0", 1 << 31))
    capture.add(IP(src=HOST, dst=SERVER) / ICMP(type=8, id=7, seq=1) / Raw(b"ping"))
    capture.add(IP(src=SERVER, dst=HOST) / ICMP(type=0, id=7, seq=1) / Raw(b"ping"), near=False)

    ssh = Connection(capture, HOST, 50001, SERVER, 22)
    ssh.says(b"<SSH-2.0-OpenSSH_9.2\r\n", b">SSH-2.0-example\r\n", b">" + kexinit("aes128-ctr"))
    ssh.says(b"<" + kexinit("aes256-ctr,aes128-ctr"))
    ssh.close()

    ftp = Connection(capture, HOST, 50002, SERVER, 21)
    ftp.says(b"<220 ready\r\n", b">USER anonymous\r\n", b"<331 mail address\r\n", b">PASS a@one.example\r\n")
    ftp.says(b"<230 welcome\r\n", b">EPSV\r\n", b"<229 passive (|||51000|)\r\n", b">RETR pub/notes.txt\r\n")
    data = Connection(capture, HOST, 50003, SERVER, 51000)
    ftp.says(b"<150 here it comes\r\n")
    data.says(b"<Notes of today.\n")
    data.close()
    ftp.says(b"<226 sent\r\n", b">QUIT\r\n", b"<221 bye\r\n")
    ftp.close()

    smtp = Connection(capture, HOST, 50004, SERVER, 25)
    smtp.says(
        b"<220 mx.two.example\r\n", b">EHLO one.example\r\n", b"<250 hello\r\n", b">MAIL FROM:<a@one.example>\r\n"
    )
    smtp.says(
        b"<250 ok\r\n", b">RCPT TO:<b@two.example>\r\n", b"<250 ok\r\n", b">DATA\r\n", b"<354 go on\r\n", b">" + MAIL
    )
    smtp.says(b"<250 queued\r\n", b">QUIT\r\n", b"<221 bye\r\n")
    smtp.close()

    end = b"\x57\0\x09\0\x87\0\0\0\x2a" + bytes([10, 0, 0, 11])
    gtp(capture, 0, b"\x01\0\x08\0" + bytes.fromhex("21436587092143f5") + b"\x47\0\x09\0\x08internet" + end)
    gtp(capture, 1, b"\x02\0\x02\0\x10\0" + end)
    inner = bytes(IP(src="10.9.0.5", dst=SERVER) / UDP(sport=4000, dport=9) / Raw(b"within"))
    capture.datagram(HOST, 2152, GATEWAY, 2152, struct.pack(">BBHI", 0x30, 255, len(inner), 42) + inner)
    return capture.packets


if __name__ == "__main__":
    wrpcap(str(Path(__file__).with_name("capture.pcap")), packets())
