"""Timers of functions: of a connection and of the box, in the time of packets; and what is kept of a connection."""

from __future__ import annotations

import random

import pytest

from sluice.engine.box import Box, Settings
from sluice.engine.c_function import read_c_function
from sluice.hooks.function import CFunction
from sluice.hooks.subscription import HookError
from tests.support.connection import goodbye, handshake, pair
from tests.support.packets import A4, B4, eth, ip4, udp
from tests.support.stacks import small_ip
from tests.support.together import Together

SECOND = 10**9


def function(text: str) -> CFunction:
    return read_c_function("timed", '#include "sluice.h"\n' + text, "timed.c")


def opened(functions: Together, options: list[str]) -> Box:
    return Box(functions.compiled, Settings(max_instances=1 << 8, memory=1 << 24), function_options=options)


def reports(
    name: str, packets: list[tuple[float, bytes]], options: str = "", functions: Together | None = None
) -> dict[str, int]:
    """What a function reports of packets at these seconds. functions: by default, those of ALL."""
    functions = functions or ALL
    with opened(functions, functions.options(name, options)) as box:
        for seconds, packet in packets:
            box.packet(packet, int((1000 + seconds) * SECOND))
        box.finish()
        return functions.of(name, box.reports())


def at(seconds: list[float], port: int = 40000) -> list[tuple[float, bytes]]:
    """A connection that opens at the first time, and sends a byte at each of the others."""
    client, server = pair(port=port)
    packets = [(seconds[0], packet) for packet in handshake(client, server)]
    return packets + [(second, client.send("A", b"x")) for second in seconds[1:]]


ONCE = """
SLUICE_COUNTER(fired, "times")
SLUICE_COUNTER(when, "milliseconds after it was set")
SLUICE_COUNTER(port, "of the connection")
SLUICE_COUNTER(packets, "processed when it fired")
SLUICE_COUNTER(unit, "bytes of a packet in hand")
struct once { uint64_t began; };
SLUICE_STATE(struct once)
SLUICE_ON(tcp, created) {
    SLUICE_STATE_OF(event)->began = sl_now(event->box);
    SLUICE_ARM(event, tcp, one, 2000000000);
}
SLUICE_COUNTER(heard, "packets")
SLUICE_ON(tcp, packet) { SLUICE_COUNTER_OF(event->box, heard)++; }
SLUICE_TIMER(tcp, one) {
    SLUICE_COUNTER_OF(event->box, fired)++;
    SLUICE_COUNTER_OF(event->box, when) = (sl_now(event->box) - SLUICE_STATE_OF(event)->began) / 1000000;
    SLUICE_COUNTER_OF(event->box, port) = sl_event_half(event, 0)[1];
    SLUICE_COUNTER_OF(event->box, packets) = SLUICE_COUNTER_OF(event->box, heard);
    SLUICE_COUNTER_OF(event->box, unit) += event->unit.length + (sl_packet_frame(event) != NULL);
}
"""


def test_a_timer_fires_once_before_the_first_packet_that_is_not_earlier() -> None:
    """Of whatever connection; without a packet in hand, and with the connection's key and state."""
    found = reports(
        "once", [*at([0, 1, 1.5]), *at([1.9], 40001), (3.5, at([0], 40002)[0][1]), (4.0, at([0], 40003)[0][1])]
    )
    assert found["fired"] == 1 + 1  # that of 40001 is due at 3.9
    assert found["when"] == 2100 and found["packets"] == 9 and found["unit"] == 0
    assert reports("once", at([0, 1, 1.999]))["fired"] == 0
    assert reports("once", at([0, 1, 2]))["fired"] == 1


def test_the_timer_of_a_connection_that_has_ended_does_not_fire() -> None:
    """Not for the next one in its place either."""
    client, server = pair()
    first = [(0.0, packet) for packet in handshake(client, server)] + [(0.1, server.send("RA"))]
    again = [(1.0, packet) for packet in handshake(*pair(9000, 7000))]
    found = reports("once", [*first, *again, *[(2.5, packet) for packet in goodbye(*pair(9001, 7001))]])
    assert found["fired"] == 0
    found = reports("once", [*first, *again, *[(3.5, packet) for packet in goodbye(*pair(9001, 7001))]])
    assert found["fired"] == 1 and found["when"] == 2500


