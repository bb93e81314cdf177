"""The rules of the functions `ids` and `firewall`: read, made into a cached table, and given to the function."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluice.cli.common.errors import UsageError
from sluice.engine.cache import RULES, WORK, cache_folder, trim, use
from sluice.engine.functions import READY, Wanted
from sluice.engine.processor import processor
from sluice.engine.sealed_file import write_sealed
from sluice.engine.trust import UntrustedError, check_folder, open_trusted
from sluice.functions.detect import libraries
from sluice.functions.detect.rules import RuleSet, read_files
from sluice.functions.detect.table import table
from sluice.functions.firewall.rules import read_rules
from sluice.functions.firewall.table import table as firewall_table
from sluice.hooks.parameter_text import split_parameters

IDS, FIREWALL = READY / "ids.c", READY / "firewall.c"


def variables_of(texts: Sequence[str]) -> dict[str, str]:
    """Variables that are given as NAME=VALUE. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier() or not value.strip():
            raise UsageError(f"'{text}' sets no variable: write HOME_NET=10.0.0.0/8 or HTTP_PORTS=[80,8080]")
        found[name] = value.strip()
    return found


def prepare_rules(wanted: Wanted) -> None:
    """Give each `ids` and `firewall` of a run the table of its rules. Skipped rules are listed on standard error."""
    for number, (function, given) in enumerate(zip(wanted.c, wanted.options, strict=True)):
        if Path(function.path) not in (IDS, FIREWALL):
            continue
        texts = split_parameters(function.parameters, given) if isinstance(given, str) else dict(given)
        if texts.get("table"):
            check_table(Path(texts["table"]))
        if not texts.get("rules") or texts.get("table"):
            continue
        if Path(function.path) == FIREWALL:
            rest = {name: text for name, text in texts.items() if name != "rules"}
            wanted.options[number] = {
                **rest,
                "table": str(_stored("firewall", firewall_table(read_rules(texts["rules"])))),
            }
            continue
        variables = variables_of([text for text in texts.get("vars", "").split("+") if text])
        rules = read_files(texts["rules"].split("+"), variables, texts.get("lenient") == "yes")
        list_skipped(rules)
        wanted.options[number] = with_table(texts, rules)


def check_table(path: Path) -> None:
    """Refuse a table that other users could change: its databases are run like code. Raises UsageError."""
    try:
        check_folder(path.parent)
        os.close(open_trusted(path))
    except UntrustedError as error:
        raise UsageError(f"the table of rules is not read: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def with_table(texts: Mapping[str, str], rules: RuleSet) -> dict[str, str]:
    """The parameters of `ids` with the table of rules."""
    rest = {name: text for name, text in texts.items() if name not in ("rules", "vars", "lenient")}
    return {**rest, "table": str(cached_table(rules))}


def cached_table(rules: RuleSet) -> Path:
    """The file with the table of rules: in the cache, by its content and the compiler of its patterns."""
    plain = table(rules.rules, lambda patterns: repr(patterns).encode())
    digest = hashlib.sha256(plain)
    for text in (libraries.version(), processor()):
        digest.update(text.encode() + b"\0")
    folder = cache_folder()
    path = folder / f"ids-{digest.hexdigest()[:32]}{RULES}"
    if use(path) is None:
        write_sealed(path, table(rules.rules), WORK)
        use(path)
        trim(folder)
    return path


def _stored(name: str, content: bytes) -> Path:
    """The file with a table, in the cache by its content."""
    folder = cache_folder()
    path = folder / f"{name}-{hashlib.sha256(content).hexdigest()[:32]}{RULES}"
    if use(path) is None:
        write_sealed(path, content, WORK)
        use(path)
        trim(folder)
    return path


def list_skipped(rules: RuleSet) -> None:
    """Report on standard error which rules are left out, and why."""
    for error in rules.skipped:
        print(f"sluice: skipped: {error}", file=sys.stderr)
