"""Analyses that several passes share, and operations on the blocks of a graph.

May import: ir.
"""
