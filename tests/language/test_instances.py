"""Which instance a packet comes to: tables that layers share, and restart."""

from __future__ import annotations

from typing import Any

from sluice.engine.box import Settings
from sluice.lang import (
    PSM,
    AddAlias,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    If,
    Length,
    Pred,
    PSMState,
    Stack,
    UInt,
    layout,
)
from sluice.lang.stack import GATHER
from tests.differential.both import Packet, assert_same, compiled
from tests.support.run import Result, run, watch_all


class way(layout):
    kind = UInt(8)


class session(layout):
    id = UInt(8)


class keyed(layout):
    key = UInt(8)
    again = Bit(8)


class memory(layout):
    packets = UInt(8)


class told(layout):
    packets = UInt(8)


class number(layout):
    number = UInt(64)


def counting() -> Any:
    """A parser that tells how many packets its instance has seen."""
    p: Any = Connectionless("p")
    p.header = keyed
    p.selector = [p.header.key]
    p.perm = memory
    p.prep = Assign(p.perm.packets, p.perm.packets + 1)
    p.event.counted = Assign(told.packets, p.perm.packets) + Callback(told)
    return p


def two_ways(left: Any, right: Any) -> Stack:
    """The first byte of a packet says whether it goes to the left or to the right layer."""
    low: Any = Connectionless("low")
    low.header = way
    stack = Stack("ways")
    stack.low, stack.left, stack.right = low, left, right
    stack += (stack.low >> stack.left) + Pred(stack.low.header.kind == 0)
    stack += (stack.low >> stack.right) + Pred(stack.low.header.kind == 1)
    return stack


def counted(stack: Stack, *packets: list[int]) -> tuple[list[tuple[str, int]], Result]:
    result = run(watch_all(stack, ("*", "counted")), [bytes(packet) for packet in packets])
    return [(event.layer, event.packets) for event in result.named("counted")], result


PACKETS = ([0, 5, 0], [1, 5, 0], [1, 6, 0], [0, 6, 0])
"""Two keys, each on both ways."""


def test_layers_of_one_prototype_share_its_table() -> None:
    p = counting()
    found, result = counted(two_ways(p, p), *PACKETS)
    assert found == [("left", 1), ("right", 2), ("right", 1), ("left", 2)]
    assert len(result.named("created")) == len({event.instance for event in result.named("counted")}) == 2


def test_layers_of_two_prototypes_do_not() -> None:
    found, result = counted(two_ways(counting(), counting()), *PACKETS)
    assert found == [("left", 1), ("right", 1), ("right", 1), ("left", 1)]
    assert len(result.named("created")) == 4


def test_a_packet_restarts_its_instance_at_most_once() -> None:
    """The condition holds again for the instance that the restart made, which is then left alone."""
    p = counting()
    START, LATER = PSMState(start=True), PSMState()
    p.psm = PSM(START, LATER)
    p.psm.again = (START >> START) + Pred(p.header.again == 1)
    p.psm.again.restart = True
    p.psm.later = (START >> LATER) + Pred(p.header.again == 2)
    stack = Stack("restarts")
    stack.p = p
    found, result = counted(stack, [5, 0], [5, 0], [5, 1], [5, 0])
    assert found == [("p", 1), ("p", 2), ("p", 1), ("p", 2)]
    assert (result.count("p", "instances"), result.count("p", "ended:reused")) == (2, 1)
    assert result.count("p") == 4
    first, last = (event.instance for event in result.named("created"))
    assert [event.instance for event in result.named("packet")] == [first, first, last, last]


def test_a_packet_that_restarts_what_it_made_itself() -> None:
    p = counting()
    START = PSMState(start=True)
    p.psm = PSM(START)
    p.psm.again = (START >> START) + Pred(1)
    p.psm.again.restart = True
    stack = Stack("restarts")
    stack.p = p
    found, result = counted(stack, [5, 0], [5, 0])
    assert found == [("p", 1), ("p", 1)]
    assert (result.count("p", "instances"), result.count("p", "ended:reused")) == (3, 2)


