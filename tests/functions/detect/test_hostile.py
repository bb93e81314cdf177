"""Hostile packets and tables: each bound counts with its reason, and the sanitizers find nothing."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import sluice
from sluice.engine.box import Box, Settings
from sluice.engine.cache import cache_folder
from sluice.functions.detect.errors import Place
from sluice.functions.detect.libraries import database, pcre_options
from sluice.functions.detect.model import Pcre
from sluice.functions.detect.rules import Reader, RuleSet
from sluice.functions.detect.table import table
from tests.functions.detect import hostile
from tests.functions.detect.boxes import (
    SECOND,
    START,
    Alerts,
    compiled,
    connection,
    datagram,
    needs_ids,
    packets,
    rule,
    run,
)
from tests.robust.test_sanitized import sanitizer_library

pytestmark = needs_ids

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow_matrix
@pytest.mark.sanitizer
def test_hostile_packets_are_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sanitizer_library()
    if found is None:
        pytest.skip("the C compiler has no AddressSanitizer library to load into Python")
    library, flags = found
    monkeypatch.setenv("SLUICE_CFLAGS", flags)
    monkeypatch.setenv("SLUICE_CACHE", str(cache_folder() / "sanitized"))
    hostile.stack.__wrapped__()  # compiled here: the compiler itself is not to run under the sanitizer
    environment = {
        **os.environ,
        "PYTHONPATH": f"{Path(sluice.__file__).resolve().parents[1]}{os.pathsep}{ROOT}",
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:handle_segv=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
    }
    words = [sys.executable, "-P", "-m", "tests.functions.detect.hostile"]
    run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-6000:]
    assert int(run.stdout.split()[-1]) > 20_000


def test_an_expression_that_backtracks_is_bounded() -> None:
    rules = rule('content:"a"; pcre:"/(a+)+c/";')
    found = packets(connection([(">", b"a" * 3000 + b"bc")]), rules)
    assert found.rows == [] and found.reports["ids_bounded_matches"] > 0


def test_contents_that_are_tried_again_and_again_are_bounded() -> None:
    rules = rule('content:"a"; content:"a"; distance:0; content:"a"; distance:0; content:"b"; distance:0;')
    found = packets(connection([(">", b"a" * 4000)]), rules)
    assert found.rows == [] and found.reports["ids_bounded_matches"] > 0


def test_a_pcre_that_is_tried_again_and_again_is_bounded_for_the_whole_packet() -> None:
    options = r'content:"a"; pcre:"/[^\n]*evil\d/R";'
    rules = "".join(rule(options, "udp any any -> any any", sid) for sid in (1, 2))
    found = packets([datagram(b"a" * 65_400 + b"evil "), datagram(b"aevil1")], rules)
    assert found.sids == [1, 2] and found.reports["ids_bounded_matches"] == 2


def test_a_pcre_with_many_alternatives_matches_a_long_text() -> None:
    rules = rule('content:"user="; pcre:"/user=(?:[a-z]|%[0-9a-f]{2})*evil/";', "udp any any -> any any")
    found = packets([datagram(b"user=" + b"a" * length + b"evil") for length in (1000, 4000, 8000)], rules)
    assert found.sids == [1, 1, 1] and found.reports["ids_bounded_matches"] == 0


def test_alerts_are_written_within_a_second(tmp_path: Path) -> None:
    reader = Reader()
    reader.read(rule('content:"evil";', "udp any any -> any any"), "a.rules")
    (tmp_path / "table").write_bytes(table(reader.found.rules))
    out = tmp_path / "out"
    with Box(compiled(), Settings(seed=1, max_instances=1 << 10), [], [f"table={tmp_path}/table,out={out}"]) as box:
        packet = datagram(b"evil")
        box.packet(packet, START, 1, len(packet))
        assert out.read_text() == ""
        packet = datagram(b"good")
        box.packet(packet, START + SECOND, 1, len(packet))
        assert out.read_text().count("\n") == 1
        box.finish()


def given(frames: Sequence[bytes], rules: str, made: Callable[[RuleSet], bytes]) -> Alerts:
    """The alerts about packets, with a table that is made in another way."""
    return run(lambda box: [box.packet(data, START, 1, len(data)) for data in frames], rules, made=made)


def test_a_database_with_more_patterns_than_its_group_has() -> None:
    rules = rule('content:"evil";') + rule('content:"evil";', "udp any any -> any any", 2)
    more = [(b"more%d" % number, False) for number in range(2000)]
    said = b"".join(text for text, _ in more)
    frames = [*connection([(">", said)]), datagram(said)]
    assert given(frames, rules, lambda found: table(found.rules, lambda texts: database([*texts, *more]))).rows == []


def test_options_of_a_pcre_in_a_table_are_those_that_rules_can_have() -> None:
    utf = 0x00080000 | 0x40000000  # PCRE2_UTF, and PCRE2_NO_UTF_CHECK, with which malformed text is read beyond its end
    known = struct.pack("<III", 1, 0, pcre_options(Pcre(Place("", 0), "")))

    def changed(found: RuleSet) -> bytes:
        assert table(found.rules).count(known) == 1
        return table(found.rules).replace(known, struct.pack("<III", 1, 0, utf))

    rules = rule('content:"a"; pcre:"/^a.$/";', "udp any any -> any any")
    assert given([datagram("a\u00e9".encode())], rules, changed).rows == []
    assert given([datagram(b"a\xe9")], rules, changed).sids == [1]


def test_bounds_of_flows_and_memory_are_counted() -> None:
    frames = [
        frame for port in range(20) for frame in connection([(">", b"evil")], client_port=1000 + port, close=False)
    ]
    rules = rule('content:"evil";')
    assert len(packets(frames, rules).rows) == 20
    few = packets(frames, rules, "flows=5")
    assert len(few.rows) == 5 and few.reports["ids_flows_left_out"] == 15
    little = packets(frames, rules, "memory=4000")
    assert 0 < len(little.rows) < 20 and little.reports["ids_no_room"] > 0


def test_headers_without_memory_are_counted() -> None:
    request = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 30_000 + b"\r\n\r\n"
    found = packets(connection([(">", request)]), rule('content:"never"; http_header;'), "memory=20000")
    assert found.reports["ids_no_room"] > 0


def test_a_side_remembers_a_bounded_number_of_rules() -> None:
    rules = "".join(rule(f'content:"word{number:04}"; content:"never";', sid=number + 1) for number in range(400))
    said = b" ".join(b"word%04d" % number for number in range(400))
    found = packets(connection([(">", said)]), rules)
    assert found.rows == [] and found.reports["ids_many_rules"] > 0
    attack = rule('content:"exploit"; content:"shell"; distance:0;', sid=999)
    found = packets(connection([(">", said), (">", b"exploit"), (">", b"a shell")]), rules + attack)
    assert found.sids == [999]


def test_a_long_body_is_inspected_as_far_as_the_bound() -> None:
    post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n" + b"x" * 10 + b"evil" + b"y" * 6
    rules = rule('content:"evil"; http_client_body;')
    assert packets(connection([(">", post)]), rules, "body=14").sids == [1]
    cut = packets(connection([(">", post)]), rules, "body=13")
    assert cut.rows == [] and cut.reports["ids_http_cut"] == 1


def test_a_request_that_the_parser_refuses_is_inspected_as_far_as_it_was_read() -> None:
    smuggled = b"POST /evil HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    rules = rule('content:"/evil"; http_uri;') + rule('content:"chunked"; http_header;', sid=2)
    found = packets(connection([(">", smuggled)]), rules)
    assert 1 in found.sids and found.reports["ids_http_incomplete"] == 1


def test_the_steps_of_compiled_pcres_are_bounded() -> None:
    """Repeats of one character without alternatives, which no limit of PCRE2's counts, and nested ones."""
    for expression in (r"/a++x/", r"/a.*b.*c.*d.*e/s", r"/(?:a|a)+x/", r"/(a?){30}ax/", r"/(.)+\1x/"):
        rules = rule(f'content:"a"; pcre:"{expression}";', "udp any any -> any any")
        found = packets([datagram(b"a" * 60_000 + b"-edcbx")], rules)
        assert found.rows == [] and found.reports["ids_bounded_matches"] > 0, expression