AGAIN = """
SLUICE_COUNTER(fired, "times")
SLUICE_COUNTER(last, "when, in milliseconds")
SLUICE_ON(tcp, created) { SLUICE_ARM(event, tcp, idle, 1000000000); }
SLUICE_PARAMETER(arm, number, 0, "nanoseconds; 0: not")
SLUICE_PARAMETER(disarm, flag, no, "before")
SLUICE_ON(tcp, data) {
    if (SLUICE_PARAMETER_OF(event->box, disarm))
        SLUICE_DISARM(event, tcp, idle);
    if (SLUICE_PARAMETER_OF(event->box, arm))
        SLUICE_ARM(event, tcp, idle, SLUICE_PARAMETER_OF(event->box, arm));
}
SLUICE_TIMER(tcp, idle) {
    SLUICE_COUNTER_OF(event->box, fired)++;
    SLUICE_COUNTER_OF(event->box, last) = sl_now(event->box) / 1000000;
}
"""


@pytest.mark.parametrize(
    "what, fired, last",
    [
        ("arm=1000000000", 1, 1002_500),  # later than at first, each time
        ("arm=100000000", 2, 1002_500),  # earlier: at 0.9 the one of 0.5, at 2.5 that of 0.9
        ("disarm", 0, 0),
        ("disarm,arm=5000000000", 0, 0),
        ("", 1, 1002_500),
    ],
)
def test_set_again_or_not_any_more(what: str, fired: int, last: int) -> None:
    packets = [*at([0, 0.5, 0.9]), (2.5, at([0], 40001)[0][1])]
    assert reports("again", packets, what) == {"fired": fired, "last": last}


TICK = """
SLUICE_COUNTER(ticks, "seconds")
SLUICE_PARAMETER(pause, number, 0, "nanoseconds")
SLUICE_OPEN { return SLUICE_ARM_BOX(box, tick, 0) ? 0 : -1; }
SLUICE_TIMER(box, tick) {
    if (++SLUICE_COUNTER_OF(event->box, ticks) == 3)
        SLUICE_DISARM_BOX(event->box, tick);
    else
        SLUICE_ARM_BOX(event->box, tick, SLUICE_PARAMETER_OF(event->box, pause));
}
SLUICE_ON(udp, packet) {}
"""


def test_a_timer_of_the_box() -> None:
    """One that sets itself again, for at once even, lets packets by; it fires once a packet at most."""
    packet = eth(ip4(udp(1000, 2000, b""), 17, A4, B4))
    packets = [(seconds / 2, packet) for seconds in range(5)]
    assert reports("tick", packets, "pause=1000000000")["ticks"] == 2
    assert reports("tick", packets, "pause=2000000000")["ticks"] == 1
    assert reports("tick", packets, "pause=0")["ticks"] == 3


MANY = """
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"   /* it reads the room of the heap (core/box.h) */
SLUICE_COUNTER(fired, "times")
SLUICE_COUNTER(late, "those that came in another order than their times")
SLUICE_COUNTER(wrong, "those that came at another time than they were set for")
SLUICE_COUNTER(room, "entries that the heap has room for")
struct many { uint64_t at; };
SLUICE_STATE(struct many)
struct totals { uint64_t last; };
SLUICE_WORKER(struct totals)
SLUICE_PARAMETER(one_time, flag, no, "the timer is always set for one time")
SLUICE_ON(tcp, packet) {
    SLUICE_COUNTER_OF(event->box, room) = event->box->timers.room;
    if (SLUICE_PARAMETER_OF(event->box, one_time)) {
        SLUICE_ARM(event, tcp, one, 10);
        return;
    }
    uint64_t delay = (uint64_t)(event->unit.at[4] << 8 | event->unit.at[5]) * 1000000;   /* of the sequence number */
    SLUICE_STATE_OF(event)->at = sl_now(event->box) + delay;
    SLUICE_ARM(event, tcp, own, delay);
}
SLUICE_TIMER(tcp, own) {
    uint64_t at = SLUICE_STATE_OF(event)->at;
    SLUICE_COUNTER_OF(event->box, fired)++;
    SLUICE_COUNTER_OF(event->box, late) += at < SLUICE_WORKER_OF(event->box)->last;
    SLUICE_COUNTER_OF(event->box, wrong) += at > sl_now(event->box) || at == 0;
    SLUICE_WORKER_OF(event->box)->last = at;
    SLUICE_STATE_OF(event)->at = 0;
}
#define END 9000000000000ull
SLUICE_TIMER(tcp, one) { SLUICE_ARM(event, tcp, one, END - sl_now(event->box)); }
"""
HEAP = Together(small_ip, many=MANY)  # alone, so that no other timers take room


