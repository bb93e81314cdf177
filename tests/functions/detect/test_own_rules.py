"""Each rule of our own set fires on its case, however that is cut, and no other rule does."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.functions.detect import families
from tests.functions.detect.boxes import needs_ids, packets
from tests.functions.detect.cases import PACKETS, PORTS, WEB, frames

pytestmark = needs_ids

RULES = Path(__file__).with_name("own.rules").read_text()
SIDS = sorted([*WEB, *PORTS, *PACKETS])
SILENT = {200}


def test_every_rule_has_a_case() -> None:
    sids = {int(part.split(";")[0]) for part in RULES.split("sid:")[1:]}
    assert sids == set(SIDS) | SILENT and len(sids) >= 50


@pytest.mark.parametrize("sid", SIDS)
def test_the_rule_alone_fires_once(sid: int) -> None:
    assert packets(frames(sid), RULES).sids == [sid]


def test_cases_in_segments_of_three_bytes() -> None:
    for sid in [*WEB, *PORTS]:
        assert packets(frames(sid, 3), RULES).sids == [sid], sid


def test_the_rules_of_families_fire_on_their_cases_alone() -> None:
    """All in one run: whose alert it is, the sender's port says, or where there is none its address."""
    cases = families.cases()
    sids = {case.sid for case in cases}
    assert len(cases) + len(SIDS) >= 300
    found: dict[int, list[int]] = defaultdict(list)
    for row in packets([frame for case in cases for frame in case.frames], "".join(case.rule for case in cases)).rows:
        high, low = map(int, row["src_ip"].split(".")[2:])
        ports = [row["src_port"], row["dest_port"], high << 8 | low]
        (sid,) = [port - 20_000 for port in ports if port and port - 20_000 in sids]
        found[sid].append(row["alert"]["signature_id"])
    assert found == {case.sid: [case.sid] for case in cases}
