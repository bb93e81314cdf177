"""An instance of a process: its rules, in turn, until nothing more can happen."""

from __future__ import annotations

from collections.abc import Generator

from sluice.service.interpreter.evaluate import Evaluator
from sluice.service.interpreter.values import EndError, FaultError, Value
from sluice.service.interpreter.world import Channel
from sluice.service.lang import tree
from sluice.service.lang.check.scope import Signature
from sluice.service.lang.types import ChannelOf, DictionaryOf
from sluice.service.load import Service


class Instance:
    """Runs a process. Give bytes by `give()`, end a channel's input by `end()`, then `run()`.

    counts: how many channels each array of the process has, by its name. everywhere: the values of global state, which
    instances share.
    """

    def __init__(
        self,
        service: Service,
        process: Signature,
        counts: dict[str, int] | None = None,
        everywhere: dict[tree.Binding, Value] | None = None,
    ) -> None:
        self.process = process
        self._service = service
        self.fault = ""
        self.finished = False
        self.channels: dict[str, list[Channel]] = {}
        by_binding: dict[tree.Binding, list[Channel]] = {}
        for port, binding in enumerate(process.channels):
            count = (counts or {}).get(binding.name, 1) if binding.kind == "array" else 1
            by_binding[binding] = self.channels[binding.name] = [Channel(port, index) for index in range(count)]
        states = everywhere if everywhere is not None else {}
        body = process.declaration.body
        parts = body.expression.items if isinstance(body.expression, tree.Parallel) else [body.expression]
        turn = [0]
        self._rules: list[_Rule] = []
        for part in parts:
            evaluator = Evaluator(service, by_binding, states)
            evaluator.turn = turn
            self._rules.append(_Rule(evaluator, part, _inputs(part, by_binding, service), body.handlers))
        for state in body.states:
            assert state.binding is not None
            if not state.everywhere or state.binding not in states:
                empty = isinstance(state.binding.type, DictionaryOf)
                states[state.binding] = {} if empty else _finish(self._rules[0].evaluator.value(state.start))

    def give(self, channel: str, data: bytes, index: int = 0) -> None:
        """Add bytes received from a connection."""
        self.channels[channel][index].received += data

    def end(self, channel: str, index: int = 0) -> None:
        """Mark the end of its bytes."""
        self.channels[channel][index].ended = True

    def sent(self, channel: str, index: int = 0) -> bytes:
        """All that was sent to it."""
        return bytes(self.channels[channel][index].sent)

    def run(self) -> None:
        """Run until no rule can continue; then `fault` is the reason of a failure, `finished` whether it has ended."""
        progressed = True
        while progressed and not self.fault:
            progressed = False
            for rule in self._rules:
                try:
                    progressed = rule.step() or progressed
                except FaultError as error:
                    self.fault = error.reason
                    return
        self.finished = all(rule.ended for rule in self._rules)
        if self.finished:
            for binding in self.process.channels:
                assert isinstance(binding.type, ChannelOf)
                unit = self._service.units.get(str(binding.type.sends))
                if unit is not None:
                    for channel in self.channels[binding.name]:
                        channel.finish(unit)


class _Rule:
    """A rule at the place where it waits."""

    def __init__(
        self, evaluator: Evaluator, node: tree.Expression, inputs: list[Channel], handlers: list[tree.Handler]
    ) -> None:
        self.handlers = handlers
        self.evaluator = evaluator
        self.node = node
        self.inputs = inputs
        self.ended = False
        self._waiting: Generator[None, None, Value] | None = None

    def step(self) -> bool:
        """Go on until the step is done or has to wait; whether something has happened."""
        if self.ended:
            return False
        if self._waiting is None:
            self.evaluator.did = False
            self.evaluator.made = 0
            self._waiting = self.evaluator.handled(self.node, self.handlers)
        before = sum(len(each.received) for each in self.inputs)
        try:
            next(self._waiting)
        except StopIteration:
            self._waiting = None
            if not self.evaluator.did and all(each.over for each in self.inputs):
                self.ended = True
            return self.evaluator.did
        except EndError:
            self.ended = True
            return True
        return before != sum(len(each.received) for each in self.inputs)


def _inputs(node: tree.Expression, channels: dict[tree.Binding, list[Channel]], service: Service) -> list[Channel]:
    """The channels that a rule names and can receive from, itself or in a function that it calls."""
    found: list[Channel] = []
    for binding, ends in channels.items():
        if isinstance(binding.type, ChannelOf) and str(binding.type.receives) != "-":
            found += ends
    return found


def _finish(steps: Generator[None, None, Value]) -> Value:
    """The value of an expression that does not wait."""
    try:
        next(steps)
    except StopIteration as stop:
        return stop.value
    raise FaultError("LIMIT")
