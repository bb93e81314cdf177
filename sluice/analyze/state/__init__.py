"""Makes a program's state visible as it runs.

`instrument.py` has the tool instrument a program, and links it with the run-time library, the C of this folder;
`serialise.py` writes the C that exports and imports state. This folder may import `toolchain`, `run`, `report` and
`errors` of `sluice.analyze`.
"""
