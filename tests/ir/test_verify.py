"""Every rule of the verifier: the smallest graph that breaks it, and what is said about it."""

from dataclasses import dataclass

import pytest

from sluice.ir.expression import Reg
from sluice.ir.graph import (
    EventShape,
    Graph,
    InstanceLayout,
    KeyPart,
    LayerProgram,
    NativeModule,
    NativeShape,
    Program,
    Rules,
)
from sluice.ir.instruction import Load
from sluice.ir.text import parse_graph
from sluice.ir.verify import RULES, VerifyError, verify
from sluice.lang.where import Where

INSTANCE = InstanceLayout("t", (KeyPart("a", 16),), False, True, ((Reg("inst.state", 8), 0), (Reg("perm.n", 16), 0)), 1)
SEQUENCE = Rules(32, False, "first", False, True, 1000, 10, 10, 0, (Reg("v.fin", 1),))
NATIVE = NativeModule("m", "m.c", (), "", (("f", NativeShape((False, True), 1, 9, ("why",))),))
EVENTS = {"data": EventShape("data", (("offset", 64), ("bytes", 0)), "")}


def program_of(
    main: str | Graph,
    drain: str = "",
    end: str = "",
    instance: InstanceLayout | None = INSTANCE,
    rules: Rules | None = SEQUENCE,
    lower: str = "",
    stateless: str = "",
    template: str = "",
    deferred: str = "",
    lookahead: str = "",
    dispatch: str = "",
) -> Program:
    """A program of one layer with these graphs, and below it, if given, another layer."""
    others = {"drain": drain, "end": end, "stateless": stateless, "template": template, "deferred": deferred}
    others |= {"lookahead": lookahead, "dispatch": dispatch}
    layer = LayerProgram(
        "g",
        "g",
        "p",
        parse_graph(main) if isinstance(main, str) else main,
        {kind: parse_graph(text) for kind, text in others.items() if text},
        instance=instance,
        rules=rules,
        events=EVENTS,
    )
    layers = {"g": layer}
    if lower:
        layers["lower"] = LayerProgram("lower", "lower", "p", parse_graph(lower))
    return Program("test", layers, ((None, "lower" if lower else "g"),), (Reg("slot.x", 16),), 4, (NATIVE,))


HEAD = "graph g (local.unit:bytes) uses (header.a:u16, perm.n:u16, inst.state:u8, slot.x:u16, slot.y:u16)\nentry:\n"
DEFERRED = "graph g (local.carried:u16) uses (slot.x:u16)\nentry:\n"
NONE = "graph g ()\nentry:\n  End('ended')\n"
CHECKED = """graph g (local.unit:bytes)
entry:
  mark.0:u32 = Assign(0)
  header.len:u8 = Assign(9)
  Check(mark.0, {size}) yes: there, cut: bad, short: bad
bad:
  End('malformed')
there:
"""
END = "  End('ended')\n"
FOUND = """  local.found:u1, local.expired:u1, local.side:u1 = Lookup([7], [])
  Branch({condition}) yes: known, no: other
known:
"""


def _calls(module: str, function: str, inputs: str, outputs: int) -> str:
    """A graph that calls a native function."""
    written = "".join(f"local.o{n}:u8, " for n in range(outputs))[:-2]
    return (
        f"graph g (local.unit:bytes)\nentry:\n  local.reason:u8, local.given:bytes, {written} = "
        f"CallNative(#{outputs}, '{module}', '{function}', 1, 0, [{inputs}])\n" + END
    )


@dataclass
class Bad:
    """Graphs that break `rule`, and a piece of the message."""

    rule: str
    says: str
    main: str = NONE
    drain: str = ""
    end: str = ""
    instance: InstanceLayout | None = INSTANCE
    rules: Rules | None = SEQUENCE
    stateless: str = ""
    template: str = ""
    deferred: str = ""
    lookahead: str = ""
    dispatch: str = ""


IN_ORDER = "  FreshInst()\n  local.order:u1 = InOrder(0, 1)\n  Branch(local.order) yes: one, no: other\n"

