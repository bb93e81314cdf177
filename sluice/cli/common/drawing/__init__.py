"""Pictures of graphs without any other program: a layered layout, and SVG from it. Imports nothing else of
Sluice.
"""
