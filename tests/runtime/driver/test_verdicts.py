"""NAME_process fills in verdicts; packets that functions send are queued with their place in the burst."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.inputs import Frame
from sluice.engine.reports import Report
from tests.support.connection import pair
from tests.support.packets import A4, B4, UDP, eth, ip4, udp
from tests.support.small_stacks import small_ip

PASS, DROP = 0, 1
CHANGED, REDIRECTED = 1, 2
SECOND = 10**9

DECIDE = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_ON(udp, packet) {
    const struct sl_frame *frame = sl_packet_frame(event);
    const uint8_t *payload = frame->at + 42;
    for (const uint8_t *at = payload; at < frame->at + frame->captured; at++)
        switch (*at) {
        case 'd': SLUICE_DROP(event->box); break;
        case 'c': { uint8_t x = 'X'; SLUICE_REWRITE(event->box, at, &x, 1); break; }
        case 'r': SLUICE_REDIRECT(event->box, 7); break;
        case 's': SLUICE_SEND(event->box, frame->at, 42); break;
        case 'm': for (int i = 0; i < 70; i++) SLUICE_SEND(event->box, frame->at, 42); break;
        }
}
"""
AGAIN = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_ON(udp, packet) {
    const uint8_t *payload = sl_packet_frame(event)->at + 42;
    uint8_t y = 'Y';
    if (payload[0] == 'c')
        SLUICE_REWRITE(event->box, payload, &y, 1);
    if (payload[0] == 'r')
        SLUICE_REDIRECT(event->box, 8);
}
"""


class Verdict(ctypes.Structure):
    """struct sl_verdict."""

    _fields_ = (
        ("at", ctypes.c_void_p),
        ("length", ctypes.c_uint32),
        ("port", ctypes.c_uint16),
        ("action", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
    )


class Sent(ctypes.Structure):
    """struct sl_sent."""

    _fields_ = (("frame", Frame), ("after", ctypes.c_uint32), ("back", ctypes.c_bool))


@cache
def stack(*texts: str) -> CompiledStack:
    names = [f"f{number}" for number in range(len(texts))]
    functions = [read_c_function(name, text, f"{name}.c") for name, text in zip(names, texts, strict=True)]
    return compile_stack(small_ip(), tuple(functions))


def packet(payload: str) -> bytes:
    """Of UDP; a segment of TCP for "tcp"."""
    if payload == "tcp":
        return pair()[0].data(b"x")
    return eth(ip4(udp(1, 2, payload.encode()), UDP, A4, B4))


class Decided:
    """A burst of packets by their payloads: what was decided for each, and what functions sent."""

    def __init__(self, compiled: CompiledStack, bursts: Sequence[Sequence[str]], forwards: bool = True) -> None:
        self.bursts: list[list[tuple[int, int, int, bytes | None]]] = []
        self.sent: list[list[tuple[int, bool, int]]] = []
        with Box(compiled, Settings(seed=1, max_instances=1 << 8)) as box:
            library, handle = box._library, box._box  # pyright: ignore[reportPrivateUsage]
            if forwards:
                box._options.forwards = True  # pyright: ignore[reportPrivateUsage]
                handle = ctypes.c_void_p(box._open(ctypes.byref(box._options)))  # pyright: ignore[reportPrivateUsage]
            for burst in bursts:
                self._process(library, handle, burst)
            library.small_ip_finish(handle)
            rows = (Report * 64)()
            count = library.sl_box_reports(handle, rows, 64)
            self.reports = {rows[n].full_name: rows[n].value for n in range(count)}
            if forwards:
                library.small_ip_close(handle)

    def _process(self, library: ctypes.CDLL, handle: ctypes.c_void_p, burst: Sequence[str]) -> None:
        packets = [packet(payload) for payload in burst]
        held = [ctypes.create_string_buffer(data, len(data)) for data in packets]
        frames, verdicts = (Frame * len(burst))(), (Verdict * len(burst))()
        ctypes.memset(verdicts, 0xAA, ctypes.sizeof(verdicts))  # each is written
        for number, (frame, at) in enumerate(zip(frames, held, strict=True)):
            frame.at = ctypes.cast(at, ctypes.c_char_p)
            frame.captured = frame.length = len(at)
            frame.time, frame.link_type, frame.number, frame.port = number * SECOND, 1, number + 1, 3
        library.small_ip_process(handle, frames, ctypes.c_size_t(len(burst)), verdicts)
        sent = ctypes.POINTER(Sent)()
        count = library.sl_box_sent(handle, ctypes.byref(sent))
        self.bursts.append(
            [
                (v.action, v.flags, v.port, ctypes.string_at(v.at, v.length)[42:] if v.flags & CHANGED else None)
                for v in verdicts
            ]
        )
        self.sent.append([(sent[n].after, sent[n].back, sent[n].frame.port) for n in range(count)])
        assert library.sl_box_sent(handle, ctypes.byref(sent)) == 0, "they are given once"


def test_a_box_without_functions_that_decide_passes_everything() -> None:
    (verdicts,) = Decided(stack(), [["a", "d"]]).bursts
    assert verdicts == [(PASS, 0, 0, None)] * 2


def test_each_packet_has_the_verdict_that_functions_made() -> None:
    (verdicts,) = Decided(stack(DECIDE), [["a", "d", "acb", "r", "cr"]]).bursts
    assert verdicts == [
        (PASS, 0, 0, None),
        (DROP, 0, 0, None),
        (PASS, CHANGED, 0, b"aXb"),
        (PASS, REDIRECTED, 7, None),
        (PASS, CHANGED | REDIRECTED, 7, b"Xr"),
    ]


def test_a_drop_overrides_changes_and_a_later_pass() -> None:
    decided = Decided(stack(DECIDE), [["cdr", "dc"]])
    assert [(action, flags & CHANGED) for action, flags, _, _ in decided.bursts[0]] == [(DROP, 0)] * 2
    assert decided.reports["packets_dropped"] == 2 and decided.reports["packets_changed"] == 0


def test_of_several_functions_changes_apply_in_their_order_and_the_last_redirection_holds() -> None:
    (verdicts,) = Decided(stack(DECIDE, AGAIN), [["ccd", "cc", "r"]]).bursts
    assert verdicts[0][0] == DROP
    assert verdicts[1] == (PASS, CHANGED, 0, b"YX")
    assert verdicts[2] == (PASS, REDIRECTED, 8, None)


def test_changed_bytes_of_a_whole_burst_are_valid_together() -> None:
    """More than the first memory for them has room for, and more than a group."""
    payloads = [f"c{number:04}" + "." * 900 for number in range(200)]
    (verdicts,) = Decided(stack(DECIDE), [payloads]).bursts
    assert [bytes_ for _, _, _, bytes_ in verdicts] == [("X" + payload[1:]).encode() for payload in payloads]


def test_sent_packets_have_their_place_in_the_burst() -> None:
    decided = Decided(stack(DECIDE), [["a", "s", "ss", "a"], ["a", "ds"]])
    assert decided.sent == [[(2, False, 3), (3, False, 3), (3, False, 3)], [(2, False, 3)]]
    assert decided.reports["packets_sent"] == 4 and "packets_not_sent" not in decided.reports


def test_packets_beyond_the_bound_of_what_may_be_sent_are_counted() -> None:
    decided = Decided(stack(DECIDE), [["m"]])
    assert len(decided.sent[0]) == 64
    assert (decided.reports["packets_sent"], decided.reports["packets_not_sent"]) == (64, 6)


def test_a_passive_box_sends_nothing() -> None:
    decided = Decided(stack(DECIDE), [["s", "d"]], forwards=False)
    assert decided.sent == [[]] and decided.reports["packets_sent"] == 0
    assert decided.bursts[0][1][0] == DROP, "verdicts are filled in where they are asked for"


RESET = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_ON(udp, packet) {
    const struct sl_frame *frame = sl_packet_frame(event);
    for (uint8_t i = 0; i < frame->at[42]; i++)
        SLUICE_SEND(event->box, frame->at, 42);
}
SLUICE_ON(ipv4, packet) {
    if (event->unit.at[9] == 6)
        SLUICE_RESET(event->box);
}
"""
WAITING = 1 << 16


def test_a_reset_sends_both_segments_or_none() -> None:
    """Where one more packet may wait, the connection is not reset, and its packet passes."""
    full = [chr(64)] * (WAITING // 64 - 1)
    decided = Decided(stack(RESET), [["tcp"], [*full, chr(62), "tcp"], [*full, chr(63), "tcp"]])
    assert [len(sent) for sent in decided.sent] == [2, WAITING, WAITING - 1]
    assert [back for _, back, _ in decided.sent[0]] == [False, True]
    assert [burst[-1][0] for burst in decided.bursts] == [DROP, DROP, PASS]
    assert decided.reports["packets_not_sent"] == 2
