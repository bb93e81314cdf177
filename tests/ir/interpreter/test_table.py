"""Which slot an instance gets, which ones the sweep looks at, which one is evicted."""

from sluice.ir.interpreter.table import NEVER, SWEEP_EVERY, Instance, Table
from sluice.ir.interpreter.value import Registers


def instance(key: int, deadline: int = NEVER) -> Instance:
    made = Instance(Registers(), [], (key,))
    made.deadline = deadline
    return made


def filled(count: int, max_instances: int = 100, deadline: int = NEVER) -> Table:
    """A table with keys 0, 1, 2 ... in slots of the same numbers."""
    table = Table(max_instances)
    for key in range(count):
        assert table.add(instance(key, deadline))
    return table


def end(table: Table, key: int) -> None:
    found = table.find((key,))
    assert found is not None
    table.remove(found)


def slot_of(table: Table, key: int) -> int:
    found = table.find((key,))
    assert found is not None
    return found.slot


def test_find() -> None:
    table = filled(3)
    assert slot_of(table, 1) == 1
    assert table.find((7,)) is None


def test_the_slot_freed_last_is_used_first() -> None:
    table = filled(4)
    end(table, 0)
    end(table, 2)
    for key in (10, 11, 12):
        table.add(instance(key))
    assert [slot_of(table, key) for key in (10, 11, 12)] == [2, 0, 4]
    assert table.live == 5


def test_a_full_table_and_a_taken_key() -> None:
    table = filled(2, max_instances=2)
    assert not table.add(instance(7))
    end(table, 0)
    assert not table.add(instance(1))
    assert table.add(instance(7))


def test_what_is_ending_keeps_its_key_and_its_slot() -> None:
    table = filled(2, max_instances=2)
    found = table.find((0,))
    assert found is not None
    found.ending = True
    assert table.find((0,)) is found and not table.add(instance(0))
    table.remove(found)
    assert table.add(instance(0)) and slot_of(table, 0) == 0


def test_the_sweep_is_due_with_every_32nd_lookup() -> None:
    table = filled(1)
    due = [number for number in range(1, 3 * SWEEP_EVERY) if table.sweep_due()]
    assert due == [SWEEP_EVERY, 2 * SWEEP_EVERY]


def test_the_sweep_goes_round() -> None:
    table = filled(3, deadline=5)
    end(table, 1)
    seen = [table.examine(7) for _ in range(5)]
    assert [item.key[0] if item else None for item in seen] == [0, None, 2, 0, None]
    assert Table(1).examine(7) is None


def test_the_sweep_finds_what_is_over_and_not_in_use() -> None:
    table = filled(3, deadline=5)
    found = table.find((1,))
    assert found is not None
    found.fields["inst.busy"] = 1
    assert [table.examine(4) for _ in range(3)] == [None, None, None]
    seen = [table.examine(5) for _ in range(3)]
    assert [item.key[0] if item else None for item in seen] == [0, None, 2]


def test_the_sweep_goes_on_in_slots_that_are_new() -> None:
    table = filled(2)
    for _ in range(2):
        table.examine(0)
    table.add(instance(2, deadline=0))
    found = table.examine(0)
    assert found is not None and found.key == (2,)


def test_the_sweep_rests_until_something_can_expire() -> None:
    table = filled(3, deadline=50)
    table.shortest = 100
    for _ in range(2 * 3):  # the first round knows nothing of what began before it
        assert table.examine(7) is None
    assert table.examine(7) is None and table.rests == 50
    cursor = table.sweep_cursor
    assert table.examine(49) is None and table.sweep_cursor == cursor
    found = table.find((2,))
    assert found is not None
    found.deadline = 50 + 100  # it lives on
    seen = [table.examine(50) for _ in range(3)]
    assert [item.key[0] if item else None for item in seen] == [0, 1, None]
    for key in (0, 1):
        end(table, key)
    assert table.examine(50) is None and table.rests == 50  # two were found: there may be more
    for _ in range(2):
        table.examine(50)
    assert table.examine(50) is None and table.rests == 50 + 100


def test_the_earliest_of_the_next_8_is_evicted() -> None:
    table = Table(20)
    for key, deadline in enumerate([9, 9, 5, 9, 5, 9, 9, 9, 1, 9]):
        table.add(instance(key, deadline))
    victim = table.victim()
    assert victim is not None and victim.key == (2,)  # the first of equals; slot 8 is out of sight
    assert table.evict_cursor == 3  # the search goes on after it
    victim = table.victim()
    assert victim is not None and victim.key == (8,)
    assert table.evict_cursor == 9


def test_eviction_passes_over_free_slots_and_what_is_in_use() -> None:
    table = filled(4)
    end(table, 0)
    found = table.find((1,))
    assert found is not None
    found.fields["inst.busy"] = 1  # a packet that came through it is in the layers above
    victim = table.victim()
    assert victim is not None and victim.key == (2,)
    for key in (2, 3):
        found = table.find((key,))
        assert found is not None
        found.ending = True
    assert table.victim() is None
