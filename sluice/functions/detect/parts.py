"""The parts of a rule, and the groups that they are searched in.

A part is decided by one evaluation: the options on the stream, those on the buffers of one HTTP message, or those on
one packet. A rule on streams that has two of them alerts where both hold on the same side of a connection. A group has
one multi-pattern database: of each of its parts one content, the fast pattern, is searched, and where that is found the
part is evaluated. Parts without such a content are evaluated always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sluice.functions.detect import buffers
from sluice.functions.detect.model import (
    ICMP,
    ONLY_STREAM,
    STREAMS,
    TCP,
    TO_CLIENT,
    TO_SERVER,
    UDP,
    Bytes,
    Content,
    Match,
    Pcre,
    Rule,
)
from sluice.functions.detect.port_groups import PortMap, port_groups
from sluice.functions.detect.ranges import Ranges, union

STREAM, TCP_PACKET, UDP_PACKET, ICMP_PACKET = range(4)
HTTP = 3
HTTP_ALWAYS, IP_PACKET, TLS_NAME, TLS_ALWAYS, DNS_NAME, DNS_ALWAYS = range(15, 21)
FIXED = 21
"""The groups: the stream, packets by protocol, HTTP's buffers (HTTP + the buffer), HTTP without a pattern, packets of
IP, TLS's server name, TLS without a pattern, names of DNS queries, DNS without a pattern. From FIXED on there are those
that ports make of the first three.
"""

ON_STREAM, ON_HTTP, ON_TLS, ON_DNS = 1, 2, 4, 8
"""Bits of Part.bit: which part of its rule it is."""

PORTED = (STREAM, TCP_PACKET, UDP_PACKET)
"""The groups that are divided by the ports of servers."""

FAST_MOST = 255
"""Bytes of a fast pattern; of longer contents the beginning is searched."""


@dataclass
class Part:
    """A part of rule number `rule`. bit: ON_STREAM, ...; 0 for one that is the whole rule on a packet.

    matches: those of a buffer follow each other. bits_undo: a bit of the flow that is set afterwards may undo it.
    """

    rule: int
    bit: int
    matches: Sequence[Match]
    group: int
    fast: Content | None
    bits_undo: bool = False

    @property
    def needs_body(self) -> bool:
        """Whether it is decided at the end of a message, not of its head."""
        return any(match.buffer == buffers.CLIENT_BODY for match in self.matches)

    @property
    def sides(self) -> int:
        """Of which messages it is: 1 requests, 2 responses."""
        used = {match.buffer for match in self.matches}
        if self.bit != ON_HTTP:
            return 3
        return 1 if used & buffers.REQUEST_ONLY else 2 if used & buffers.RESPONSE_ONLY else 3

    @property
    def alone(self) -> bool:
        """Whether its fast pattern is all of it, so that no bytes but these decide. Its place may be bounded."""
        if len(self.matches) != 1 or self.fast is None or self.whole:
            return False
        return not self.fast.relative and self.fast.fast_slice is None and len(self.fast.text) <= FAST_MOST

    @property
    def whole(self) -> bool:
        """Whether it is decided at the end of a block of the stream: bytes that follow may undo it."""
        following = self.matches[1:]
        undone = any(match.negated for match in self.matches)
        undone |= any(isinstance(match, Pcre) and match.whole for match in self.matches)
        undone |= any(isinstance(match, Bytes) and match.start == "from_end" for match in self.matches)
        return (
            self.bits_undo
            or undone
            or any(
                isinstance(match, Pcre) and after.relative
                for match, after in zip(self.matches, following, strict=False)
            )
        )


@dataclass
class Groups:
    """All parts, and of each group the parts that have a pattern and those that have none.

    ports: of each group of PORTED, for the packets of clients and for those of servers, the group of each port.
    """

    parts: list[Part] = field(default_factory=lambda: list[Part]())
    searched: list[list[int]] = field(default_factory=lambda: [[] for _ in range(FIXED)])
    always: list[list[int]] = field(default_factory=lambda: [[] for _ in range(FIXED)])
    ports: list[tuple[PortMap, PortMap]] = field(default_factory=lambda: list[tuple[PortMap, PortMap]]())

    def add(self, part: int, group: int) -> None:
        """Add a part to a group."""
        (self.searched if self.parts[part].fast else self.always)[group].append(part)


def group(rules: Sequence[Rule]) -> Groups:
    """The groups of all rules."""
    found = Groups()
    ported: dict[int, list[int]] = {which: [] for which in PORTED}
    for number, rule in enumerate(rules):
        for part in parts_of(number, rule):
            found.parts.append(part)
            if part.group in ported:
                ported[part.group].append(len(found.parts) - 1)
            else:
                found.add(len(found.parts) - 1, part.group)
    known: dict[tuple[int, ...], int] = {}
    for which in PORTED:
        maps: list[PortMap] = []
        for side in (0, 1):
            wanted = [(part, _server_ports(rules[found.parts[part].rule], side)) for part in ported[which]]
            sets = port_groups([(part, ports) for part, ports in wanted if ports])
            for _, members in sets:
                if members not in known:
                    known[members] = len(found.searched)
                    found.searched.append([])
                    found.always.append([])
                    for part in members:
                        found.add(part, known[members])
            maps.append(tuple((low, known[members]) for low, members in sets))
        found.ports.append((maps[0], maps[1]))
    return found


def _server_ports(rule: Rule, side: int) -> Ranges:
    """The ports of servers that packets of clients (0) or servers (1) may have where a rule is about them."""
    if rule.flow & (TO_SERVER if side else TO_CLIENT):
        return ()
    own, other = (rule.sports, rule.dports) if side else (rule.dports, rule.sports)
    return union([*own, *other]) if rule.both_directions else own


def parts_of(number: int, rule: Rule) -> Iterator[Part]:
    """The parts of a rule."""
    if rule.of_ip:
        yield Part(number, 0, rule.matches, IP_PACKET, None)
        return
    payload = [match for match in rule.matches if match.buffer == buffers.PAYLOAD]
    http = sorted((match for match in rule.matches if match.buffer in buffers.HTTP), key=lambda match: match.buffer)
    tls = sorted((match for match in rule.matches if match.buffer in buffers.TLS), key=lambda match: match.buffer)
    dns = [match for match in rule.matches if match.buffer in buffers.DNS]
    if rule.of_packets:
        if rule.protocols & TCP:
            yield Part(number, 0, payload, TCP_PACKET, _fast(payload))
    elif rule.protocols & STREAMS:
        if payload:
            bits_undo = any(bit.action == "isnotset" for bit in rule.flowbits)
            yield Part(number, ON_STREAM, payload, STREAM, _fast(payload), bits_undo)
        if http or rule.http:
            fast = _fast(http)
            yield Part(number, ON_HTTP, http, HTTP + fast.buffer if fast else HTTP_ALWAYS, fast)
        if tls:
            fast = _fast(tls)
            yield Part(number, ON_TLS, tls, TLS_NAME if fast else TLS_ALWAYS, fast)
        if dns:
            fast = _fast(dns)
            yield Part(number, ON_DNS, dns, DNS_NAME if fast else DNS_ALWAYS, fast)
    if rule.flow & ONLY_STREAM or http or tls or rule.http:  # a rule on packets would hold always without these
        return
    if rule.protocols & UDP and dns:
        fast = _fast(dns)
        yield Part(number, 0, [*payload, *dns], DNS_NAME if fast else DNS_ALWAYS, fast)
        return
    for protocol, where in ((UDP, UDP_PACKET), (ICMP, ICMP_PACKET)):
        if rule.protocols & protocol:
            yield Part(number, 0, payload, where, _fast(payload))


def _fast(matches: Sequence[Match]) -> Content | None:
    """The content to search: the one that is marked, else the longest that must occur."""
    contents = [match for match in matches if isinstance(match, Content) and not match.negated]
    marked = [content for content in contents if content.fast]
    return max(marked or contents, key=lambda content: len(content.text), default=None)


def fast_text(content: Content) -> bytes:
    """The bytes of a fast pattern that are searched."""
    if content.fast_slice is not None:
        offset, length = content.fast_slice
        return content.text[offset : offset + length][:FAST_MOST]
    return content.text[:FAST_MOST]
