"""Errors of a store."""


class StoreError(Exception):
    """A store that cannot be used: it is not reachable, of a wrong version, or refuses; the message has the advice."""
