"""How long a stream is, its sender says once: final sizes (RFC 9000, 4.5), in the clear.

A frame that breaks that word is counted as malformed, and changes nothing of what is delivered or told of the stream.
"""

from __future__ import annotations

import pytest

from tests.quic.test_reset import STREAM, data, reset, seen, story


class Wrong(bytes):
    """A frame that breaks the word."""


FOUR = data(0, b"ab"), data(2, b"cd", fin=True)
BEFORE = data(1, b"bcd", fin=True)
"""The end of a stream of four bytes, the first of which is missing."""
GIVEN_UP = data(0, b"ab"), reset(4)

WRONG = {
    "data beyond the final size": (*FOUR, Wrong(data(4, b"e"))),
    "data that reaches over the final size": (*FOUR, Wrong(data(2, b"cde"))),
    "data far beyond the final size": (*FOUR, Wrong(data(1 << 61, b"e"))),
    "data beyond it, while bytes are missing": (BEFORE, Wrong(data(3, b"de")), Wrong(data(4, b"e")), data(0, b"a")),
    "data beyond that of a reset": (*GIVEN_UP, Wrong(data(2, b"cde")), data(2, b"cd")),
    "a FIN that moves it up": (*FOUR, Wrong(data(4, b"e", fin=True))),
    "a FIN without data that moves it up": (*FOUR, Wrong(data(5, b"", fin=True))),
    "a FIN that moves it up, while bytes are missing": (BEFORE, Wrong(data(3, b"de", fin=True)), data(0, b"a")),
    "a FIN that moves it down": (*FOUR, Wrong(data(0, b"abc", fin=True))),
    "a FIN that moves it down, while bytes are missing": (BEFORE, Wrong(data(0, b"a", fin=True)), data(0, b"a")),
    "a FIN that moves that of a reset": (*GIVEN_UP, Wrong(data(2, b"c", fin=True)), data(2, b"cd", fin=True)),
    "a reset that moves it up": (BEFORE, Wrong(reset(5)), data(0, b"a")),
    "a reset that moves it down": (BEFORE, Wrong(reset(3)), data(0, b"a")),
    "a reset that moves it, after the end": (*FOUR, Wrong(reset(5)), Wrong(reset(0))),
    "a reset that moves that of another": (*GIVEN_UP, Wrong(reset(5)), Wrong(reset(3)), data(2, b"cd")),
    "a FIN in front of data that was delivered": (FOUR[0], Wrong(data(0, b"a", fin=True)), FOUR[1]),
    "a FIN in front of data that waits": (data(2, b"c"), Wrong(data(0, b"ab", fin=True)), *FOUR),
    "a reset in front of data that was delivered": (FOUR[0], Wrong(reset(1)), FOUR[1]),
    "a reset in front of data that waits": (data(2, b"c"), Wrong(reset(2)), *FOUR),
}

RIGHT = {
    "bytes in front of it once more": (*FOUR, *FOUR, data(1, b"bc"), data(4, b""), data(4, b"", fin=True)),
    "the end first": (BEFORE, data(0, b"ab")),
    "a reset after it": (*FOUR, reset(4)),
    "a reset and the rest": (*GIVEN_UP, data(2, b"cd", fin=True), reset(4)),
}


def whole(told: list[object]) -> bytes:
    """What was delivered, in order."""
    return b"".join(part[1] for part in told if isinstance(part, tuple) and isinstance(part[1], bytes))


@pytest.mark.parametrize("name", WRONG)
def test_what_breaks_the_word_is_malformed_and_changes_nothing(name: str) -> None:
    """What is told of the stream, event by event, is what the other frames alone make of it."""
    frames = WRONG[name]
    right = [frame for frame in frames if not isinstance(frame, Wrong)]
    result = seen(*frames)
    assert result.count("quic_stream", "malformed:final size") == len(frames) - len(right)
    assert story(result) == story(seen(*right))
    assert whole(story(result)) == b"abcd"


@pytest.mark.parametrize("name", RIGHT)
def test_what_keeps_it_is_well_formed(name: str) -> None:
    result = seen(*RIGHT[name])
    assert result.count("quic_stream", "malformed:final size") == 0
    assert whole(story(result)) == b"abcd"


def test_it_does_not_keep_the_stream_alive() -> None:
    """Thirty seconds after its end the instance goes; a frame that is malformed is none of its own."""
    result = seen(*FOUR, data(4, b"e"), b"\x01", seconds=(0, 1, 30, 32))
    assert story(result)[-1] == "timeout"
    assert result.count("quic_stream", "ended:timeout") == 1


def test_each_direction_and_stream_has_its_own() -> None:
    frames = *FOUR, reset(9, STREAM + 4), data(0, b"abcde")
    assert seen(*frames).count("quic_stream", "malformed:final size") == 1
