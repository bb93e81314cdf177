"""Protocol state machines, driven by what is sent (the paper's sender-side PSM, 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.lang.errors import DescriptionError, did_you_mean
from sluice.lang.expression import BYTES, Expression, Taken, to_expression
from sluice.lang.where import here, user_names

if TYPE_CHECKING:
    from sluice.lang.prototype import Parser


class Pred:
    """The condition of a transition between states or between layers."""

    def __init__(self, condition: object) -> None:
        self.where = here()
        self.condition: Expression = to_expression(condition)
        if self.condition.kind == BYTES:
            raise DescriptionError("a predicate is a number, not bytes", "compare something, as in Pred(x == 1).")


class PSMState:
    """A state. `start`: of a new instance. `accept`: the instance is destroyed behind it. `closed`: the connection is
    over but lingers until its timeout, so that late packets count on it.
    """

    def __init__(self, start: bool = False, accept: bool = False, closed: bool = False, name: str = "") -> None:
        self.where = here()
        self.start = start
        self.accept = accept
        self.closed = closed
        self.name = name

    def __rshift__(self, other: object) -> Transition:
        if not isinstance(other, PSMState):
            raise DescriptionError("a transition leads from a state to a state", "write (A >> B) + Pred(...).")
        return Transition(self, other)


def make_psm_state(count: int) -> tuple[PSMState, ...]:
    """`count` plain states at once."""
    if count < 1:
        raise DescriptionError(f"make_psm_state({count})", "make at least one state.")
    return tuple(PSMState() for _ in range(count))


class Transition:
    """From `source` to `target` when `condition` holds."""

    def __init__(self, source: PSMState, target: PSMState) -> None:
        self.where = here()
        self.source = source
        self.target = target
        self.name = ""
        self.condition: Expression | None = None
        self.timeout: float | None = None
        self.restart = False

    def __add__(self, pred: object) -> Transition:
        if not isinstance(pred, Pred):
            raise DescriptionError("a transition needs a Pred", "write (A >> B) + Pred(condition).")
        if self.condition is not None:
            raise DescriptionError("a second Pred for one transition", "join the conditions with & or |.")
        self.condition = pred.condition
        return self

    def set_option(self, name: str, value: Any) -> None:
        """`p.psm.t.timeout = seconds` or `p.psm.t.restart = True`."""
        if name == "timeout":
            if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
                raise DescriptionError(f"timeout {value!r}", "a timeout is a positive number of seconds.")
            self.timeout = float(value)
        else:
            if not isinstance(value, bool):
                raise DescriptionError(f"restart = {value!r}", "restart is True or False.")
            self.restart = value


class PSM:
    """The states of a protocol and, as attributes, its transitions."""

    def __init__(self, *states: PSMState) -> None:
        flat: list[Any] = []
        for state in states:
            flat.extend(state) if isinstance(state, (list, tuple)) else flat.append(state)
        self.__dict__["where"] = here()
        self.__dict__["owner"] = None
        self.__dict__["transitions"] = {}
        if not flat:
            raise DescriptionError("a PSM without states", "write PSM(A, B, ...).")
        for state in flat:
            if not isinstance(state, PSMState):
                raise DescriptionError(f"{state!r} is not a state", "make states with PSMState() or make_psm_state(n).")
        names = {id(value): name for name, value in user_names().items() if isinstance(value, PSMState)}
        for number, state in enumerate(flat):
            state.name = state.name or names.get(id(state), f"S{number}")
        starts = [state for state in flat if state.start]
        if len(starts) != 1:
            raise DescriptionError(
                f"a PSM has one start state, and this one has {len(starts)}", "give exactly one state start=True."
            )
        if len({id(state) for state in flat}) != len(flat):
            raise DescriptionError("a state stands twice in one PSM", "list every state once.")
        self.__dict__["_states"] = flat

    where: Any
    owner: Parser | None
    transitions: dict[str, Transition]

    def states(self) -> list[PSMState]:
        """All states in the order in which they were given."""
        return list(self.__dict__["_states"])

    def number_of(self, state: PSMState) -> int | None:
        """A state's number in this machine, None when it is not in it."""
        for number, known in enumerate(self.__dict__["_states"]):
            if known is state:
                return number
        return None

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Taken):  # p.psm.t.timeout = ... assigns back nothing; p.psm.t = p.psm.t would come here
            raise DescriptionError("a transition assigned from another", "write (A >> B) + Pred(...) for each.")
        if not isinstance(value, Transition):
            raise DescriptionError(f"psm.{name} is not a transition", "write p.psm.t = (A >> B) + Pred(condition).")
        if value.condition is None:
            raise DescriptionError(f"transition '{name}' has no Pred", "write (A >> B) + Pred(condition); Pred(1) is always.")
        if name in self.transitions:
            raise DescriptionError(f"transition '{name}' is defined twice", "give the second one another name.")
        if value.name:
            raise DescriptionError(f"one transition has two names, '{value.name}' and '{name}'", "make a transition for each name.")
        for state in (value.source, value.target):
            if self.number_of(state) is None:
                raise DescriptionError(
                    f"transition '{name}' uses a state that is not in the machine", "list the state in PSM(...)."
                )
        value.name = name
        self.transitions[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.taken(name, self.owner)

    def taken(self, name: str, owner: Parser | None) -> Taken:
        """The expression `owner.psm.name`: this packet took transition `name`."""
        if name not in self.transitions:
            raise DescriptionError(f"there is no transition '{name}'", did_you_mean(name, self.transitions))
        if owner is None:
            raise DescriptionError("a PSM that belongs to no parser", "assign it first: p.psm = PSM(...).")
        return Taken(owner, self.transitions[name])
