"""A function that takes time for each packet, so that its worker is busy."""

from __future__ import annotations

from sluice.engine.c_function import read_c_function
from sluice.hooks.function import CFunction

_TEXT = """
#include "sluice.h"
#include <time.h>
SLUICE_PARAMETER(each, number, 0, "microseconds of each packet")
SLUICE_ON(udp, packet) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((uint64_t)(now.tv_sec - begin.tv_sec) * 1000000000 + (uint64_t)(now.tv_nsec - begin.tv_nsec) <
           SLUICE_PARAMETER_OF(event->box, each) * 1000);
}
"""


def heavy() -> CFunction:
    """The function `heavy`, with the parameter `each`: microseconds of each packet of UDP."""
    return read_c_function("heavy", _TEXT, "heavy.c")
