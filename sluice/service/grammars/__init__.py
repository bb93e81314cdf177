"""The included grammars, one file each; `ready.py` of the package grammar finds them by name."""
