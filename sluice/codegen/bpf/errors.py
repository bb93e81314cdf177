"""Why a program for the kernel is not written, or does not decide."""

from __future__ import annotations


class UnsuitableError(Exception):
    """The dispatch of a stack cannot be a program of the kernel. The text is the reason."""


class UndecidedError(Exception):
    """A program of the kernel cannot decide from here on."""
