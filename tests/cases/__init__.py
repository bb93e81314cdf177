"""Directed cases: inputs that existing stacks process wrongly, and that ours must process correctly."""
