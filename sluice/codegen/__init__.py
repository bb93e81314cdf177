"""From the graph to C.

May import: ir.
"""
