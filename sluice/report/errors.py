"""Errors between a log and its files."""


class OutputError(Exception):
    """Rows cannot be written as requested; the message has the advice."""
