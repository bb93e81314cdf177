"""The specification of a sequence, case by case; the C runtime is held to the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ir.expression import MASK
from sluice.ir.graph import Rules
from sluice.ir.interpreter.sequence import Sequence
from sluice.ir.interpreter.sequence_types import FARTHEST, JOINED_MAX, PIECE_MAX, Gap, in_window
from sluice.lang.sequence import POLICIES

LINEAR = Rules(64, True, "first", False, True, 1 << 20, 1024, 1024, 0, ())
WRAPPING = replace(LINEAR, width=16, linear=False)


def put(sequence: Sequence, position: int, data: bytes, units: int | None = None, wire: int | None = None) -> None:
    """Insert as the last thing that a packet does."""
    wire = len(data) if wire is None else wire
    sequence.insert(position, (data, wire), wire if units is None else units)
    sequence.settle()


def take(sequence: Sequence) -> tuple[bytes, int]:
    (data, length), offset = sequence.assemble()
    assert len(data) == length
    return data, offset


def state(sequence: Sequence) -> tuple[int, int, int]:
    """delivered, next, pieces held."""
    return sequence.delivered, sequence.next, len(sequence.pieces)


# --- base and position ------------------------------------------------------------------------------------


def test_a_linear_sequence_is_based_at_0() -> None:
    sequence = Sequence(LINEAR)
    sequence.begin(77, True)
    assert sequence.based and state(sequence) == (0, 0, 0)
    assert sequence.position(9) == 9
    assert sequence.position(MASK) == FARTHEST


def test_before_the_base_everything_is_in_order() -> None:
    sequence = Sequence(WRAPPING)
    assert sequence.position(0xFFFF) == 0xFFFF
    assert sequence.in_order(5) and sequence.in_order(60000)


def test_the_first_packet_sets_the_base() -> None:
    sequence = Sequence(WRAPPING)
    sequence.begin(0x1FFF0, False)
    assert sequence.start == sequence.next == sequence.delivered == 0xFFF0
    sequence.begin(7, False)
    assert sequence.next == 0xFFF0


def test_meta_unwraps_around_next() -> None:
    sequence = Sequence(WRAPPING)
    sequence.begin(0xFFF0, False)
    assert sequence.position(0xFFFF) == 0xFFFF
    assert sequence.position(0x0002) == 0x10002
    assert sequence.position(0xFFE0) == 0xFFE0
    assert sequence.position((0xFFF0 + 0x7FFF) & 0xFFFF) == 0xFFF0 + 0x7FFF
    assert sequence.position((0xFFF0 + 0x8000) & 0xFFFF) == 0xFFF0 - 0x8000


def test_bytes_pass_the_wrap_of_meta_and_of_64_bits() -> None:
    for width, base in ((16, 0xFFFD), (32, 0xFFFFFFFD), (64, MASK - 2)):
        sequence = Sequence(replace(WRAPPING, width=width))
        sequence.begin(base, False)
        later = sequence.position((base + 5) & ((1 << width) - 1))
        assert not sequence.in_order(later)
        put(sequence, later, b"fghij")
        put(sequence, sequence.position(base), b"abcde")
        assert take(sequence) == (b"abcdefghij", 0)
        put(sequence, sequence.position((base + 10) & ((1 << width) - 1)), b"k")
        assert take(sequence) == (b"k", 10)


@pytest.mark.parametrize(
    ("meta", "length", "low", "high", "inside"),
    [
        (10, 1, 10, 20, True),
        (19, 1, 10, 20, True),
        (20, 1, 10, 20, False),
        (9, 1, 10, 20, False),
        (9, 2, 10, 20, True),
        (0, 100, 10, 20, True),
        (10, 0, 10, 20, True),
        (20, 0, 10, 20, False),
        (10, 5, 10, 10, False),
        (250, 1, 250, 4, True),
        (3, 1, 250, 4, True),
        (4, 1, 250, 4, False),
        (249, 2, 250, 4, True),
        (255, 1, 0, 10, False),
        (255, 2, 0, 10, True),
    ],
)
def test_window(meta: int, length: int, low: int, high: int, inside: bool) -> None:
    assert in_window(8, meta, length, low, high) is inside


# --- order ------------------------------------------------------------------------------------------------


def test_in_order_bytes_are_never_held() -> None:
    sequence = Sequence(LINEAR)
    sequence.insert(0, (b"abc", 3), 3)
    assert sequence.fresh == b"abc" and sequence.waiting() and state(sequence) == (0, 3, 0)
    assert take(sequence) == (b"abc", 0)
    assert sequence.fresh is None and not sequence.waiting() and state(sequence) == (3, 3, 0)


def test_what_is_not_assembled_is_kept() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 0, b"abc")
    assert state(sequence) == (0, 3, 1) and sequence.waiting()
    put(sequence, 3, b"def")
    assert take(sequence) == (b"abcdef", 0)


def test_a_second_insert_settles_the_first() -> None:
    sequence = Sequence(LINEAR)
    sequence.insert(0, (b"abc", 3), 3)
    sequence.insert(3, (b"def", 3), 3)
    assert take(sequence) == (b"abcdef", 0)


def test_a_hole_waits_for_its_bytes() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 3, b"def")
    assert not sequence.waiting() and take(sequence) == (b"", 0)
    put(sequence, 0, b"abc")
    assert take(sequence) == (b"abcdef", 0)
    assert state(sequence) == (6, 6, 0)


def test_what_was_delivered_is_dropped() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 0, b"abcdef")
    take(sequence)
    put(sequence, 2, b"XX")
    assert state(sequence) == (6, 6, 0)
    put(sequence, 4, b"XXgh")
    assert take(sequence) == (b"gh", 6)


def test_nothing_ends_beyond_the_farthest_position() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, FARTHEST + 1, b"a")
    assert not sequence.pieces
    put(sequence, FARTHEST - 1, b"abc")
    assert [piece.length for piece in sequence.pieces] == [1]


def test_long_data_is_several_pieces() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 1, bytes(2 * PIECE_MAX + 5))
    assert [piece.length for piece in sequence.pieces] == [PIECE_MAX, PIECE_MAX, 5]


# --- overlaps ---------------------------------------------------------------------------------------------

OLD = (10, 20)
WINNERS = {
    # (start, end) of the new piece: policies by which it wins over the old one, of segments and of fragments
    (5, 15): ("last bsd linux windows", "last bsd linux"),
    (5, 20): ("last bsd linux windows solaris", "last bsd linux solaris"),
    (5, 25): ("last bsd linux windows solaris", "last bsd linux windows solaris"),
    (10, 15): ("last bsd_right", "last bsd_right linux"),
    (10, 20): ("last bsd_right solaris", "last bsd_right linux"),
    (10, 25): ("last bsd_right linux solaris", "last bsd_right linux"),
    (12, 18): ("last bsd_right", "last bsd_right"),
    (15, 20): ("last bsd_right", "last bsd_right"),
    (15, 25): ("last bsd_right solaris", "last bsd_right"),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("whole", [False, True], ids=["segments", "fragments"])
@pytest.mark.parametrize(("start", "end"), WINNERS)
def test_policy(policy: str, whole: bool, start: int, end: int) -> None:
    sequence = Sequence(replace(LINEAR, policy=policy, whole=whole))
    put(sequence, OLD[0], b"o" * 10)
    put(sequence, start, b"n" * (end - start))
    put(sequence, 0, b"." * min(start, OLD[0]))
    data, _ = take(sequence)
    for position in range(min(start, 10), max(end, 20)):
        is_old, is_new = 10 <= position < 20, start <= position < end
        new = is_new and (not is_old or policy in WINNERS[start, end][whole].split())
        assert data[position : position + 1] == (b"n" if new else b"o")


def test_a_winner_leaves_the_pieces_extents() -> None:
    sequence = Sequence(replace(LINEAR, policy="bsd"))
    put(sequence, 10, b"aaaa")
    put(sequence, 20, b"bbbb")
    put(sequence, 8, b"n" * 20)
    assert [(p.position, p.length) for p in sequence.pieces] == [(8, 2), (10, 4), (14, 6), (20, 4), (24, 4)]
    assert all(bytes(p.data) == b"n" * p.length for p in sequence.pieces)


@pytest.mark.parametrize("policy", ["first", "last"])
def test_small_pieces_that_touch_are_one(policy: str) -> None:
    sequence = Sequence(replace(LINEAR, policy=policy))
    put(sequence, 10, b"cd")
    put(sequence, 14, b"gh")
    put(sequence, 12, b"ef")
    put(sequence, 9, b"b")
    assert [(p.position, p.length, bytes(p.data)) for p in sequence.pieces] == [(9, 7, b"bcdefgh")]
    put(sequence, 16, b"x" * (JOINED_MAX - 7))
    put(sequence, 9 + JOINED_MAX, b"y")
    assert [p.length for p in sequence.pieces] == [JOINED_MAX, 1]


def test_extents_that_touch_are_one_however_long() -> None:
    sequence = Sequence(replace(LINEAR, policy="bsd", buffer_data=False))
    put(sequence, 10, b"c" * JOINED_MAX)
    put(sequence, 10 + JOINED_MAX, b"d")
    assert [p.length for p in sequence.pieces] == [JOINED_MAX + 1]


def test_the_policy_sees_the_segment_without_what_was_delivered() -> None:
    sequence = Sequence(replace(LINEAR, policy="bsd"))
    put(sequence, 0, b"abcd")
    take(sequence)
    put(sequence, 4, b"oo")
    put(sequence, 2, b"nnnn")  # clipped it begins with the old piece, and loses
    assert take(sequence) == (b"oo", 4)


segments = st.lists(
    st.tuples(st.integers(0, 80), st.binary(min_size=1, max_size=24), st.booleans()), min_size=1, max_size=25
)


@given(segments)
def test_first_is_the_first_copy_of_every_byte(segments: list[tuple[int, bytes, bool]]) -> None:
    sequence = Sequence(LINEAR)
    known: dict[int, int] = {}
    got = b""
    for position, data, deliver in segments:
        put(sequence, position, data)
        for at, byte in enumerate(data, position):
            known.setdefault(at, byte)
        if deliver:
            got += take(sequence)[0]
    got += take(sequence)[0]
    end = next(at for at in range(200) if at not in known)
    assert got == bytes(known[at] for at in range(end))


@given(segments)
def test_last_is_the_last_copy_before_delivery(segments: list[tuple[int, bytes, bool]]) -> None:
    sequence = Sequence(replace(LINEAR, policy="last"))
    known: dict[int, int] = {}
    got = b""
    for position, data, deliver in segments:
        put(sequence, position, data)
        known.update((at, byte) for at, byte in enumerate(data, position) if at >= len(got))
        if deliver:
            got += take(sequence)[0]
    got += take(sequence)[0]
    assert got == bytes(known[at] for at in range(len(got)))
    assert len(got) not in known


# --- what is known already --------------------------------------------------------------------------------


def overlaps(sequence: Sequence, position: int, data: bytes) -> list[tuple[int, int, bytes, bytes]]:
    found: list[tuple[int, int, bytes, bytes]] = []
    cursor = 0
    while (more := sequence.overlap(position, (data, len(data)), cursor)) is not None:
        cursor, known = more
        assert known.new[1] == known.old[1] == known.length
        found.append((known.offset, known.length, known.new[0], known.old[0]))
    return found


def test_overlaps_come_in_order_delivered_first() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 0, b"abcd")
    take(sequence)
    put(sequence, 6, b"gh")
    put(sequence, 10, b"kl")
    assert overlaps(sequence, 4, b"EF") == []
    assert overlaps(sequence, 0, b"A") == [(0, 1, b"A", b"")]
    assert overlaps(sequence, 2, b"CDEFGHIJK") == [
        (2, 2, b"CD", b""),
        (6, 2, b"GH", b"gh"),
        (10, 1, b"K", b"k"),
    ]


def test_history_keeps_the_old_copy() -> None:
    sequence = Sequence(replace(LINEAR, history=4))
    put(sequence, 0, b"abc")
    take(sequence)
    put(sequence, 3, b"def")
    take(sequence)
    assert overlaps(sequence, 2, b"CDEF") == [(2, 4, b"CDEF", b"cdef")]
    assert overlaps(sequence, 3, b"D") == [(3, 1, b"D", b"d")]
    assert overlaps(sequence, 1, b"BC") == [(1, 2, b"BC", b"")]  # not all of it is kept


def test_history_ends_at_a_gap() -> None:
    sequence = Sequence(replace(LINEAR, history=100))
    put(sequence, 0, b"ab")
    take(sequence)
    put(sequence, 4, b"ef")
    assert sequence.give_up() == Gap(2, 2, False)
    take(sequence)
    assert overlaps(sequence, 0, b"AB") == [(0, 2, b"AB", b"")]
    assert overlaps(sequence, 4, b"EF") == [(4, 2, b"EF", b"ef")]


def test_without_buffer_the_extents_are_known_and_the_bytes_are_not() -> None:
    sequence = Sequence(replace(LINEAR, buffer_data=False))
    put(sequence, 0, b"abcd")
    assert state(sequence) == (4, 4, 0) and take(sequence) == (b"", 4)
    put(sequence, 6, b"gh")
    assert overlaps(sequence, 2, b"CDEFGH") == [(2, 2, b"CD", b""), (6, 2, b"GH", b"")]
    put(sequence, 4, b"ef")
    assert state(sequence) == (8, 8, 0)


# --- space without bytes ----------------------------------------------------------------------------------


def test_a_syn_takes_space_before_offset_0() -> None:
    sequence = Sequence(WRAPPING)
    sequence.begin(100, True)
    put(sequence, 100, b"", units=1)
    assert state(sequence) == (101, 101, 0) and sequence.start == 101
    put(sequence, 101, b"abc")
    assert take(sequence) == (b"abc", 0)


def test_a_fin_takes_space_after_the_bytes() -> None:
    sequence = Sequence(WRAPPING)
    sequence.begin(0, True)
    sequence.insert(0, (b"abc", 3), 4)
    assert sequence.next == 4
    assert take(sequence) == (b"abc", 0)
    assert sequence.delivered == 4 and sequence.skipped == 1
    put(sequence, 4, b"d")
    assert take(sequence) == (b"d", 3)  # not a byte of the stream lies between


def test_a_retransmission_after_a_fin_has_the_offset_of_its_bytes() -> None:
    sequence = Sequence(WRAPPING)
    sequence.begin(0, True)
    put(sequence, 0, b"", units=1)
    sequence.insert(1, (b"abc", 3), 4)
    take(sequence)
    assert overlaps(sequence, 2, b"BC") == [(1, 2, b"BC", b"")]


def test_bytes_take_the_place_of_phantoms() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 5, b"", units=10)
    put(sequence, 8, b"abc")
    assert [(p.kind, p.position, p.length) for p in sequence.pieces] == [
        ("phantom", 5, 3),
        ("data", 8, 3),
        ("phantom", 11, 4),
    ]


def test_bytes_that_replace_a_waiting_phantom_may_reach_farther() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 0, b"abc", units=5)
    assert state(sequence) == (0, 5, 2)
    put(sequence, 3, b"defgh")
    assert state(sequence) == (0, 8, 2)
    assert take(sequence) == (b"abcdefgh", 0)


def test_data_is_clipped_to_its_units() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 0, b"abcdef", units=2)
    assert take(sequence) == (b"ab", 0)


# --- what the snap length took ----------------------------------------------------------------------------


def test_next_stands_at_what_was_cut() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 0, b"ab", wire=6, units=7)
    assert sequence.cut() and sequence.next == 2
    assert [(p.kind, p.length) for p in sequence.pieces] == [("data", 2), ("cut", 4), ("phantom", 1)]
    assert take(sequence) == (b"ab", 0)
    assert sequence.give_up() == Gap(2, 4, True)
    assert sequence.delivered == sequence.next == 7  # the phantom is passed at once
    put(sequence, 7, b"g")
    assert take(sequence) == (b"g", 6)


def test_cut_bytes_may_still_come() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 0, b"ab", wire=4)
    put(sequence, 0, b"abcd")
    assert not sequence.cut()
    assert take(sequence) == (b"abcd", 0)


def test_cut_never_covers_what_is_known() -> None:
    sequence = Sequence(LINEAR)
    put(sequence, 2, b"cd")
    put(sequence, 0, b"", wire=6)
    assert [(p.kind, p.position, p.length) for p in sequence.pieces] == [
        ("cut", 0, 2),
        ("data", 2, 2),
        ("cut", 4, 2),
    ]


# --- giving up --------------------------------------------------------------------------------------------


def test_a_hole_is_given_up_to_the_next_piece() -> None:
    sequence = Sequence(LINEAR)
    assert sequence.give_up() is None
    put(sequence, 3, b"de")
    put(sequence, 9, b"j")
    assert sequence.give_up() == Gap(0, 3, False)
    assert sequence.give_up() is None  # bytes wait
    assert take(sequence) == (b"de", 3)
    assert sequence.give_up() == Gap(5, 4, False)
    assert take(sequence) == (b"j", 9)
    assert sequence.give_up() is None


def test_a_hole_is_given_up_to_the_next_record() -> None:
    sequence = Sequence(LINEAR)
    sequence.record(0, (0,))
    sequence.record(4, (4,))
    put(sequence, 7, b"h")
    assert sequence.give_up() == Gap(0, 4, False)
    assert sequence.give_up() == Gap(4, 3, False)


# --- limits -----------------------------------------------------------------------------------------------


def test_limits() -> None:
    def room(sequence: Sequence, position: int, size: int) -> bool:
        return sequence.room(position, (bytes(size), size), size)

    sequence = Sequence(replace(LINEAR, limit=10, limit_pieces=2, limit_records=2))
    assert room(sequence, 0, 1000)  # in order, and nothing waits
    assert not room(sequence, 5, 11) and room(sequence, 5, 10)
    put(sequence, 5, b"abcde")
    assert room(sequence, 0, 1000)
    assert room(sequence, 20, 5) and not room(sequence, 20, 6)
    put(sequence, 20, b"f")
    assert not room(sequence, 30, 1)  # two pieces
    assert sequence.room(30, (b"", 0), 0)  # nothing to hold
    assert sequence.skip_to(5) == (0, 5, False)  # up to what is held, which then waits
    assert sequence.skip_to(30) is None and sequence.assemble() == ((b"abcde", 5), 5)
    assert sequence.skip_to(15) == (10, 5, False) and sequence.skip_to(15) is None
    assert sequence.skip_to(30) == (15, 5, False)  # and no farther than what is held
    sequence.clear()
    assert sequence.skip_to(0) is None
    assert sequence.skip_to(30) == (0, 30, False) and sequence.skip_to(30) is None
    sequence.clear()
    sequence.record(5, ())
    assert not sequence.full(7)
    sequence.record(6, ())
    assert sequence.full(7) and not sequence.full(0) and room(sequence, 7, 1)
    put(sequence, 5, b"abcdefghij")
    put(sequence, 0, b"x")
    assert not room(sequence, 1, 1)  # in order, but it would have to wait
    take(sequence)
    assert room(sequence, 0, 1)  # delivered before


# --- records ----------------------------------------------------------------------------------------------


def test_records_come_by_position_then_arrival() -> None:
    sequence = Sequence(WRAPPING)
    sequence.begin(0xFFFE, False)
    for meta, value in ((4, 1), (0, 2), (4, 3), (0xFFFF, 4)):
        sequence.record(sequence.position(meta), (value,))
    assert sequence.release() is None
    put(sequence, 0xFFFE, b"abc")
    assert [sequence.release(), sequence.release(), sequence.release()] == [(4,), (2,), None]
    put(sequence, sequence.position(1), b"def")
    assert [sequence.release(), sequence.release(), sequence.release()] == [(1,), (3,), None]


# --- starting anew ----------------------------------------------------------------------------------------


def test_a_stray_packet_does_not_keep_the_base() -> None:
    sequence = Sequence(WRAPPING)
    sequence.begin(500, False)
    sequence.record(600, (1,))
    put(sequence, 700, b"", units=1)
    sequence.begin(100, True)
    assert (sequence.start, state(sequence), sequence.records) == (100, (100, 100, 0), [])


@pytest.mark.parametrize("deliver", [False, True])
def test_bytes_held_or_delivered_keep_the_base(deliver: bool) -> None:
    sequence = Sequence(WRAPPING)
    sequence.begin(500, False)
    put(sequence, 500, b"a")
    if deliver:
        take(sequence)
    sequence.begin(100, True)
    assert sequence.start == 500


def test_a_given_up_gap_keeps_the_base() -> None:
    sequence = Sequence(WRAPPING)
    sequence.begin(500, False)
    sequence.record(510, ())
    assert sequence.give_up() == Gap(0, 10, False)
    sequence.begin(100, True)
    assert sequence.start == 500


def test_clear_forgets_everything() -> None:
    sequence = Sequence(replace(WRAPPING, history=10))
    sequence.begin(500, False)
    put(sequence, 500, b"a")
    take(sequence)
    put(sequence, 510, b"a")
    sequence.record(520, ())
    sequence.clear()
    assert not sequence.based and state(sequence) == (0, 0, 0)
    assert not sequence.records and not sequence.history
