"""QUIC traffic made by aioquic: a client and a server over a link that loses, delays and reorders, in virtual time.

Both ends are aioquic's own connections, driven datagram by datagram: what one sends goes into the capture, as Ethernet
frames, and, unless it is lost, to the other. A change of the client's address is a migration, as by a NAT.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import StreamDataReceived
from aioquic.quic.packet import QuicProtocolVersion, encode_quic_retry
from aioquic.tls import CipherSuite, SessionTicket
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.packets import eth, ip4, udp

VERSIONS = {1: QuicProtocolVersion.VERSION_1, 2: QuicProtocolVersion.VERSION_2}
CIPHERS = {
    "aes128": CipherSuite.AES_128_GCM_SHA256,
    "aes256": CipherSuite.AES_256_GCM_SHA384,
    "chacha20": CipherSuite.CHACHA20_POLY1305_SHA256,
}
CLIENT, MOVED, SERVER = (bytes([10, 0, 0, 1]), 50000), (bytes([10, 0, 9, 7]), 61234), (bytes([10, 0, 0, 2]), 443)
NAME = "relay.example"


@cache
def certificate() -> tuple[Any, Any]:
    """A certificate for the server, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    today = datetime.datetime(2026, 1, 1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(today).not_valid_after(today + datetime.timedelta(days=36500))
    return builder.sign(key, hashes.SHA256()), key


@dataclass
class Traffic:
    """What went over the link, and what the applications sent: by stream id, from client and from server."""

    packets: list[bytes] = field(default_factory=lambda: [])
    times: list[float] = field(default_factory=lambda: [])
    keylog: str = ""
    sent: dict[tuple[int, int], bytes] = field(default_factory=lambda: {})
    received: dict[tuple[int, int], bytearray] = field(default_factory=lambda: {})
    ticket: SessionTicket | None = None


@dataclass
class Link:
    """How bad it is: the share of datagrams that get lost (after they were captured) and that are late."""

    loss: float = 0.0
    late: float = 0.0
    seed: int = 1


Step = Callable[["Run"], None]


class Run:
    """One connection. `steps` are done one by one, each when nothing is under way any more."""

    def __init__(
        self,
        version: int,
        cipher: str,
        link: Link,
        retry: bool,
        ticket: Any,
        tickets: dict[bytes, Any],
        id_lengths: tuple[int, int] = (8, 8),
    ) -> None:
        self.traffic = Traffic()
        self.random = random.Random(link.seed)
        self.link = link
        self.now = 0.0
        self.wire: list[tuple[float, int, int, bytes, tuple[bytes, int]]] = []
        self.client_address = CLIENT
        self.secrets = StringIO()
        client_ids, self.server_ids = id_lengths
        configuration = QuicConfiguration(
            is_client=True,
            connection_id_length=client_ids,
            alpn_protocols=["test-1", "test-2"],
            server_name=NAME,
            secrets_log_file=self.secrets,
            original_version=VERSIONS[version],
            supported_versions=[VERSIONS[version]],
            cipher_suites=[CIPHERS[cipher]],
            session_ticket=ticket,
            verify_mode=0,  # pyright: ignore[reportArgumentType]
        )
        self.client = QuicConnection(
            configuration=configuration, session_ticket_handler=lambda ticket: setattr(self.traffic, "ticket", ticket)
        )
        if client_ids == 0:
            self._give_no_ids(self.client)
        self.server: QuicConnection | None = None
        self.retry = retry
        self.tickets = tickets

    def run(self, steps: list[Step]) -> Traffic:
        """The whole of it."""
        self.client.connect(SERVER, now=self.now)
        self._settle()
        for step in steps:
            step(self)
            self._settle()
        self.client.close()
        self._settle()
        self.traffic.keylog = self.secrets.getvalue()
        return self.traffic

    def send(self, stream: int, data: bytes, from_server: bool = False) -> None:
        """An application sends all of a stream's direction."""
        end = self.server if from_server else self.client
        assert end is not None
        end.send_stream_data(stream, data, end_stream=True)
        self.traffic.sent[stream, int(from_server)] = data

    # --- the link -----------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Until nobody has anything to send, and nothing is on its way."""
        for _ in range(20_000):
            self._flush()
            timers = [end.get_timer() for end in (self.client, self.server) if end is not None]
            times = [at for at in timers if at is not None and at < self.now + 5] + [item[0] for item in self.wire]
            if not times:
                return
            self.now = max(self.now, min(times)) + 1e-5  # timers of aioquic need a little more than their time
            while self.wire and self.wire[0][0] <= self.now:
                _, _, to_server, data, source = self.wire.pop(0)
                self._deliver(to_server, data, source)
            for end in (self.client, self.server):
                timer = None if end is None else end.get_timer()
                if end is not None and timer is not None and timer <= self.now:
                    end.handle_timer(now=self.now)
            if self._idle():
                return
        raise AssertionError("the traffic does not end")

    def _idle(self) -> bool:
        if self.wire:
            return False
        self._flush()
        wanted = {key: len(data) for key, data in self.traffic.sent.items()}
        got = {key: len(data) for key, data in self.traffic.received.items() if key in wanted}
        return not self.wire and wanted == got and self.now > 0.2

    def _flush(self) -> None:
        for to_server, end in ((1, self.client), (0, self.server)):
            if end is None:
                continue
            for data, address in end.datagrams_to_send(now=self.now):
                source = self.client_address if to_server else SERVER
                target = SERVER if to_server else address
                self._capture(data, source, target)
                if self.random.random() < self.link.loss:
                    continue
                delay = 0.01 + (0.05 * self.random.random() if self.random.random() < self.link.late else 0.0)
                self.wire.append((self.now + delay, len(self.traffic.packets), to_server, data, source))
        self.wire.sort(key=lambda item: item[:2])

    def _capture(self, data: bytes, source: tuple[bytes, int], target: tuple[bytes, int]) -> None:
        datagram = udp(source[1], target[1], data)
        self.traffic.packets.append(eth(ip4(datagram, 17, source[0], target[0])))
        self.traffic.times.append(self.now)

    def _deliver(self, to_server: int, data: bytes, source: tuple[bytes, int]) -> None:
        if to_server and self.server is None and not self._begin_server(data, source):
            return
        end = self.server if to_server else self.client
        assert end is not None
        end.receive_datagram(data, source, now=self.now)
        for side, other in ((0, self.server), (1, self.client)):
            while other is not None and (event := other.next_event()) is not None:
                if isinstance(event, StreamDataReceived):
                    self.traffic.received.setdefault((event.stream_id, side), bytearray()).extend(event.data)

    def _begin_server(self, data: bytes, source: tuple[bytes, int]) -> bool:
        """The server is made from the first packet; with `retry` from the one after a Retry."""
        own, theirs = data[6 : 6 + data[5]], data[7 + data[5] : 7 + data[5] + data[6 + data[5]]]
        if self.retry and not self.traffic.keylog:
            self.traffic.keylog = "retried"
            self.first_id = own
            packet = encode_quic_retry(
                version=int.from_bytes(data[1:5], "big"),
                source_cid=b"retryid1",
                destination_cid=theirs,
                original_destination_cid=own,
                retry_token=b"a token",
            )
            self._capture(packet, SERVER, source)
            self.wire.append((self.now + 0.01, len(self.traffic.packets), 0, packet, SERVER))
            return False
        chain, key = certificate()
        configuration = QuicConfiguration(
            is_client=False,
            connection_id_length=self.server_ids,
            alpn_protocols=["test-1"],
            certificate=chain,
            private_key=key,
        )
        self.server = QuicConnection(
            configuration=configuration,
            original_destination_connection_id=self.first_id if self.retry else own,
            retry_source_connection_id=b"retryid1" if self.retry else None,
            session_ticket_fetcher=lambda label: self.tickets.pop(label, None),
            session_ticket_handler=lambda ticket: self.tickets.__setitem__(ticket.ticket, ticket),
        )
        if self.server_ids == 0:
            self._give_no_ids(self.server)
        return True

    @staticmethod
    def _give_no_ids(end: QuicConnection) -> None:
        """A side without an id must not send NEW_CONNECTION_ID (RFC 9000, 19.15), which aioquic does not mind."""
        end._replenish_connection_ids = lambda: None  # pyright: ignore[reportPrivateUsage]


def make(
    *steps: Step,
    version: int = 1,
    cipher: str = "aes128",
    link: Link | None = None,
    retry: bool = False,
    ticket: Any = None,
    tickets: dict[bytes, Any] | None = None,
    id_lengths: tuple[int, int] = (8, 8),
) -> Traffic:
    """A connection in which the steps are done one by one, and all that it sent arrived.

    id_lengths: bytes of the connection ids of client and server, 0 to 20.
    """
    run = Run(version, cipher, link or Link(), retry, ticket, tickets if tickets is not None else {}, id_lengths)
    made = run.run(list(steps))
    for key, data in made.sent.items():
        assert bytes(made.received.get(key, b"")) == data, f"aioquic itself did not bring stream {key} over"
    return made
