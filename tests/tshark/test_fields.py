"""tshark reads the same in the headers of a random sample of the corpus: every field of every protocol.

A protocol's table, `tests/tshark/tables/NAME.py`, says what tshark calls its fields, and why it has none for some.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

import sluice.protocols
from sluice.stacks.find import find_stack
from tests.support.corpus import SHARED, corpus
from tests.support.headers import header_fields, prototypes
from tests.tshark.compare import SAMPLE, WHOLE, compare
from tests.tshark.dissection import available, known_fields
from tests.tshark.table import COUNT, Explained, Table, Where, all_tables

FOLDER = Path(sluice.protocols.__file__).parent
FILES = sorted(path.stem for path in FOLDER.glob("*.py") if "_parser(" in path.read_text())
"""Those that describe parsers; others, as quic_protection.py, only what parsers use."""
STACK = "everything"
TABLES = all_tables()


@cache
def parsers() -> dict[str, dict[str, list[str]]]:
    """The parsers of the stack by the file that they come from, and by name: the fields of their headers."""
    found: dict[str, dict[str, list[str]]] = {}
    for parser in prototypes(find_stack(STACK)):
        fields = found.setdefault(Path(parser.where.file).stem, {}).setdefault(parser.name, [])
        fields += [name for name in header_fields(parser) if name not in fields]
    return found


@pytest.mark.parametrize("file", FILES)
def test_every_field_of_every_protocol_stands_in_a_table(file: str) -> None:
    assert file in TABLES, (
        f"sluice/protocols/{file}.py has no table: write tests/tshark/tables/{file}.py, which says what tshark calls "
        "its fields (tests/tshark/table.py tells how)"
    )
    tables = {table.parser: table for table in TABLES[file]}
    for name, fields in parsers().get(file, {}).items():
        assert name in tables, f"parser '{name}' of sluice/protocols/{file}.py has no table"
        known = tables[name].fields
        missing = [field for field in fields if field not in known]
        assert not missing, f"not in the table of '{name}': {missing}"
        assert set(known) <= set(fields), f"no fields of '{name}': {set(known) - set(fields)}"


def test_tables_are_of_protocols_that_there_are() -> None:
    assert set(TABLES) <= set(FILES)
    for file, tables in TABLES.items():
        assert {table.parser for table in tables} == set(parsers()[file])


def by_parser() -> dict[str, Table]:
    return {table.parser: table for tables in TABLES.values() for table in tables}


@pytest.fixture
def tshark() -> None:
    """Skips where there is no tshark; fails where nothing keeps one from getting it."""
    if not available():
        hint = "there is no tshark: `scripts/setup.sh --tshark` gets it, as root"
        if os.environ.get("CI") and os.geteuid() == 0:
            pytest.fail(hint)
        pytest.skip(hint)


@pytest.mark.usefixtures("tshark")
def test_tshark_has_the_fields_that_tables_name() -> None:
    known = known_fields()
    for table in by_parser().values():
        for how in table.fields.values():
            how = how.how if isinstance(how, Where) else how
            names = (how,) if isinstance(how, str) else how if isinstance(how, tuple) else ()
            unknown = {name for name in names if name not in known}
            assert not unknown, f"{table.parser}: {unknown}"


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.usefixtures("tshark")
def test_tshark_agrees() -> None:
    """On every value of the sample, but for what is explained; and what is explained differs."""
    tables = by_parser()
    result = compare(tables, STACK)
    assert not result.disagreements, "\n".join(map(str, result.disagreements[:40]))
    for parser, table in tables.items():
        compared = [how for how in table.fields.values() if isinstance(how, (str, tuple, Where))]
        if result.packets[parser] and table.nodes and compared:
            assert result.values[parser] > result.packets[parser], f"of '{parser}' nothing was compared"
    if corpus() == SHARED:
        shown = {parser for parser, table in tables.items() if table.nodes}
        assert shown <= set(result.packets), "parsers that no capture has a packet for"
        said = {(p, f, e.reason) for p, table in tables.items() for f, es in table.explained.items() for e in es}
        assert set(result.explained) <= said
        if SAMPLE == WHOLE:
            assert set(result.explained) == said, "explanations that nothing needs"


def test_an_explanation_is_for_a_field_and_for_captures() -> None:
    table = Table("p", "p", {"a": "p.a"}, explained={COUNT: [Explained("one*", "why")]})
    assert table.explanation(COUNT, "one.pcap") == "why"
    assert table.explanation(COUNT, "other.pcap") is None
    assert table.explanation("a", "one.pcap") is None
