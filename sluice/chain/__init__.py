"""Chains: several functions over one stack, in sequence and in parallel, as one program (Microboxes).

`description` is the notation, `find` reads its file, `plan` makes of it the functions that the engine compiles
with the stack, `check` refuses chains that cannot work, and `file_scope` separates the names of the functions in C.
`processes` runs the functions of a chain in separate processes.

May import: codegen, engine, hooks, ir, lang. The command line imports it.
"""

from sluice.chain.description import Chain as Chain
from sluice.chain.description import function as function
