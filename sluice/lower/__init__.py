"""From the language to the IR: `build` makes the program of a stack, one file for each part of a layer.

May import: ir, lang.
"""
