"""foldt: the elements with the smallest key of ordered channels, folded into one.

The next element of each channel is looked at once, and its buffer is pinned meanwhile. The result is copied from
the buffers, so that any number of elements can have one key; two places for the copy alternate.
"""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.types import STRING, ChannelOf, Type
from sluice.service.lower.channels import StatementWriter
from sluice.service.lower.writer import ARENA

WAYS = 64
"""Channels of an array that foldt can merge."""


class FoldWriter(StatementWriter):
    """Writes all expressions, foldt included."""

    def foldt(self, node: tree.FoldT) -> str:
        port, type, place = self.port(node.channels), node.type, node.place
        assert isinstance(node.channels.type, ChannelOf)
        key = node.key.type
        parse = self.parse_of(type, place)
        self.reads.add(port.number)
        self.arena = True
        result, have = self.variable(type, place), self.raw_variable("bool")
        element, element_key = self.variable(type, place), self.variable(key, place)
        heads = self.array(self.values.c_type(type, place), WAYS)
        keys = self.array(self.values.c_type(key, place), WAYS)
        there = self.array("uint8_t", WAYS)
        rooms, turn = self.array("uint8_t", 2 * ARENA), self.raw_variable("uint8_t")
        i, best, base = (self.raw_variable("uint32_t") for _ in range(3))
        count = f"self->core->counts[{port.number}]"
        smallest = self.variable(key, place)
        self.fault(f"{count} > {WAYS}", "LIMIT")
        self.put(f"{have} = false;")
        self.put(f"{base} = f->used;")
        self.put(f"memset({there}, 0, sizeof {there});")
        again, done = self.mark(), self.label()
        self.put(f"{best} = {count};")
        with self.block(f"for ({i} = 0; {i} < {count}; {i}++)"):
            with self.block(f"if (!{there}[{i}])"):
                self.wait_or_end(f"service_peek({port.pointer} + {i}, {parse}, SERVICE_WHOLE, &{heads}[{i}].m)")
                with self.block("if (outcome == SERVICE_STEP)"):
                    self.put(f"{element} = {heads}[{i}];")
                    self.names[node.bindings["element"]] = element
                    self.put(f"{keys}[{i}] = {self.value(node.key)};")
                self.put(f"{there}[{i}] = outcome == SERVICE_STEP ? 1 : 2;")
            with self.block(
                f"if ({there}[{i}] == 1 && ({best} == {count} || {self.less(f'{keys}[{i}]', smallest, key)}))"
            ):
                self.put(f"{best} = {i};")
                self.put(f"{smallest} = {keys}[{i}];")
        with self.block(f"if ({best} == {count} && !{have})"):
            self.put("return SERVICE_END;")
        with self.block(f"if ({have} && ({best} == {count} || {self.less(element_key, smallest, key)} || "
                        f"{self.less(smallest, element_key, key)}))"):  # fmt: skip
            self.put(f"goto resume_{done};")
        self.wait(f"service_receive({port.pointer} + {best}, {parse}, true, &{element}.m)")
        self.put("f->did = true;")
        with self.block(f"if (!{have})"):
            self.put(f"{result} = {element};")
            self.put(f"{element_key} = {smallest};")
            self.put(f"{have} = true;")
            self.otherwise()
            for role, text in (("left", result), ("right", element), ("key", element_key)):
                self.names[node.bindings[role]] = text
            self.put(f"{result} = {self.value(node.body)};")
        self.moved(result, element_key, type, key, rooms, turn, node)
        self.put(f"({port.pointer} + {best})->unsent = false;")
        self.put(f"service_release({port.pointer} + {best});")
        self.put(f"{there}[{best}] = 0;")
        self.put(f"f->used = {base};")
        self.slice()
        self.put(f"goto resume_{again};")
        self.lines.append(f"resume_{done}:;")
        with self.block(f"for ({i} = 0; {i} < {count}; {i}++)"):
            self.put(f"({port.pointer} + {i})->pinned = false;")
        return result

    def array(self, c_type: str, count: int) -> str:
        found = self.raw_variable(c_type)
        self.frame[-1] = f"    {c_type} {found.removeprefix('f->')}[{count}];"
        return found

    def less(self, left: str, right: str, key: Type) -> str:
        return f"service_compare({left}, {right}) < 0" if key == STRING else f"{left} < {right}"

    def wait_or_end(self, call: str) -> None:
        """A call that is repeated until there is a message, or the channel has ended: `outcome` is which."""
        self.mark()
        self.put(f"outcome = {call};")
        with self.block("if (outcome == SERVICE_WAIT || outcome == SERVICE_FAULT)"):
            self.stop()

    def moved(self, result: str, held: str, type: Type, key: Type, rooms: str, turn: str, node: tree.FoldT) -> None:
        """Copy the folded result, and its key, to the free place."""
        at, size = self.raw_variable("uint8_t *"), self.raw_variable("uint64_t")
        text = key == STRING
        sizes = f"{self.values.texts(type, node.place)}(&{result})"
        self.put(f"{size} = {sizes}{f' + {held}.length' if text else ''};")
        self.fault(f"{size} > {ARENA}", "LIMIT")
        self.put(f"{turn} = !{turn};")
        self.put(f"{at} = {rooms} + {turn} * {ARENA};")
        self.put(f"{self.values.copy(type, node.place)}(&{result}, &{at});")
        if text:
            self.put(f"service_move_text(&{held}, &{at});")
