"""Elements of HTML. All text is escaped, and without invisible characters: a value that is no Html is text."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

from sluice.report.page.text import revealed

_VOID = frozenset({"meta", "line", "rect", "circle", "path", "input"})


class Html(str):
    """Text that is HTML. Made by this module, and by nothing else."""

    __slots__ = ()


Content = Any
"""Html, a text, a number, None, or a list of them."""


def element(name: str, /, *contents: Content, **attributes: object) -> Html:
    """An element. An attribute's trailing underscore is left out, other ones become hyphens; None and False: none."""
    shown = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _VOID and not contents:
        return Html(f"<{name}{shown}>" if name in ("meta", "input") else f"<{name}{shown}/>")
    return Html(f"<{name}{shown}>{joined(contents)}</{name}>")


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(revealed(str(value)), quote=True)}"'


def joined(contents: Iterable[Content]) -> Html:
    """Contents one after the other."""
    return Html("".join(_escaped(content) for content in contents))


def _escaped(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Html):
        return content
    if isinstance(content, (list, tuple)):
        return joined(content)  # pyright: ignore[reportUnknownArgumentType]
    return html.escape(revealed(str(content)), quote=False)


def foreign(text: object, **attributes: object) -> Html:
    """A text from the network: its direction does not affect the surrounding text."""
    return element("bdi", text, **attributes)


def data(name: str, value: object) -> Html:
    """An element that carries a value as JSON. No text in it can end the element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{name}">{text}</script>')


def own(name: str, text: str, /, **attributes: object) -> Html:
    """A style or script of this package. Must not contain its own end."""
    assert f"</{name}" not in text.lower()
    shown = "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{name}{shown}>{text}</{name}>")
