"""Protocol state machines, driven by sent packets (the paper's sender-side PSM, 4.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from sluice.lang.errors import DescriptionError, described, did_you_mean, to_flag
from sluice.lang.expression import Expression, HasValue, Property, to_number
from sluice.lang.owner import Owner
from sluice.lang.where import here, user_names

LONGEST = 1e9
"""The maximum timeout in seconds, about 32 years."""

MOST_STATES = 255
"""The maximum number of states of a machine."""


class Pred:
    """The condition of a transition between states, or of a step between layers.

    It is a number, and holds if it is not 0. `Pred(1)` always holds. A packet takes the first step from its layer, in
    order of definition, whose condition holds. before: a layer; the step is tried before the one to that layer.
    fallback: the step takes only what no other step takes, also those that are added later: for content heuristics.

    Raises DescriptionError if the condition is bytes, and for a step that has both before= and fallback=.
    """

    def __init__(self, condition: object, before: Owner | None = None, fallback: bool = False) -> None:
        self.where = here()
        self.fallback = to_flag(fallback, "fallback=")
        if before is not None and fallback:
            raise DescriptionError(
                "a step with before= and fallback=", "a fallback is tried after all other steps: leave one out."
            )
        self.before = before
        self.condition: Expression = to_number(condition, "a predicate", "compare something, as in Pred(x == 1).")


class PSMState(HasValue):
    """A state of a machine. `A >> B` is a transition from one state to another.

    start: the state of a new instance; one state of a machine has it.
    accept: the instance is destroyed after the packet that leads to this state.
    closed: the connection is over, but its instance lives until its timeout, so that late packets belong to it.
    name: its name in listings and `sluice flows`; by default the name of the variable.
    """

    def __init__(self, start: bool = False, accept: bool = False, closed: bool = False, name: str = "") -> None:
        self.where = here()
        self.start = to_flag(start, "start= is ")
        self.accept = to_flag(accept, "accept= is ")
        self.closed = to_flag(closed, "closed= is ")
        self.name = name

    def value(self) -> StateNumber:
        return StateNumber(self)

    def __rshift__(self, other: object) -> Transition:
        if not isinstance(other, PSMState):
            raise DescriptionError("a transition leads from a state to a state", "write (A >> B) + Pred(...).")
        return Transition(self, other)

    def __add__(self, other: object) -> Any:
        raise DescriptionError(
            "something is added to a state",
            "write (A >> B) + Pred(...), with the parentheses: '+' binds more tightly than '>>'.",
        )


def make_psm_state(count: int) -> tuple[PSMState, ...]:
    """`count` plain states, 1 to MOST_STATES, as in `A, B = make_psm_state(2)`."""
    if not isinstance(cast(object, count), int) or not 1 <= count <= MOST_STATES:
        raise DescriptionError(
            f"make_psm_state({described(count)})", f"give a whole number from 1 to {MOST_STATES}: how many states."
        )
    return tuple(PSMState() for _ in range(count))


def seconds(value: object) -> float:
    """Convert a user's timeout. Raises DescriptionError for an invalid one."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 1e-9 <= value <= LONGEST:
        raise DescriptionError(
            f"a timeout of {described(value)}", "a timeout is a number of seconds, from 1e-9 to 1e9."
        )
    return float(value)


class Transition:
    """A transition from `source` to `target`, taken if `condition` holds."""

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
            self.timeout = seconds(value)
        else:
            self.restart = to_flag(value, "restart is ")


class Taken(Expression):
    """1 if a step of this packet took the transition."""

    def __init__(self, owner: Owner, transition: Transition) -> None:
        super().__init__()
        self.__dict__["owner"] = owner
        self.__dict__["transition"] = transition

    owner: Owner
    transition: Transition

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("timeout", "restart"):
            self.transition.set_option(name, value)
        elif name == "where":
            self.__dict__[name] = value
        else:
            raise DescriptionError(
                f"a transition has no setting '{name}'", "settings of a transition are timeout and restart."
            )


class StateNumber(Expression):
    """A state of the machine of `owner`, to compare with its `cur_state`. None: the machine of the current layer."""

    def __init__(self, state: PSMState, owner: Owner | None = None) -> None:
        super().__init__()
        self.state = state
        self.owner = owner

    def joined_to(self, left: Expression) -> None:
        """In `p.cur_state == A`, the state belongs to the machine of `p`."""
        if isinstance(left, Property):
            self.owner = left.owner


