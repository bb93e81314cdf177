"""The interpreter of the IR: what a program means, packet by packet.

It is the measure for everything else: a pass must not change what it does, and compiled code must do the
same. `value` and `frame` are what a program works on, `compiler` makes closures of a graph, `expressions` and
`instructions` (the modules NAME_instructions, by subject) those of its parts, `sequence`, `table` and `holders` model
the runtime's data structures, `box` holds the state between packets, `machine` is the interface.

    box = Interpreter(build(stack, hooks))
    box.packet(data, time_ns)
    box.close()
    box.events, box.counters

What the classes of sluice.ir.instruction leave open is decided here:

- Ends by the sweep, by eviction and by close run with slots of their own, all undefined. An end that begins
  during another layer's work is as deep as that layer.
- While the end of an instance runs, no look-up finds it, and it does not end again. Code that still works on it
  (the same packet, in a tunnel) sees its fields, and empty sequences; ending and touching it does nothing.
- CreateInst makes an instance that is not stored when its key was taken, or no slot is free, by what an end
  on its way delivered.
- close() goes on until no instance is left.
"""

from sluice.ir.interpreter.box import Event
from sluice.ir.interpreter.machine import Interpreter
from sluice.ir.interpreter.value import InterpreterError

__all__ = ["Event", "Interpreter", "InterpreterError"]
