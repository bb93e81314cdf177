"""Who is charged for how many TCP payload bytes: account.py CAPTURE

Prints one JSON line for each subscriber (the address of the active side of a connection), sorted by address text:
the number of its connections, and all their payload bytes, each counted in one of four places:

up, down        bytes at positions never sent before in that direction, from the active and from the passive side
retransmitted   bytes at positions sent before, with the same content as far as both contents were captured
abuse           bytes at positions sent before, in segments in which any of these bytes differs from its first copy
"""

import json
import sys
from dataclasses import asdict, dataclass

from tests.functions.reference.tcp_segments import Connection, place_segments

PAGE = 4096
NEW, CAPTURED, CUT = 0, 1, 2  # what is known of a byte: nothing, its content, only that it was sent


@dataclass
class Account:
    """What one subscriber is charged for, and what it is not."""

    subscriber: str
    connections: int = 0
    up: int = 0
    down: int = 0
    retransmitted: int = 0
    abuse: int = 0


class FirstCopies:
    """The first copy of every byte sent in one direction, kept in pages of (state, content)."""

    def __init__(self) -> None:
        self._pages: dict[int, tuple[bytearray, bytearray]] = {}

    def add(self, position: int, length: int, data: bytes) -> tuple[int, bool]:
        """Add a segment's payload; return how many of its bytes were sent before, and if any of them differs."""
        known, differs = 0, False
        states = bytes([CAPTURED]) * len(data) + bytes([CUT]) * (length - len(data))
        contents = data.ljust(length, b"\0")
        done = 0
        while done < length:
            number, start = divmod(position + done, PAGE)
            size = min(PAGE - start, length - done)
            if number not in self._pages:
                self._pages[number] = (bytearray(PAGE), bytearray(PAGE))
            old_states, old_contents = self._pages[number]
            for old, new in zip(range(start, start + size), range(done, done + size), strict=True):
                if old_states[old] == NEW:
                    old_states[old], old_contents[old] = states[new], contents[new]
                else:
                    known += 1
                    compared = old_states[old] == states[new] == CAPTURED
                    differs |= compared and old_contents[old] != contents[new]
            done += size
        return known, differs


def account(path: str) -> list[Account]:
    """The accounts of all subscribers in a capture file, sorted by address text."""
    accounts: dict[str, Account] = {}
    copies: dict[Connection, dict[bool, FirstCopies]] = {}  # by connection and whether sent by its active side
    for segment in place_segments(path):
        connection = segment.connection
        subscriber = accounts.setdefault(connection.active[0], Account(connection.active[0]))
        if connection not in copies:
            copies[connection] = {True: FirstCopies(), False: FirstCopies()}
            subscriber.connections += 1
        known, differs = copies[connection][segment.from_active].add(segment.position, segment.length, segment.data)
        if segment.from_active:
            subscriber.up += segment.length - known
        else:
            subscriber.down += segment.length - known
        if differs:
            subscriber.abuse += known
        else:
            subscriber.retransmitted += known
    return sorted(accounts.values(), key=lambda entry: entry.subscriber)


if __name__ == "__main__":
    for line in account(sys.argv[1]):
        print(json.dumps(asdict(line)))
