"""Events and functions of middleboxes that were written for another interface.

`mos/` is the interface of mOS over a stack of ours: headers, the library's C, and the stack below it. The events of
Sluice's own functions are compiled with their stack: codegen (telling.py, hooks.py), engine (events.py).

May import: lang, and the protocols that its stacks have.
"""
