"""Isolated functions that are too slow, and functions that cannot be isolated."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes.program import isolate
from sluice.lang.errors import DescriptionError
from tests.chain.functions import Put
from tests.chain.running import checked, run_isolated, talk

SLOW = """
SLUICE_PARAMETER(pause, number, 0, "microseconds for an event")
SLUICE_COUNTER(packets, "of TCP")
SLUICE_ON(tcp, packet) {
    SLUICE_COUNTER_OF(event->box, packets)++;
    if (SLUICE_PARAMETER_OF(event->box, pause))
        usleep((useconds_t)SLUICE_PARAMETER_OF(event->box, pause));
}
"""


def test_a_slow_function_holds_the_chain_up_or_loses_events_that_are_counted(put: Put, tmp_path: Path) -> None:
    slow, fast = put("slow.c", SLOW), put("fast.c", SLOW)
    packets = talk() * 20
    lossy = function(slow, pause=1000).isolated(overload="lose")
    came = run_isolated(checked(lossy | function(fast)), tmp_path / "out.pcap", packets)
    assert came.reports["fast.packets"] == len(packets)
    assert came.reports["slow.events_lost"] > 0
    assert came.reports["slow.packets"] < len(packets)
    waits = run_isolated(checked(function(slow, pause=100) | function(fast)), tmp_path / "out.pcap", packets)
    assert waits.reports["slow.packets"] == waits.reports["fast.packets"] == len(packets)
    assert "slow.events_lost" not in waits.reports


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SLUICE_ON(tcp, data) { uint8_t to[4]; sl_peek(event, 0, 0, to, 4); }", "reads bytes that the stack holds"),
        (
            "SLUICE_CONTROL(tcp)\nSLUICE_ON(tcp, created) { sl_buffer(event, SL_BOTH, 0); }",
            "changes how the stack reassembles",
        ),
        ("SLUICE_INLINE\nSLUICE_ON(tcp, packet) { SLUICE_HOLD(event); }", "holds packets"),
        ("SLUICE_INLINE\nSLUICE_ON(tcp, packet) { sl_release(event); }", "holds packets"),
    ],
)
def test_what_needs_the_memory_of_the_stack_is_refused(put: Put, text: str, message: str) -> None:
    with pytest.raises(DescriptionError, match=f"'one' {message}.*cannot(.|\n)*run the chain without --isolate"):
        isolate(checked(function(put("one.c", text)) >> function(put("two.c", SLOW))))


def test_handlers_of_many_events_are_refused(put: Put) -> None:
    many = 'from sluice.functions import on_batch\n\n@on_batch("tcp", "packet")\ndef saw(events):\n    pass\n'
    with pytest.raises(DescriptionError, match=r"takes many events at once(.|\n)*write @on"):
        isolate(checked(function(put("one.c", SLOW)) >> function(put("many.py", many))))


def test_verdicts_in_python_are_refused(put: Put) -> None:
    text = "from sluice.functions import Verdicts, on\n\nverdicts = Verdicts()\n\n"
    text += '@on("tcp", "packet")\ndef saw(event):\n    verdicts.drop(event)\n'
    with pytest.raises(DescriptionError, match=r"'drops' decides about packets in Python(.|\n)*write it in C"):
        isolate(checked(function(put("one.c", SLOW)) >> function(put("drops.py", text))))


def test_a_function_that_decides_must_not_lose_events(put: Put) -> None:
    drops = "SLUICE_INLINE\nSLUICE_ON(tcp, packet) { SLUICE_DROP(event->box); }"
    one = function(put("one.c", drops)).isolated(overload="lose")
    with pytest.raises(DescriptionError, match=r"'one' decides about packets(.|\n)*overload=\"wait\""):
        isolate(checked(one >> function(put("two.c", SLOW))))


@pytest.mark.parametrize("options", [{"failure": "opened"}, {"overload": "drop"}, {"memory": -1}])
def test_options_are_checked(put: Put, options: dict[str, object]) -> None:
    name = next(iter(options))
    with pytest.raises(DescriptionError, match=f"{name}=.* of 'one'"):
        function(put("one.c", SLOW)).isolated(**options)  # type: ignore[arg-type]
