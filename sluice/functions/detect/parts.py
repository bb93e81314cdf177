"""The parts of a rule, and the groups that they are searched in.

A part is what one evaluation decides: the options on the stream, those on the buffers of one HTTP message, or those on
one packet. A rule on streams that has two of them alerts where both hold on the same side of a connection. A group has
one multi-pattern database: of each of its parts one content, the fast pattern, is searched, and where that is found the
part is evaluated. Parts without such a content are evaluated always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sluice.functions.detect import buffers
from sluice.functions.detect.model import ICMP, ONLY_STREAM, TCP, UDP, Content, Match, Pcre, Rule

STREAM, TCP_PACKET, UDP_PACKET, ICMP_PACKET = range(4)
HTTP = 3
HTTP_ALWAYS = HTTP + buffers.COUNT
GROUPS = HTTP_ALWAYS + 1
"""The groups: the stream, packets by protocol, HTTP's buffers (HTTP + the buffer), and HTTP without a pattern."""

ON_STREAM, ON_HTTP = 1, 2
"""Bits of Part.bit: which part of its rule it is."""

FAST_MOST = 255
"""Bytes of a fast pattern; of longer contents the beginning is searched."""


@dataclass
class Part:
    """A part of rule number `rule`. bit: ON_STREAM or ON_HTTP; 0 for one that is the whole rule on a packet.

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
    def whole(self) -> bool:
        """Whether it is decided at the end of a block of the stream: bytes that follow may undo it."""
        following = self.matches[1:]
        undone = any(match.negated for match in self.matches)
        undone |= any(isinstance(match, Pcre) and match.whole for match in self.matches)
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
    """All parts, and of each group the parts that have a pattern and those that have none."""

    parts: list[Part] = field(default_factory=lambda: list[Part]())
    searched: list[list[int]] = field(default_factory=lambda: [[] for _ in range(GROUPS)])
    always: list[list[int]] = field(default_factory=lambda: [[] for _ in range(GROUPS)])


def group(rules: Sequence[Rule]) -> Groups:
    """The groups of all rules."""
    found = Groups()
    for number, rule in enumerate(rules):
        for part in parts_of(number, rule):
            found.parts.append(part)
            (found.searched if part.fast else found.always)[part.group].append(len(found.parts) - 1)
    return found


def parts_of(number: int, rule: Rule) -> Iterator[Part]:
    """The parts of a rule."""
    payload = [match for match in rule.matches if match.buffer == buffers.PAYLOAD]
    http = sorted((match for match in rule.matches if match.buffer != buffers.PAYLOAD), key=lambda match: match.buffer)
    if rule.protocols & TCP:
        if rule.of_packets:
            yield Part(number, 0, payload, TCP_PACKET, _fast(payload))
        else:
            if payload:
                bits_undo = any(bit.action == "isnotset" for bit in rule.flowbits)
                yield Part(number, ON_STREAM, payload, STREAM, _fast(payload), bits_undo)
            if http or rule.http:
                fast = _fast(http)
                yield Part(number, ON_HTTP, http, HTTP + fast.buffer if fast else HTTP_ALWAYS, fast)
    if rule.flow & ONLY_STREAM or http or rule.http:  # without its HTTP options, a rule on packets would hold always
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
    """What is searched of a fast pattern."""
    if content.fast_slice is not None:
        offset, length = content.fast_slice
        return content.text[offset : offset + length][:FAST_MOST]
    return content.text[:FAST_MOST]