def test_a_layer_keeps_instances_within_those_of_a_layer_below() -> None:
    """Two sessions with a key 5 each; a session that begins anew, with the same id, has nothing of the old one."""
    low: Any = Connectionless("low")
    low.header = session
    low.selector = [low.header.id]
    low.timeout = 10
    low.offer(session=low.instance)
    p = counting()
    p.selector = [p.below.session, p.header.key]
    stack = Stack("sessions")
    stack.low, stack.p = low, p
    stack += (stack.low >> stack.p) + Pred(1)
    packets = [bytes([1, 5, 0]), bytes([2, 5, 0]), bytes([1, 5, 0]), bytes([1, 6, 0])]
    result = run(watch_all(stack, ("*", "counted")), packets, [0, 1, 2, 3])
    assert [event.packets for event in result.named("counted")] == [1, 1, 2, 1]
    result = run(watch_all(stack, ("*", "counted")), packets, [0, 1, 20, 21])
    assert [event.packets for event in result.named("counted")] == [1, 1, 1, 1]


def test_at_most_so_many_at_once() -> None:
    """What the parser says or what the box says, whichever is less; one that makes room begins anew."""
    p = counting()
    p.max_instances = 2
    stack = Stack("few")
    stack.p = p
    packets = [bytes([key, 0]) for key in (1, 2, 1, 3, 4, 5)]
    for most, evicted in ((1, 5), (2, 3), (4, 3)):
        result = run(watch_all(stack, ("*", "counted")), packets, settings=Settings(max_instances=most))
        assert (result.count("p", "ended:evicted"), result.live["p"]) == (evicted, min(most, 2))
    assert_same(compiled(stack), [Packet(packet, n) for n, packet in enumerate(packets)])
    p.max_instances = 1 << 31
    result = run(watch_all(stack, ("*", "counted")), packets, settings=Settings(max_instances=4))
    assert (result.count("p", "ended:evicted"), result.live["p"]) == (1, 4)


def test_an_instance_has_the_number_that_its_events_tell() -> None:
    p = counting()
    p.event.which = Assign(number.number, p.instance) + Callback(number)
    stack = Stack("numbers")
    stack.p = p
    result = run(watch_all(stack, ("*", "which")), [bytes([key, 0]) for key in (7, 8, 7)])
    assert [event.number for event in result.named("which")] == [event.instance for event in result.named("which")]


def test_one_that_is_not_stored_has_none() -> None:
    p = counting()
    p.selector = If(p.header.key != 7) >> [p.header.key]
    p.event.which = Assign(number.number, p.instance) + Callback(number)
    stack = Stack("numbers")
    stack.p = p
    result = run(watch_all(stack, ("*", "which")), [bytes([key, 0]) for key in (7, 8, 7)])
    assert [event.number for event in result.named("which")] == [0, 1, 0]


class station(layout):
    src = UInt(8)
    dst = UInt(8)
    id = UInt(8)
    new_id = UInt(8)


def roaming() -> Any:
    """A connection between addresses whose ends may say what they want to be called, from wherever they are."""
    low: Any = ConnectionOriented("p")
    low.header = station
    low.selector = [low.header.src], [low.header.dst]
    low.alias = If(low.header.id != 0) >> [low.header.id]
    low.perm = memory
    low.prep = Assign(low.perm.packets, low.perm.packets + 1)
    low.prep += If(low.header.new_id != 0) >> AddAlias(low, [low.header.new_id], to_sender=True)
    low.event.counted = Assign(told.packets, low.perm.packets) + Callback(told)
    return low


def roam(p: Any, *packets: list[int], **settings: Any) -> list[tuple[int, int, int]]:
    """Of each packet the number of its instance, its side, and how many packets that has seen."""
    stack = Stack("roaming")
    stack.p = p
    result = run(watch_all(stack, ("*", "counted")), [bytes(packet) for packet in packets], **settings)
    return [(event.instance, event.side, event.packets) for event in result.named("counted")]


