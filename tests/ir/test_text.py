"""The text form: what is printed is read back as it was, for every kind of instruction and expression."""

import dataclasses

import pytest

from sluice.ir.expression import MASK, Binary, Const, Expr, Flip, Length, Reg, Slice, Sum
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import (
    INSTRUCTIONS,
    Assign,
    Branch,
    Count,
    End,
    Goto,
    Instruction,
    ReleaseSeq,
    Return,
    Terminator,
)
from sluice.ir.text import IrSyntaxError, parse_graph, print_graph, print_instruction
from sluice.lang.where import Where

NUMBER = Reg("header.a", 16)
OTHER = Reg("perm.b", 64)
DATA = Reg("local.data", 0)
SAMPLES: dict[str, object] = {
    "Reg": NUMBER,
    "Expr": Binary("+", NUMBER, Const(7)),
    "tuple[Reg, ...]": (Reg("v.a", 8), Reg("v.b", 1)),
    "tuple[Expr, ...]": (NUMBER, DATA, Const(3)),
    "int": 12,
}


def sample(cls: type[Instruction]) -> Instruction:
    """An instruction of a kind, with something in every operand."""
    values: list[object] = []
    for item in dataclasses.fields(cls):
        if item.name == "where" or not item.init:
            continue
        kind = str(item.type)
        if item.name in ("to", "yes", "no", "cut", "short") and kind == "str":
            values.append(f"block {item.name}")
        else:
            values.append(SAMPLES.get(kind, "some text: with, (all) sorts"))
    return cls(*values)


def graph_of(instruction: Instruction) -> Graph:
    instructions = [instruction]
    if not isinstance(instruction, Terminator):
        instructions.append(Return(Const(0)))
    blocks = {"entry": Block("entry", instructions)}
    if isinstance(instruction, Terminator):
        for target in instruction.targets():
            blocks[target] = Block(target, [Return(Const(0))])
    return Graph("sample", "entry", (NUMBER, DATA, OTHER), blocks)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instruction_round_trip(name: str):
    instruction = sample(INSTRUCTIONS[name])
    graph = graph_of(instruction)
    text = print_graph(graph)
    again = parse_graph(text)
    assert again.blocks["entry"].instructions[0] == instruction
    assert print_graph(again) == text


EXPRESSIONS: dict[str, Expr] = {
    "number": Const(MASK),
    "register": NUMBER,
    "arithmetic": Binary("-", Binary("*", NUMBER, Const(2)), Binary("%", OTHER, Const(3))),
    "shift": Binary("<<", Binary(">>", NUMBER, Const(1)), Const(2)),
    "logic": Binary("^", Binary("&", NUMBER, Const(1)), Binary("|", OTHER, Const(2))),
    "comparison": Binary("!=", Binary("<=", NUMBER, OTHER), Binary("==", OTHER, Const(0))),
    "serial": Binary("<", Binary("+", NUMBER, Const(1), 16), OTHER, 32),
    "flip": Flip(Flip(NUMBER, 16), 1),
    "length": Length(DATA),
    "captured": Length(Slice(DATA, Const(1), OTHER), captured=True),
    "open slice": Length(Slice(DATA, NUMBER, Const(MASK))),
    "slice of slice": Length(Slice(Slice(DATA, Const(0), Const(9)), Const(1), Const(2))),
    "sum": Sum(DATA, ()),
    "sum with pseudo header": Sum(Slice(DATA, Const(2), Const(4)), (NUMBER, DATA, Const(6))),
}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_expression_round_trip(expression: Expr):
    graph = graph_of(Assign(Reg("local.x", 64), expression))
    assert parse_graph(print_graph(graph)).blocks["entry"].instructions[0] == graph.blocks["entry"].body[0]


def test_empty_lists():
    release = ReleaseSeq(Reg("local.more", 1), (), NUMBER)
    assert print_instruction(release) == "local.more:u1 = ReleaseSeq(#0, header.a)"
    assert parse_graph(print_graph(graph_of(release))).blocks["entry"].instructions[0] == release


def test_registers_from_outside_are_declared():
    graph = graph_of(Assign(Reg("local.x", 16), Reg("slot.ip.src", 32)))
    text = print_graph(graph)
    assert text.splitlines()[0] == ("graph sample (header.a:u16, local.data:bytes, perm.b:u64) uses (slot.ip.src:u32)")
    assert print_graph(parse_graph(text)) == text


def test_lines_of_the_description():
    graph = graph_of(Count("x", where=Where("/home/me/udp.py", 12)))
    assert "; udp.py:12" in print_graph(graph)
    assert "udp.py" not in print_graph(graph, lines=False)
    assert print_graph(parse_graph(print_graph(graph))) == print_graph(graph)


def test_blocks_in_order_then_the_rest():
    graph = Graph("g", "entry", (), {})
    graph.blocks = {
        "lost": Block("lost", [End("lost")]),
        "last": Block("last", [End("done")]),
        "entry": Block("entry", [Goto("last")]),
    }
    names = [line[:-1] for line in print_graph(graph).splitlines()[1:] if not line.startswith(" ")]
    assert names == ["entry", "last", "lost"]