def test_many_timers() -> None:
    """Each fires, in the order of their times, none twice; of one that is set again and again the last time holds."""
    choose = random.Random(5)
    packets: list[tuple[float, bytes]] = []
    for port in range(200):
        client, _ = pair(isn=choose.randrange(20000) << 16, port=30000 + port)
        packets += [(0.0, client.send("S"))]
    for _ in range(3000):
        client, _server = pair(isn=choose.randrange(20000) << 16, port=30000 + choose.randrange(200))
        packets += [(0.5, client.send("S"))]
    packets += [(second, packets[0][1]) for second in range(1, 60)]
    found = reports("many", packets, functions=HEAP)
    assert found["late"] == 0 and found["wrong"] == 0 and 200 <= found["fired"]
    assert found["room"] <= 512


def test_a_timer_that_is_set_for_one_time_again_and_again_has_few_entries() -> None:
    assert reports("many", at([0.0, *(n * 1e-6 for n in range(1, 3000))]), "one_time", HEAP)["room"] <= 64


FOREVER = """
SLUICE_COUNTER(fired, "times")
SLUICE_ON(tcp, created) { SLUICE_ARM(event, tcp, one, 1000); }
SLUICE_TIMER(tcp, one) { SLUICE_COUNTER_OF(event->box, fired)++; SLUICE_ARM(event, tcp, one, 1000); }
"""


@pytest.mark.parametrize("end", [2**64 - 1, 2**64 - 2, 2**64 - 500])
def test_no_timer_fires_after_the_end_of_time(end: int) -> None:
    """Of a capture that pretends to have come there; nor does one that sets itself again fire for ever."""
    packets = [packet for _, packet in at([0.0, 1.0])]
    with opened(ALL, []) as box:
        for packet, time in zip(packets, [SECOND, SECOND, SECOND, end], strict=True):
            box.packet(packet, time)
        box.packet(packets[-1], end)
        box.finish()
        assert box.reports()["forever.fired"] <= 1


LONG = """
SLUICE_COUNTER(fired, "times")
SLUICE_ON(tcp, created) { SLUICE_ARM(event, tcp, one, 100000000000000ull); }
SLUICE_TIMER(tcp, one) { SLUICE_COUNTER_OF(event->box, fired)++; }
"""


@pytest.mark.parametrize("others", [0, 3000])
def test_a_timer_of_a_connection_that_has_timed_out_does_not_fire(others: int) -> None:
    """However many packets came since, with which its memory was given back or was not."""
    packets = [*at([0.0]), *at([90_000.0] * (others + 1), 40001), *at([150_000.0], 40002)]
    assert reports("lasting", packets)["fired"] == 0


OPENED = """
SLUICE_COUNTER(ticks, "times")
SLUICE_OPEN { return SLUICE_ARM_BOX(box, tick, 2000000000) ? 0 : 1; }
SLUICE_ON(udp, packet) {}
SLUICE_TIMER(box, tick) { SLUICE_COUNTER_OF(event->box, ticks)++; }
"""


