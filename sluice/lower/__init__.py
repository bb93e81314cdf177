"""Lowering, from the language to the IR: `build` compiles a stack to a program. One file per part of a layer.

May import: ir, lang.
"""
