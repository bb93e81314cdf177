"""Grammars that come with Sluice, a file each; `ready.py` of the package grammar finds them by name."""
