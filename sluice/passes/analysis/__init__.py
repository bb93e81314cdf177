"""Analyses that several passes share, and what they do with blocks of a graph.

May import: ir.
"""
