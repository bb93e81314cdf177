"""What goes wrong with a store."""


class StoreError(Exception):
    """A store that cannot be used: it is away, of a wrong version, or refuses; the message says what to do."""
