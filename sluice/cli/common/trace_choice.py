"""Selects packets of a trace by number and by the ends of a flow."""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class FlowEnd:
    """One end of a flow: an address as text, a port, or both."""

    address: str | None
    port: int | None

    def is_in(self, key: Mapping[str, object]) -> bool:
        """Whether the key of an instance has this end, as the sender or as the receiver."""
        return self._is(key, "src", "sport") or self._is(key, "dst", "dport")

    def _is(self, key: Mapping[str, object], address: str, port: str) -> bool:
        return self.address in (None, key.get(address)) and self.port in (None, key.get(port)) and address in key


def read_flow(text: str) -> list[FlowEnd]:
    """Parse one end, or two separated by a comma: A:P, A, :P or [A]:P. Raises argparse.ArgumentTypeError."""
    ends = [_read_end(item.strip()) for item in text.split(",")]
    if len(ends) > 2:
        raise argparse.ArgumentTypeError(f"'{text}': a flow has two ends")
    return ends


def _read_end(text: str) -> FlowEnd:
    match = re.fullmatch(r"(?:\[(?P<six>[^]]+)\]|(?P<four>[^:]*))(?::(?P<port>\d+))?", text)
    address = (match["six"] or match["four"]) if match else text  # an IPv6 address without brackets
    port = int(match["port"]) if match and match["port"] else None
    if (not address and port is None) or (port or 0) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no end of a flow; write 10.0.0.1:80, [2001:db8::1]:80 or :80")
    try:
        return FlowEnd(str(ipaddress.ip_address(address)) if address else None, port)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}': '{address}' is no address of IPv4 or IPv6") from None


def packet_range(text: str) -> tuple[int, int | None]:
    """Parse N, N-M, N- or -M into the first and last number. Raises argparse.ArgumentTypeError."""
    match = re.fullmatch(r"(\d*)(-?)(\d*)", text)
    if match is None or not (match[1] or match[3]):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of a packet; write 17, or 17-20, 17- or -20")
    first = int(match[1] or 1)
    last = int(match[3]) if match[3] else None if match[2] else first
    if first < 1 or (last is not None and last < first):
        raise argparse.ArgumentTypeError(f"'{text}': packets are numbered from 1, and the first is not after the last")
    return first, last
