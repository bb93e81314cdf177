"""Choices, loops, and what a rule does with channels."""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.errors import Place
from sluice.service.lang.types import BOOLEAN, INTEGER, UNIT, ChannelOf, ListOf, Named, Type
from sluice.service.lower.expressions import RANGE, ExpressionWriter
from sluice.service.lower.values import not_yet
from sluice.service.lower.writer import Port


class StatementWriter(ExpressionWriter):
    """Writes all expressions; `effect()` those whose value is not used."""

    def effect(self, node: tree.Expression) -> None:
        match node:
            case tree.Sequence() | tree.Parallel():
                for item in node.items:
                    self.effect(item)
            case tree.If():
                self.choice(node, None)
            case tree.Switch():
                self.switch(node, None)
            case tree.Call() if node.kind == "function":
                self.inlined(node)
            case _:
                self.construct(node) if not isinstance(node, tree.Name) else None

    def construct(self, node: tree.Expression) -> str:
        match node:
            case tree.Sequence():
                for item in node.items[:-1]:
                    self.effect(item)
                return self.value(node.items[-1])
            case tree.Parallel():
                self.effect(node)
                return "0"
            case tree.If():
                return self.chosen(node)
            case tree.Switch():
                found = self.zero(node.type, node.place)
                self.switch(node, found)
                return found
            case tree.Let():
                return self.let(node)
            case tree.Assign():
                self.assign(node)
                return "0"
            case tree.For():
                return self.loop(node)
            case tree.Map():
                return self.map(node)
            case tree.Send():
                text = self.keep(self.value(node.value), node.value.type, node.place)
                self.send(self.port(node.channel), text, node.value.type, node.place)
                return text
            case tree.Receive():
                return self.receive(node)
            case tree.Can():
                return self.can(node)
            case tree.Pipe():
                return self.pipe(node)
            case tree.FoldT():
                raise not_yet(node.place, "'foldt'")
            case tree.Typed():
                raise not_yet(node.place, "'unsafe_cast'")
            case _:
                return self.value(node)

    # --- choices

    def chosen(self, node: tree.If) -> str:
        if node.type == UNIT:
            self.choice(node, None)
            return "0"
        found = self.variable(node.type, node.place)
        self.choice(node, found)
        return found

    def branch(self, node: tree.Expression, found: str | None) -> None:
        if found is None:
            self.effect(node)
        else:
            self.put(f"{found} = {self.value(node)};")

    def choice(self, node: tree.If, found: str | None) -> None:
        with self.block(f"if ({self.value(node.condition)})"):
            self.branch(node.then, found)
            if node.otherwise is not None:
                self.otherwise()
                self.branch(node.otherwise, found)

    def switch(self, node: tree.Switch, found: str | None) -> None:
        subject = self.keep(self.value(node.subject), node.subject.type, node.place)
        done = self.variable(BOOLEAN, node.place)
        self.put(f"{done} = false;")
        for case in node.cases:
            with self.block(f"if (!{done})"):
                self.case(case, subject, node.subject.type, done, found)

    def case(self, case: tree.Case, subject: str, type: Type, done: str, found: str | None) -> None:
        match case.kind:
            case "default":
                condition = "true"
            case "guard":
                condition = self.value(case.pattern)
            case "label":
                assert isinstance(type, Named)
                pattern = case.pattern
                name = pattern.function if isinstance(pattern, tree.Call) else getattr(pattern, "name", "")
                condition = f"{subject}.label == {list(type.fields).index(name)}"
                if case.binding is not None:
                    self.names[case.binding] = f"{subject}.f_{name}"
            case _:
                condition = self.compared("=", subject, self.value(case.pattern), type, case.place)
        with self.block(f"if ({condition})"):
            self.put(f"{done} = true;")
            self.branch(case.body, found)

    def let(self, node: tree.Let) -> str:
        if node.type == UNIT:
            self.effect(node.value)
            return "0"
        found = self.keep(self.value(node.value), node.type, node.place)
        assert node.binding is not None
        self.names[node.binding] = found
        return found

    def assign(self, node: tree.Assign) -> None:
        if not isinstance(node.target, tree.Name) or node.target.binding is None:
            raise not_yet(node.place, "a dictionary")
        self.put(f"{self.name(node.target)} = {self.value(node.value)};")

    # --- loops

    def loop(self, node: tree.For) -> str:
        found = "0"
        if node.start is not None and node.accumulated is not None:
            found = self.keep(self.value(node.start), node.accumulated.type, node.place)
            self.names[node.accumulated] = found
        assert node.binding is not None

        def body() -> None:
            if node.accumulator is None:
                self.effect(node.body)
            else:
                self.put(f"{found} = {self.value(node.body)};")

        if isinstance(node.over, tree.Binary) and node.over.operator == "..":
            low, high = self.ends(node.over)
            self.fault(f"{low} <= {high} && (uint64_t){high} - (uint64_t){low} >= {RANGE}", "LIMIT")
            counter = self.variable(INTEGER, node.place)
            self.names[node.binding] = counter
            with self.block(f"for ({counter} = {low}; {low} <= {high}; {counter}++)"):
                body()
                with self.block(f"if ({counter} == {high})"):
                    self.put("break;")
        elif isinstance(node.over.type, ChannelOf):
            port = self.port(node.over)
            counter, pointer = self.raw_variable("uint32_t"), self.raw_variable("struct service_channel *")
            self.ports[node.binding] = Port(port.number, pointer, False)
            with self.block(f"for ({counter} = 0; {counter} < self->core->counts[{port.number}]; {counter}++)"):
                self.put(f"{pointer} = {port.pointer} + {counter};")
                body()
        else:
            items, counter = self.held(node.over), self.raw_variable("uint32_t")
            self.names[node.binding] = f"{items}.items[{counter}]"
            with self.block(f"for ({counter} = 0; {counter} < {items}.count; {counter}++)"):
                body()
        return found

    def map(self, node: tree.Map) -> str:
        if isinstance(node.over.type, ChannelOf):
            raise not_yet(node.place, f"'{node.kind}' over channels")
        items, found, counter = self.held(node.over), self.zero(node.type, node.place), self.raw_variable("uint32_t")
        assert node.binding is not None and isinstance(node.type, ListOf)
        self.names[node.binding] = item = f"{items}.items[{counter}]"
        with self.block(f"for ({counter} = 0; {counter} < {items}.count; {counter}++)"):
            if node.kind == "map":
                text = self.value(node.body)
                self.put(f"{found}.items[{found}.count++] = {text};")
            else:
                with self.block(f"if ({self.value(node.body)})"):
                    self.put(f"{found}.items[{found}.count++] = {item};")
        return found

    # --- channels

    def parse_of(self, type: Type, place: Place) -> str:
        unit = self.service.unit(type, place)
        self.values.c_type(type, place)
        return f"m_{unit.name}_parse"

    @property
    def whole(self) -> str:
        return "false" if self.streamed else "true"

    def send(self, port: Port, text: str, type: Type, place: Place) -> None:
        """Send a value, which is a variable."""
        self.service.unit(type, place)
        assert isinstance(type, Named)
        self.writes.add(port.number)
        if self.streamed:
            self.wait(f"service_forward({port.pointer}, &{text}.m)")
        elif type.name in self.values.written:
            self.wait(
                f"{text}.m.changed || !{text}.m.raw ? m_{type.name}_write({port.pointer}, &{text}) : service_copy({port.pointer}, &{text}.m)"
            )
        else:
            self.wait(f"{text}.m.raw ? service_copy({port.pointer}, &{text}.m) : service_fail(self, SERVICE_UNFIT)")
        self.put("f->did = true;")

    def receive(self, node: tree.Receive) -> str:
        port = self.port(node.channel)
        found = self.variable(node.type, node.place)
        parse = self.parse_of(node.type, node.place)
        self.reads.add(port.number)
        if node.peek:
            self.wait(f"service_peek({port.pointer}, {parse}, {self.whole}, &{found}.m)")
            self.site(port.pointer)
        else:
            self.wait(f"service_receive({port.pointer}, {parse}, {self.whole}, &{found}.m)")
            self.site(port.pointer)
            self.put("f->did = true;")
        return found

    def can(self, node: tree.Can) -> str:
        found = self.variable(BOOLEAN, node.place)
        if isinstance(node.what, tree.Send):
            raise not_yet(node.place, "'can' of a message to be sent")
        receives = not isinstance(node.what, tree.Name | tree.Index)
        channel = node.what.channel if isinstance(node.what, tree.Receive) else node.what
        port, type = self.port(channel), channel.type
        assert isinstance(type, ChannelOf)
        if receives or str(type.receives) != "-":
            self.reads.add(port.number)
            self.ready(port.pointer, type.receives, node.place)
            self.put(f"{found} = outcome == SERVICE_STEP;")
        else:
            self.writes.add(port.number)
            self.put(f"outcome = service_sendable({port.pointer});")
            self.put("if (outcome == SERVICE_FAULT)")
            self.put("    return outcome;")
            self.put(f"{found} = outcome == SERVICE_STEP;")
        return found

    def ready(self, pointer: str, type: Type, place: Place) -> None:
        """Look at the next message of a channel: `outcome` says whether it is there."""
        scratch = self.variable(type, place)
        self.put(f"outcome = service_look({pointer}, {self.parse_of(type, place)}, {self.whole}, &{scratch}.m);")
        self.put("if (outcome == SERVICE_FAULT)")
        self.put("    return outcome;")

    def all_ready(self, node: tree.Call) -> str:
        """Whether each channel that is not over has a message, and one of them is not over."""
        found, any_left = self.variable(BOOLEAN, node.place), self.variable(BOOLEAN, node.place)
        self.put(f"{found} = true;")
        self.put(f"{any_left} = false;")
        for each in node.ordered:
            port, type = self.port(each), each.type
            assert isinstance(type, ChannelOf)
            self.reads.add(port.number)
            counter = self.raw_variable("uint32_t")
            count = f"self->core->counts[{port.number}]" if port.array else "1"
            with self.block(f"for ({counter} = 0; {counter} < {count}; {counter}++)"):
                self.ready(f"{port.pointer} + {counter}", type.receives, node.place)
                self.put(f"{any_left} = {any_left} || outcome != SERVICE_END;")
                self.put(f"{found} = {found} && outcome != SERVICE_WAIT;")
        return f"({found} && {any_left})"

    # --- pipelines

    def pipe(self, node: tree.Pipe) -> str:
        if isinstance(node.sources[0].type, ChannelOf):
            text = self.from_any(node)
        else:
            text = self.keep(self.value(node.sources[0]), node.bindings[0].type, node.place)
        for stage, binding in zip(node.stages, node.bindings, strict=True):
            self.names[binding] = text
            if isinstance(stage, tree.Hole):
                return "0"
            if isinstance(stage, tree.Call):
                text = self.call(stage)
                if stage.type != UNIT:
                    text = self.keep(text, stage.type, stage.place)
            else:
                self.send(self.port(stage), text, binding.type, node.place)
                return "0"
        return text

    def from_any(self, node: tree.Pipe) -> str:
        """The next message of any of the sources."""
        type = node.bindings[0].type
        found, parse = self.variable(type, node.place), self.parse_of(type, node.place)
        pointer = self.raw_variable("struct service_channel *")
        sources = [self.port(each) for each in node.sources]
        self.reads.update(each.number for each in sources)
        self.labels += 1
        label = f"resume_{self.labels}"
        self.put(f"f->resume = {self.labels};")
        self.lines.append(f"{label}:;")
        self.put("over = true;")
        self.put(f"{pointer} = NULL;")
        for each in sources:
            count = f"self->core->counts[{each.number}]" if each.array else "1"
            with self.block(f"if (!{pointer})"):
                self.put(f"{pointer} = service_any(self, {each.pointer}, {count}, &outcome);")
                self.put(f"over = over && !{pointer} && outcome == SERVICE_END;")
        with self.block(f"if (!{pointer})"):
            self.put("return over ? SERVICE_END : SERVICE_WAIT;")
        self.put(f"outcome = service_receive({pointer}, {parse}, {self.whole}, &{found}.m);")
        with self.block("if (outcome == SERVICE_WAIT)"):
            self.put(f"goto {label}; /* only a part of it is there: another channel may have more */")
        with self.block("if (outcome != SERVICE_STEP)"):
            self.put("return outcome;")
        self.site(pointer)
        self.put("f->did = true;")
        return found
