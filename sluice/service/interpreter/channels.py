"""Operations of a rule on channels: receive, send, pipelines, foldt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from typing import Any

from sluice.service.interpreter.values import EndError, FaultError, Record, Value, hashed, texts
from sluice.service.interpreter.world import Channel
from sluice.service.lang import tree
from sluice.service.lang.check.calls import RINGS, TALLIES
from sluice.service.lang.types import NOTHING, ChannelOf, Named, Type
from sluice.service.load import Service
from sluice.service.lower.writer import ARENA

ADDRESS = 0x7F000001
"""The address of all clients in the interpreter."""
Wait = Generator[None, None, Any]


class ChannelEvaluator:
    """Evaluates the expressions that use channels, for one rule."""

    def __init__(
        self, service: Service, channels: dict[tree.Binding, list[Channel]], states: dict[tree.Binding, Value]
    ) -> None:
        self.service = service
        self.states = states
        self.names: dict[tree.Binding, Value] = {}
        self.refs: dict[tree.Binding, tree.Binding] = {}
        """The state that a parameter refers to."""
        self.ports: dict[tree.Binding, list[Channel]] = dict(channels)
        self.did = False
        """Whether this step has received or sent anything."""
        self.made: int = 0
        """Bytes of strings that this step has made."""
        self.turn = [0]
        """Where the next choice among channels begins; all rules of an instance share it."""

    @abstractmethod
    def value(self, node: tree.Expression) -> Wait:
        """The value of an expression."""

    @abstractmethod
    def call(self, node: tree.Call) -> Wait:
        """The value of a call."""

    def array(self, node: tree.Expression) -> list[Channel]:
        assert isinstance(node, tree.Name) and node.binding is not None
        found: list[Channel] = self.ports[node.binding]
        return found

    def channel(self, node: tree.Expression) -> Generator[None, None, Channel]:
        if isinstance(node, tree.Index):
            channels = self.array(node.base)
            index: int = yield from self.value(node.index)
            if not 0 <= index < len(channels):
                raise FaultError("BAD_INDEX")
            return channels[index]
        return self.array(node)[0]

    def look(self, channel: Channel, type: Type) -> tuple[Record, int] | None:
        assert isinstance(type, Named)
        return channel.look(self.service.units[type.name], type.name, self.service.fields(type))

    def take(self, channel: Channel, found: tuple[Record, int]) -> Record:
        channel.took(self.service.units[found[0].name], found[0], found[1])
        self.did = True
        return found[0]

    def receive(self, channel: Channel, type: Type, peek: bool) -> Wait:
        while (found := self.look(channel, type)) is None:
            if channel.over:
                raise EndError
            yield
        return found[0] if peek else self.take(channel, found)

    def send(self, channel: Channel, value: Record, type: Type) -> None:
        assert isinstance(type, Named)
        channel.send(self.service.units[type.name], value)
        self.did = True

    def can(self, node: tree.Can) -> Wait:
        if isinstance(node.what, tree.Send):
            yield from self.value(node.what.value)
            return not (yield from self.channel(node.what.channel)).closed
        inner = node.what.channel if isinstance(node.what, tree.Receive) else node.what
        channel = yield from self.channel(inner)
        type = inner.type
        assert isinstance(type, ChannelOf)
        if not isinstance(node.what, tree.Receive) and type.receives == NOTHING:
            return not channel.closed
        return self.look(channel, type.receives) is not None

    def of_channels(self, node: tree.Call) -> Wait:
        if node.function == "src_address":
            yield from ()
            return ADDRESS
        if node.function in ("src_port", "load", *TALLIES):
            yield from self.channel(node.ordered[0])
            return 0
        if node.function == "up":
            yield from self.channel(node.ordered[0])
            return True
        if node.function == "first_ready":
            return (yield from self.first_ready(node))
        if node.function in RINGS:  # channels have no addresses here, as in channels in memory of compiled code
            count = len(self.array(node.ordered[0]))
            key = yield from self.value(node.ordered[1])
            if count == 0:
                raise FaultError("BAD_INDEX")
            return hashed(key) % count
        if node.function == "bind":
            yield from self.value(node.ordered[1])
            return ()
        ready, some = True, False
        for each in node.ordered:
            assert isinstance(each.type, ChannelOf)
            channels = self.array(each) if each.type.array else [(yield from self.channel(each))]
            for channel in channels:
                some = some or not channel.over
                ready = ready and (channel.over or self.look(channel, each.type.receives) is not None)
        return ready and some

    def first_ready(self, node: tree.Call) -> Wait:
        """The number of a channel of an array that has a message, in turn."""
        type = node.ordered[0].type
        assert isinstance(type, ChannelOf)
        while True:
            channels = self.array(node.ordered[0])
            for i in range(len(channels)):
                at = (self.turn[0] + i) % len(channels)
                if self.look(channels[at], type.receives) is not None:
                    self.turn[0] = at + 1
                    return at
            if all(each.over for each in channels):
                raise EndError
            yield

    def pipe(self, node: tree.Pipe) -> Wait:
        first = node.sources[0]
        if isinstance(first.type, ChannelOf):
            value = yield from self.from_any(node)
        else:
            value = yield from self.value(first)
        for stage, binding in zip(node.stages, node.bindings, strict=True):
            self.names[binding] = value
            if isinstance(stage, tree.Hole):
                return ()
            if isinstance(stage, tree.Call):
                value = yield from self.call(stage)
            else:
                self.send((yield from self.channel(stage)), value, binding.type)
                return ()
        return value

    def from_any(self, node: tree.Pipe) -> Wait:
        """The next message of any of the sources; those of an array in turn."""
        while True:
            over = True
            for source in node.sources:
                assert isinstance(source.type, ChannelOf)
                channels = self.array(source) if source.type.array else [(yield from self.channel(source))]
                for i in range(len(channels)):
                    at = (self.turn[0] + i) % len(channels)
                    found = self.look(channels[at], source.type.receives)
                    if found is not None:
                        self.turn[0] = at + 1
                        return self.take(channels[at], found)
                    over = over and channels[at].over
            if over:
                raise EndError
            yield

    def foldt(self, node: tree.FoldT) -> Wait:
        """The elements with the smallest key of all channels, folded into one. Each channel is ordered by the key; an
        element is known to be the last one of its key when each channel shows a greater one, or is over.
        """
        channels = self.array(node.channels)
        key: Value = None
        result: Value = None
        before = self.made
        while True:
            heads: list[tuple[Value, int, tuple[Record, int]]] = []
            for number, channel in enumerate(channels):
                while (found := self.look(channel, node.type)) is None and not channel.over:
                    yield
                if found is not None:
                    self.names[node.bindings["element"]] = found[0]
                    heads.append(((yield from self.value(node.key)), number, found))
            if result is None and not heads:
                raise EndError
            smallest = min(heads, key=lambda each: each[:2]) if heads else None
            if smallest is None or (result is not None and smallest[0] != key):
                return result
            taken = self.take(channels[smallest[1]], smallest[2])
            if result is None:
                key, result = smallest[0], taken
            else:
                for role, value in (("left", result), ("right", taken), ("key", key)):
                    self.names[node.bindings[role]] = value
                result = yield from self.value(node.body)
            if texts(result) + (len(key) if isinstance(key, bytes) else 0) > ARENA:
                raise FaultError("LIMIT")
            self.made = before