BAD = {
    # structure
    "no terminator": Bad("structure", "does not end with a terminator", HEAD + "  Count('x')\n"),
    "no instruction": Bad("structure", "does not end with a terminator", HEAD),
    "terminator inside": Bad("structure", "before the end of the block", HEAD + END + END),
    "no such block": Bad("structure", "leads to block 'x', which does not exist", HEAD + "  Goto() to: x\n"),
    "no such layer": Bad("structure", "layer 'up' does not exist", HEAD + "  NextLayer('up', local.unit)\n" + END),
    "Return in main": Bad("structure", "Return in the main graph", HEAD + "  Return(0)\n"),
    "End in drain": Bad("structure", "End in the drain graph", drain=HEAD + END),
    "End in end": Bad("structure", "End in the end graph", end=HEAD + END),
    "DestroyInst in main": Bad("structure", "it belongs in end", HEAD + "  FreshInst()\n  DestroyInst()\n" + END),
    "EndInst in end": Bad("structure", "it belongs in main", end=HEAD + "  EndInst(0)\n  Return(0)\n"),
    "Drain in drain": Bad(
        "structure", "belongs in main or end", drain=HEAD + "  local.p:u1 = Drain(0, 0, 0)\n  Return(0)\n"
    ),
    # kinds
    "bytes added": Bad(
        "kinds", "bytes where a number is needed", HEAD + "  local.x:u8 = Assign((local.unit + 1))\n" + END
    ),
    "number sliced": Bad(
        "kinds", "a number where bytes are needed", HEAD + "  local.x:bytes = Assign(slot.x[0:1])\n" + END
    ),
    "number as bytes": Bad("kinds", "assigns a number", HEAD + "  local.x:bytes = Assign(5)\n" + END),
    "bytes as number": Bad("kinds", "assigns bytes", HEAD + "  local.x:u8 = Assign(local.unit)\n" + END),
    "branch on bytes": Bad(
        "kinds", "condition must be a number", HEAD + "  Branch(local.unit) yes: entry, no: entry\n"
    ),
    "logical operator on a number": Bad(
        "kinds", "the operands of '&&' must be bits", HEAD + "  slot.x:u16 = Assign((slot.x && 1))\n" + END
    ),
    "number passed on": Bad("kinds", "operand sdu must be bytes", HEAD + "  NextLayer('g', 5)\n" + END),
    "no mark": Bad("kinds", "operand mark must be a mark", HEAD + "  local.p:bytes = Payload(slot.x)\n" + END),
    "no space": Bad("kinds", "register 'nowhere.x' lives nowhere", HEAD + "  nowhere.x:u8 = Assign(1)\n" + END),
    "65 bits": Bad(
        "kinds",
        "loads 65 bits",
        CHECKED.format(size=9) + "  header.a:u64 = Load(mark.0, 0, 65, 'big')\n" + END,
    ),
    "0 bits": Bad(
        "kinds", "loads 0 bits", CHECKED.format(size=9) + "  header.a:u8 = Load(mark.0, 0, 0, 'big')\n" + END
    ),
    "little inside a byte": Bad(
        "kinds",
        "must begin and end at a byte",
        CHECKED.format(size=9) + "  header.a:u8 = Load(mark.0, 4, 8, 'little')\n" + END,
    ),
    "flip of 0 bits": Bad("kinds", "flips 0 bits", HEAD + "  local.x:u8 = Assign(flip.0(1))\n" + END),
    "two widths": Bad(
        "kinds",
        "local.x is of 8 bits here",
        HEAD + "  local.x:u16 = Assign(1)\n  local.x:u8 = Assign(1)\n" + END,
    ),
    "no such event": Bad("kinds", "no event 'gap'", HEAD + "  Call('gap', 0, [])\n" + END),
    "fields of an event": Bad("kinds", "has 2 fields, 1 are given", HEAD + "  Call('data', 0, [1])\n" + END),
    "kind of a field": Bad("kinds", "field 'bytes' of event 'data'", HEAD + "  Call('data', 0, [1, 2])\n" + END),
    # paths
    "not reached": Bad("paths", "no path from the entry", HEAD + END + "lost:\n" + END),
    "no end": Bad("paths", "leads to an End or a Return", HEAD + "  Goto() to: loop\nloop:\n  Goto() to: loop\n"),
    # definitions
    "never set": Bad(
        "definitions",
        "header.a may be read before it is set",
        HEAD + "  local.x:u8 = Assign(header.a)\n" + END,
    ),
    "set on one way": Bad(
        "definitions",
        "local.x may be read",
        HEAD + "  Branch(length(local.unit)) yes: one, no: both\none:\n  local.x:u8 = Assign(1)\n"
        "  Goto() to: both\n" + "both:\n  local.y:u8 = Assign(local.x)\n" + END,
    ),
    "set after the loop's head": Bad(
        "definitions",
        "local.x may be read",
        HEAD
        + "  Goto() to: loop\nloop:\n  local.y:u8 = Assign(local.x)\n  local.x:u8 = Assign(1)\n"
        + "  Branch(local.y) yes: loop, no: done\ndone:\n"
        + END,
    ),
    # packet reads
    "no check": Bad(
        "packet reads",
        "reads 2 bytes",
        HEAD + "  mark.0:u32 = Assign(0)\n  header.a:u16 = Load(mark.0, 0, 16, 'big')\n" + END,
    ),
    "one bit too far": Bad(
        "packet reads",
        "reads 5 bytes after mark.0, where a length check covers 4",
        CHECKED.format(size=4) + "  header.b:u2 = Load(mark.0, 31, 2, 'big')\n" + END,
    ),
    "bytes too far": Bad(
        "packet reads",
        "reads 5 bytes",
        CHECKED.format(size=4) + "  header.b:bytes = LoadBytes(mark.0, 2, 3)\n" + END,
    ),
    "after the other exit": Bad(
        "packet reads",
        "covers 0",
        "graph g ()\nentry:\n  mark.0:u32 = Assign(0)\n"
        "  Check(mark.0, 4) yes: join, cut: join, short: bad\nbad:\n"
        + END
        + "join:\n  header.a:u8 = Load(mark.0, 0, 8, 'big')\n"
        + END,
    ),
    "mark set anew": Bad(
        "packet reads",
        "covers 0",
        CHECKED.format(size=4) + "  mark.0:u32 = Assign(header.len)\n  header.a:u8 = Load(mark.0, 0, 8, 'big')\n" + END,
    ),
    "moved mark": Bad(
        "packet reads",
        "reads 2 bytes after mark.1, where a length check covers 1",
        CHECKED.format(size=4) + "  mark.1:u32 = Mark(mark.0, 3)\n  header.a:u16 = Load(mark.1, 0, 16, 'big')\n" + END,
    ),
    "mark moved by a field": Bad(
        "packet reads",
        "covers 0",
        CHECKED.format(size=4)
        + "  mark.1:u32 = Mark(mark.0, header.len)\n  header.a:u8 = Load(mark.1, 0, 8, 'big')\n"
        + END,
    ),
    "another size": Bad(
        "packet reads",
        "no length check at mark.0 covers the size",
        CHECKED.format(size="(header.len - 2)") + "  header.b:bytes = LoadBytes(mark.0, 0, (header.len - 1))\n" + END,
    ),
    "size set anew": Bad(
        "packet reads",
        "no length check",
        CHECKED.format(size="header.len")
        + "  header.len:u8 = Assign(200)\n  header.b:bytes = LoadBytes(mark.0, 0, header.len)\n"
        + END,
    ),
    "variable-length integer after a check of its first byte": Bad(
        "packet reads",
        "no length check",
        CHECKED.format(size=1) + "  header.b:u62 = LoadVarint(mark.0, (1 << header.len))\n" + END,
    ),
    "variable-length integer of three bytes": Bad(
        "kinds",
        "of 3 bytes",
        CHECKED.format(size=4) + "  header.b:u62 = LoadVarint(mark.0, 3)\n" + END,
    ),
    "size after the mark": Bad(
        "packet reads",
        "no length check",
        CHECKED.format(size="header.len") + "  header.b:bytes = LoadBytes(mark.0, 1, header.len)\n" + END,
    ),
    "size in the instance": Bad(
        "packet reads",
        "no length check",
        "graph g () uses (perm.n:u16)\nentry:\n  mark.0:u32 = Assign(0)\n  FreshInst()\n"
        "  Check(mark.0, perm.n) yes: there, cut: bad, short: bad\nbad:\n  End('malformed')\n"
        "there:\n  FreshInst()\n"
        "  header.b:bytes = LoadBytes(mark.0, 0, perm.n)\n" + END,
    ),
    "loop that moves on": Bad(
        "packet reads",
        "covers 0",
        CHECKED.format(size=4) + "  Goto() to: loop\nloop:\n  header.a:u8 = Load(mark.0, 0, 8, 'big')\n"
        "  mark.0:u32 = Mark(mark.0, 1)\n" + "  Branch(header.a) yes: loop, no: done\ndone:\n" + END,
    ),
    # instances
    "no instance": Bad("instance", "Touch needs an instance, and there is none", HEAD + "  Touch(0)\n" + END),
    "field without": Bad("instance", "perm.n needs an instance", HEAD + "  local.x:u8 = Assign(perm.n)\n" + END),
    "field set without": Bad("instance", "inst.state needs an instance", HEAD + "  inst.state:u8 = Assign(1)\n" + END),
    "not asked": Bad(
        "instance",
        "the look-up may not have found one",
        HEAD + "  local.found:u1, local.expired:u1, local.side:u1 = Lookup([7], [])\n  Touch(0)\n" + END,
    ),
    "not found": Bad(
        "instance",
        "Touch needs an instance, and there is none",
        HEAD + FOUND.format(condition="local.found") + END + "other:\n  Touch(0)\n" + END,
    ),
    "asked the other way round": Bad(
        "instance",
        "and there is none",
        HEAD + FOUND.format(condition="flip.1(local.found)") + "  Touch(0)\n" + END + "other:\n" + END,
    ),
    "found by half": Bad(
        "instance",
        "the look-up may not have found one",
        HEAD
        + FOUND.format(condition="(local.found & local.expired)")
        + "  Goto() to: other\nother:\n  Touch(0)\n"
        + END,
    ),
    "on one way only": Bad(
        "instance",
        "on some paths there is none",
        HEAD + "  Branch(length(local.unit)) yes: one, no: both\none:\n  FreshInst()\n"
        "  Goto() to: both\nboth:\n  Touch(0)\n" + END,
    ),
    "after its end": Bad("instance", "needs an instance", HEAD + "  FreshInst()\n  EndInst(0)\n  Touch(0)\n" + END),
    "after its destruction": Bad(
        "instance",
        "inst.state needs an instance",
        end="graph g.end () uses (inst.state:u8)\nentry:\n  DestroyInst()\n  Return(inst.state)\n",
    ),
    "no such field": Bad(
        "instance",
        "perm.m is no field",
        "graph g ()\nentry:\n  FreshInst()\n  perm.m:u8 = Assign(1)\n" + END,
    ),
    "wrong width": Bad(
        "instance", "perm.n is no field", "graph g ()\nentry:\n  FreshInst()\n  perm.n:u8 = Assign(1)\n" + END
    ),
    "layer without instances": Bad("instance", "keeps no instances", HEAD + "  FreshInst()\n" + END, instance=None),
    "wrong key": Bad(
        "instance", "the key must have 1 parts", HEAD + "  local.made:u1 = CreateInst([1, 2], [])\n" + END
    ),
    "wrong reverse key": Bad(
        "instance", "the key must have 1 parts", HEAD + "  local.made:u1 = CreateInst([1], [1])\n" + END
    ),
    "unknown table of further keys": Bad(
        "instance",
        "elsewhere has no keys of the layer's instances",
        HEAD + "  local.f:u1, local.e:u1, local.side:u1 = FindAlias('elsewhere', [1])\n" + END,
    ),
    # sequences
    "no sequence": Bad(
        "sequence", "has no sequence", HEAD + "  FreshInst()\n  local.kept:u1 = SettleSeq(0)\n" + END, rules=None
    ),
    "window without sequence": Bad(
        "sequence", "has no sequence", HEAD + "  local.x:u1 = InWindow(1, 2, 3, 4)\n" + END, rules=None
    ),
    "data of the packet on one path": Bad(
        "sequence",
        "a path to it has not initialised the data of the packet",
        HEAD
        + IN_ORDER
        + "one:\n  InitPacketData()\n  Goto() to: other\nother:\n  InsertSeq(0, 1, local.unit, 2)\n"
        + END,
    ),
    "use of the data of the packet on one path": Bad(
        "sequence",
        "a path to it has not initialised the data of the packet",
        HEAD
        + IN_ORDER
        + "one:\n  InitPacketData()\n  InsertSeq(0, 1, local.unit, 2)\n  Goto() to: other\n"
        + "other:\n  local.waiting:u1 = WaitingSeq(0)\n"
        + END,
    ),
    "data of the packet initialised twice": Bad(
        "sequence",
        "a path to it has initialised the data of the packet",
        HEAD + IN_ORDER + "one:\n  InitPacketData()\n  Goto() to: other\nother:\n  InitPacketData()\n" + END,
    ),
    "wrong record": Bad("sequence", "has 1 fields", HEAD + "  FreshInst()\n  RecordSeq(0, 1, [1, 2])\n" + END),
    # slots
    "slot that nobody fills": Bad("slots", "no layer fills slot.x", HEAD + "  local.x:u16 = Assign(slot.x)\n" + END),
    "unknown slot": Bad("slots", "slot.y is no slot", HEAD + "  slot.y:u16 = Assign(1)\n" + END),
    # traces
    "effect ahead of the packet's turn": Bad(
        "traces", "Count in the lookahead graph, before stage 2", lookahead=HEAD + "  Count('x')\n  Return(0)\n"
    ),
    "effect before it is known whose packet it is": Bad(
        "traces", "Count in the dispatch graph, before stage 2", dispatch=HEAD + "  Count('x')\n  Return(0)\n"
    ),
    "decision in a main graph": Bad(
        "structure", "Dispatch in the main graph, it belongs in dispatch", HEAD + "  Dispatch([7], [])\n"
    ),
    "look-up in a stateless graph": Bad(
        "traces",
        "Lookup in the stateless graph, before stage 2",
        stateless=HEAD + "  local.f:u1, local.e:u1, local.s:u1 = Lookup([7], [])\n" + END,
    ),
    "counted, then begun anew": Bad("traces", "returns after a trace", stateless=HEAD + "  Count('x')\n  Return(0)\n"),
    "filled, then perhaps begun anew": Bad(
        "traces",
        "block 'other': Return(0): returns after a trace",
        stateless=HEAD
        + "  slot.x:u16 = Assign(1)\n  header.a:u16 = Assign(length(local.unit))\n"
        + "  Branch(header.a) yes: on, no: other\n"
        + "on:\n  NextStateless('passed', 'g', local.unit)\nother:\n  Return(0)\n",
    ),
    "counted by a template": Bad(
        "traces",
        "Count in the template graph, before stage 2",
        template=HEAD + "  Count('x')\n  NextStateless('passed', 'g', local.unit)\n",
    ),
    "a turn that is not there": Bad(
        "structure",
        "the layer has no deferred graph",
        stateless=HEAD + "  NextDeferring('passed', 'g', local.unit, [])\n",
    ),
    "less than the turn takes": Bad(
        "structure",
        "carries numbers of [] bits, the deferred graph takes [16]",
        stateless=HEAD + "  NextDeferring('passed', 'g', local.unit, [])\n",
        deferred=DEFERRED + "  Return(0)\n",
    ),
    "more bits than the turn takes": Bad(
        "structure",
        "carries numbers of [17] bits, the deferred graph takes [16]",
        stateless=HEAD + "  NextDeferring('passed', 'g', local.unit, [65536])\n",
        deferred=DEFERRED + "  Return(0)\n",
    ),
    "the packet of another layer": Bad(
        "traces",
        "Payload in the deferred graph, when others have the packet",
        deferred=DEFERRED + "  mark.0:u32 = Assign(0)\n  local.p:bytes = Payload(mark.0)\n  Return(0)\n",
    ),
    "slots of another layer": Bad(
        "traces",
        "Assign in the deferred graph, when others have the packet",
        deferred=DEFERRED + "  slot.x:u16 = Assign(1)\n  Return(0)\n",
    ),
    "counted twice": Bad(
        "traces",
        "Count in the deferred graph, when others have the packet",
        deferred=DEFERRED + "  Count('x')\n  Return(0)\n",
    ),
    "a debt to itself": Bad(
        "structure",
        "a packet that goes on to 'g' has work deferred there, too",
        stateless=HEAD + "  NextDeferring('passed', 'g', local.unit, [7])\n",
        deferred=DEFERRED + "  Return(0)\n",
    ),
    "ended in its turn": Bad("structure", "End in the deferred graph, it belongs in main", deferred=DEFERRED + END),
    # native modules
    "unknown module": Bad("native", "no native module 'n'", _calls("n", "f", "7, local.unit", 1)),
    "unknown function": Bad("native", "has no function 'g'", _calls("m", "g", "7, local.unit", 1)),
    "another input": Bad("native", "not of the kinds", _calls("m", "f", "7, 8", 1)),
    "an input less": Bad("native", "not of the kinds", _calls("m", "f", "7", 1)),
    "another number of outputs": Bad("native", "gives 1 numbers", _calls("m", "f", "7, local.unit", 2)),
    "end of what is kept, while packets come": Bad(
        "native", "in end graphs only", "graph g (local.unit:bytes)\nentry:\n  EndNative('m', 1)\n" + END
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_refused(bad: Bad):
    program = program_of(
        bad.main,
        bad.drain,
        bad.end,
        bad.instance,
        bad.rules,
        stateless=bad.stateless,
        template=bad.template,
        deferred=bad.deferred,
        lookahead=bad.lookahead,
        dispatch=bad.dispatch,
    )
    with pytest.raises(VerifyError) as caught:
        verify(program)
    assert caught.value.rule == bad.rule
    assert bad.says in str(caught.value)


def test_every_rule_is_tested():
    assert {bad.rule for bad in BAD.values()} == set(RULES)


GOOD = {
    "every byte of what was checked": CHECKED.format(size=4)
    + "  header.a:u32 = Load(mark.0, 0, 32, 'big')\n  header.b:u1 = Load(mark.0, 31, 1, 'big')\n"
    + "  header.c:bytes = LoadBytes(mark.0, 1, 3)\n"
    + END,
    "mark after the checked one": CHECKED.format(size=4)
    + "  mark.1:u32 = Mark(mark.0, 1)\n  mark.2:u32 = Mark(mark.1, 1)\n"
    "  header.a:u16 = Load(mark.2, 0, 16, 'big')\n" + END,
    "mark known before the check": "graph g ()\nentry:\n  mark.0:u32 = Assign(0)\n"
    "  mark.1:u32 = Mark(mark.0, 2)\n"
    + "  mark.2:u32 = Assign(mark.1)\n  Check(mark.0, 4) yes: there, cut: bad, short: bad\nbad:\n"
    + END
    + "there:\n  header.a:u16 = Load(mark.2, 0, 16, 'big')\n"
    + END,
    "exact size": CHECKED.format(size="(header.len - 2)")
    + "  header.b:bytes = LoadBytes(mark.0, 0, (header.len - 2))\n  mark.1:u32 = Mark(mark.0, 0)\n"
    + "  header.c:bytes = LoadBytes(mark.1, 0, (header.len - 2))\n"
    + END,
    "a call as it is declared": _calls("m", "f", "7, local.unit", 1),
    "variable-length integer": CHECKED.format(size="(1 << header.len)")
    + "  header.b:u62 = LoadVarint(mark.0, (1 << header.len))\n"
    + END,
    "no bytes": HEAD + "  mark.0:u32 = Assign(0)\n  header.b:bytes = LoadBytes(mark.0, 0, 0)\n" + END,
    "the smaller of two checks": "graph g (local.unit:bytes)\nentry:\n  mark.0:u32 = Assign(0)\n"
    + "  Branch(length(local.unit)) yes: more, no: less\nmore:\n"
    "  Check(mark.0, 8) yes: there, cut: bad, short: bad\n"
    + "less:\n  Check(mark.0, 4) yes: there, cut: bad, short: bad\nbad:\n"
    + END
    + "there:\n  header.a:u32 = Load(mark.0, 0, 32, 'big')\n"
    + END,
    "loop with a check of its own": "graph g ()\nentry:\n  mark.0:u32 = Assign(0)\n"
    "  Goto() to: loop\nloop:\n" + "  Check(mark.0, 1) yes: item, cut: done, short: done\nitem:\n"
    "  header.a:u8 = Load(mark.0, 0, 8, 'big')\n" + "  mark.1:u32 = Mark(mark.0, 1)\n  mark.0:u32 = Mark(mark.1, 0)\n"
    "  Branch(header.a) yes: loop, no: done\ndone:\n" + END,
    "found, expired, created": HEAD
    + FOUND.format(condition="local.found")
    + "  Branch(local.expired) yes: gone, no: ready\ngone:\n  EndInst(1)\n  Goto() to: other\n"
    + "other:\n  local.made:u1 = CreateInst([7], [])\n  Goto() to: ready\nready:\n"
    "  inst.state:u8 = Assign(perm.n)\n  Touch(0)\n" + END,
    "end of the packet after the end of its instance": HEAD + "  FreshInst()\n  EndInst(0)\n" + END,
    "data of the packet before its use": HEAD
    + IN_ORDER
    + "one:\n  InitPacketData()\n  InsertSeq(0, 1, local.unit, 2)\n  local.waiting:u1 = WaitingSeq(0)\n"
    + END
    + "other:\n  local.waiting:u1 = WaitingSeq(0)\n"
    + END,
    "asked in other words": HEAD + FOUND.format(condition="(local.found == 0)") + END + "other:\n  Touch(0)\n" + END,
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_accepted(text: str):
    verify(program_of(text))


def test_drain_and_end_have_the_instance():
    drain = "graph g.drain (local.side:u1)\nentry:\n  local.w:u1 = WaitingSeq(local.side)\n  Return(local.w)\n"
    end = (
        "graph g.end () uses (inst.state:u8)\nentry:\n  local.s:u8 = Assign(inst.state)\n  DestroyInst()\n  Return(0)\n"
    )
    verify(program_of(NONE, drain, end))


def test_slot_filled_by_the_layer_below():
    reads = HEAD + "  local.x:u16 = Assign(slot.x)\n" + END
    below = "graph lower (local.unit:bytes)\nentry:\n  slot.x:u16 = Assign(1)\n  NextLayer('g', local.unit)\n" + END
    verify(program_of(reads, lower=below))


def test_entry_must_exist():
    graph = parse_graph(NONE)
    graph.entry = "start"
    with pytest.raises(VerifyError, match="the entry block 'start' does not exist"):
        verify(program_of(graph))


def test_root_must_exist():
    program = program_of(NONE)
    program.roots = ((1, "nobody"),)
    with pytest.raises(VerifyError, match="packets enter at layer 'nobody'"):
        verify(program)


def test_error_says_where():
    graph = parse_graph(CHECKED.format(size=1) + "  header.a:u16 = Load(mark.0, 0, 16, 'big')\n" + END)
    load = graph.blocks["there"].instructions[0]
    assert isinstance(load, Load)
    load.where = Where("/home/me/udp.py", 12)
    with pytest.raises(VerifyError) as caught:
        verify(program_of(graph))
    error = caught.value
    assert (error.graph, error.block, error.rule) == ("g", "there", "packet reads")
    assert error.instruction == "header.a:u16 = Load(mark.0, 0, 16, 'big')"
    assert error.where == Where("/home/me/udp.py", 12)
    assert str(error) == (
        "graph 'g', block 'there': header.a:u16 = Load(mark.0, 0, 16, 'big'): reads 2 bytes after mark.0, "
        "where a length check covers 1 [rule: packet reads] (from /home/me/udp.py:12)"
    )
