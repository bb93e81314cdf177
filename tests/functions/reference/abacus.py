"""How much TCP data was retransmitted and reordered: abacus.py CAPTURE

Prints one JSON line for each direction of a connection with a retransmitted or reordered segment, in the order of the
connections' first packets, the active side first; src is the sender:

segments              segments with payload
retransmitted         those with at least one byte that was sent before in this direction
retransmitted_bytes   the bytes sent before
reordered             those with at least one new byte that begin below the largest end position so far (RFC 4737,
                      section 3.3: s < NextExp); SYN and FIN count one each in that end
extent                the largest distance in bytes from where a reordered segment begins up to that largest end
"""

import json
import sys
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass

from tests.functions.reference.tcp_segments import FIN, RST, SYN, Connection, Endpoint, place_segments


@dataclass
class Count:
    """What is counted for one direction."""

    src: str
    sport: int
    dst: str
    dport: int
    segments: int = 0
    retransmitted: int = 0
    retransmitted_bytes: int = 0
    reordered: int = 0
    extent: int = 0


class Direction:
    """One direction of a connection: its counts, the positions sent so far, and the largest end position so far."""

    def __init__(self, sender: Endpoint, receiver: Endpoint) -> None:
        self.count = Count(*sender, *receiver)
        self._starts: list[int] = []  # of the disjoint ranges sent so far, ascending; ranges that touch are joined
        self._ends: list[int] = []
        self._largest_end: int | None = None

    def _send(self, start: int, end: int) -> int:
        """Mark the positions from start up to end as sent; return how many of them were sent before."""
        low, high = bisect_left(self._ends, start), bisect_right(self._starts, end)
        ranges = list(zip(self._starts[low:high], self._ends[low:high], strict=True))
        known = sum(min(end, old_end) - max(start, old_start) for old_start, old_end in ranges)
        self._starts[low:high] = [min([start, *self._starts[low:high]])]
        self._ends[low:high] = [max([end, *self._ends[low:high]])]
        return known

    def add(self, position: int, length: int, end: int) -> None:
        """Count a segment: its payload, and its end position, which includes a FIN."""
        if length:
            known = self._send(position, position + length)
            self.count.segments += 1
            self.count.retransmitted += known > 0
            self.count.retransmitted_bytes += known
            if known < length and self._largest_end is not None and position < self._largest_end:
                self.count.reordered += 1
                self.count.extent = max(self.count.extent, self._largest_end - position)
        self._largest_end = end if self._largest_end is None else max(self._largest_end, end)


def count(path: str) -> list[Count]:
    """The counts of all directions in a capture file with a retransmitted or reordered segment."""
    directions: dict[Connection, dict[bool, Direction]] = {}  # by connection and whether sent by its active side
    for segment in place_segments(path):
        connection = segment.connection
        active, passive = connection.active, connection.passive
        if connection not in directions:
            directions[connection] = {True: Direction(active, passive), False: Direction(passive, active)}
        moves = segment.length or segment.flags & (SYN | FIN)  # an acknowledgement says nothing of what was sent
        if moves and not segment.flags & RST:
            directions[connection][segment.from_active].add(segment.position, segment.length, segment.end)
    counts = [direction.count for both in directions.values() for direction in both.values()]
    return [entry for entry in counts if entry.retransmitted or entry.reordered]


if __name__ == "__main__":
    for line in count(sys.argv[1]):
        print(json.dumps(asdict(line)))
