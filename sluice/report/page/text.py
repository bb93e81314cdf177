"""Text from the network in its displayed form, and numbers with units."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MOST = 240
"""Characters of a text that are shown."""
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Characters that would not be seen, change the direction of later text, or are no text: shown by their numbers."""


def visible(value: object, most: int = MOST) -> str:
    """A text as a page may show it: on one line, without invisible characters, and cut, with its length."""
    text = value if isinstance(value, str) else str(value)
    length = len(text)
    shown = revealed(text[:most])
    return shown if length <= most else f"{shown}… ({length:,} characters)"


def revealed(text: str) -> str:
    """A text whose characters that would not be seen, or would change the direction of others, are shown by number."""
    return _HIDDEN.sub(_number, text)


def _number(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def count(number: int) -> str:
    """A number with separators."""
    return f"{number:,}"


def many(number: int, one: str, several: str | None = None) -> str:
    """A number with its noun: many(1, "flow") is "1 flow"."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def size(octets: float) -> str:
    """Bytes with a unit, in three digits."""
    if octets < 1000:
        return f"{int(octets)} B"
    for unit in ("kB", "MB", "GB", "TB", "PB", "EB"):
        octets /= 1000
        if octets < 999.5 or unit == "EB":
            break
    return f"{octets:.{0 if octets >= 99.95 else 1 if octets >= 9.995 else 2}f} {unit}"


def rate(octets: int, nanoseconds: int) -> str:
    """Bits per second with a unit; empty for no time."""
    if nanoseconds <= 0:
        return ""
    bits = octets * 8e9 / nanoseconds
    for unit in ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"):
        if bits < 999.5 or unit == "Tbit/s":
            break
        bits /= 1000
    return f"{bits:.{0 if bits >= 99.5 else 1}f} {unit}"


def duration(nanoseconds: int) -> str:
    """A span of time with a unit, in about three digits."""
    seconds = nanoseconds / 1e9
    if seconds < 1e-3:
        return f"{nanoseconds / 1e3:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.{1 if seconds < 0.1 else 0}f} ms"
    if seconds < 120:
        return f"{seconds:.{2 if seconds < 10 else 1}f} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days:,} d {hours} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"


def share(part: int, whole: int) -> str:
    """A part as percent."""
    if not part or not whole:
        return "0 %"
    percent = 100 * part / whole
    return "<0.1 %" if percent < 0.1 else f"{percent:.{0 if percent >= 99.95 else 1}f} %"


def nanoseconds(text: str) -> int:
    """A time or duration of a row, in nanoseconds: seconds with nine decimals."""
    whole, _, decimals = text.partition(".")
    return int(whole + decimals.ljust(9, "0")[:9])


def when(time: int, decimals: int = 3) -> str:
    """A time in UTC, as 2024-05-17 10:00:00.123; beyond the year 9999, seconds."""
    seconds, rest = divmod(time, 10**9)
    try:
        shown = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        shown = f"{seconds:,} s"
    return f"{shown}.{rest:09}"[: len(shown) + 1 + decimals] if decimals else shown


def end(address: str | None, port: int | None) -> str:
    """An end of a flow: address:port, [address]:port for IPv6, without a port where there is none."""
    name = address or "?"
    if port is None:
        return name
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
