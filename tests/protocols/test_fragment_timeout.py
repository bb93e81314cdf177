"""Fragments are waited for 60 s of packet time from the first one, or as the user says."""

from __future__ import annotations

import pytest

from sluice.engine.box import Settings
from tests.support.packets import UDP, fragments4, fragments6, udp
from tests.support.run import run
from tests.support.stacks import whole

BODY = udp(1, 2, bytes(range(120)))
VERSIONS = pytest.mark.parametrize(
    ("fragments", "layer"), [(fragments4, "ipv4"), (fragments6, "frag")], ids=["ipv4", "ipv6"]
)


@VERSIONS
@pytest.mark.parametrize("timeouts", [True, False], ids=["timeouts", "no timeouts"])
@pytest.mark.parametrize(("seconds", "complete"), [(59, True), (61, False)])
def test_a_fragment_that_comes_after_60_s_begins_a_new_datagram(
    fragments, layer: str, timeouts: bool, seconds: float, complete: bool
) -> None:
    frames = fragments(BODY, 64, protocol=UDP)
    settings = Settings(seed=1, max_instances=1 << 16, timeouts=timeouts)
    result = run(whole(), frames, [0, seconds], settings=settings)
    assert len(result.rows) == complete
    assert result.count(layer, "ended:timeout") == (not complete)


@VERSIONS
def test_fragments_in_between_do_not_prolong_it(fragments, layer: str) -> None:
    frames = fragments(BODY, 32, 32, protocol=UDP)
    assert run(whole(), frames, [0, 40, 61]).rows == []


@VERSIONS
def test_the_user_sets_it(fragments, layer: str) -> None:
    frames = fragments(BODY, 64, protocol=UDP)
    for lifetime, complete in ((5.0, False), (100.0, True)):
        settings = Settings(seed=1, max_instances=1 << 16, timeouts=False, lifetime=lifetime)
        assert len(run(whole(), frames, [0, 50], settings=settings).rows) == complete


@VERSIONS
def test_an_old_fragment_is_not_part_of_a_new_datagram(fragments, layer: str) -> None:
    """The hour-old first half of a datagram with the same identifier."""
    old = fragments(udp(1, 2, bytes(600)), 64, protocol=UDP)
    new = fragments(BODY, 64, protocol=UDP)
    result = run(whole(), [old[0], *new], [0, 3600, 3600.1], settings=Settings(seed=1, timeouts=False))
    assert result.row["src_payload"] == len(BODY) - 8