class PSM:
    """The states of a protocol and, as attributes, its transitions.

    `p.psm.t = (A >> B) + Pred(condition)` defines transition t. A step takes the first transition from the current
    state, in order of definition, whose condition holds. As a value, `p.psm.t` is 1 if a step of this packet took t.
    `p.psm.t.timeout = seconds`: after t, the instance ends if it gets no packet for so long. `p.psm.t.restart = True`:
    the instance ends at once, and the packet that took t enters the layer again.

    Raises DescriptionError unless exactly one state has start=True and every state is listed once.
    """

    def __init__(self, *states: PSMState | Iterable[PSMState]) -> None:
        flat: list[Any] = []
        for state in states:
            flat.extend(cast(Iterable[Any], state) if isinstance(state, (list, tuple)) else [state])
        self.__dict__["where"] = here()
        self.__dict__["owner"] = None
        self.__dict__["transitions"] = {}
        if not flat:
            raise DescriptionError("a PSM without states", "write PSM(A, B, ...).")
        for state in flat:
            if not isinstance(state, PSMState):
                raise DescriptionError(
                    f"{described(state)} is not a state", "make states with PSMState() or make_psm_state(n)."
                )
        if len({id(state) for state in flat}) != len(flat):
            raise DescriptionError("a state stands twice in one PSM", "list every state once.")
        if len(flat) > MOST_STATES:
            raise DescriptionError(f"a PSM with {len(flat)} states", f"a machine has at most {MOST_STATES} states.")
        names = {id(value): name for name, value in user_names().items() if isinstance(value, PSMState)}
        for number, state in enumerate(flat):
            state.name = state.name or names.get(id(state), f"S{number}")
        starts = [state for state in flat if state.start]
        if len(starts) != 1:
            raise DescriptionError(
                f"a PSM has one start state, and this one has {len(starts) or 'none'}",
                "give exactly one state start=True.",
            )
        self.__dict__["_states"] = flat

    where: Any
    owner: Owner | None
    transitions: dict[str, Transition]

    def states(self) -> list[PSMState]:
        """All states in the order in which they were given."""
        return list(self.__dict__["_states"])

    def number_of(self, state: PSMState) -> int | None:
        """A state's number in this machine, None if the machine does not have it."""
        for number, known in enumerate(self.__dict__["_states"]):
            if known is state:
                return number
        return None

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Taken):
            raise DescriptionError("a transition assigned from another", "write (A >> B) + Pred(...) for each.")
        if not isinstance(value, Transition):
            raise DescriptionError(
                f"psm.{name} is {described(value)}, not a transition",
                f"write p.psm.{name} = (A >> B) + Pred(condition).",
            )
        if value.condition is None:
            raise DescriptionError(
                f"transition '{name}' has no Pred", "write (A >> B) + Pred(condition); Pred(1) is always."
            )
        if name in self.transitions:
            raise DescriptionError(f"transition '{name}' is defined twice", "give the second one another name.")
        if hasattr(type(self), name) or name in self.__dict__:
            raise DescriptionError(f"'{name}' cannot be the name of a transition", "choose another name.")
        if value.name:
            raise DescriptionError(
                f"one transition has two names, '{value.name}' and '{name}'",
                "make a transition for each name.",
            )
        for state in (value.source, value.target):
            if self.number_of(state) is None:
                called = f" '{state.name}'" if state.name else ""
                raise DescriptionError(
                    f"transition '{name}' uses a state{called} that is not in the machine",
                    "list the state in PSM(...), and use states of this machine only.",
                )
        value.name = name
        self.transitions[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.taken(name, self.owner)

    def taken(self, name: str, owner: Owner | None) -> Taken:
        """The expression `owner.psm.name`: whether this packet took transition `name`."""
        if name not in self.transitions:
            raise DescriptionError(f"there is no transition '{name}'", did_you_mean(name, self.transitions))
        if owner is None:
            raise DescriptionError("a PSM that belongs to no parser", "assign it first: p.psm = PSM(...).")
        return Taken(owner, self.transitions[name])