def test_a_packet_with_another_key_is_known_by_its_alias() -> None:
    assert roam(roaming(), [1, 2, 0, 77], [2, 1, 77, 88], [1, 3, 88, 0], [9, 2, 88, 0], [4, 1, 77, 0]) == [
        (1, 0, 1),
        (1, 1, 2),  # the key found it
        (1, 0, 3),  # sent to the one who is called 88
        (1, 0, 4),
        (1, 1, 5),
    ]


def test_without_an_alias_it_begins_an_instance() -> None:
    assert roam(roaming(), [1, 2, 0, 77], [1, 3, 78, 0], [1, 4, 0, 0]) == [(1, 0, 1), (2, 0, 1), (3, 0, 1)]


def test_aliases_are_tried_in_their_order() -> None:
    """The first that finds an instance counts; after the condition, which is that of all of them."""
    p = roaming()
    p.alias = If(p.header.new_id == 0) >> ([p.header.id], [p.header.id >> 4])
    begun = [[1, 2, 0, 0x77], [3, 4, 0, 0x7], [5, 6, 0, 0x8]]
    found = roam(p, *begun, [9, 2, 0x77, 0], [9, 8, 0x78, 0], [9, 7, 0x85, 0], [9, 6, 0x99, 0], [9, 5, 0x77, 1])
    assert [instance for instance, _, _ in found] == [1, 2, 3, 1, 2, 3, 4, 5]
    stack = Stack("roaming")
    stack.p = p
    packets = [*begun, [9, 2, 0x77, 0], [9, 8, 0x78, 0], [9, 7, 0x85, 0], [9, 6, 0x99, 0]]
    assert_same(compiled(stack), [Packet(bytes(packet), n) for n, packet in enumerate(packets)])


def test_an_alias_goes_with_its_instance() -> None:
    p = roaming()
    p.timeout = 5
    found = roam(p, [1, 2, 0, 77], [9, 1, 77, 0], [9, 1, 77, 0], [9, 1, 77, 0], times=[0, 1, 20, 21])
    assert found == [(1, 0, 1), (1, 1, 2), (2, 0, 1), (2, 0, 2)]


def test_the_last_to_claim_an_alias_has_it() -> None:
    assert roam(roaming(), [1, 2, 0, 77], [3, 4, 0, 77], [9, 9, 77, 0]) == [(1, 0, 1), (2, 0, 1), (2, 1, 2)]


def test_the_oldest_alias_makes_room_at_the_bound() -> None:
    """A table of four instances has four aliases."""
    stack = Stack("roaming")
    stack.p = roaming()
    packets = [bytes([1, 2, 0, name]) for name in (71, 72, 73, 74, 75)] + [bytes([9, 8, 71, 0]), bytes([9, 7, 72, 0])]
    result = run(watch_all(stack, ("*", "counted")), packets, settings=Settings(max_instances=4))
    assert [event.instance for event in result.named("counted")] == [1, 1, 1, 1, 1, 2, 1]
    assert result.count("p", "aliases:evicted") == 1


def test_a_layer_above_gives_an_alias_to_an_instance_below() -> None:
    p = roaming()
    p.prep = Assign(p.perm.packets, p.perm.packets + 1)
    above: Any = Connectionless("above")
    above.header = way
    above.prep = If(above.header.kind != 0) >> AddAlias(p, [above.header.kind], to_sender=True)
    stack = Stack("roaming")
    stack.p, stack.upper = p, above
    stack += (stack.p >> stack.upper) + Pred(1)
    packets = [bytes(packet) for packet in ([1, 2, 0, 0, 77], [9, 1, 77, 0, 0], [9, 1, 78, 0, 0])]
    result = run(watch_all(stack, ("*", "counted")), packets)
    assert [(event.instance, event.side) for event in result.named("counted")] == [(1, 0), (1, 1), (2, 0)]


def followed(p: Any) -> Any:
    """What an alias finds makes the packet's own key known as one of its instance."""
    p.alias = [p.header.id], p.selector
    p.prep += AddAlias(p, p.selector)
    return p


