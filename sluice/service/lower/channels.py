"""Choices, loops, and operations on channels."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext

from sluice.service.lang import tree
from sluice.service.lang.check.calls import RINGS, TALLIES
from sluice.service.lang.errors import Place
from sluice.service.lang.types import ADDRESS, BOOLEAN, INTEGER, UNIT, ChannelOf, ListOf, Named, Type, bound_of
from sluice.service.lower.expressions import RANGE, ExpressionWriter
from sluice.service.lower.forwarding import FLAT, Want, keeps_bytes
from sluice.service.lower.writer import Port

_NUMBERS = (INTEGER, ADDRESS)


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
                return self.foldt(node)
            case tree.Typed():
                return self.cast(node)
            case _:
                return self.value(node)

    def foldt(self, node: tree.FoldT) -> str:
        raise NotImplementedError

    def cast(self, node: tree.Typed) -> str:
        """unsafe_cast: numbers keep their value; of anything else, only its own type has a meaning."""
        text = self.value(node.value)
        if node.value.type == node.type:
            return text
        if node.type == BOOLEAN and node.value.type in _NUMBERS:
            return f"({text} != 0)"
        if node.type in _NUMBERS and node.value.type in (*_NUMBERS, BOOLEAN):
            return f"(int64_t){text}"
        self.keep(text, node.value.type, node.place)
        return self.zero(node.type, node.place)

    # --- choices

    def chosen(self, node: tree.If) -> str:
        if node.type == UNIT:
            self.choice(node, None)
            return "0"
        found = self.variable(node.type, node.place)
        self.choice(node, found)
        return found

    def branch(self, node: tree.Expression, found: str | None) -> None:
        for binding in self.forwarded.whole.get(node, ()):
            self.fault(f"{self.names[binding]}.m.partial", "TOO_LARGE")
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
        if isinstance(node.target, tree.Index):
            self.set_entry(node.target, node.value, node.place)
            return
        assert isinstance(node.target, tree.Name) and node.target.binding is not None
        kept = self.state_of(node.target)
        if kept is not None:
            self.set_state(kept, node.value, node.place)
        else:
            self.put(f"{self.names[node.target.binding]} = {self.value(node.value)};")

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

        sites = len(self.sites)
        flat = (node.accumulated is None or node.accumulated.type in FLAT) and not keeps_bytes(
            node.body, self.checked, set()
        )

        def turn() -> None:
            with self.iteration(sites) if flat else nullcontext():
                body()
            self.slice()

        if isinstance(node.over, tree.Binary) and node.over.operator == "..":
            low, high = self.ends(node.over)
            self.fault(f"{low} <= {high} && (uint64_t){high} - (uint64_t){low} >= {RANGE}", "LIMIT")
            counter = self.variable(INTEGER, node.place)
            self.names[node.binding] = counter
            with self.block(f"for ({counter} = {low}; {low} <= {high}; {counter}++)"):
                turn()
                with self.block(f"if ({counter} == {high})"):
                    self.put("break;")
        elif isinstance(node.over.type, ChannelOf):
            with self.each_channel(node.over, node.binding), self.iteration(sites) if flat else nullcontext():
                body()
        else:
            items, counter = self.own(node.over), self.raw_variable("uint32_t")
            self.names[node.binding] = f"{items}.items[{counter}]"
            with self.block(f"for ({counter} = 0; {counter} < {items}.count; {counter}++)"):
                turn()
        return found

    def own(self, node: tree.Expression) -> str:
        """A variable with a value that nothing else changes while a loop iterates over it."""
        changes = isinstance(node, tree.Name) and node.binding is not None and node.binding.kind in ("local", "loop")
        return self.keep(self.value(node), node.type, node.place) if changes else self.held(node)

    @contextmanager
    def each_channel(self, over: tree.Expression, binding: tree.Binding) -> Generator[None]:
        """A loop over the channels of an array."""
        port = self.port(over)
        counter, pointer = self.raw_variable("uint32_t"), self.raw_variable("struct service_channel *")
        self.ports[binding] = Port(port.number, pointer, False)
        with self.block(f"for ({counter} = 0; {counter} < self->core->counts[{port.number}]; {counter}++)"):
            self.put(f"{pointer} = {port.pointer} + {counter};")
            yield
            self.slice()

    def map(self, node: tree.Map) -> str:
        found = self.zero(node.type, node.place)
        assert node.binding is not None and isinstance(node.type, ListOf)
        if isinstance(node.over.type, ChannelOf):
            with self.each_channel(node.over, node.binding):
                text = self.keep(self.value(node.body), node.type.item, node.place)
                self.fault(f"{found}.count == {bound_of(node.type)}", "LIMIT")
                self.put(f"{found}.items[{found}.count++] = {text};")
            return found
        items, counter = self.own(node.over), self.raw_variable("uint32_t")
        self.names[node.binding] = item = f"{items}.items[{counter}]"
        with self.block(f"for ({counter} = 0; {counter} < {items}.count; {counter}++)"):
            if node.kind == "map":
                text = self.keep(self.value(node.body), node.type.item, node.place)
                self.fault(f"{found}.count == {bound_of(node.type)}", "LIMIT")
                self.put(f"{found}.items[{found}.count++] = {text};")
            else:
                with self.block(f"if ({self.value(node.body)})"):
                    self.fault(f"{found}.count == {bound_of(node.type)}", "LIMIT")
                    self.put(f"{found}.items[{found}.count++] = {item};")
            self.slice()
        return found

    # --- channels

    def parse_of(self, type: Type, place: Place) -> str:
        unit = self.service.unit(type, place)
        self.values.c_type(type, place)
        return f"m_{unit.name}_parse"

    def whole(self, node: tree.Expression | None = None) -> str:
        """How much of a message has to be there."""
        want = Want.FIELDS if self.streamed else self.forwarded.wants.get(node, Want.WHOLE) if node else Want.WHOLE
        return want.value

    def send(self, port: Port, text: str, type: Type, place: Place) -> None:
        """Send a value, which is a variable."""
        self.service.unit(type, place)
        assert isinstance(type, Named)
        self.writes.add(port.number)
        sent = f"&{text}.m"
        if type.name in self.values.written:
            self.values.sent.add(type.name)
            call = f"m_{type.name}_write({port.pointer}, &{text})"
            call = f"{text}.m.changed || !{text}.m.raw ? {call} : service_copy({port.pointer}, {sent})"
        else:
            call = f"{text}.m.raw ? service_copy({port.pointer}, {sent}) : service_fail(self, SERVICE_UNFIT)"
        if self.streamed:
            call = f"service_forward({port.pointer}, {sent})"
        elif self.forwarded.wants:
            call = f"{text}.m.partial ? service_forward({port.pointer}, {sent}) : {call}"
        self.wait(call)
        self.put("f->did = true;")

    def receive(self, node: tree.Receive) -> str:
        port = self.port(node.channel)
        found = self.variable(node.type, node.place)
        parse = self.parse_of(node.type, node.place)
        self.reads.add(port.number)
        if node.peek:
            self.wait(f"service_peek({port.pointer}, {parse}, {self.whole()}, &{found}.m)")
            self.site(port.pointer)
        else:
            self.wait(f"service_receive({port.pointer}, {parse}, {self.whole(node)}, &{found}.m)")
            self.site(port.pointer)
            self.put("f->did = true;")
        return found

    def can(self, node: tree.Can) -> str:
        found = self.variable(BOOLEAN, node.place)
        if isinstance(node.what, tree.Send):
            self.value(node.what.value)
            port = self.port(node.what.channel)
            self.writes.add(port.number)
            self.put(f"{found} = service_can_send({port.pointer});")
            return found
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
            self.put(f"{found} = service_can_send({port.pointer});")
        return found

    def ready(self, pointer: str, type: Type, place: Place) -> None:
        """Look at the next message of a channel: `outcome` is whether it is there."""
        scratch = self.variable(type, place)
        self.put(f"outcome = service_glance({pointer}, {self.parse_of(type, place)}, {self.whole()}, &{scratch}.m);")
        with self.block("if (outcome == SERVICE_FAULT)"):
            self.put(f"goto {self.catchers[-1]};" if self.catchers else "return outcome;")

    def messages(self, node: tree.Expression) -> str:
        """size of a channel, or of an array."""
        type, port = node.type, self.port(node)
        assert isinstance(type, ChannelOf)
        if type.array:
            return f"(int64_t)self->core->counts[{port.number}]"
        scratch, found = self.variable(type.receives, node.place), self.variable(INTEGER, node.place)
        parse = self.parse_of(type.receives, node.place)
        self.reads.add(port.number)
        self.put(f"{found} = service_messages({port.pointer}, {parse}, &{scratch}.m);")
        with self.block(f"if ({found} < 0)"):
            self.put(f"goto {self.catchers[-1]};" if self.catchers else "return SERVICE_FAULT;")
        return found

    def of_channel(self, node: tree.Call) -> str:
        """src_address(c), load(c), up(c), ketama(cs, key), bind(c, address), and others."""
        port = self.port(node.ordered[0])
        if node.function == "src_address":
            return f"(int64_t){port.pointer}->address"
        if node.function == "src_port":
            return f"(int64_t){port.pointer}->peer_port"
        if node.function == "load":
            return f"service_load_of({port.pointer})"
        if node.function in TALLIES:
            self.states.tallied = True
            return f"service_tallied({port.pointer}, offsetof(struct service_tally, {node.function}))"
        if node.function == "up":
            return f"service_up({port.pointer})"
        if node.function == "first_ready":
            return self.first_ready(port, node)
        if node.function in RINGS:
            self.states.rings[RINGS.index(node.function)] |= 1 << port.number
            count = f"self->core->counts[{port.number}]"
            key = self.held(node.ordered[1])
            self.fault(f"{count} == 0", "BAD_INDEX")
            return f"service_ring_choose(self, {port.number}, {RINGS.index(node.function)}, {key})"
        self.put(f"service_bind({port.pointer}, {self.value(node.ordered[1])});")
        return "0"

    def first_ready(self, port: Port, node: tree.Call) -> str:
        """The number of a channel that has a whole message, or whose connection has failed: what receives from it is
        notified. It waits for one.
        """
        type = node.ordered[0].type
        assert isinstance(type, ChannelOf)
        self.reads.add(port.number)
        scratch, pointer = self.variable(type.receives, node.place), self.raw_variable("struct service_channel *")
        parse, number = self.parse_of(type.receives, node.place), self.mark()
        self.put(f"{pointer} = service_any(self, {port.pointer}, self->core->counts[{port.number}], &outcome);")
        with self.block(f"if (!{pointer})"):
            self.put("return outcome;")
        self.put(
            f"outcome = {pointer}->broken ? SERVICE_STEP : "
            f"service_glance({pointer}, {parse}, SERVICE_WHOLE, &{scratch}.m);"
        )
        with self.block("if (outcome == SERVICE_WAIT)"):
            self.put(f"goto resume_{number}; /* only a part has arrived: another channel may have more */")
        with self.block("if (outcome == SERVICE_FAULT)"):
            self.put(f"{pointer}->broken = self->fault;")
            self.put("self->fault = 0;")
        return self.keep(f"{pointer}->index", INTEGER, node.place)

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
        label = f"resume_{self.mark()}"
        self.put("over = true;")
        self.put(f"{pointer} = NULL;")
        for each in sources:
            count = f"self->core->counts[{each.number}]" if each.array else "1"
            with self.block(f"if (!{pointer})"):
                self.put(f"{pointer} = service_any(self, {each.pointer}, {count}, &outcome);")
                self.put(f"over = over && !{pointer} && outcome == SERVICE_END;")
        with self.block(f"if (!{pointer})"):
            self.put("return over ? SERVICE_END : SERVICE_WAIT;")
        self.put(f"outcome = service_receive({pointer}, {parse}, {self.whole(node)}, &{found}.m);")
        with self.block("if (outcome == SERVICE_WAIT)"):
            self.put(f"goto {label}; /* only a part has arrived: another channel may have more */")
        with self.block("if (outcome != SERVICE_STEP)"):
            self.stop()
        self.site(pointer)
        self.put("f->did = true;")
        return found
