"""Rule: native functions are called as declared, and the state of native modules ends with the instance, in end
graphs.
"""

from __future__ import annotations

from sluice.ir.expression import is_bytes
from sluice.ir.graph_kinds import END
from sluice.ir.instruction import CallNative, EndNative
from sluice.ir.verify.subject import Subject

RULE = "native"


def check(subject: Subject) -> None:
    """Every call names a declared function and has its inputs and outputs."""
    for steps in subject.steps.values():
        for block, instruction, _, _ in steps:
            if isinstance(instruction, CallNative):
                problem = _call(subject, instruction)
                if problem is not None:
                    subject.fail(RULE, problem, block, instruction)
            elif isinstance(instruction, EndNative):
                if subject.whole.program.native(instruction.module) is None:
                    subject.fail(RULE, f"there is no native module '{instruction.module}'", block, instruction)
                if subject.kind != END:
                    subject.fail(RULE, "what a module keeps ends in end graphs only", block, instruction)


def _call(subject: Subject, call: CallNative) -> str | None:
    module = subject.whole.program.native(call.module)
    if module is None:
        return f"there is no native module '{call.module}'"
    shape = module.function(call.function)
    if shape is None:
        return f"native module '{call.module}' has no function '{call.function}'"
    if tuple(map(is_bytes, call.inputs)) != shape.inputs:
        return f"the inputs of '{call.function}' are not of the kinds that it declares"
    if len(call.outputs) != shape.outputs:
        return f"'{call.function}' gives {shape.outputs} numbers"
    return None