def agreed(p: Any, *packets: list[int]) -> list[tuple[int, int, int]]:
    """As `roam`, when interpreter and C do the same."""
    stack = Stack("roaming")
    stack.p = p
    for most in (64, 2):
        given = [Packet(bytes(packet), n) for n, packet in enumerate(packets)]
        assert_same(compiled(stack), given, Settings(seed=1, max_instances=most))
    return roam(p, *packets)


def test_what_an_alias_found_makes_its_own_key_known() -> None:
    """Both ways; another sender there does not have it, nor does one that nobody has been seen to send to."""
    assert agreed(
        followed(roaming()), [1, 2, 0, 77], [9, 1, 77, 0], [9, 1, 0, 0], [1, 9, 0, 0], [1, 8, 0, 0], [8, 9, 0, 0]
    ) == [(1, 0, 1), (1, 1, 2), (1, 1, 3), (1, 0, 4), (2, 0, 1), (3, 0, 1)]


def test_without_that_it_is_not_known() -> None:
    p = roaming()
    p.alias = [p.header.id], p.selector
    assert agreed(p, [1, 2, 0, 77], [9, 1, 77, 0], [9, 1, 0, 0]) == [(1, 0, 1), (1, 1, 2), (2, 0, 1)]


def test_a_selector_comes_after_the_aliases_and_is_of_the_last_one_to_claim_it() -> None:
    begun = [[1, 2, 0, 77], [3, 4, 0, 88]]
    found = agreed(followed(roaming()), *begun, [9, 8, 77, 0], [9, 8, 0, 0], [9, 8, 88, 0], [9, 8, 0, 0], [8, 9, 77, 0])
    assert [instance for instance, _, _ in found] == [1, 2, 1, 1, 2, 2, 1]


def test_what_came_by_a_key_gives_none() -> None:
    """Neither its own, which its instance has, nor one that it was given."""
    p = followed(roaming())
    p.timeout = 5
    packets = [[1, 2, 0, 77], [9, 1, 77, 0], [9, 1, 0, 0], [2, 1, 0, 0], [9, 1, 0, 0]]
    found = roam(p, *packets, times=[0, 1, 2, 20, 21])
    assert [instance for instance, _, _ in found] == [1, 1, 1, 2, 3]


def test_keys_that_were_given_have_a_bound_of_their_own() -> None:
    """The oldest make room, counted, and the aliases stay."""
    stack = Stack("roaming")
    stack.p = followed(roaming())
    begun, moved = [1, 2, 0, 77], [[9, at, 77, 0] for at in range(20, 23)]
    packets = [bytes(packet) for packet in (begun, *moved, [9, 22, 0, 0], [9, 20, 0, 0], [9, 30, 77, 0])]
    result = run(watch_all(stack, ("*", "counted")), packets, settings=Settings(max_instances=4))
    assert [event.instance for event in result.named("counted")] == [1, 1, 1, 1, 1, 2, 1]
    assert result.count("p", "aliases:evicted") == 4


def test_a_given_key_has_all_that_the_selector_has() -> None:
    """One that came by another way, or in another tunnel, has another key."""
    low: Any = Connectionless("low")
    low.header = session
    low.offer(tunnel=low.header.id)
    stack = Stack("tunnels")
    stack.low, stack.p = low, followed(roaming())
    stack += (stack.low >> stack.p) + Pred(1)
    stack.join("tunnel")
    packets = [[5, 1, 2, 0, 77], [5, 9, 1, 77, 0], [5, 9, 1, 0, 0], [6, 9, 1, 0, 0]]
    result = run(watch_all(stack, ("*", "counted")), [bytes(packet) for packet in packets])
    assert [event.instance for event in result.named("counted")] == [1, 1, 1, 2]


def test_a_given_key_without_sides() -> None:
    p = counting()
    p.alias = [p.header.again], p.selector
    p.prep += AddAlias(p, [p.header.key]) + AddAlias(p, p.selector)
    stack = Stack("keys")
    stack.p = p
    packets = [[5, 0], [6, 5], [6, 9], [7, 9]]
    assert counted(stack, *packets)[0] == [("p", 1), ("p", 2), ("p", 3), ("p", 1)]
    assert_same(compiled(stack), [Packet(bytes(packet), n) for n, packet in enumerate(packets)])


