"""The error of this package."""

from __future__ import annotations


class IsolateError(Exception):
    """The request cannot be fulfilled on this machine or with these arguments; the message has the advice."""
