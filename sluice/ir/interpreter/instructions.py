"""All instructions of the IR as Python closures over a frame. What each means is said at its class.

The modules that are imported here register the instructions that they compile.
"""

from sluice.ir.interpreter import effect_instructions, instance_instructions, sequence_instructions
from sluice.ir.interpreter.compiler import Compiler

__all__ = ["Compiler", "effect_instructions", "instance_instructions", "sequence_instructions"]
