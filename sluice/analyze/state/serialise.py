"""Writes C that describes the content of a program's variables, so that their contents can be exported and imported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sluice.analyze.report.model import Analysis, Variable, read
from sluice.analyze.run import tool_arguments
from sluice.analyze.toolchain import run_tool

LIBRARY_TYPES = frozenset(
    "FILE _IO_FILE pcap pcap_t DIR __dirstream event_base event ev_loop SSL ssl_st SSL_CTX ssl_ctx_st "
    "nfq_handle nfq_q_handle rte_mempool rte_ring addrinfo".split()
)
"""Objects of libraries: the other instance has its own."""


@dataclass(frozen=True)
class Note:
    """Something that a person has to handle, or should know."""

    where: str
    what: str


@dataclass(frozen=True)
class Code:
    """The generated code."""

    text: str
    variables: int
    """Exported ones."""
    types: int
    by_hand: list[Note]
    shapes: dict[str, str]
    """For variables that refer to a structure: list, hash table, tree, array, ..."""


def serialise(
    module: str, models: Iterable[str] = (), not_receive: Iterable[str] = (), assume: Iterable[str] = ()
) -> Code:
    """The C that exports and imports the state of a program. Raises AnalyzeError."""
    arguments = tool_arguments(module, models, not_receive, assume)
    found = run_tool("analyze", "--types", *arguments, module)
    return _Writer(read(module, found), found).code()


_UNKNOWN = (
    "/* Memory of which no type is known. */",
    "static const struct sluice_member members_unknown[] = {",
    '  {"", 0, SLUICE_MAYBE, 0, 1},',
    "};",
    'static const struct sluice_type type_unknown = {"", 8, members_unknown, 1, 0, 1};',
)


class _Writer:
    def __init__(self, analysis: Analysis, found: dict[str, Any]) -> None:
        self.analysis = analysis
        self.types: list[dict[str, Any]] = found["types"]["list"]
        raw: list[dict[str, Any]] = found["variables"]
        numbered = zip(raw, found["types"]["of"], strict=True)
        self.numbered = [(one, number) for one, number in numbered if one["updates"] or one["reached"]]
        self.allocated: list[int] = found["types"]["allocated"]
        self.by_hand: list[Note] = []
        self.used: dict[int, list[str]] = {}
        self.order: list[int] = []

    def code(self) -> Code:
        state = {(one.declared.file, one.declared.line, one.name): one for one in self.analysis.state}
        rows: list[str] = []
        shapes: dict[str, str] = {}
        exported = 0
        for one, number in self.numbered:
            name = f"{one['function']}: {one['name']}" if one["function"] else one["name"]
            variable = state.get((one["declared"]["file"], one["declared"]["line"], one["name"]))
            type_name = self._outer(number, name)
            exported += variable is not None
            if variable is not None:
                shapes[name] = self.shape(number)
            rows.append(self._row(name, variable, type_name))
        allocated = [self._use(number) for number in self.allocated]
        bodies = [self._body(number) for number in self._all()]
        declarations = [f"static const struct sluice_type type_{self._label(number)};" for number in self.order]
        notes = [f" *   {note.where}: {note.what}" for note in self.by_hand]
        head = [
            "/* The state of a program, for the run-time library. Written by `sluice analyze serialise`.",
            " *",
            *([" * For a person to handle:", *notes] if notes else [" * Nothing is left for a person to handle."]),
            " */",
            '#include "sluice_state.h"',
            "",
            *_UNKNOWN,
            "",
        ]
        tail = [
            "const struct sluice_variable sluice_state_types[] = {",
            *rows,
            "  {0, 0, 0},",
            "};",
            f"const uint64_t sluice_state_type_count = {len(rows)};",
            "const struct sluice_type *const sluice_state_structures[] = {",
            *(f"  {name}," for name in allocated),
            "  0,",
            "};",
            "",
        ]
        text = "\n".join([*head, *declarations, "", *bodies, *tail])
        return Code(text, exported, len(self.order), self.by_hand, shapes)

    def _row(self, name: str, variable: Variable | None, type_name: str) -> str:
        comment = ""
        if variable is not None:
            comment = f" /* {self._keyed(variable)} */"
        return f'  {{"{name}", {type_name}, {int(variable is not None)}}},{comment}'

    @staticmethod
    def _keyed(variable: Variable) -> str:
        return "of the flow: " + ", ".join(variable.fields).replace("*/", "") if variable.key else "of all flows"

    def _outer(self, number: int, where: str) -> str:
        """The type of a variable: a record that contains it, if it is none."""
        if number < 0:
            return "0"
        kind = self.types[number]["kind"]
        if kind == "array":
            number, _ = self._element(number)
            kind = self.types[number]["kind"] if number >= 0 else "base"
        if kind in ("record", "union"):
            return self._use(number)
        return self._pointers(number, where) if kind == "pointer" else "0"

    def _pointers(self, number: int, where: str) -> str:
        """A record with one member, a pointer: variables and memory that contain pointers are arrays of it."""
        key = -2 - number
        if key not in self.used:
            self.used[key] = []
            self.order.append(key)
            self.used[key] = [self._member({"name": "pointer", "offset": 0, "type": number}, where)]
        return f"&type_{self._label(key)}"

    def _all(self) -> list[int]:
        """Types in the order in which they were found; writing one finds others."""
        done: list[int] = []
        while len(done) < len(self.order):
            number = self.order[len(done)]
            if number >= 0:
                one = self.types[number]
                self.used[number] = self._members(one)
            done.append(number)
        return done

    @staticmethod
    def _label(number: int) -> str:
        return str(number) if number >= 0 else f"of_{-2 - number}"

    def _use(self, number: int) -> str:
        if number not in self.used:
            self.used[number] = []
            self.order.append(number)
        return f"&type_{self._label(number)}"

    def _members(self, one: dict[str, Any]) -> list[str]:
        name = one["name"]
        if one["kind"] == "union":
            return [f'  {{"", {offset}, SLUICE_MAYBE, 0, 1}},' for offset in sorted(self._pointers_in(one, 0, 0))]
        return [self._member(member, f"{name}.{member['name']}") for member in one["members"] if not member.get("bits")]

    def _member(self, member: dict[str, Any], where: str) -> str:
        number, count = self._element(member["type"])
        kind, of, note = "SLUICE_BYTES", "0", ""
        one: dict[str, Any] = self.types[number] if number >= 0 else {"kind": "base", "bytes": 0}
        if one["kind"] in ("record", "union"):
            kind, of = "SLUICE_RECORD", self._use(number)
        elif one["kind"] == "pointer":
            kind, of, note = self._pointer(one["of"], where)
        if kind != "SLUICE_RECORD" and one["kind"] != "pointer":
            count = count * one["bytes"] if one["bytes"] else count
        text = f'  {{"{member["name"]}", {member["offset"]}, {kind}, {of}, {count}}},'
        return f"{text} /* {note} */" if note else text

    def _pointer(self, target: int, where: str) -> tuple[str, str, str]:
        number, _ = self._element(target) if target >= 0 else (-1, 1)
        if number < 0:
            return "SLUICE_POINTER", "&type_unknown", "void"
        one = self.types[number]
        if one["kind"] == "function":
            return "SLUICE_POINTER", "0", "a function"
        if one["kind"] == "unknown" or _plain(one["name"]) in LIBRARY_TYPES:
            return "SLUICE_KEPT", "0", f"{one['name']}: the other instance keeps its own".replace("*/", "")
        if one["kind"] in ("record", "union"):
            return "SLUICE_POINTER", self._use(number), ""
        if one["kind"] == "pointer":
            return "SLUICE_POINTER", self._pointers(number, where), ""
        return "SLUICE_POINTER", "0", ""

    def _element(self, number: int) -> tuple[int, int]:
        """The type of an array's elements, and how many there are: of a type that is none, itself."""
        count = 1
        while number >= 0 and self.types[number]["kind"] == "array":
            count *= self.types[number]["count"]
            number = self.types[number]["of"]
        return number, count

    def _pointers_in(self, one: dict[str, Any], at: int, depth: int) -> set[int]:
        """Offsets at which a structure or union may contain a pointer."""
        found: set[int] = set()
        for member in one.get("members", []):
            number, count = self._element(member["type"])
            if number < 0 or depth > 8:
                continue
            inner = self.types[number]
            for index in range(min(count, 256)):
                offset = at + member["offset"] + index * inner["bytes"]
                found |= {offset} if inner["kind"] == "pointer" else self._pointers_in(inner, offset, depth + 1)
        return found

    def _body(self, number: int) -> str:
        label = self._label(number)
        one: dict[str, Any] = {"name": "pointer", "bytes": 8, "members": []} if number < 0 else self.types[number]
        members = self.used[number]
        opens = bool(one.get("members")) and self._is_open(one)
        lines = [
            f"static const struct sluice_member members_{label}[] = {{",
            *members,
            "  {0, 0, SLUICE_BYTES, 0, 0},",
            "};",
        ]
        name = _plain(one["name"])
        lines.append(
            f"static const struct sluice_type type_{label} = "
            f'{{"{name}", {one["bytes"]}, members_{label}, {len(members)}, {int(opens)}, 0}};'
        )
        return "\n".join([*lines, ""])

    def _is_open(self, one: dict[str, Any]) -> bool:
        last: int = one["members"][-1]["type"]
        return last >= 0 and self.types[last]["kind"] == "array" and int(self.types[last]["count"]) <= 1

    def shape(self, number: int) -> str:
        """The structure of a variable, as far as its type shows it."""
        element, count = self._element(number)
        one: dict[str, Any] = self.types[element] if element >= 0 else {"kind": "base"}
        many = number >= 0 and self.types[number]["kind"] == "array" and count > 1
        depth = 0
        while one["kind"] == "pointer":
            target, _ = self._element(one["of"]) if one["of"] >= 0 else (-1, 1)
            element, depth = target, depth + 1
            one = self.types[target] if target >= 0 else {"kind": "base"}
        if one["kind"] != "record":
            return "array" if many else "pointer" if depth else "value"
        links = sum(1 for member in one["members"] if self._leads_to(member["type"], element))
        buckets = many + depth > 1
        if links and depth:
            names = " ".join(member["name"] for member in one["members"])
            if links > 1 and re.search(r"left|right|child", names):
                return "tree"
            return "hash table" if buckets else "list"
        return "array of structures" if many or depth > 1 else "structure"

    def _leads_to(self, number: int, to: int) -> bool:
        number, _ = self._element(number)
        if number < 0 or self.types[number]["kind"] != "pointer":
            return False
        target, _ = self._element(self.types[number]["of"]) if self.types[number]["of"] >= 0 else (-1, 1)
        return bool(target == to)


def _plain(name: str) -> str:
    return re.sub(r"^(struct|union) ", "", name).replace('"', "")
