"""Stacks: layers made from parsers, and which layer follows which (paper, 3 and Appendix C.3)."""

from __future__ import annotations

from typing import Any

from sluice.lang.errors import DescriptionError, did_you_mean
from sluice.lang.expression import BYTES, Expression, Property
from sluice.lang.prototype import Parser, Prototype, PsmOf
from sluice.lang.psm import Pred
from sluice.lang.where import here


class Layer(Parser):
    """A place in a stack, filled by a prototype. Layers of one prototype share its table."""

    def __init__(self, name: str, prototype: Prototype, number: int) -> None:
        self.where = here()
        self.name = name
        self.number = number
        self._prototype = prototype

    @property
    def prototype(self) -> Prototype:
        return self._prototype

    @property
    def title(self) -> str:
        return f"layer '{self.name}'"

    @property
    def psm(self) -> Any:
        return PsmOf(self, self._prototype.psm)

    @property
    def sdu(self) -> Any:
        return Property(self, "sdu", BYTES)

    def __rshift__(self, other: object) -> Branch:
        if not isinstance(other, Layer):
            raise DescriptionError("a layer is followed by a layer", "write stack += (stack.a >> stack.b) + Pred(...).")
        return Branch(self, other)

    def __repr__(self) -> str:
        return f"<layer {self.name}>"


class Branch:
    """`upper` is the next layer of `lower` when `condition` holds."""

    def __init__(self, lower: Layer, upper: Layer) -> None:
        self.where = here()
        self.lower = lower
        self.upper = upper
        self.condition: Expression | None = None

    def __add__(self, pred: object) -> Branch:
        if not isinstance(pred, Pred):
            raise DescriptionError("a step to the next layer needs a Pred", "write (stack.a >> stack.b) + Pred(condition).")
        if self.condition is not None:
            raise DescriptionError("a second Pred for one step", "join the conditions with & or |.")
        self.condition = pred.condition
        return self


class Stack:
    """The layers of a middlebox. `depth` bounds how many layers one packet may pass."""

    def __init__(self, name: str = "", depth: int = 32) -> None:
        self.__dict__["where"] = here()
        self.__dict__["name"] = name
        self.__dict__["depth"] = depth
        self.__dict__["layers"] = {}
        self.__dict__["branches"] = []
        if not 1 <= depth <= 255:
            raise DescriptionError(f"depth={depth}", "a packet passes 1 to 255 layers.")

    where: Any
    name: str
    depth: int
    layers: dict[str, Layer]
    branches: list[Branch]

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("name", "depth"):
            self.__dict__[name] = value
            return
        if isinstance(value, Layer):
            value = value.prototype
        if not isinstance(value, Prototype):
            raise DescriptionError(
                f"stack.{name} is not a parser", "assign what Connectionless() or ConnectionOriented() made (call the parser function)."
            )
        if name in self.layers:
            raise DescriptionError(f"layer '{name}' is defined twice", "give the second one another name.")
        if name in ("layers", "branches", "where"):
            raise DescriptionError(f"'{name}' cannot be the name of a layer", "choose another name.")
        self.layers[name] = Layer(name, value, len(self.layers))
        if not value.name:
            value.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.layers:
            raise DescriptionError(f"the stack has no layer '{name}'", did_you_mean(name, self.layers))
        return self.layers[name]

    def __iadd__(self, other: object) -> Stack:
        if not isinstance(other, Branch):
            raise DescriptionError("a stack is extended by steps", "write stack += (stack.a >> stack.b) + Pred(condition).")
        if other.condition is None:
            raise DescriptionError("a step to the next layer without a Pred", "add + Pred(condition); Pred(1) is always.", other.where)
        for layer in (other.lower, other.upper):
            if self.layers.get(layer.name) is not layer:
                raise DescriptionError(f"layer '{layer.name}' belongs to another stack", "use layers of this stack.")
        self.branches.append(other)
        return self

    def above(self, layer: Layer) -> list[Branch]:
        """The steps that lead on from `layer`, in order of definition."""
        return [branch for branch in self.branches if branch.lower is layer]

    def roots(self) -> list[Layer]:
        """Layers where a packet may begin: those that no step leads to, or that name their link types."""
        reached = {branch.upper.name for branch in self.branches if branch.upper is not branch.lower}
        found = [layer for layer in self.layers.values() if layer.name not in reached or layer.prototype.link_types]
        if not found:
            raise DescriptionError("no layer is the first one", "one layer must not be the next of another.", self.where)
        return found