@pytest.mark.parametrize(
    ("seconds", "ticks"), [([0.0], 0), ([0.0, 1.0], 0), ([0.0, 1.0, 3.0], 1), ([-1000.0, -999.0, -997.5], 1)]
)
def test_a_timer_of_the_box_that_is_set_before_counts_from_the_first_packet(seconds: list[float], ticks: int) -> None:
    """Also where that came at the time 0."""
    packet = eth(ip4(udp(1000, 2000, b""), 17, A4, B4))
    assert reports("opened", [(second, packet) for second in seconds])["ticks"] == ticks


STATE = """
SLUICE_COUNTER(fired, "times")
SLUICE_COUNTER(ended, "connections whose state is given up as it was left")
struct state { uint64_t words[4]; };
SLUICE_STATE(struct state)
SLUICE_EVENT(tcp, any_packet, packet) { memset(SLUICE_STATE_OF(event), 0x41, sizeof(struct state)); return true; }
SLUICE_DESTROY { SLUICE_COUNTER_OF(box, ended) += state->words[3] == 0x4141414141414141; }
"""
HEARD = """
SLUICE_COUNTER(heard, "packets")
SLUICE_COUNTER(ends, "connections")
SLUICE_ON(tcp, any_packet) { SLUICE_COUNTER_OF(event->box, heard)++; }
SLUICE_ON(tcp, end) { SLUICE_COUNTER_OF(event->box, ends)++; }
"""


def test_a_function_that_only_defines_events_keeps_what_it_keeps() -> None:
    assert reports("state", at([0.0, 1.0])) == {"fired": 0, "ended": 1}
    assert reports("heard", at([0.0, 1.0])) == {"heard": 4, "ends": 1}


KEPT = """
struct kept { char *text; };
SLUICE_STATE(struct kept)
SLUICE_COUNTER(freed, "texts")
SLUICE_COUNTER(ends, "ends heard before")
SLUICE_CONTROL(tcp)
SLUICE_ON(tcp, created) { SLUICE_STATE_OF(event)->text = malloc(10); SLUICE_STOP(event, SL_BOTH); }
SLUICE_ON(tcp, end) { SLUICE_COUNTER_OF(event->box, ends)++; }
SLUICE_DESTROY { SLUICE_COUNTER_OF(box, freed) += state->text != NULL; free(state->text); }
"""


def test_what_is_kept_is_given_up_with_the_connection() -> None:
    """Whoever hears of its end: one that was reset, one that times out, one that is open at the end of input."""
    client, server = pair()
    packets = [(0.0, packet) for packet in [*handshake(client, server), server.send("RA")]]
    packets += [*at([0], 40001), (100_000.0, at([0], 40002)[0][1])]
    assert reports("kept", packets) == {"freed": 3, "ends": 0}


COUNTED = """
struct counted { uint8_t used; };
SLUICE_STATE(struct counted)
SLUICE_ON(tcp, created) {}
SLUICE_DESTROY { (void)state; fputs("given up\\n", stderr); }
"""


def test_what_is_kept_is_given_up_without_an_end_of_input(capfd: pytest.CaptureFixture[str]) -> None:
    """As where a program stops in between."""
    with opened(ALL, []) as box:
        for _, packet in at([0.0]):
            box.packet(packet, SECOND)
        assert "given up" not in capfd.readouterr().err
    assert capfd.readouterr().err == "given up\n"


def test_what_cannot_be() -> None:
    with pytest.raises(HookError, match=r"timed\.c:3: SLUICE_DESTROY without SLUICE_STATE"):
        function("SLUICE_ON(tcp, data) {}\nSLUICE_DESTROY {}")
    with pytest.raises(HookError, match=r"timed\.c:4: timer 'one' of 'tcp' is declared twice"):
        function("SLUICE_ON(tcp, data) {}\nSLUICE_TIMER(tcp, one) {}\nSLUICE_TIMER(tcp, one) {}")


ALL = Together(
    small_ip,
    **{"once": ONCE, "again": AGAIN, "tick": TICK, "forever": FOREVER, "lasting": LONG, "opened": OPENED},
    **{"state": STATE, "heard": HEARD, "kept": KEPT, "counted": COUNTED},
)
"""All functions of this file but one, each with timers, state and figures of its own."""
