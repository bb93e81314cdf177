"""Functions in Python: handlers registered while traffic runs, events that functions in C define, attributes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.events import OWN_NAMES, Seen
from sluice.engine.functions import FunctionError, Wanted, load_python
from sluice.ir.hook import Hook
from sluice.stacks.find import find_stack
from tests.support.budget import in_matrix
from tests.support.connection import goodbye, handshake, pair
from tests.support.corpus import corpus
from tests.support.stacks import small_ip

SECOND = 10**9


@cache
def compiled(
    c: str, python: frozenset[Hook], demanded: tuple[frozenset[Hook], ...], many: frozenset[Hook]
) -> CompiledStack:
    functions = (read_c_function("defines", '#include "sluice.h"\n' + c, "defines.c"),) if c else ()
    return compile_stack(small_ip(), functions, python, demanded=demanded, many=many)


def reports(text: str, packets: list[bytes], folder: Path, c: str = "") -> tuple[dict[str, int], dict[str, int]]:
    """What a function in Python counts, beside one in C; and the counters of TCP."""
    path = folder / "seen.py"
    path.write_text("from sluice.functions import counter, event, on, on_batch, on_demand\n" + text)
    wanted = Wanted(python=[load_python(path)])
    stack = compiled(c, wanted.python_hooks(), wanted.python_demanded(), wanted.python_many())
    with Box(stack, Settings(max_instances=1 << 8, memory=1 << 24), wanted.python) as box:
        box.burst([(packet, (1000 + number) * SECOND, 1, None) for number, packet in enumerate(packets)])
        box.finish()
        return box.reports(), box.counters()["tcp_over_ipv4"]


def talk(port: int, sizes: list[int]) -> list[bytes]:
    """A connection whose client sends segments of these sizes."""
    client, server = pair(port=port)
    return handshake(client, server) + [client.send("A", b"x" * size) for size in sizes]


ON_DEMAND = """
seen = counter("bytes of those that are watched")
heard = counter("packets")

@on_demand("tcp", "data")
def look(event):
    seen.add(len(event.bytes))

@on("tcp", "packet")
def packet(event):
    heard.add()
    if event.length == 1:
        look.register(event)
    if event.length == 2:
        look.deregister(event)
    if event.length == 3:
        look.register()
    if event.length == 4:
        look.deregister()
"""


@pytest.mark.parametrize(
    "first, second, expected",
    [
        ([10, 10], [10], 0),
        ([1, 10, 2, 10], [10], 10 + 2),  # that of the packet that deregisters it was on its way
        ([3, 10], [10], 20),
        ([3, 2, 10], [10], 2 + 10),
        ([1], [10], 0),
        ([3, 1, 4, 10], [10], 1 + 4 + 10),
    ],
)
def test_handlers_on_demand(first: list[int], second: list[int], expected: int, tmp_path: Path) -> None:
    """A registration holds from the next packet on, also of packets that come in one burst."""
    found, counters = reports(ON_DEMAND, talk(40000, first) + talk(40001, second), tmp_path)
    assert found == {"seen": expected, "heard": 6 + len(first) + len(second)}
    assert counters.get("bytes:not wanted", 0) == sum([*first, *second]) - counters.get("bytes:in", 0)
    if not {1, 3} & {*first, *second}:
        assert not counters.get("bytes:in", 0)  # a flow that nobody watches is only tracked


def test_registered_from_the_beginning(tmp_path: Path) -> None:
    assert reports(ON_DEMAND + "look.register()\n", talk(40000, [5, 6]), tmp_path)[0]["seen"] == 11


def test_registering_for_a_connection_that_is_gone_does_nothing(tmp_path: Path) -> None:
    text = """
first = []
seen = counter("bytes")

@on_demand("tcp", "data")
def look(event):
    seen.add(len(event.bytes))

@on("tcp", "created")
def created(event):
    first.append(event)

@on("tcp", "packet")
def packet(event):
    look.register(first[0])
"""
    client, server = pair()
    packets = [*handshake(client, server), server.send("RA"), *talk(40001, [10])]
    assert reports(text, packets, tmp_path)[0]["seen"] == 0


def test_without_a_box() -> None:
    from sluice.functions import on_demand

    @on_demand("tcp", "data")
    def look(event: object) -> object:
        return event

    assert look(5) == 5
    look.register()
    assert look.registered
    with pytest.raises(RuntimeError, match="no box is running"):
        look.register(object())


OWN_EVENTS = """
seen = counter("how often")
inner = counter("how often the event within happened")

@event("tcp", "large")
def larger(event):
    return len(event.bytes) > 100

@on_demand("tcp", "larger")
def look(event):
    inner.add()

@on("tcp", "large")
def large(event):
    assert event.name == "large" and event.offset >= 0
    seen.add()
    look.register(event)
"""
C_EVENT = """
SLUICE_COUNTER(asked, "how often")
SLUICE_EVENT(tcp, large, data) { SLUICE_COUNTER_OF(event->box, asked)++; return data->bytes.length > 50; }
"""


def test_events_that_functions_in_c_define(tmp_path: Path) -> None:
    """Python hears of them, may base events on them, and listen to these on demand; the filter is asked once."""
    found, _ = reports(OWN_EVENTS, talk(40000, [10, 60, 200, 30, 300]), tmp_path, C_EVENT)
    assert found == {"asked": 5, "seen": 3, "inner": 2}


ATTRIBUTES = """
checked = counter("events looked at")

