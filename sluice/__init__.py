"""Sluice: a toolchain to program middleboxes.

A protocol stack described in Python (`lang`) becomes a graph of instructions (`ir`), is improved (`passes`),
becomes C (`codegen`), and runs as a box (`engine`, `runtime`). Which folder may import which is kept by
tests/test_imports.py. This file imports nothing of the others.
"""

__version__ = "0.1.0"
