"""The error of this folder."""


class AnalyzeError(Exception):
    """A build, a module or a description that cannot be used; the message has the advice."""
