"""Several instances of functions that publish events, of subscribers to them, and of functions in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import Arrangement, function
from sluice.lang.errors import DescriptionError
from sluice.state.location import Location
from tests.state.boxes import missing
from tests.state.instances import Ran, compiled, kill, move, plan_of, run_ideal, run_instances
from tests.state.traffic import mixed
from tests.support.unoptimised import unoptimised

MARKS, BEGAN = Path(__file__).with_name("marks.c"), Path(__file__).with_name("began.c")

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def chain() -> Arrangement:
    return function(str(MARKS)) >> function(str(BEGAN))


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    return mixed(11, 120)


@pytest.fixture(scope="module")
def ideal(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    with unoptimised():
        return run_ideal(plan_of(chain()), packets, tmp_path_factory.mktemp("ideal"))


def test_publishers_and_subscribers_have_several_instances(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    """Each published event is handled once, by the instance that has its connection, in the order of packets."""
    ready = compiled(plan_of(chain()), {"marks": 2, "began": 3})
    found = run_instances(ready, packets, tmp_path, store)
    assert any('"object": "order"' in row for row in ideal.state)
    assert found.state == ideal.state and found.failure is None


def test_subscribers_move_and_are_killed(packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location) -> None:
    ready = compiled(plan_of(chain()), {"marks": 2, "began": 2})
    found = run_instances(
        ready, packets, tmp_path, store, {2: kill("began#1"), 4: move("began", 1), 6: kill("began#1")}
    )
    assert found.state == ideal.state and found.failure is None


PYTHON = """
from sluice.functions import counter, on

seen, of_flow = counter("events"), counter("of these, with their number among those of the connection")
flows = {}

@on("tcp", "data")
def data(event):
    flows[event.instance] = flows.get(event.instance, 0) + 1
    seen.add(1)
    of_flow.add(flows[event.instance])
"""


def test_functions_in_python_have_several_instances(packets: list[bytes], tmp_path: Path, store: Location) -> None:
    """Each connection is that of one of them."""
    (tmp_path / "seen.py").write_text(PYTHON)
    found: list[dict[str, int]] = []
    for number in (1, 3):
        ready = compiled(plan_of(function(str(tmp_path / "seen.py"))), {"seen": number})
        found.append(run_instances(ready, packets, tmp_path, store).reports)
    assert found[0] == found[1] and min(found[0].values()) > 100


SHARED = """
from sluice.functions import on
from sluice.functions.shared import shared

contacts = shared("set", "src", "read_write", "zero", "hosts")

@on("tcp", "created")
def begin(event):
    contacts.of(event).insert(1)
"""


def test_shared_objects_of_python_are_those_of_one_instance(tmp_path: Path) -> None:
    (tmp_path / "hosts.py").write_text(SHARED)
    with pytest.raises(DescriptionError, match="declares shared objects"):
        compiled(plan_of(function(str(tmp_path / "hosts.py"))), {"hosts": 2})
