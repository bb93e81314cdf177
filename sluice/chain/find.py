"""The chain that a Python file describes."""

from __future__ import annotations

from pathlib import Path

from sluice.chain.description import Chain
from sluice.lang.errors import DescriptionError
from sluice.lang.userfile import execute, executed
from sluice.lang.where import Where


def find_chain(path: Path) -> Chain | None:
    """The chain of a file; None where it describes none. Raises DescriptionError for several, and what the file
    raises.
    """
    known = vars(execute(path))
    named = known.get("chain")
    if isinstance(named, Chain):
        return named
    found = {id(value): (name, value) for name, value in known.items() if isinstance(value, Chain)}
    if len(found) > 1:
        names = ", ".join(sorted(name for name, _ in found.values()))
        raise DescriptionError(
            f"several variables are chains ({names})", "call the one that is meant `chain`.", Where(str(path), 1)
        )
    return next((chain for _, chain in found.values()), None)


def describes_chain(path: Path) -> bool:
    """Whether a Python file describes a chain. A file that does not import this package is not executed for that."""
    if path.suffix != ".py" or not path.is_file() or b"sluice.chain" not in path.read_bytes():
        return False
    return any(isinstance(value, Chain) for value in vars(executed(path)).values())
