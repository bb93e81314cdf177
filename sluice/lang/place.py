"""Where in a description an expression may be used, and what is not known there yet."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.lang.parser import OF_INSTANCE


@dataclass(frozen=True)
class Place:
    """A place where an expression may be used: what is not known there yet, and the advice in errors.

    before: the event that comes after this place, as a message names it.
    groups, properties: groups of fields and properties that are not known yet.
    steps: whether it is known which transitions were taken.
    data: whether fields of callbacks may be used.
    advice: what may be used.
    """

    before: str
    groups: tuple[str, ...]
    properties: tuple[str, ...]
    steps: bool
    data: bool
    advice: str


_UNFOUND = ("temp", "perm")
HEADER = Place(
    "the header is parsed",
    _UNFOUND,
    (*OF_INSTANCE, "sdu", "refused"),
    False,
    False,
    "use fields parsed before, and p.cursor.",
)
FIND = Place(
    "the instance is found",
    _UNFOUND,
    (*OF_INSTANCE, "sdu", "refused"),
    False,
    False,
    "use header fields here; prep comes later.",
)
MESSAGE = Place(
    "the message is there",
    _UNFOUND,
    (*OF_INSTANCE, "sdu", "refused", "payload", "payload_len", "unit"),
    False,
    False,
    "use fields of the header.",
)
MESSAGE_OF_PACKET = Place(
    "the message is there",
    _UNFOUND,
    (*OF_INSTANCE, "sdu", "refused"),
    False,
    False,
    "use fields of the header and p.payload_len.",
)
_UNMADE = ("sdu", "refused")
MALFORMED = Place(
    "it is known to be there",
    (*_UNFOUND, "header"),
    (*OF_INSTANCE, *_UNMADE, "payload", "payload_len"),
    False,
    True,
    "of a malformed packet only event.malformed, p.unit and what layers below offer are known.",
)
PREP = Place("the machine makes its steps", (), _UNMADE, False, True, "use header, temp and perm here, and p.payload.")
SEQUENCE = Place("the machine makes its steps", (), (), False, False, "use header, temp and perm here.")
CREATED = Place("the packet is looked at", (), _UNMADE, False, True, "created comes first; use header, temp and perm.")
INSERT = Place(
    "the machine makes its steps", (), (), False, True, "use header, temp and perm, or relate it to 'packet'."
)
STEP = Place("all steps are made", (), (), False, True, "use p.cur_state or event.state, or relate it to 'packet'.")
LATER = Place("", (), (), True, True, "")
