"""The grammars included in Sluice, by name, and those of a user's file."""

from __future__ import annotations

from pathlib import Path

from sluice.service.grammar.declarations import FOLDER, SUFFIX, parse_grammars
from sluice.service.grammar.tree import Grammar
from sluice.service.lang.errors import Place, ServiceError, suggest


def ready_names() -> list[str]:
    """Names of the grammars included in Sluice."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def find_grammars(name: str) -> list[Grammar]:
    """The units of a grammar: of a name, or of a file. Raises ServiceError."""
    path = FOLDER / f"{name}{SUFFIX}" if name in ready_names() else Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ServiceError(Place(str(path), 1), "this is not text in UTF-8", "name a grammar.") from error
    except OSError as error:
        raise ServiceError(
            Place(name, 1), f"there is no grammar '{name}': {error.strerror}", suggest(name, ready_names())
        ) from error
    return parse_grammars(text, str(path))
