"""The language C: keywords of C and C++, which a name in generated C must not be, and literals of texts."""

from __future__ import annotations

import os

C_WORDS = frozenset(
    """asm auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef typeof union unsigned void volatile while
    bool true false""".split()
)
"""Keywords of C11."""
CPP_WORDS = frozenset(
    """alignas alignof and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return co_yield compl
    concept const_cast consteval constexpr constinit decltype delete dynamic_cast explicit export friend mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast requires
    static_assert static_cast template this thread_local throw try typeid typename using virtual wchar_t xor
    xor_eq""".split()
)
"""Keywords of C++20 that are not keywords of C."""


def c_string(text: str) -> str:
    """A text as C writes it. What cannot be printed is written by its bytes in octal, which end after three digits."""

    def escaped(letter: str) -> str:
        if letter in '"\\':
            return f"\\{letter}"
        return letter if letter.isprintable() else "".join(f"\\{octet:03o}" for octet in os.fsencode(letter))

    return '"' + "".join(map(escaped, text)) + '"'
