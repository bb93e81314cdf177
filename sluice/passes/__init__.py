"""Passes over the graph, one file each; pipeline.py lists them in order and says why in that order.

May import: ir.
"""
