"""Modifiers of the content before them: how it is compared, where it is searched, and in which buffer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluice.functions.detect import buffers
from sluice.functions.detect.errors import RuleError
from sluice.functions.detect.lines import Option
from sluice.functions.detect.model import Content, Match

MODIFIERS = frozenset(
    {"nocase", "rawbytes", "offset", "depth", "distance", "within", "fast_pattern", *buffers.MODIFIERS}
)

_MOST = 1 << 24


def modify(option: Option, matches: Sequence[Match]) -> None:
    """Apply a modifier to the last content. Raises RuleError."""
    name, item = option.name, f"option '{option.name}'"
    content = matches[-1] if matches else None
    if not isinstance(content, Content):
        raise RuleError(
            option.place, item, "there is no content before it", "it belongs after the content that it is for."
        )
    if name in content.modified:
        raise RuleError(option.place, item, "the content before it has one already", "remove one of the two.")
    content.modified.add(name)
    if name in ("nocase", "rawbytes") or name in buffers.MODIFIERS:
        if option.value:
            raise RuleError(option.place, item, f"it takes no value, not '{option.value[:40]}'", f"write {name};")
        content.nocase |= name == "nocase"
        if name in buffers.MODIFIERS:
            _set_buffer(option, content)
        return
    if name == "fast_pattern":
        _fast(option, content)
        return
    value = _number(option)
    if name in ("offset", "depth") and content.relative:
        raise RuleError(option.place, item, "the content has distance or within already", "give a range of one kind.")
    if name in ("distance", "within") and (content.offset is not None or content.depth is not None):
        raise RuleError(option.place, item, "the content has offset or depth already", "give a range of one kind.")
    if isinstance(value, str):
        setattr(content, name, value)
        return
    if name in ("offset", "depth", "within") and value < 0:
        raise RuleError(option.place, item, f"{value} is below 0")
    if name in ("depth", "within") and value < len(content.text):
        raise RuleError(
            option.place,
            item,
            f"the content has {len(content.text)} bytes, which {value} cannot hold",
            "it never matches.",
        )
    setattr(content, name, value)


def _set_buffer(option: Option, content: Content) -> None:
    if content.buffer != buffers.PAYLOAD:
        raise RuleError(
            option.place,
            f"option '{option.name}'",
            f"the content is searched in the {buffers.NAMES[content.buffer]} already",
            "give one buffer to each content.",
        )
    if "rawbytes" in content.modified:
        raise RuleError(option.place, f"option '{option.name}'", "the content has rawbytes", "remove one of the two.")
    content.buffer = buffers.MODIFIERS[option.name]


def _number(option: Option) -> int | str:
    """A number of bytes, or the name of a variable."""
    value = option.value or ""
    if re.fullmatch(r"[A-Za-z_][\w.\-]*", value):
        return value
    if not re.fullmatch(r"-?[0-9]{1,9}", value) or abs(int(value)) > _MOST:
        raise RuleError(
            option.place,
            f"option '{option.name}'",
            f"'{value[:40]}' is no number of bytes up to {_MOST}",
            f"write {option.name}:10; or a name that byte_extract sets.",
        )
    return int(value)


def _fast(option: Option, content: Content) -> None:
    item = f"option '{option.name}'"
    content.fast = True
    content.unordered = option.value == "only"
    if content.unordered:  # it is searched by Snort's pattern matcher alone, which has no case
        content.nocase = True
    if option.value and not content.unordered:
        match = re.fullmatch(r"([0-9]{1,6})\s*,\s*([0-9]{1,6})", option.value)
        if match is None:
            raise RuleError(
                option.place, item, f"'{option.value[:40]}' is unknown", "write fast_pattern, :only, or :OFFSET,LENGTH."
            )
        offset, length = int(match[1]), int(match[2])
        if not length or offset + length > len(content.text):
            raise RuleError(
                option.place, item, f"the content has {len(content.text)} bytes, no {length} from {offset} on"
            )
        content.fast_slice = offset, length


def check_fast(matches: Sequence[Match]) -> None:
    """A negated content is no fast pattern: its absence would have to be searched. Raises RuleError."""
    fast = [match for match in matches if isinstance(match, Content) and match.fast]
    for content in fast:
        if content.negated:
            raise RuleError(
                content.place, "option 'fast_pattern'", "the content is negated", "give it to another content."
            )
        if content.unordered and content.modified & {"offset", "depth", "distance", "within"}:
            raise RuleError(
                content.place,
                "option 'fast_pattern'",
                "'only' is for a content that may be anywhere, and this one has a place",
                "write fast_pattern;",
            )
    for buffer in {content.buffer == buffers.PAYLOAD for content in fast}:
        same = [content for content in fast if (content.buffer == buffers.PAYLOAD) == buffer]
        if len(same) > 1:
            raise RuleError(same[1].place, "option 'fast_pattern'", "another content has it already", "give it to one.")