HEAD = "graph g (header.a:u16, local.data:bytes)\n"
ERRORS = {
    "no graph": ("layer x\n", "line 1: a graph begins with"),
    "no block": ("graph g ()\n", "line 1: a graph without blocks"),
    "outside a block": (HEAD + "  Return(0)\n", "line 2: an instruction outside a block"),
    "unknown instruction": (HEAD + "entry:\n  Frobnicate(1)\n", "line 3: unknown instruction 'Frobnicate'"),
    "no instruction": (HEAD + "entry:\n  what is this\n", "line 3: not an instruction"),
    "no type": (HEAD + "entry:\n  Return(header.b)\n", "line 3: register 'header.b' has no type"),
    "no parenthesis": (HEAD + "entry:\n  Return((header.a + 1)\n", "line 3: missing ')'"),
    "unknown function": (HEAD + "entry:\n  Return(double(header.a))\n", "line 3: unknown function 'double'"),
    "too early": (HEAD + "entry:\n\n  Load(header.a)\n", "line 4: "),
    "strange letter": (HEAD + "entry:\n  Return(header.a ? 1)\n", "line 3: cannot read"),
    "no operator": (HEAD + "entry:\n  Return((header.a 1 2))\n", "line 3: "),
    "more than the operands": (HEAD + "entry:\n  Count('x' 5)\n", "line 3: "),
    "registers missing": (HEAD + "entry:\n  local.m:u1 = ReleaseSeq(#2, header.a)\n", "line 3: "),
    "type without a width": ("graph g (header.a:u)\nentry:\n  Return(0)\n", "line 1: "),
    "nothing": ("", "line 1: "),
    "no type after the colon": ("graph g (header.a:16)\n", "line 1: '16' is no type"),
    "no comma": (
        HEAD + "entry:\n  local.x:u8, local.y:u8 local.z:u8 = Lookup([], [])\n",
        "line 3: missing '='",
    ),
    "no register": (HEAD + "entry:\n  Assign(1)\n", "line 3: no register for operand 'target'"),
    "register too many": (
        HEAD + "entry:\n  a:u8, b:u8 = Assign(1)\n",
        "line 3: the instruction does not set 'b'",
    ),
    "operand missing": (HEAD + "entry:\n  NextLayer('x')\n", "line 3: missing ','"),
    "number as text": (HEAD + "entry:\n  Count(5)\n", "line 3: operand 'counter' is text"),
    "text as number": (HEAD + "entry:\n  EndInst('x')\n", "line 3: expected a number"),
    "one for several": (HEAD + "entry:\n  Call('x', 0, 1)\n", "line 3: missing '['"),
    "no target": (HEAD + "entry:\n  Goto()\n", "line 3: missing 'to'"),
    "other target": (HEAD + "entry:\n  Goto() yes: entry\n", "line 3: missing 'to'"),
    "target without a name": (HEAD + "entry:\n  Goto() to: \n", "line 3: expected the name of a block"),
    "target too many": (HEAD + "entry:\n  Goto() to: entry, no: entry\n", "line 3: unexpected ', no: entry'"),
    "text after": (HEAD + "entry:\n  Return(0) 1\n", "line 3: unexpected '1'"),
    "text after a block": (HEAD + "entry: x\n", "line 2: unexpected 'x'"),
    "block twice": (HEAD + "entry:\n  Return(0)\nentry:\n", "line 4: there is a block 'entry' already"),
    "slice without an end": (HEAD + "entry:\n  Return(length(local.data[1:2))\n", "line 3: missing ']'"),
    "arguments of a function": (HEAD + "entry:\n  Return(length(1, 2))\n", "line 3: function 'length' has"),
    "flip without a width": (HEAD + "entry:\n  Return(flip.x(1))\n", "line 3: unknown function 'flip.x'"),
    "open string": (HEAD + "entry:\n  Count('x)\n", "line 3: cannot read"),
}


@pytest.mark.parametrize(("text", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_the_line(text: str, message: str):
    with pytest.raises(IrSyntaxError) as caught:
        parse_graph(text)
    assert str(caught.value).startswith(message)


NAMES = {
    "quote": "it's",
    "double quote": 'a "b" c',
    "backslash": "a\\b\\",
    "escape": "\\u{41}",
    "colon inside": "end malformed:no const",
    "colon and space": "end malformed: no const",
    "colon at the end": "end malformed:no:",
    "colon at the beginning": ":",
    "word of a target": "one, no: two",
    "comment": "a ; b.py:1",
    "parenthesis": "end f(x)",
    "spaces": " a  b ",
    "nothing": "",
    "letters": "größe 数",
    "digits": "12",
    "line break": "a\nb\r\u2028c",
    "tab": "a\tb",
    "sharp": "sdu #2",
    "operators": "a <= b",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_any_name_is_read_back(name: str):
    """Of blocks, outcomes, registers, graphs: descriptions may bring along any text."""
    register = Reg("local." + name, 16)
    for instruction in (
        Count(name),
        End(name),
        Goto(name),
        Branch(register, name, "other " + name),
        Assign(register, Binary("+", Reg("slot." + name, 8), register)),
    ):
        graph = graph_of(instruction)
        graph.name = name
        again = parse_graph(print_graph(graph))
        assert again == graph
        assert again.blocks.keys() == graph.blocks.keys()


PLAIN = ["there", "end cut:header", "malformed:header too short", "sdu #2", "item tcp_mss", "a/b-c"]


@pytest.mark.parametrize("name", PLAIN)
def test_plain_names_stand_without_quotes(name: str):
    assert f"to: {name}\n" in print_graph(graph_of(Goto(name)))
    assert f"\n{name}:\n" in print_graph(graph_of(Goto(name)))


@pytest.mark.parametrize("file", ["/home/me/my stack.py", "it's; a: b.py", "new\nline.py", "(x)"])
def test_any_file_name(file: str):
    instruction = Goto("next", where=Where(file, 12))
    assert parse_graph(print_graph(graph_of(instruction))) == graph_of(instruction)
