"""Laws of charging, whatever a container costs in whatever order."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.isolate.ledger import BOUND, FLOOR, SLICE, Gate, Ledger, Pacer

NS = st.integers(0, 400_000_000)
STEP = st.one_of(st.tuples(NS, NS, NS), st.booleans())
STEPS = st.lists(STEP, max_size=60)
QUOTA = st.integers(FLOOR, 400_000_000)


def apply(ledger: Ledger, step: tuple[int, int, int] | bool) -> None:
    """A step is what a container cost, or the end of a period in which it idled or not."""
    if isinstance(step, bool):
        ledger.end_period(step)
    else:
        ran, stolen, by_others = step
        ledger.use(ran, min(ran, stolen), by_others)  # work for others is a part of what it ran


@given(QUOTA, STEPS)
def test_no_charge_is_lost_or_made_twice(quota: int, steps: list[tuple[int, int, int] | bool]) -> None:
    ledger = Ledger(quota)
    charged, periods = 0, 0
    for step in steps:
        apply(ledger, step)
        if isinstance(step, bool):
            periods += 1
        else:
            ran, stolen, by_others = step
            charged += ran - min(ran, stolen) + by_others
        assert ledger.charged == charged
        assert ledger.granted == quota * (1 + periods)
        assert ledger.balance + ledger.lapsed == ledger.granted + ledger.forgiven - ledger.charged


@given(QUOTA, STEPS)
def test_what_is_given_up_or_forgiven_only_grows(quota: int, steps: list[tuple[int, int, int] | bool]) -> None:
    ledger = Ledger(quota)
    for step in steps:
        lapsed, forgiven = ledger.lapsed, ledger.forgiven
        apply(ledger, step)
        assert ledger.lapsed >= lapsed
        assert ledger.forgiven >= forgiven
        assert ledger.gained >= 0
        if not isinstance(step, bool):
            assert (ledger.lapsed, ledger.forgiven) == (lapsed, forgiven), "only the end of a period forgives"


@given(QUOTA, STEPS, st.booleans())
def test_debt_and_credit_are_bounded_after_a_period(
    quota: int, steps: list[tuple[int, int, int] | bool], idled: bool
) -> None:
    ledger = Ledger(quota)
    for step in steps:
        apply(ledger, step)
    ledger.end_period(idled)
    assert (1 - BOUND) * quota <= ledger.runtime <= (1 + BOUND) * quota
    assert ledger.gained == 0
    if idled:
        assert ledger.runtime <= quota


@given(QUOTA, st.lists(st.tuples(NS, NS), max_size=30))
def test_others_work_costs_what_its_own_would(quota: int, steps: list[tuple[int, int]]) -> None:
    """A nanosecond of its packets costs the balance the same in whatever context it is spent."""
    alone, served = Ledger(quota), Ledger(quota)
    for ran, network in steps:
        alone.use(ran + network, 0, 0)
        served.use(ran, 0, network)
        assert alone.balance == served.balance


@given(QUOTA, st.lists(st.tuples(NS, NS), max_size=30))
def test_work_for_others_costs_nothing(quota: int, steps: list[tuple[int, int]]) -> None:
    alone, serving = Ledger(quota), Ledger(quota)
    for ran, stolen in steps:
        alone.use(ran, 0, 0)
        serving.use(ran + stolen, stolen, 0)
        assert alone.balance == serving.balance


def test_a_charge_takes_from_what_was_gained_first() -> None:
    """Figure 2.8, lines 3 to 9."""
    ledger = Ledger(50_000_000)
    ledger.use(0, 0, 0)
    ledger.use(3_000_000, 3_000_000, 0)
    assert (ledger.runtime, ledger.gained) == (47_000_000, 3_000_000)
    ledger.use(0, 0, 2_000_000)
    assert (ledger.runtime, ledger.gained) == (47_000_000, 1_000_000)
    ledger.use(0, 0, 4_000_000)
    assert (ledger.runtime, ledger.gained) == (44_000_000, 0)


def test_what_was_gained_is_used_when_runtime_is_exhausted() -> None:
    """Lines 14 to 18: a slice at a time."""
    ledger = Ledger(20_000_000)
    ledger.use(20_000_000, 12_000_000, 0)
    assert (ledger.runtime, ledger.gained) == (SLICE, 12_000_000 - SLICE)


def test_runtime_lapses_only_if_the_container_idled() -> None:
    """Figure 2.7, lines 5 to 7: interference, in contrast, leaves it what it could not use."""
    idle, hindered = Ledger(50_000_000), Ledger(50_000_000)
    for ledger in (idle, hindered):
        ledger.use(10_000_000, 0, 0)
    idle.end_period(idled=True)
    hindered.end_period(idled=False)
    assert (idle.runtime, idle.lapsed) == (50_000_000, 40_000_000)
    assert (hindered.runtime, hindered.lapsed) == (90_000_000, 0)


def test_debt_is_paid_by_the_next_quotas() -> None:
    ledger = Ledger(50_000_000)
    ledger.use(0, 0, 120_000_000)
    ledger.end_period(idled=True)
    assert ledger.runtime == -20_000_000
    ledger.end_period(idled=True)
    assert ledger.runtime == 30_000_000


class Kernel:
    """CFS bandwidth control as the pacer relies on it: a write refills, and what was not used is gone."""

    def __init__(self, runtime: int) -> None:
        self.runtime = runtime

    def run(self, wanted: int) -> int:
        ran = min(wanted, self.runtime)
        self.runtime -= ran
        return ran


@given(QUOTA, st.lists(st.tuples(NS, NS, st.booleans()), max_size=60))
def test_the_quota_is_never_below_the_floor_and_follows_the_ledger(
    quota: int, steps: list[tuple[int, int, bool]]
) -> None:
    """With a kernel that keeps exactly to the quota, no container runs more than the ledger has, but for one floor."""
    ledger = Ledger(quota)
    pacer, kernel = Pacer(ledger.runtime), Kernel(ledger.runtime)
    for wanted, by_others, ended in steps:
        before = ledger.runtime
        ran = kernel.run(wanted)
        assert ran <= max(before, FLOOR)
        ledger.use(ran, 0, by_others)
        if ended:
            ledger.end_period(idled=False)
        written = pacer.decide(ledger.runtime, ran)
        if written is not None:
            assert written >= FLOOR
            kernel.runtime = written
        assert kernel.runtime <= max(ledger.runtime, FLOOR)
        assert ledger.runtime < FLOOR or kernel.runtime == ledger.runtime


@given(st.integers(-(10**9), FLOOR - 1), st.integers(0, 10**9))
def test_a_container_in_debt_is_not_refilled_again(runtime: int, left: int) -> None:
    pacer = Pacer(left)
    pacer.decide(runtime, 0)
    assert pacer.decide(runtime, 0) is None


@given(QUOTA, STEPS, NS, NS)
def test_packets_are_dropped_exactly_when_nothing_is_left(
    quota: int, steps: list[tuple[int, int, int] | bool], cost: int, network: int
) -> None:
    ledger = Ledger(quota)
    for step in steps:
        apply(ledger, step)
    reason = Gate(10).decide(ledger, cost, network)
    assert (reason == "spent") == (ledger.balance <= 0)
    if reason == "early":
        assert 100 * ledger.balance < 10 * quota
        assert 2 * network > cost
    assert Gate(0).decide(ledger, cost, network) in ("", "spent")
