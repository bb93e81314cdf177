"""Fills this folder from the shared corpus: `python -m tests.corpus.collect ../shared/corpus`, from the root.

Copied are the generated captures (`gen__*`), with what the programs at their ends say (`app`), and those under a
clearly permissive licence; beside them an excerpt of INDEX.csv and of truth.json, and packets.json: for each capture
the SHA-256 of its packets as the corpus's own reader gives them (see `packets_digest`), which stands in for that reader
where it is not there.
"""

import csv
import hashlib
import importlib.util
import json
import shutil
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
PERMISSIVE = ("Apache-2.0", "MIT", "BSD", "Unlicense")
LAST_TIME = 2**64 - 1


def packets_digest(packets: Iterable[tuple[int, bytes, int, int]]) -> str:
    """SHA-256 over the packets: of each its link type, length on the wire, time in ns and bytes."""
    digest = hashlib.sha256()
    for link_type, data, length, time in packets:
        head = struct.pack("<IIQI", link_type, max(length, len(data)), min(time, LAST_TIME), len(data))
        digest.update(head + data)
    return digest.hexdigest()


def wanted(row: dict[str, str]) -> bool:
    """Whether a capture, by its row of INDEX.csv, may lie in the repository."""
    return row["file"].startswith("gen__") or row["licence"] in PERMISSIVE


def main(source: Path) -> None:
    """Copy from the corpus at `source`; what lay here before and is not wanted goes."""
    spec = importlib.util.spec_from_file_location("corpus_truth", source / "truth.py")
    assert spec is not None and spec.loader is not None
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    with (source / "INDEX.csv").open(newline="") as file:
        table = csv.DictReader(file)
        columns = list(table.fieldnames or [])
        rows = [row for row in table if wanted(row)]
    names = [row["file"] for row in rows]
    for old in HERE.glob("*.pcap*"):
        if old.name not in names:
            old.unlink()
    for name in names:
        shutil.copyfile(source / name, HERE / name)
    shutil.rmtree(HERE / "app", ignore_errors=True)
    (HERE / "app").mkdir()
    for name in names:
        for story in source.glob(f"app/{name}.*"):
            shutil.copyfile(story, HERE / "app" / story.name)
    with (HERE / "INDEX.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    truth = json.loads((source / "truth.json").read_text())
    truths = {entry["file"]: entry for entry in truth["files"]}
    lines = ",\n".join(json.dumps(truths[name], separators=(",", ":")) for name in names)
    schema = json.dumps(truth["schema"])
    (HERE / "truth.json").write_text(f'{{"schema":{schema},"files":[\n{lines}\n]}}\n')
    digests = {name: packets_digest(reader.read_capture(source / name)) for name in names}
    (HERE / "packets.json").write_text(json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
