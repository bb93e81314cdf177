"""How the traffic of a function is divided among its instances."""

from __future__ import annotations

from sluice.chain.processes.memory import PARTS
from sluice.chain.processes.partition import Candidate, assign, belonging, choose, watched
from sluice.hooks.function import CFunction
from sluice.hooks.shared import Shared


def candidate(name: str, load: dict[int, int], instances: int) -> Candidate:
    scope = () if name == "flow" else tuple(name.split("+"))
    return Candidate(scope, ()).measured([load.get(part, 0) for part in range(PARTS)], instances)


def test_parts_without_load_are_dealt_out_in_turns() -> None:
    owners = assign((), 3)
    assert len(owners) == PARTS and owners[:4] == (0, 1, 2, 0)


def test_the_heaviest_part_goes_first_to_the_instance_with_the_least_load() -> None:
    owners = assign([5, 4, 3, 2] + [0] * (PARTS - 4), 2)
    assert [owners[part] for part in range(4)] == [0, 1, 1, 0]


def test_the_coarsest_scope_with_which_the_load_is_even_is_chosen() -> None:
    """One source sends nearly all: its part is too much for one instance. Its flows are not."""
    by_source = candidate("src", {1: 90, 2: 10}, 2)
    by_pair = candidate("src+dst", {1: 50, 2: 50}, 2)
    by_flow = candidate("flow", dict.fromkeys(range(100), 1), 2)
    assert by_source.imbalance == 1.8
    assert choose([by_source, by_pair, by_flow]) is by_pair


def test_without_an_even_scope_that_with_the_most_even_load_is_chosen() -> None:
    by_source, by_flow = candidate("src", {1: 100}, 4), candidate("flow", {1: 70, 2: 30}, 4)
    assert choose([by_source, by_flow]) is by_flow


def test_without_a_sample_the_coarsest_scope_is_chosen() -> None:
    by_source = Candidate(("src",), ())
    assert choose([by_source, Candidate((), ())]) is by_source


def shared(name: str, scope: str | tuple[str, ...], access: str = "read_write") -> Shared:
    return Shared(name, "number", scope, access, "zero", "")


def test_objects_belong_to_an_instance_if_their_scope_contains_that_of_the_traffic() -> None:
    given = (
        shared("of_flow", "flow"),
        shared("of_source", ("src",)),
        shared("of_pair", ("src", "dst")),
        shared("of_port", ("dport",)),
        shared("rare", "all", "read_mostly"),
    )
    function = CFunction("f", "", "f.c", (), state=False, worker=False, opens=False, closes=False, shared=given)
    fields = [item for item in given if isinstance(item.scope, tuple)]
    assert belonging(function, fields, ("src",)) == ("of_flow", "of_pair", "of_source")
    assert belonging(function, fields, ()) == ("of_flow",)
    assert watched(function, ("of_flow",)) == ("rare",)
