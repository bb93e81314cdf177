"""Files of rules in nftables' syntax: tables, chains, sets, counters, definitions, included files."""

from __future__ import annotations

import glob
from pathlib import Path

from sluice.functions.detect.errors import Place, RuleError
from sluice.functions.detect.ranges import union
from sluice.functions.firewall.model import Chain, Ruleset, Table, Verdict
from sluice.functions.firewall.names import HOOKS, PRIORITIES, SET_TYPES, Type
from sluice.functions.firewall.statements import rules
from sluice.functions.firewall.tokens import END, Token, tokens
from sluice.functions.firewall.values import DEPTH_MOST, Cursor, Names, refuse, values

FILE_MOST = 16 << 20
"""Bytes of a file of rules."""
_FAMILIES = ("ip", "ip6", "inet", "bridge")


def read_rules(path: str) -> Ruleset:
    """The rules of a file and of those that it includes. Raises RuleError."""
    reader = _Reader()
    reader.file(path, Place(path, 1), 0)
    for table in reader.found.tables:
        _check(table)
    if not any(chain.hook for table in reader.found.tables for chain in table.chains.values()):
        hook = "type filter hook forward priority 0; policy accept;"
        raise RuleError(
            Place(path, 1), "rules", "no chain has a hook, so no packet would be seen", f"add to a chain: {hook}"
        )
    return reader.found


class _Reader:
    def __init__(self) -> None:
        self.found = Ruleset()
        self.names = Names()

    def file(self, path: str, place: Place, depth: int) -> None:
        if depth > DEPTH_MOST:
            raise RuleError(place, f"'{path}'", "files include each other")
        try:
            with Path(path).open("rb") as stream:
                data = stream.read(FILE_MOST + 1)
        except OSError as error:
            raise RuleError(place, f"'{path}'", f"it cannot be read: {error.strerror}") from None
        if len(data) > FILE_MOST:
            raise RuleError(place, f"'{path}'", f"it has more than {FILE_MOST} bytes")
        self.top(Cursor(tokens(data.decode("utf-8", "replace"), path)), path, depth)

    def top(self, cursor: Cursor, path: str, depth: int) -> None:
        """The statements of a file."""
        cursor.skip_ends()
        while not cursor.done:
            token = cursor.next("a statement")
            match token.text:
                case "define":
                    self.define(cursor)
                case "include":
                    self.include(cursor, path, depth)
                case "flush":
                    cursor.expect("ruleset")
                    if self.found.tables:
                        refuse(token, "rules are not removed again: put it at the beginning")
                case "table":
                    self.table(cursor, token.place)
                case "add" | "create" | "insert" | "delete" | "destroy" | "reset" | "list" | "replace" | "rename":
                    refuse(token, "commands are not read: write blocks, as `nft list ruleset` prints them")
                case _:
                    refuse(token, "a table is expected here: table inet NAME { ... }")
            cursor.end()
            cursor.skip_ends()

    def define(self, cursor: Cursor) -> None:
        """define NAME = VALUE: the tokens up to the end of the line, or of the set."""
        name = cursor.next("a name")
        cursor.expect("=")
        found: list[Token] = []
        open_ = 0
        while open_ or not cursor.is_(END):
            if cursor.done:
                raise RuleError(name.place, f"'{name.text}'", "its definition does not end")
            open_ += cursor.is_("{") - cursor.is_("}")
            found.append(cursor.token)
            cursor.at += 1
        if not found:
            raise RuleError(name.place, f"'{name.text}'", "its definition is empty")
        self.names.variables[name.text] = tuple(found)

    def include(self, cursor: Cursor, path: str, depth: int) -> None:
        """include "FILE": relative to the file; a pattern may match none."""
        token = cursor.next("a file")
        pattern = str(Path(path).parent / token.text)
        many = any(sign in token.text for sign in "*?[")
        for each in sorted(glob.glob(pattern)) if many else [pattern]:
            self.file(each, token.place, depth + 1)

    def table(self, cursor: Cursor, place: Place) -> None:
        token = cursor.next("a table")
        family = "ip"
        if token.text in (*_FAMILIES, "arp", "netdev"):
            if token.text not in _FAMILIES:
                refuse(token, f"tables of this family do not apply: use {', '.join(_FAMILIES)}")
            family, token = token.text, cursor.next("a table's name")
        table = next((each for each in self.found.tables if (each.family, each.name) == (family, token.text)), None)
        if table is None:
            table = Table(family, token.text, place)
            self.found.tables.append(table)
        outer, self.names = self.names, Names()
        self.names.variables = dict(outer.variables)
        if not cursor.is_("{"):
            refuse(cursor.token, "a table is a block: table inet NAME { ... }")
        cursor.expect("{")
        body = cursor.at
        for chains in (False, True):  # rules may use sets and counters that follow them
            cursor.at = body
            self.items(cursor, table, chains)
        self.names = outer

    def items(self, cursor: Cursor, table: Table, chains: bool) -> None:
        cursor.skip_ends()
        while not cursor.take("}"):
            token = cursor.next("a chain, or the '}' of the table")
            match token.text:
                case "chain" if chains:
                    self.chain(cursor, table)
                case "set" | "counter" | "chain":
                    self.named(cursor, table, token, skip=chains or token.text == "chain")
                case "define":
                    self.define(cursor)
                case "comment":
                    cursor.next("a comment")
                case "flags":
                    refuse(token, "a table that is dormant or owned does not apply")
                case "map" | "flowtable" | "limit" | "quota" | "ct" | "secmark" | "synproxy":
                    refuse(token, "this object of a table is not read")
                case _:
                    refuse(token, "a chain, a set or a counter is expected here")
            cursor.end()
            cursor.skip_ends()

    def named(self, cursor: Cursor, table: Table, token: Token, skip: bool) -> None:
        """A set, a counter, or a block that is read at another time."""
        name = cursor.next("a name")
        cursor.expect("{")
        if skip:
            open_ = 1
            while open_:
                if cursor.done:
                    raise RuleError(token.place, f"'{token.text} {name.text}'", "it does not end with '}'")
                open_ += cursor.is_("{") - cursor.is_("}")
                cursor.at += 1
        elif token.text == "counter":
            table.counters[name.text] = token.place
            while not cursor.take("}"):  # the packets and bytes that `nft list` prints
                if cursor.done:
                    raise RuleError(token.place, f"'counter {name.text}'", "it does not end with '}'")
                cursor.at += 1
        else:
            self.set_(cursor, name)

    def set_(self, cursor: Cursor, name: Token) -> None:
        of: Type | None = None
        found: tuple[tuple[int, int], ...] = ()
        cursor.skip_ends()
        while not cursor.take("}"):
            token = cursor.next("the type or the elements of a set")
            match token.text:
                case "type":
                    kind = cursor.next("a type")
                    of = SET_TYPES.get(kind.text)
                    if of is None or cursor.is_("."):
                        refuse(kind, f"sets have one of the types {', '.join(SET_TYPES)}")
                case "flags":
                    flag = cursor.next("a flag")
                    while flag.text in ("interval", "constant") and cursor.take(","):
                        flag = cursor.next("a flag")
                    if flag.text not in ("interval", "constant"):
                        refuse(flag, "elements neither come nor go while packets pass: flags are interval and constant")
                case "elements":
                    cursor.expect("=")
                    if of is None:
                        refuse(token, "the type of the set stands before its elements")
                    found = union([*found, *values(cursor, self.names, of)])
                case "comment":
                    cursor.next("a comment")
                case "auto-merge":
                    pass
                case _:
                    refuse(token, "of sets, type, flags, elements and auto-merge are read")
            cursor.end()
            cursor.skip_ends()
        if of is None:
            raise RuleError(name.place, f"'set {name.text}'", "it has no type")
        self.names.sets[name.text] = of, found

    def chain(self, cursor: Cursor, table: Table) -> None:
        name = cursor.next("a name")
        chain = table.chains.setdefault(name.text, Chain(name.text, name.place))
        cursor.expect("{")
        cursor.skip_ends()
        while not cursor.take("}"):
            if cursor.done:
                raise RuleError(name.place, f"'chain {name.text}'", "it does not end with '}'")
            if cursor.take("type"):
                _hook(cursor, chain)
            elif cursor.is_("policy"):
                _policy(cursor, chain)
            elif cursor.take("comment"):
                cursor.next("a comment")
            else:
                chain.rules += rules(cursor, self.names, set(table.counters))
            cursor.end()
            cursor.skip_ends()


