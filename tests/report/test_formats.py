"""Formats of logs: each holds the rows that were written, whole, also when the disk is full."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.report.errors import OutputError
from sluice.report.formats.find import FORMATS, format_named, format_of
from sluice.report.rotation import Limits, Rotating
from tests.report.rows import FUNCTIONS, example, numbered, schema

LOGS = tuple(FUNCTIONS.values())
MORE = Path(__file__).resolve().parents[2] / "examples" / "more_logs" / "expected.jsonl"
NEEDS = {"parquet": "pyarrow", "arrow": "pyarrow", "duckdb": "duckdb"}
KINDS = tuple(one.name for one in FORMATS)


def write(path: Path, function: str, rows: bytes, kind: str, limits: Limits = Limits()) -> list[str]:  # noqa: B008
    """Write rows to a file. Returns the names of the files."""
    if kind in NEEDS:
        pytest.importorskip(NEEDS[kind])
    file = Rotating(str(path), schema(function), format_named(kind), limits)
    try:
        file.write(rows)
    finally:
        file.close()
    return file.files


def flows_in(path: str | Path, kind: str) -> list[int]:
    """The flow numbers of the rows that a file has, which every tool of its format must be able to read."""
    match kind:
        case "csv":
            with open(path, newline="") as file:
                return [int(row["flow"]) for row in csv.DictReader(file)]
        case "zeek":
            return [int(row["flow"]) for row in zeek_rows(Path(path))]
        case "parquet":
            return pytest.importorskip("pyarrow.parquet").read_table(path).column("flow").to_pylist()
        case "arrow":
            return pytest.importorskip("pyarrow.ipc").open_file(path).read_all().column("flow").to_pylist()
        case "duckdb":
            with pytest.importorskip("duckdb").connect(str(path)) as database:
                return [row[0] for row in database.sql("select flow from http order by flow").fetchall()]
        case _:
            name = "flow_id" if kind == "eve" else "flow"
            return [json.loads(line)[name] for line in Path(path).read_text().splitlines()]


def zeek_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of Zeek's TSV as zeek-cut reads them: by its header alone."""
    names: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("#fields"):
            names = line.split("\t")[1:]
        elif not line.startswith("#"):
            yield dict(zip(names, line.split("\t"), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_has_the_rows_that_were_written(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    write(path, "httplog", numbered("httplog", 1000), kind)
    assert flows_in(path, kind) == list(range(1, 1001))


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_rows_is_complete(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    write(path, "httplog", b"", kind)
    assert flows_in(path, kind) == []


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 128 KiB."""
    folder = tmp_path_factory.mktemp("disk")
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "sluice", str(folder)], capture_output=True
    ).returncode:
        pytest.skip("a small file system can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.root
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_an_error_and_whole_rows_stay_readable(kind: str, small_disk: Path) -> None:
    for old in small_disk.iterdir():
        old.unlink()
    path = small_disk / "rows"
    with pytest.raises((OSError, OutputError), match="No space left on device"):
        write(path, "httplog", numbered("httplog", 100_000 if kind in NEEDS else 1000), kind)
    found = flows_in(path, kind)
    assert found == list(range(1, len(found) + 1))
    assert len(found) < 1000 or kind in NEEDS
    assert found or kind == "duckdb"


def test_the_names_of_files_decide() -> None:
    names = (
        "a.jsonl",
        "a.csv",
        "conn.log",
        "eve.json",
        "a.eve.json",
        "a.PARQUET",
        "a.feather",
        "a.duckdb",
        "a",
        "/dev/fd/3",
    )
    kinds = ("json", "csv", "zeek", "eve", "eve", "parquet", "arrow", "duckdb", "json", "json")
    assert tuple(format_of(name).name for name in names) == kinds


def test_an_unknown_format_suggests_the_nearest() -> None:
    with pytest.raises(OutputError, match="did you mean 'parquet'"):
        format_named("parket")


# --- the values ---


@pytest.mark.parametrize("function", LOGS)
def test_csv_has_every_member(function: str, tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", function, example(function), "csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, line in zip(rows, example(function).splitlines(), strict=True):
        expected: dict[str, Any] = json.loads(line)
        for name, value in expected.items():
            text = (
                "" if value is None else value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
            )
            assert row[name] == text
        assert all(row[name] == "" for name in row.keys() - expected.keys())


@pytest.mark.parametrize("function", LOGS)
def test_parquet_has_every_member_with_its_type(function: str, tmp_path: Path) -> None:
    write(tmp_path / "rows", function, example(function), "parquet")
    rows = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "rows").to_pylist()
    for row, line in zip(rows, example(function).splitlines(), strict=True):
        for name, value in json.loads(line).items():
            found = row[name]
            if name.endswith("ts") and isinstance(value, str):
                assert f"{found.timestamp():.6f}" == value[:-3]
            elif isinstance(found, float):
                assert found == float(value)
            else:
                assert found == value, name


def test_a_time_beyond_arrows_and_a_number_for_an_address_are_written(tmp_path: Path) -> None:
    row = json.loads(example("httplog").splitlines()[0])
    row |= {"ts": "18446744073.709551615", "src": 7}
    write(tmp_path / "rows", "httplog", json.dumps(row).encode() + b"\n", "parquet")
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "rows")
    assert table.column("src").to_pylist() == ["7"]


ZEEK = {
    "httplog": {
        "method": "GET",
        "host": "www.example",
        "uri": "/",
        "status_code": "200",
        "resp_mime_types": "text/html",
    },
    "tlslog": {"version": "TLSv12", "server_name": "www.example", "established": "T"},
    "dnslog": {
        "query": "www.example",
        "qtype_name": "A",
        "rcode_name": "NOERROR",
        "answers": "192.0.2.80",
        "rtt": "0.002000000",
    },
    "flowlog": {"proto": "udp", "conn_state": "SF", "duration": "0.002000000", "orig_bytes": "29", "resp_pkts": "1"},
}


@pytest.mark.parametrize("function", LOGS)
def test_zeek_has_its_own_names_and_values(function: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.log"
    write(path, function, example(function), "zeek")
    lines = path.read_text().splitlines()
    assert lines[0] == "#separator \\x09" and lines[-1].startswith("#close\t")
    assert [line.split("\t")[0].split(" ")[0] for line in lines[:8]] == [
        *("#separator", "#set_separator", "#empty_field", "#unset_field", "#path", "#open", "#fields", "#types")
    ]
    assert len(lines[6].split("\t")) == len(lines[7].split("\t")) == len(set(lines[6].split("\t")))
    row = next(zeek_rows(path))
    assert ZEEK[function].items() <= row.items()
    assert row["id.orig_h"] == "10.0.0.11" and row["community_id"].startswith("1:")


def test_zeek_escapes_what_its_separators_are(tmp_path: Path) -> None:
    row = json.loads(example("httplog").splitlines()[0])
    row |= {"path": "/a\tb\\c\nd", "host": "-", "server": "", "user_agent": "(empty)", "response_type": "a,b"}
    write(tmp_path / "rows", "httplog", json.dumps(row).encode() + b"\n", "zeek")
    (found,) = zeek_rows(tmp_path / "rows")
    assert found["uri"] == "/a\\x09b\\x5cc\\x0ad"
    assert (found["host"], found["server"], found["user_agent"]) == ("\\x2d", "(empty)", "\\x28empty)")
    assert found["resp_mime_types"] == "a\\x2cb"


@pytest.mark.parametrize("function", LOGS)
def test_zat_reads_zeeks_format(function: str, tmp_path: Path) -> None:
    reader = pytest.importorskip("zat.zeek_log_reader")
    write(tmp_path / "rows.log", function, example(function), "zeek")
    rows = list(reader.ZeekLogReader(str(tmp_path / "rows.log")).readrows())
    assert len(rows) == example(function).count(b"\n")
    assert rows[0]["id.orig_h"] == "10.0.0.11" and rows[0]["ts"].year == 2023


def test_eve_has_suricatas_shape(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    for function in LOGS:
        write(tmp_path / "eve.json", function, example(function), "eve")
        events += [json.loads(line) for line in (tmp_path / "eve.json").read_text().splitlines()]
    for event in events:
        assert event["timestamp"].startswith("2023-11-14T22:13:20.") and event["timestamp"].endswith("+0000")
        assert {"flow_id", "src_ip", "src_port", "dest_ip", "dest_port", "proto", "community_id"} <= event.keys()
        assert event["event_type"] in event
    kinds = [event["event_type"] for event in events]
    assert kinds == ["http", "http", "tls", "dns", "dns", "flow", "flow", "flow"]
    http, tls, query, answer, flow = (events[number] for number in (0, 2, 3, 4, 6))
    assert http["http"]["hostname"] == "www.example" and http["http"]["status"] == 200
    assert tls["tls"]["sni"] == "www.example" and tls["tls"]["version"] == "TLS 1.2"
    assert query["dns"]["type"] == "query" and answer["dns"]["grouped"] == {"A": ["192.0.2.80"]}
    assert flow["flow"]["pkts_toserver"] == 6 and flow["flow"]["state"] == "closed"


def test_eve_names_what_carries_a_connection(tmp_path: Path) -> None:
    file = next(line for line in MORE.read_bytes().splitlines() if json.loads(line)["log"] == "file")
    carriers = {"eth/ipv4/tcp": "TCP", "eth/ipv4/udp/quic": "UDP", "eth/ipv4/sctp_packet/sctp": "SCTP"}
    for layers, proto in carriers.items():
        for function, line in (("httplog", example("httplog").splitlines()[0]), ("filelog", file)):
            row = json.dumps(json.loads(line) | {"layers": layers}).encode() + b"\n"
            write(tmp_path / "eve.json", function, row, "eve")
            assert json.loads((tmp_path / "eve.json").read_text())["proto"] == proto


# --- files that rotate ---


@pytest.mark.parametrize("kind", KINDS)
def test_files_rotate_by_size(kind: str, tmp_path: Path) -> None:
    rows = numbered("httplog", 3000)
    files = write(tmp_path / "http.x.y", "httplog", rows, kind, Limits(bytes=1 << 20))
    assert Path(files[0]).name == "http.00001.x.y"
    assert [flow for file in files for flow in flows_in(file, kind)] == list(range(1, 3001))
    if kind in ("json", "csv", "zeek", "eve"):
        assert len(files) > 1 or kind != "json"
        assert all(Path(file).stat().st_size <= 1 << 20 for file in files)


def test_files_rotate_by_packet_time(tmp_path: Path) -> None:
    rows = numbered("httplog", 600, seconds=10)
    files = write(tmp_path / "http.csv", "httplog", rows, "csv", Limits(seconds=3600))
    assert [len(flows_in(file, "csv")) for file in files] == [279, 321]  # up to 23:00 UTC, and after
    assert sum(len(flows_in(file, "csv")) for file in files) == 600


def test_standard_output_cannot_rotate() -> None:
    with pytest.raises(OutputError, match="need a name"):
        Rotating("-", schema("httplog"), format_named("csv"), Limits(bytes=1000))
