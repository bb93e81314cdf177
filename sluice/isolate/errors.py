"""The error of this package."""

from __future__ import annotations


class IsolateError(Exception):
    """What was requested cannot be done on this machine or with these arguments; the message says what to do."""
