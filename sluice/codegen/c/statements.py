"""Statements of C as a tree, and their text.

The tree has no empty branches, and a branch that leaves precedes one that continues, so that the latter is not nested.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Line:
    """A line of C, indented by `level`."""

    level: int
    text: str


@dataclass(frozen=True)
class Condition:
    """A condition, its opposite, and the comment on the line that tests it.

    `rare`: nearly every packet continues where the condition does not hold. What runs where it holds follows later.
    """

    text: str
    opposite: str
    note: str = ""
    rare: bool = False

    def inverted(self) -> Condition:
        """The opposite as a condition."""
        return Condition(self.opposite, self.text, self.note)

    def joined(self, operator: str, other: Condition) -> Condition:
        """Both conditions, or one of them; `operator` is && or ||."""
        opposite = "&&" if operator == "||" else "||"
        return Condition(
            f"{_operand(self.text, operator)} {operator} {_operand(other.text, operator)}",
            f"{_operand(self.opposite, opposite)} {opposite} {_operand(other.opposite, opposite)}",
            self.note or other.note,
        )


@dataclass
class Plain:
    """A statement in one or more lines. It contains no label."""

    lines: list[str]


@dataclass
class Label:
    """The place of a block that gotos name."""

    block: str


@dataclass
class Goto:
    """A jump to the label of a block; `text` is the statement."""

    block: str
    text: str


@dataclass
class If:
    """An if statement. `no` is empty if there is no else."""

    condition: Condition
    yes: Body
    no: Body = field(default_factory=lambda: [])


@dataclass
class Switch:
    """A switch statement: the body of each group of constants, and of all others."""

    subject: str
    cases: list[tuple[list[str], Body]]
    default: Body


Statement = Plain | Label | Goto | If | Switch
Body = list[Statement]


def branch(condition: Condition, yes: Body, no: Body) -> Body:
    """The statements of a branch."""
    if not yes and not no:
        return []
    if not yes:
        return [If(condition.inverted(), no)]
    if not no:
        return [If(condition, yes)]
    if leaves(yes) and not (leaves(no) and _is_line(no) and not _is_line(yes)):
        return [If(condition, yes), *no]
    if leaves(no):
        return [If(condition.inverted(), no), *yes]
    return [If(condition, yes, no)]


def joined(body: Body) -> Body:
    """The statements with one if for several that differ only in their conditions."""
    out: Body = []
    for statement in body:
        match statement:
            case If(condition, yes, no):
                _add(out, If(condition, joined(yes), joined(no)))
            case Switch(subject, cases, default):
                out.append(Switch(subject, [(values, joined(each)) for values, each in cases], joined(default)))
            case _:
                out.append(statement)
    return out


def _add(body: Body, statement: If) -> None:
    """Add an if statement, joined with the one that it contains or with the one before it if possible."""
    match statement, body[-1] if body else None:
        case If(outer, [If(inner, yes, [])], []), _ if _is_worth_a_branch(outer, inner):
            body.append(If(outer.joined("&&", inner), yes))
        case If(condition, [Goto(target, jump)], []), If(last, [Goto(same)], []) if target == same:
            body[-1] = If(last.joined("||", condition), [Goto(target, jump)])
        case _:
            body.append(statement)


def _is_worth_a_branch(outer: Condition, inner: Condition) -> bool:
    """Whether `inner` is more than a single number. For two numbers, gcc would evaluate both without a branch."""
    return "(" in outer.text + inner.text


def _operand(condition: str, operator: str) -> str:
    """The text of a condition as an operand of && or ||, in parentheses unless its operators bind more tightly."""
    depth = 0
    for at, letter in enumerate(condition):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and condition[at : at + 2] in ("&&", "||") and condition[at : at + 2] != operator:
            return f"({condition})"
        if depth == 0 and letter in "&|^?" and operator not in condition[max(at - 1, 0) : at + 2]:
            return f"({condition})"
    return condition


def leaves(body: Body) -> bool:
    """Whether control never reaches the end of the statements. False if this is not known."""
    match body[-1] if body else None:
        case Goto():
            return True
        case Plain(lines):
            return lines[-1].startswith("return")
        case If(_, yes, no):
            return leaves(yes) and leaves(no)
        case Switch(_, cases, default):
            return leaves(default) and all(leaves(each) for _, each in cases)
        case _:
            return False


def without_labels(body: Body, used: set[str]) -> Body:
    """The statements without the labels that no goto names."""
    out: Body = []
    for statement in body:
        match statement:
            case Label(block) if block not in used:
                continue
            case If(condition, yes, no):
                out += branch(condition, without_labels(yes, used), without_labels(no, used))
            case Switch(subject, cases, default):
                cases = [(values, without_labels(each, used)) for values, each in cases]
                out.append(Switch(subject, cases, without_labels(default, used)))
            case _:
                out.append(statement)
    return out


def text(body: Body, level: int, label: dict[str, str]) -> list[Line]:
    """The statements as lines. `label`: the names of labels, by block."""
    out: list[Line] = []
    for statement in body:
        match statement:
            case Plain(lines):
                out += [Line(level, line) for line in lines]
            case Label(block):
                out.append(Line(0, f"{label[block]}:;"))
            case Goto(_, jump):
                out.append(Line(level, jump))
            case If():
                out += _if(statement, level, label)
            case Switch():
                out += _switch(statement, level, label)
    return out


def _is_line(body: Body) -> bool:
    """Whether the statements are one line that needs no braces."""
    match body:
        case [Goto()]:
            return True
        case [Plain([line])]:
            return not line.startswith("if ")
        case _:
            return False


def _if(statement: If, level: int, label: dict[str, str]) -> list[Line]:
    chain: list[If] = [statement]
    while len(chain[-1].no) == 1 and isinstance(following := chain[-1].no[0], If):
        chain.append(following)
    last = chain[-1].no
    # braces for all branches if one of them needs them
    open_, close = (
        ("", "")
        if all(_is_line(each) for each in [*(i.yes for i in chain), *([last] if last else [])])
        else (" {", "} ")
    )
    out: list[Line] = []
    for at, each in enumerate(chain):
        word = f"{close}else if" if at else "if"
        out.append(Line(level, f"{word} ({each.condition.text}){open_}{each.condition.note}"))
        out += text(each.yes, level + 1, label)
    if last:
        out += [Line(level, f"{close}else{open_}"), *text(last, level + 1, label)]
    return [*out, Line(level, "}")] if open_ else out


def _switch(statement: Switch, level: int, label: dict[str, str]) -> list[Line]:
    out = [Line(level, f"switch ({statement.subject}) {{")]
    for values, body in [*statement.cases, (list[str](), statement.default)]:
        heads = [f"case {value}:" for value in values] or ["default:"]
        if not leaves(body):
            body = [*body, Plain(["break;"])]
        if _is_line(body):
            (line,) = text(body, level, label)
            out += [*(Line(level, head) for head in heads[:-1]), Line(level, f"{heads[-1]} {line.text}")]
        else:
            out += [*(Line(level, head) for head in heads), *text(body, level + 1, label)]
    return [*out, Line(level, "}")]
