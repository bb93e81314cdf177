"""The text form of programs: what people read and tests compare. What is printed is read back as it was.

    program hello (1 -> udp), at most 32 layers

    layer udp (layer 'udp', parser 'udp', home 0)
    graph udp (local.unit:bytes)
    entry:
      mark.0:u32 = Assign(0)                              ; udp.py:12
      Check(mark.0, 8) yes: there, cut: end cut, short: end short

A name that does not read like one (it begins with a digit, has a comma in it, ...) stands in quotes. `printer` writes,
`graphs`, `natives` and `programs` read what it wrote, out of the tokens of `line`.
"""

from sluice.ir.text.graphs import parse_graph
from sluice.ir.text.line import IrSyntaxError
from sluice.ir.text.printer import print_graph, print_instruction, print_layer, print_program
from sluice.ir.text.programs import parse_program

__all__ = [
    "IrSyntaxError",
    "parse_graph",
    "parse_program",
    "print_graph",
    "print_instruction",
    "print_layer",
    "print_program",
]
