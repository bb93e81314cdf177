"""Random programs: typed expressions over a message and what was computed before, and where they send it."""

from __future__ import annotations

import random

UNIT = """\
type t = unit {
  a     : int64;
  b     : uint16;
  s_len : uint16;
  r_len : uint8;
  s     : string &length = self.s_len;
  rest  : bytes &length = self.r_len;
};

"""
TYPES = """\
type t: record
  a : integer
  b : integer
  s : string

type v: variant
  number : integer
  name : string

"""


def message(rng: random.Random) -> bytes:
    """A message of the unit."""
    s, rest = (rng.choice([b"", b"a", b"key", b"12", b"-7", rng.randbytes(rng.randrange(30))]) for _ in range(2))
    a = rng.choice([0, 1, -1, 5, rng.getrandbits(63), -(1 << 63)])
    head = a.to_bytes(8, "big", signed=True) + rng.randrange(1 << 16).to_bytes(2, "big")
    return head + len(s).to_bytes(2, "big") + bytes([len(rest)]) + s + rest


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names: dict[str, list[str]] = {}
        self.count = 0

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def item(self) -> str:
        """An item of a list that has a name."""
        return f"{self.pick(*self.known('[integer]'))}[{self.pick('0', '1', self.leaf('integer'))}]"

    def each(self, kind: str, body: str) -> str:
        """A loop over a list of strings."""
        name = f"x{self.number()}"
        return f"({kind} {name} in {self.e('[string]', 1)}: {body.replace('NAME', name)})"

    def number(self) -> int:
        self.count += 1
        return self.count

    def fresh(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def known(self, type: str) -> list[str]:
        return self.names.get(type, [])

    def leaf(self, type: str) -> str:
        known = self.known(type)
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known)
        match type:
            case "integer":
                return self.pick("0", "1", "7", "-3", "1000", "9223372036854775807")
            case "boolean":
                return self.pick("True", "False")
            case "string":
                return self.pick('""', '"a"', '"key"', '"12"')
            case "[integer]":
                return self.pick("[1]", "[3, 1, 2]", "[0, -1, 5, 8]")
            case "[string]":
                return self.pick('["a"]', '["key", "", "12"]')
            case "v":
                return self.pick("number(3)", 'name("n")')
            case _:
                return f"t({self.leaf('integer')}, {self.rng.randrange(70000)}, {self.leaf('string')})"

    def e(self, type: str, depth: int) -> str:
        """An expression of a type."""
        if depth <= 0:
            return self.leaf(type)
        d = depth - 1
        common = [
            lambda: self.leaf(type),
            lambda: f"(if {self.e('boolean', d)}: {self.e(type, d)} else: {self.e(type, d)})",
        ]
        own = {
            "integer": [
                lambda: f"({self.e('integer', d)} {self.pick('+', '-', '*')} {self.e('integer', d)})",
                lambda: f"({self.e('integer', d)} {self.pick('/', 'mod')} {self.pick('3', '-2', '(0 + n)')})",
                lambda: f"hash({self.e(self.pick('integer', 'string'), d)})",
                lambda: f"len({self.e(self.pick('string', '[integer]', '[string]'), d)})",
                lambda: f"(fold(size_of, {self.e('integer', d)}, {self.e('[string]', d)}))",
                lambda: f"abs ({self.e('integer', d)})",
                lambda: f"<{self.e('integer', d)}, {self.e('string', d)}>.1",
                lambda: f"(fold(add, {self.e('integer', d)}, {self.e('[integer]', d)}))",
                lambda: f"head({self.e('[integer]', d)})",
                lambda: f"describe({self.e('v', d)})",
                lambda: f"{self.e('t', 0)}.{self.pick('a', 'b')}",
                lambda: f"{self.pick('d', 'g')}[{self.e('string', d)}]",
                lambda: f"len({self.pick('d', 'g')})",
                lambda: self.item() if self.known("[integer]") else "n",
                lambda: f"(({self.e('boolean', d)}) unsafe_cast integer)",
                lambda: f"safe({self.e('integer', d)}, {self.e('integer', d)})",
                lambda: f"count(g, {self.e('string', d)})",
                lambda: f"pairs[<{self.e('integer', 0)}, {self.e('string', 0)}>].a",
            ],
            "boolean": [
                lambda: f"({self.e('integer', d)} {self.pick('=', '<', '>', '<=', '>=', '!=')} {self.e('integer', d)})",
                lambda: f"({self.e('string', d)} {self.pick('=', '<', '!=', '>=')} {self.e('string', d)})",
                lambda: f"({self.e('boolean', d)} {self.pick('and', 'or')} {self.e('boolean', d)})",
                lambda: f"(not {self.e('boolean', d)})",
                lambda: f"({self.e('t', 0)} = {self.e('t', 0)})",
                lambda: f"({self.e('[integer]', d)} {self.pick('=', '!=')} {self.e('[integer]', d)})",
                lambda: f"({self.e('v', d)} {self.pick('=', '!=')} {self.e('v', d)})",
                lambda: f"({self.pick('d', 'g')}[{self.e('string', d)}] {self.pick('=', '!=')} None)",
            ],
            "string": [
                lambda: f"({self.e('string', d)} @ {self.e('string', d)})",
                lambda: f"int_to_string({self.e('integer', d)})",
                lambda: f"{self.e('t', 0)}.s",
                lambda: "last",
                lambda: f"head({self.e('[string]', d)})",
            ],
            "[integer]": [
                lambda: f"({self.e('integer', d)} :: {self.e('[integer]', d)})",
                lambda: f"({self.e('[integer]', d)} @ {self.e('[integer]', d)})",
                lambda: f"(0 .. ({self.e('integer', d)} mod 5))",
                lambda: f"map(double, {self.e('[integer]', d)})",
                lambda: f"filter(positive, {self.e('[integer]', d)})",
                lambda: f"tail({self.e('[integer]', d)})",
                lambda: f"(map x{self.number()} in ds: {self.e('integer', d)})",
                lambda: self.pick("items", f"top({self.e('[integer]', d)})"),
                lambda: self.each("map", "len(NAME)"),
            ],
            "[string]": [
                lambda: f"({self.e('string', d)} :: {self.e('[string]', d)})",
                lambda: f"({self.e('[string]', d)} @ {self.e('[string]', d)})",
                lambda: f"tail({self.e('[string]', d)})",
                lambda: self.each("filter", "NAME < " + self.leaf("string")),
                lambda: "names",
            ],
            "v": [
                lambda: "kept",
                lambda: f"number({self.e('integer', d)})",
                lambda: f"name({self.e('string', d)})",
            ],
            "t": [
                lambda: f"pairs[<{self.e('integer', 0)}, {self.e('string', d)}>]",
                lambda: f"({self.e('t', d)} with a = {self.e('integer', d)})",
                lambda: f"({self.e('t', d)} with s = {self.e('string', d)})",
                lambda: f"t({self.e('integer', d)}, ({self.e('integer', d)} mod 60000), {self.e('string', d)})",
            ],
        }[type]
        return self.rng.choice(common + own + own)()

    def line(self, indent: str, depth: int) -> str:
        """A line, or a few, of a body."""
        kind = self.rng.randrange(7)
        type = self.pick("integer", "boolean", "string", "[integer]", "[string]", "t", "v")
        if kind <= 2:
            text = self.e(type, depth)
            name = self.fresh()
            self.names.setdefault(type, []).append(name)
            return f"{indent}let {name} = {text}\n"
        if kind == 3:
            item, sum_ = self.fresh(), self.fresh()
            over = self.pick(self.e("[integer]", depth), f"0 .. ({self.e('integer', 1)} mod 9)")
            start = self.e("integer", depth)
            self.names.setdefault("integer", []).extend([item, sum_])
            body = self.e("integer", depth)
            del self.names["integer"][-2:]
            name = self.fresh()
            self.names["integer"].append(name)
            return f"{indent}let {name} = for {item} in {over} initially {sum_} = {start}: {body}\n"
        if kind == 4:
            subject, name = self.e("integer", depth), self.fresh()
            out = f"{indent}let {name} = switch {subject}:\n"
            out += (
                f"{indent}  0: {self.e('string', depth)}\n{indent}  {self.e('boolean', 1)}: {self.e('string', depth)}\n"
            )
            out += f"{indent}  _: {self.leaf('string')}\n"
            self.names.setdefault("string", []).append(name)
            return out
        if kind == 5:
            return indent + self.assignment(depth)
        return self.send(indent, depth)

    def assignment(self, depth: int) -> str:
        """A change of state."""
        key, name = self.e("string", 1), self.pick("d", "g")
        return self.pick(
            f"n := {self.e('integer', depth)}\n",
            f"last := {self.e('string', depth)}\n",
            f"kept := {self.e('v', depth)}\n",
            f"items := {self.e('[integer]', depth)}\n",
            f"names := {self.e('[string]', depth)}\n",
            f"{name}[{key}] := {self.e('integer', depth)}\n",
            f"{name}[{key}] := None\n",
            f"pairs[<{self.e('integer', 0)}, {key}>] := {self.e('t', depth)}\n",
        )

    def send(self, indent: str, depth: int) -> str:
        target = self.pick("c", f"ds[hash({self.e('integer', 1)}) mod len(ds)]", "ds[0]")
        text = self.e("t", depth)
        if self.rng.random() < 0.5:
            return f"{indent}if {self.e('boolean', depth)}: {target} ! {text}\n"
        return f"{indent}{text} => {target}\n"

    def program(self) -> str:
        """A process that receives a message in each step, or two."""
        out = UNIT + TYPES + "process P: (t/t c, [-/t] ds)\n  local n : integer := 3\n"
        out += '  global last : string := "first"\n  local kept : v := number(2)\n'
        out += '  local items : [integer]{5} := [2]\n  global names : [string] := ["n"]\n'
        out += "  local d : dictionary [string] integer := []\n"
        out += "  global g : dictionary [string] integer := empty_dictionary\n"
        out += "  local pairs : dictionary [<integer * string>] t := empty_dictionary\n"
        self.names = {"integer": ["n"]}
        for _ in range(self.rng.randint(1, 2)):
            name = self.fresh()
            out += f"  let {name} = ? c\n"
            self.names.setdefault("t", []).append(name)
        for _ in range(self.rng.randint(2, 6)):
            out += self.line("  ", self.rng.randint(1, 3))
        out += self.send("  ", 2)
        if self.rng.random() < 0.6:
            self.names = {"integer": ["n"]}
            out += f"  except {self.pick('failure', 'limit', 'malformed_message')}: ds[0] ! {self.e('t', 2)}\n"
            out += f"  except broken_connection: ds[1] ! {self.e('t', 1)}\n"
        out += "\nfun add: (x: integer, y: integer) -> (integer): x + y * 3\n"
        out += "fun double: (x: integer) -> (integer)\n  let twice = x + x\n  twice\n"
        out += "fun top: (l: [integer]{4}) -> ([integer]{6}): 9 :: l\n"
        out += "fun size_of: (s: string, sum: integer) -> (integer): len(s) - sum\n"
        out += "fun positive: (x: integer) -> (boolean): x > 0\n"
        out += "fun safe: (x: integer, y: integer) -> (integer)\n  local sum : integer := x\n  sum := sum / y\n  sum\n"
        out += "  except failure: x - 1\n"
        out += "fun count: (seen: ref dictionary [string] integer, key: string) -> (integer)\n"
        out += "  global calls : integer := 0\n  calls := calls + 1\n"
        out += "  seen[key] := seen[key] + 1\n  seen[key] * calls\n"
        return out + "fun describe: (x: v) -> (integer)\n  switch x:\n    number(i): i\n    name(s): len(s)\n"
