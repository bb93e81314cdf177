"""Draws graphs without external programs: a layered layout and SVG output. Imports nothing else of Sluice."""