def test_a_way_tells_instances_apart() -> None:
    """The same key, come by one of two layers, or by both of them: an instance for each way."""
    p = counting()
    p.selector = [p.header.key, p.way]
    stack = Stack("ways")
    for name in ("low", "left", "right"):
        lower: Any = Connectionless(name)
        lower.header = way
        setattr(stack, name, lower)
    stack.p = p
    stack += (stack.low >> stack.left) + Pred(stack.low.header.kind == 1)
    stack += (stack.low >> stack.right) + Pred(stack.low.header.kind == 2)
    stack += (stack.left >> stack.right) + Pred(stack.left.header.kind == 2)
    stack += (stack.left >> stack.p) + Pred(1)
    stack += (stack.right >> stack.p) + Pred(1)
    left, right, both = [1, 0, 5, 0], [2, 0, 5, 0], [1, 2, 0, 5, 0]
    found, _ = counted(stack, left, right, both, left, right, both)
    assert found == [("p", 1), ("p", 1), ("p", 1), ("p", 2), ("p", 2), ("p", 2)]


class tagged(layout):
    tag = UInt(8)
    more = UInt(8)


def tags() -> Stack:
    """Tags, one in another, and above them what counts by its own key."""
    tag: Any = Connectionless("tag")
    tag.header = tagged
    tag.offer(tag=tag.header.tag)
    stack = Stack("tags")
    stack.tag, stack.p = tag, counting()
    stack += (stack.tag >> stack.tag) + Pred(stack.tag.header.more == 1)
    stack += (stack.tag >> stack.p) + Pred(1)
    return stack


TAGGED = ([7, 0, 5, 0], [8, 0, 5, 0], [7, 1, 8, 0, 5, 0], [8, 1, 7, 0, 5, 0], [7, 0, 5, 0])


def test_what_layers_below_offer_joins_keys_when_asked() -> None:
    found, _ = counted(tags(), *TAGGED)
    assert [packets for _, packets in found] == [1, 2, 3, 4, 5]
    stack = tags()
    stack.join("tag")
    found, result = counted(stack, *TAGGED)
    assert [packets for _, packets in found] == [1, 1, 1, 1, 2]
    assert [event.tag for event in result.named("created")] == [7, 8, 7 * GATHER + 8, 8 * GATHER + 7]


def test_what_one_message_gathered_is_not_for_the_next() -> None:
    """Two messages of a packet: the first has a tag within its tag, the second has not."""

    class framed(layout):
        length = UInt(8)

    frame: Any = Connectionless("frame")
    frame.header = framed
    frame.message = Length(frame.header.length)
    low: Any = Connectionless("low")
    low.header = way
    inner = tags()
    stack = Stack("frames")
    stack.low, stack.frame, stack.tag, stack.p = low, frame, inner.tag.prototype, inner.p.prototype
    stack += (stack.low >> stack.frame) + Pred(1)
    stack += (stack.frame >> stack.tag) + Pred(1)
    stack += (stack.tag >> stack.tag) + Pred(stack.tag.header.more == 1)
    stack += (stack.tag >> stack.p) + Pred(1)
    stack.join("tag")
    _, result = counted(stack, [0, 7, 7, 1, 8, 0, 5, 0, 5, 9, 0, 5, 0])
    assert [event.tag for event in result.named("created")] == [7 * GATHER + 8, 9]


def test_a_packet_that_may_not_begin_an_instance_finds_one() -> None:
    """Key 7 is seen before and after `again` has begun it: only then are its packets counted together."""
    p = counting()
    p.creates = p.header.again == 1
    stack = Stack("creates")
    stack.p = p
    result = run(watch_all(stack, ("*", "counted")), [bytes([7, 0]), bytes([7, 1]), bytes([7, 0]), bytes([8, 0])])
    assert [(event.packets, event.instance) for event in result.named("counted")] == [(1, 0), (1, 1), (2, 1), (1, 0)]
    assert result.count("p", "instances") == 1
