"""Types of expressions: blocks, choices, loops, channels and pipelines."""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.check.calls import CallChecker
from sluice.service.lang.check.operators import ORDERED
from sluice.service.lang.errors import ServiceError
from sluice.service.lang.types import (
    ADDRESS,
    ANY,
    BOOLEAN,
    INTEGER,
    NOTHING,
    STRING,
    UNIT,
    ChannelOf,
    DictionaryOf,
    ListOf,
    Named,
    TupleOf,
    Type,
    joined,
    widened,
)


class ExpressionChecker(CallChecker):
    """Types of all expressions."""

    def check(self, node: tree.Expression, used: bool = True) -> Type:
        node.type = self._check(node, used)
        return node.type

    def _check(self, node: tree.Expression, used: bool) -> Type:
        match node:
            case tree.Boolean():
                return BOOLEAN
            case tree.Integer():
                return INTEGER
            case tree.Text():
                return STRING
            case tree.Address():
                return ADDRESS
            case tree.Name():
                return self._name(node)
            case tree.Tuple():
                found = TupleOf(tuple(self.value(item, "an item of this tuple") for item in node.items))
                self.check_parts(found, node.place)
                return found
            case tree.List():
                return self.list(node)
            case tree.Record():
                return self.record(node)
            case tree.Index():
                return self.index(node)
            case tree.Field():
                return self.field(node)
            case tree.Item():
                return self.item(node)
            case tree.Unary():
                return self.unary(node)
            case tree.Binary():
                return self.binary(node)
            case tree.Typed():
                return self.typed(node)
            case tree.With():
                return self.with_(node)
            case tree.Call():
                return self.call(node)
            case tree.Dotted():
                return self._dotted(node)
            case tree.CompileTime():
                return self.check(node.value, used)
            case tree.Hole():
                raise ServiceError(node.place, "'_' has no value here", "it stands in a call, a switch, or after '=>'.")
            case _:
                return self._construct(node, used)

    def _construct(self, node: tree.Expression, used: bool) -> Type:
        match node:
            case tree.If():
                return self._if(node, used)
            case tree.Switch():
                return self._switch(node, used)
            case tree.Let():
                return self._let(node)
            case tree.Assign():
                return self._assign(node)
            case tree.For():
                return self._for(node)
            case tree.Map():
                return self._map(node)
            case tree.FoldT():
                return self._foldt(node)
            case tree.Send():
                return self._send(node)
            case tree.Receive():
                return self.receiver(node.channel).receives
            case tree.Can():
                return self._can(node)
            case tree.Pipe():
                return self._pipe(node, used)
            case tree.Sequence():
                for item in node.items[:-1]:
                    self.check(item, used=False)
                return self.check(node.items[-1], used)
            case tree.Parallel():
                for item in node.items:
                    with self.block():
                        self.check(item, used=False)
                return UNIT
            case _:
                raise ServiceError(node.place, "this cannot stand here", "write an expression.")

    # --- names

    def _name(self, node: tree.Name) -> Type:
        if node.binding is not None:
            return node.type  # the input of a pipeline's stage
        if self.find(node.name) is None:
            if node.name == "empty_dictionary":
                return DictionaryOf(ANY, ANY)
            if node.name == "empty_list":
                return ListOf(ANY, 0)
            if node.name == "None":
                return ANY
        node.binding = self.lookup(node.name, node.place)
        return node.binding.type

    def _dotted(self, node: tree.Dotted) -> Type:
        call = node.call
        held = [each for each in call.arguments if isinstance(each.value, tree.Hole)]
        if len(held) > 1:
            raise ServiceError(
                node.place, "'_' stands twice in this call", "the operand before the dot fills one of them."
            )
        if held:
            held[0].value = node.operand
        else:
            call.arguments.insert(0, tree.Argument(node.operand))
        return self.check(call)

    def _let(self, node: tree.Let) -> Type:
        with self.block():
            found = self.check(node.value)
        if isinstance(found, ChannelOf):
            raise ServiceError(
                node.place, f"'{node.name}' would be a channel", "name a channel by its own name, or receive: ? c."
            )
        if isinstance(found, DictionaryOf):
            raise ServiceError(
                node.place, f"'{node.name}' would be a dictionary", "a dictionary is state: local NAME : TYPE := []."
            )
        if node.wanted is not None:
            wanted = self.resolve(node.wanted)
            self.coerce(node.value, wanted, f"'{node.name}'")
            found = node.value.type
        node.binding = self.declare(node.name, "let", found, node.place)
        return found

    def _assign(self, node: tree.Assign) -> Type:
        target = node.target
        base = target.base if isinstance(target, tree.Index) else target
        wanted = self.check(target)
        if (
            not isinstance(base, tree.Name)
            or base.binding is None
            or base.binding.kind not in ("local", "global", "ref")
        ):
            raise ServiceError(
                node.place,
                "only state can be assigned",
                "declare it at the beginning of the body: local NAME : TYPE := VALUE.",
            )
        if isinstance(target, tree.Index) and not isinstance(base.type, DictionaryOf):
            raise ServiceError(
                node.place, f"an item of {base.type} cannot be assigned", "only an entry of a dictionary can."
            )
        self.want(node.value, wanted, "what is assigned")
        if joined(base.binding.type, node.value.type) is not None and isinstance(target, tree.Name):
            base.binding.type = joined(base.binding.type, node.value.type) or wanted
        return UNIT

    # --- choices and loops

    def _if(self, node: tree.If, used: bool) -> Type:
        self.want(node.condition, BOOLEAN, "the condition of 'if'")
        with self.block():
            then = self.check(node.then, used)
        if node.otherwise is None:
            return UNIT
        with self.block():
            otherwise = self.check(node.otherwise, used)
        both = joined(then, otherwise)
        if both is None:
            if used:
                raise ServiceError(
                    node.place,
                    f"one branch of this 'if' gives {then}, the other one {otherwise}",
                    "give both one type.",
                )
            return UNIT
        self.coerce(node.then, both, "a branch")
        self.coerce(node.otherwise, both, "a branch")
        return both

    def _switch(self, node: tree.Switch, used: bool) -> Type:
        subject = self.value(node.subject, "what 'switch' looks at")
        result: Type = ANY
        for position, case in enumerate(node.cases):
            if position and node.cases[position - 1].kind == "default":
                raise ServiceError(case.place, "this case is never reached", "put '_' last.")
            with self.block():
                self._pattern(case, subject, node)
                found = self.check(case.body, used)
            both = joined(result, found)
            if both is None and used:
                raise ServiceError(
                    case.place, f"one case gives {result}, another one {found}", "give all cases one type."
                )
            result = UNIT if both is None else both
        if used and result != UNIT:
            for case in node.cases:
                self.coerce(case.body, result, "a case")
        self._complete(node, subject, used)
        return result

    def _pattern(self, case: tree.Case, subject: Type, node: tree.Switch) -> None:
        pattern = case.pattern
        if isinstance(pattern, tree.Hole):
            case.kind = "default"
            return
        if isinstance(subject, Named) and subject.variant:
            name = pattern.function if isinstance(pattern, tree.Call) else getattr(pattern, "name", "")
            if name in subject.fields:
                case.kind = "label"
                if isinstance(pattern, tree.Call):
                    if len(pattern.arguments) != 1 or not isinstance(
                        pattern.arguments[0].value, (tree.Name, tree.Hole)
                    ):
                        raise ServiceError(
                            case.place, f"a pattern of label '{name}' has one name", f"write {name}(x): ..."
                        )
                    inner = pattern.arguments[0].value
                    bound = inner.name if isinstance(inner, tree.Name) else "_"
                    case.binding = self.declare(bound, "let", subject.fields[name], case.place)
                return
        found = self.value(pattern, "the pattern")
        if found == BOOLEAN and subject != BOOLEAN:
            case.kind = "guard"
            return
        if joined(subject, found) is None:
            raise ServiceError(
                pattern.place,
                f"'switch' looks at {subject}, and this case is {found}",
                "write a value of that type, or a condition.",
            )
        self.coerce(pattern, subject, "the pattern")
        case.kind = "value"

    def _complete(self, node: tree.Switch, subject: Type, used: bool) -> None:
        """A value is needed from every switch whose value is used."""
        if any(case.kind == "default" for case in node.cases) or not used:
            return
        if isinstance(subject, Named) and subject.variant:
            seen = {
                getattr(case.pattern, "function", getattr(case.pattern, "name", ""))
                for case in node.cases
                if case.kind == "label"
            }
            if seen >= subject.fields.keys():
                return
        if subject == BOOLEAN and {getattr(case.pattern, "value", None) for case in node.cases} >= {True, False}:
            return
        self.warn(node.place, "this 'switch' has no '_', and has the value 0 or empty when no case fits")

    def _iterated(self, over: tree.Expression, what: str) -> tuple[Type, int | None]:
        """The items of a loop: those of a list, or channels of an array."""
        found = self.check(over)
        if isinstance(found, ChannelOf) and found.array:
            return ChannelOf(found.receives, found.sends), None
        if not isinstance(found, ListOf):
            raise ServiceError(
                over.place, f"'{what}' goes over a list, and this is {found}", "give it a list, or a range a .. b."
            )
        return found.item, found.bound

    def _for(self, node: tree.For) -> Type:
        item, _ = self._iterated(node.over, "for")
        start: Type = UNIT
        if node.start is not None:
            start = widened(self.value(node.start, "the start of the loop"))
        with self.block():
            node.binding = self.declare(node.name, "loop", item, node.place)
            if node.accumulator is None:
                self.check(node.body, used=False)
                return UNIT
            node.accumulated = self.declare(node.accumulator, "loop", start, node.place)
            found = self.value(node.body, "the body of this loop")
            both = joined(start, found)
            if both is None:
                raise ServiceError(
                    node.body.place,
                    f"the loop starts with {start}, and its body gives {found}",
                    "the body gives the next value.",
                )
            node.accumulated.type = both
            self.coerce(node.body, both, "the body")
            if node.start is not None:
                self.coerce(node.start, both, "the start")
            return both

    def _map(self, node: tree.Map) -> Type:
        item, bound = self._iterated(node.over, node.kind)
        with self.block():
            node.binding = self.declare(node.name, "loop", item, node.place)
            if node.kind == "filter":
                if isinstance(item, ChannelOf):
                    raise ServiceError(
                        node.over.place, "'filter' would give a list of channels", "use 'for' with an 'if', or 'map'."
                    )
                self.want(node.body, BOOLEAN, "the condition of 'filter'")
                return ListOf(item, bound)
            return ListOf(self.value(node.body, "the body of 'map'"), bound)

    def _foldt(self, node: tree.FoldT) -> Type:
        channels = self.check(node.channels)
        if not isinstance(channels, ChannelOf) or not channels.array or channels.receives == NOTHING:
            raise ServiceError(
                node.channels.place, f"'foldt' folds an array of channels, and this is {channels}", "give it [t/-]."
            )
        item = channels.receives
        with self.block():
            node.bindings["element"] = self.declare(node.element, "loop", item, node.place)
            key = self.value(node.key, "the key of 'foldt'")
            if key not in ORDERED:
                raise ServiceError(
                    node.key.place, f"'foldt' orders by {key}", "order by an integer, a string or an address."
                )
        with self.block():
            for role, name, type in (
                ("left", node.left, item),
                ("right", node.right, item),
                ("key", node.key_name, key),
            ):
                node.bindings[role] = self.declare(name, "loop", type, node.place)
            self.want(node.body, item, "the body of 'foldt'")
        return item

    # --- channels

    def channel(self, node: tree.Expression, what: str) -> ChannelOf:
        """The type of an expression that must be a single channel."""
        found = self.check(node)
        if not isinstance(found, ChannelOf):
            raise ServiceError(node.place, f"{what} is a channel, and this is {found}", "name a channel.")
        if found.array:
            raise ServiceError(
                node.place, f"{what} is one channel, and this is an array of them", "choose one: channels[i]."
            )
        return found

    def receiver(self, node: tree.Expression) -> ChannelOf:
        found = self.channel(node, "what '?' receives from")
        if found.receives == NOTHING:
            raise ServiceError(
                node.place, f"nothing is received from this channel: it is {found}", "its type is RECEIVED/SENT."
            )
        return found

    def _send(self, node: tree.Send) -> Type:
        found = self.channel(node.channel, "what '!' sends to")
        self._can_send(node.channel, found)
        self.want(node.value, found.sends, "what this channel sends")
        return found.sends

    def _can_send(self, node: tree.Expression, found: ChannelOf) -> None:
        if found.sends == NOTHING:
            raise ServiceError(
                node.place, f"nothing can be sent to this channel: it is {found}", "its type is RECEIVED/SENT."
            )

    def _can(self, node: tree.Can) -> Type:
        if not isinstance(node.what, (tree.Receive, tree.Send)):
            self.channel(node.what, "what 'can' tests")
            return BOOLEAN
        self.check(node.what)
        return BOOLEAN

    # --- pipelines

    def _pipe(self, node: tree.Pipe, used: bool) -> Type:
        flow: Type | None = None
        for source in node.sources:
            found = self.check(source)
            if isinstance(found, ChannelOf):
                if found.receives == NOTHING:
                    raise ServiceError(
                        source.place, f"nothing is received from this channel: it is {found}", "begin with another one."
                    )
                found = found.receives
            elif len(node.sources) > 1:
                raise ServiceError(
                    source.place, f"a source among several is a channel, and this is {found}", "name channels."
                )
            both = found if flow is None else joined(flow, found)
            if both is None:
                raise ServiceError(
                    source.place, f"these sources carry {flow} and {found}", "join channels of one type."
                )
            flow = both
        assert flow is not None
        for position, stage in enumerate(node.stages):
            binding = tree.Binding("(flow)", "let", flow, stage.place)
            node.bindings.append(binding)
            flow = self._stage(node, stage, binding, position + 1 == len(node.stages))
        return flow

    def _stage(self, node: tree.Pipe, stage: tree.Expression, binding: tree.Binding, last: bool) -> Type:
        if isinstance(stage, tree.Hole):
            return UNIT
        given = tree.Name(stage.place, binding.name)
        given.binding, given.type = binding, binding.type
        if isinstance(stage, tree.Name) and self.find(stage.name) is None and stage.name in self.checked.functions:
            stage = node.stages[node.stages.index(stage)] = tree.Call(stage.place, stage.name, [])
        if isinstance(stage, tree.Call):
            stage.type = self.call(stage, given)
            return stage.type
        found = self.check(stage)
        if not isinstance(found, ChannelOf):
            raise ServiceError(
                stage.place, f"'=>' leads to a channel or a function, and this is {found}", "name one of these."
            )
        if found.array:
            raise ServiceError(stage.place, "'=>' leads to an array of channels", "choose one of them: channels[i].")
        self._can_send(stage, found)
        if not last:
            raise ServiceError(stage.place, "a channel stands in the middle of a pipeline", "end the pipeline with it.")
        if isinstance(node.sources[0], tree.Record | tree.List) and len(node.stages) == 1:
            self.coerce(node.sources[0], found.sends, "what this channel sends")
            binding.type = node.sources[0].type
        if joined(found.sends, binding.type) is None:
            raise ServiceError(
                stage.place,
                f"this channel sends {found.sends}, and {binding.type} comes to it",
                "convert it by a function.",
            )
        return UNIT
