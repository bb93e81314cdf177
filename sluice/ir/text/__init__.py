"""The text form of programs, for people to read and for tests to compare. Parsing restores the printed program.

    program hello (1 -> udp), at most 32 layers

    layer udp (layer 'udp', parser 'udp', home 0)
    graph udp (local.unit:bytes)
    entry:
      mark.0:u32 = Assign(0)                              ; udp.py:12
      Check(mark.0, 8) yes: there, cut: end cut, short: end short

A name that is not an identifier (it begins with a digit, contains a comma, ...) is in quotes. `printer` writes the
text. `graphs`, `natives` and `programs` parse it from the tokens of `line`.
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
