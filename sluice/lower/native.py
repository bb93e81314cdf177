"""Calls of native functions: as an action, or to make the SDU; and the outcomes of packets that they refuse."""

from __future__ import annotations

from sluice.ir.expression import ZERO, Binary, Const, Expr, Reg, is_bytes
from sluice.ir.graph import INSTANCE_NUMBER, NativeModule, NativeShape
from sluice.ir.instruction import CallNative, Count
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError
from sluice.lang.native import Native, NativeCall, NativeFunction
from sluice.lower.builder import GraphBuilder
from sluice.lower.layer_state import LayerState
from sluice.lower.scope import REFUSED, SDU, Scope

REASON = Reg("local.native_reason", 8)
UNUSED = Reg("local.native_bytes", 0)


def call_native(layer: LayerState, out: GraphBuilder, scope: Scope, call: NativeCall, first: int | None = None) -> None:
    """Emit a call. In an action, refusals are counted. With `first`, the call makes the SDU; `first` is the number of
    the function's first reason among all reasons of p.sdu.
    """
    with out.at(call.where):
        own = INSTANCE_NUMBER if layer.has_instance else ZERO
        context = own if call.context is None else scope.number(call.context)
        inputs = tuple(scope.resolve(item) for item in call.inputs)
        outputs = tuple(scope.register(item) for item in call.into)
        function = call.function
        shape = NativeShape(tuple(map(is_bytes, inputs)), len(outputs), function.limit, function.reasons)
        known = layer.native_shapes.setdefault(function, shape)
        if (known.inputs, known.outputs) != (shape.inputs, shape.outputs):
            raise DescriptionError(
                f"'{function.name}' is called with other inputs or fields than before",
                "give it as many numbers and bytes, in the same order, wherever it is called.",
                call.where,
            )
        begins = int(call.context is None and layer.has_instance)
        sdu = UNUSED if first is None else SDU
        out.emit(CallNative(REASON, sdu, outputs, function.module.name, function.name, begins, context, inputs))
        if first is not None:
            offset = Binary("*", Binary("!=", REASON, ZERO), Const(first - 1))
            out.assign(REFUSED, Binary("+", REASON, offset) if first > 1 else REASON)
            return
        with out.when(Binary("!=", REASON, ZERO), "refused"):
            for number, reason in enumerate(function.reasons, start=1):
                with out.when(Binary("==", REASON, Const(number)), reason):
                    out.emit(Count(f"refused:{reason}"))


def sdu_functions(value: object) -> list[NativeFunction]:
    """The functions that p.sdu calls, in order."""
    if isinstance(value, Choice):
        return list(dict.fromkeys(item for branch in value.branches() for item in sdu_functions(branch)))
    return [value.function] if isinstance(value, NativeCall) else []


def first_reason(layer: LayerState, function: NativeFunction) -> int:
    """The number of a function's first reason among the reasons of all functions that p.sdu calls."""
    number = 1
    for other in sdu_functions(layer.prototype.sdu_choice):
        if other is function:
            break
        number += len(other.reasons)
    return number


def refusals(layer: LayerState) -> list[tuple[Expr, str]]:
    """For each reason of the functions that p.sdu calls: the condition that a packet was refused for it, and the
    reason.
    """
    reasons = [reason for function in sdu_functions(layer.prototype.sdu_choice) for reason in function.reasons]
    return [(Binary("==", REFUSED, Const(number)), reason) for number, reason in enumerate(reasons, start=1)]


def own_modules(layer: LayerState) -> list[Native]:
    """The modules that have state for the instances of a layer."""
    return list(dict.fromkeys(call.function.module for call in layer.native_calls if call.context is None))


def native_modules(shapes: dict[NativeFunction, NativeShape]) -> tuple[NativeModule, ...]:
    """The modules whose functions are called."""
    found: dict[Native, list[tuple[str, NativeShape]]] = {}
    for function, shape in shapes.items():
        found.setdefault(function.module, []).append((function.name, shape))
    names: dict[str, Native] = {}
    for module in found:
        if not module.path.is_file():
            raise DescriptionError(
                f"{module.path}: no such file", "give the path from the folder of the description.", module.where
            )
        if names.setdefault(module.name, module).path != module.path:
            raise DescriptionError(
                f"two source files are called '{module.name}.c'", "give one another name.", module.where
            )
    return tuple(
        NativeModule(module.name, str(module.path), module.libraries, module.option, tuple(functions))
        for module, functions in found.items()
    )
