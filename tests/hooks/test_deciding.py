"""Functions that decide on packets have a bit each: a box with more functions refuses those that have none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.codegen.events.control import DECIDING_MOST, check_controls
from sluice.engine.c_function import read_c_function
from sluice.engine.options import Settings
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.subscription import HookError

PLAIN = '#include "sluice.h"\nSLUICE_ON(tcp, packet) {}\n'
DECIDES = '#include "sluice.h"\nSLUICE_ON(tcp, packet) { SLUICE_DROP(event->box); }\n'


def functions(last: CFunction) -> Functions:
    plain = read_c_function("plain", PLAIN, "plain.c")
    return Functions((*(replace(plain, name=f"plain{number}") for number in range(DECIDING_MOST)), last))


def test_a_function_after_the_last_bit_may_not_decide() -> None:
    check_controls(functions(read_c_function("more", PLAIN, "more.c")), [])
    with pytest.raises(HookError, match=r"more\.c: 'more' decides on packets, and 64 functions precede it"):
        check_controls(functions(read_c_function("more", DECIDES, "more.c")), [])


def test_its_policy_is_that_of_no_other_function() -> None:
    names = [f"plain{number}" for number in range(DECIDING_MOST + 2)]
    given = {"plain0": "open", "plain63": "open", "plain64": "open", "plain65": "closed"}
    settings = Settings(on_fault=given)
    assert settings.mask(names, settings.on_fault, "open") == 1 | 1 << 63
    assert settings.mask(names, settings.on_fault, "closed") == 0
