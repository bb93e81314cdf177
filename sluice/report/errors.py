"""What can go wrong between a log and its files."""


class OutputError(Exception):
    """Rows cannot be written as requested; the message says what to do."""
