"""Speed side by side: `make bench`, or `.venv/bin/python bench/run.py [OPTION ...] [FILE ...]`.

Makes its traces (bench/traces.py; real traffic needs root and some programs), builds what it compares with
(bench/programs.py), measures all cases of the groups that are wanted (bench/cases.py) in rounds of random order, each
in a process of its own on a pinned core, and prints the tables. --save keeps the results in bench/results.json and
writes the tables and pictures of docs/performance.md from them; --from FILE makes these without measuring.

With capture files as arguments it measures these instead, with Sluice and all that it is compared with; --pause tells
the slowest single packet of each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parent))

from bench import cases, tables  # noqa: E402
from bench.cases import ALL_PASSES, of_groups, sluice  # noqa: E402
from bench.generated import generated  # noqa: E402
from bench.measuring import Results, Runner, disagreements, read, run  # noqa: E402
from bench.pausing import pauses  # noqa: E402
from bench.plot import bars  # noqa: E402
from bench.programs import MissingError  # noqa: E402
from bench.traces import BY_NAME, TraceFolder  # noqa: E402

ROOT = HERE.parent
PAGE = ROOT / "docs" / "performance.md"
RESULTS = HERE / "results.json"
ATTACKS = HERE / "attacks.json"
EVENTS = HERE / "events.json"
KEPT = {
    RESULTS: tuple(name for name in cases.GROUPS if name not in ("attacks", "events", "resources")),
    ATTACKS: ("attacks",),
    EVENTS: ("events", "resources"),
}
"""Files of results, and the groups that are in each: a group is measured again with all of its file."""
OTHER_TABLES = {"limits": RESULTS, "machine": RESULTS, "attacks_machine": ATTACKS, "events_machine": EVENTS}
"""The tables that are of no group, and the results of each."""
PICTURES = {"assemble-cold": ("assemble", False), "assemble-warm": ("assemble", True), "none-cold": ("none", False)}


def progress() -> Callable[[str], None]:
    """Says on standard error what goes on: one line that changes on a terminal, else a line for each round."""
    terminal = sys.stderr.isatty()
    last = ""

    def say(text: str) -> None:
        nonlocal last
        begin = text.split(",")[0] if text.startswith("round") else text
        if terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif begin != last:
            print(begin, file=sys.stderr, flush=True)
        last = begin

    return say


def kept() -> dict[str, Results]:
    """The results that are kept, of each table."""
    of_file = {path: read(path) for path in KEPT}
    of_group = {name: of_file[path] for path, groups in KEPT.items() for name in groups}
    return of_group | {name: of_file[path] for name, path in OTHER_TABLES.items()}


def write() -> None:
    """The tables and pictures of the page, from the results that are kept."""
    of_table = kept()
    PAGE.write_text(tables.page(PAGE.read_text(), of_table))
    for name, (function, warm) in PICTURES.items():
        (PAGE.parent / f"performance-{name}.svg").write_text(bars(of_table["main"], function, warm))


def measured(options: argparse.Namespace, say: Callable[[str], None]) -> Results:
    """Makes the traces, and measures the groups."""
    wanted = of_groups(options.groups)
    if options.traces:
        wanted = [case for case in wanted if case.trace in options.traces]
    folder = TraceFolder(options.folder, options.divide)
    paths: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for name in dict.fromkeys(case.trace for case in wanted):
        say(f"making trace {name}")
        try:
            paths[name] = folder.path(BY_NAME[name])
        except MissingError as error:
            missing[name] = str(error)
    connections = {name: BY_NAME[name].connections for name in paths}
    runner = Runner(options.folder.parent, paths, connections)
    results = run([case for case in wanted if case.trace in paths], runner, options.rounds, options.seed, say)
    path = options.folder.parent / "results.json"
    path.write_text(results.to_json())
    say(f"kept in {path}, for --from")
    if "generated" in options.groups:
        results.generated = generated(say)
    results.missing |= {case: missing[case.trace] for case in wanted if case.trace in missing}
    return results


def keep(results: Results, groups: list[str]) -> None:
    """Keeps the results of each file all of whose groups were measured."""
    for path, own in KEPT.items():
        if set(own) <= set(groups):
            wanted = of_groups(own)
            part = Results(
                {case: rounds for case, rounds in results.rounds.items() if case in wanted},
                {case: why for case, why in results.missing.items() if case in wanted},
                results.machine,
                results.generated if "generated" in own else [],
            )
            path.write_text(part.to_json())


def measured_files(options: argparse.Namespace, say: Callable[[str], None]) -> str:
    """A line for each case on the files."""
    names = [str(path) for path in options.files]
    own = [
        sluice(name, function, warm, options.stack, passes)
        for name in names
        for function in options.functions.split(",")
        for warm in (False, True)
        for passes in options.passes.split("/")
    ]
    others = [case for case in cases.main(names, options.functions.split(",")) if case.program != cases.SLUICE]
    runner = Runner(options.folder.parent, dict(zip(names, options.files, strict=True)), dict.fromkeys(names, 1 << 18))
    results = run([*others, *own] if options.stack == "tcp_ip" else own, runner, options.rounds, options.seed, say)
    lines = [
        f"{tables.cell(results, case)}  {case}".replace("<sub>", "(").replace("</sub>", ")") for case in results.rounds
    ]
    lines += list(dict.fromkeys(results.missing.values())) + disagreements(results)
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    groups = ",".join(cases.GROUPS)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="capture files to measure instead")
    parser.add_argument("--groups", default=groups, metavar="LIST", help=f"of {groups} (default: all)")
    parser.add_argument("--traces", default="", metavar="LIST", help="only these traces of the groups")
    parser.add_argument("--rounds", type=int, default=9, help="default 9; 0: only --pause")
    parser.add_argument("--seed", type=int, default=1, help="of the order in a round")
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="capture a part of the requests, 1/N")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "bench" / "traces", help="where traces are and are made"
    )
    parser.add_argument("--save", action="store_true", help="keep the results, and write the page from them")
    parser.add_argument("--from", type=Path, dest="source", metavar="FILE", help="results that were kept, not new ones")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the results in this file")
    of_files = parser.add_argument_group("for FILE")
    of_files.add_argument("--stack", default="tcp_ip", help="a name, or a Python file (default tcp_ip)")
    of_files.add_argument("--functions", default="none,assemble", help="with commas (default none,assemble)")
    of_files.add_argument(
        "--passes", default="all/none", help=f"sets of {', '.join(ALL_PASSES)}, with / (default all/none)"
    )
    of_files.add_argument("--pause", action="store_true", help="measure the slowest single packet, too")
    of_files.add_argument("--max-instances", type=int, default=1 << 22, help="of each table, for --pause")
    options = parser.parse_args()
    options.groups = options.groups.split(",")
    options.traces = [name for name in options.traces.split(",") if name]
    for given, known in ((options.groups, cases.GROUPS), (options.traces, BY_NAME)):
        for name in given:
            if name not in known:
                parser.error(f"there is no '{name}'; known are {', '.join(known)}")
    return options


def main() -> None:
    """Measure and print."""
    options = arguments()
    say = progress()
    if options.files:
        if options.rounds:
            print(measured_files(options, say))
        if options.pause:
            print(pauses(options.stack, options.files, 3, options.max_instances))
        return
    results = read(options.source) if options.source else measured(options, say)
    for name in (*options.groups, "machine"):
        print(f"\n{tables.TABLES[name](results)}")
    if options.out:
        options.out.write_text(results.to_json())
    if options.save:
        if not options.source:
            keep(results, options.groups)
        write()


if __name__ == "__main__":
    main()
