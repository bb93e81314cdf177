"""Passes over the graph, one file each; pipeline.py lists them in order, with the reasons for this order.

May import: ir.
"""
