"""Directed cases: what existing stacks get wrong, and what ours must get right."""