def _hook(cursor: Cursor, chain: Chain) -> None:
    """type filter hook forward priority 0"""
    kind = cursor.next("a type of chain")
    if kind.text != "filter":
        refuse(kind, "only chains of type filter apply: addresses are translated by the function nat")
    cursor.expect("hook")
    hook = cursor.next("a hook")
    if hook.text not in HOOKS:
        refuse(hook, f"packets pass through the box, so that only these hooks apply: {', '.join(HOOKS)}")
    if cursor.is_("device"):
        refuse(cursor.token, "the box has no interfaces by name")
    cursor.expect("priority")
    token = cursor.next("a priority")
    chain.hook = hook.text
    text = token.text
    while cursor.token.text[:1] in ("+", "-") or text[-1] in "+-":  # 'filter + 10', 'filter +10'
        text += cursor.next("a number").text
    base = next((name for name in sorted(PRIORITIES, key=len, reverse=True) if text.startswith(name)), "")
    try:
        chain.priority = PRIORITIES.get(base, 0) + int(text[len(base) :] or 0)
    except ValueError:
        raise RuleError(
            token.place, f"'{text}'", "a priority is a number, or a name as 'filter', with '+ 10' after it"
        ) from None


def _policy(cursor: Cursor, chain: Chain) -> None:
    cursor.expect("policy")
    policy = cursor.next("a policy")
    if policy.text not in ("accept", "drop"):
        refuse(policy, "a policy is accept or drop")
    chain.policy = policy.text


def _check(table: Table) -> None:
    """Jumps have chains without a hook as targets, and form no cycle."""
    nested: dict[str, int] = {}  # the jumps that follow one another from a chain, at most

    def visit(chain: Chain, path: tuple[str, ...]) -> int:
        found = nested.get(chain.name, 0)
        if chain.name in nested:
            return found
        for rule in chain.rules:
            for step in rule.steps:
                if not isinstance(step, Verdict) or step.kind not in ("jump", "goto"):
                    continue
                to = table.chains.get(step.chain)
                if to is None:
                    raise RuleError(step.place, f"'{step.kind} {step.chain}'", "there is no such chain in this table")
                if to.hook:
                    raise RuleError(step.place, f"'{step.kind} {step.chain}'", "it is a chain with a hook")
                if step.chain in path:
                    raise RuleError(step.place, f"'{step.kind} {step.chain}'", "the chains jump in a circle")
                found = max(found, 1 + (visit(to, (*path, step.chain)) if len(path) <= DEPTH_MOST else DEPTH_MOST))
                if found > DEPTH_MOST:
                    raise RuleError(
                        step.place, f"'{step.kind} {step.chain}'", f"jumps are nested more than {DEPTH_MOST} deep"
                    )
        nested[chain.name] = found
        return found

    for chain in table.chains.values():
        visit(chain, (chain.name,))