@on("*", "created")
@on("*", "data")
@on("*", "end")
@on("*", "rexmit")
@on("*", "packet")
def look(event):
    checked.add()
    for name, value in [*event.values.items(), *event.key.items()]:
        if name not in ("time",):
            assert getattr(event, name) == value, name
    assert event.key or not event.instance
    for wrong in ("nothing", "count", "index"):
        try:
            getattr(event, wrong)
        except AttributeError as error:
            assert f"has no '{wrong}'" in str(error)
        else:
            raise AssertionError(wrong)
"""


def test_an_attribute_is_what_the_values_and_the_key_have(tmp_path: Path) -> None:
    """Whatever is read at once from where it stands, for either side, and over both versions of IP."""
    packets: list[bytes] = []
    for version in (4, 6):
        client, server = pair(version=version)
        packets += [
            *handshake(client, server),
            client.send("A", b"abc"),
            server.send("A", b"defgh"),
            client.at(0, b"xbc"),
        ]
        packets += goodbye(server, client)
    assert reports(ATTRIBUTES, packets, tmp_path)[0]["checked"] > 20


BOTH = """
EVENTS = ("created", "data", "rexmit", "gap", "end", "packet", "state", "orphan", "malformed", "dropped", "lost")
EVENTS += ("sent",)
one_by_one = counter("events heard of one by one")
many_at_once = counter("and many at once")
apart = counter("values that differ")
singles = {}

def single(seen):
    singles.setdefault((seen.layer, seen.name), []).append(seen)
    one_by_one.add()

def many(seen):
    expected = singles[seen.layer, seen.name]
    these, singles[seen.layer, seen.name] = expected[:len(seen)], expected[len(seen):]
    many_at_once.add(len(seen))
    for name in ("instance", "side", "time", "packet", *these[0].values):
        apart.add(sum(a != getattr(b, name) for a, b in zip(seen.column(name), these, strict=True)))
    with_key = [n for n, one in enumerate(these) if one.key]
    for name in these[with_key[0]].key if with_key else ():
        try:
            column = seen.column(name)
        except KeyError:
            continue   # of a stream whose layer is another
        apart.add(sum(column[n] != these[n].key[name] for n in with_key))
        if name not in these[0].values and name != "key":   # event.key is the whole of it
            apart.add(sum(getattr(these[n], name) != these[n].key[name] for n in with_key))
    for name, value in these[0].values.items():
        if isinstance(value, bytes):
            apart.add(sum(n != len(one.values[name]) for n, one in zip(seen.lengths(name), these, strict=True)))

for name in EVENTS:
    single = on("*", name)(single)
    many = on_batch("*", name)(many)
"""


@pytest.mark.parametrize("name", ["gtp", in_matrix("everything")])
def test_many_at_once_are_the_same_events(name: str, tmp_path: Path) -> None:
    """Every column has what the events have one by one, in their order: in all layers, with keys, messages, streams."""
    file = tmp_path / "both.py"
    file.write_text("from sluice.functions import counter, on, on_batch\n" + BOTH)
    wanted = Wanted(python=[load_python(file)])
    stack = compile_stack(find_stack(name), (), wanted.python_hooks(), many=wanted.python_many())
    captures = ("gen__tcp_loss_reorder.pcap", "wireshark_wireshark__netperfmeter.pcapng", "aol_moloch__gtp-u.pcap")
    for path in (corpus() / capture for capture in captures):
        if path.is_file():
            with Box(stack, Settings(), wanted.python) as box:
                found = box.run(path).reports
            assert found["apart"] == 0 and found["many_at_once"] == found["one_by_one"] > 0


FULL = """
seen = counter("events")
calls = counter("calls")
octets = counter("bytes")

@on_batch("tcp", "data")
def many(events):
    calls.add()
    seen.add(len(events))
    octets.add(sum(events.lengths("bytes")))
    assert all(set(each) <= {120} for (each,) in events.rows("bytes"))
    try:
        events.column("nothing")
    except KeyError as error:
        assert "has no column 'nothing'; it has instance, side, time, packet, src" in str(error)
    try:
        events.lengths("offset")
    except KeyError as error:
        assert "'offset' of 'data' is a number" in str(error)
"""


@pytest.mark.parametrize("sizes, calls", [([1] * 4096, 1), ([1] * 4097, 2), ([60_000] * 20, 2), ([], 0)])
def test_rows_are_bounded(sizes: list[int], calls: int, tmp_path: Path) -> None:
    """By their number and their bytes."""
    client, server = pair()
    packets = handshake(client, server) + [client.send("A", b"x" * size) for size in sizes]
    found, _ = reports(FULL, packets, tmp_path)
    assert found == {"seen": len(sizes), "calls": calls, "octets": sum(sizes)}


def test_many_of_an_event_of_the_file_itself(tmp_path: Path) -> None:
    text = (
        OWN_EVENTS
        + """
@on_batch("tcp", "larger")
def many(events):
    pass
"""
    )
    with pytest.raises(FunctionError, match="event 'larger' is one of this file"):
        reports(text, [], tmp_path)


def test_no_name_of_a_value_is_taken_by_ours() -> None:
    """Of what an event has beside its values only the documented names stand in their way."""
    plain = {name for name in dir(Seen) if not name.startswith("_")}
    assert plain == OWN_NAMES | {"count", "index"}  # a tuple's, which are asked of the values
