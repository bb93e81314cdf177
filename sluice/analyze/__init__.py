"""Finds the state in a third-party middlebox in C (StateAlyzr; Khalid 2019, chapter 4).

- `record`: runs any build and stores its code as one bitcode module
- `tool`: the analyses, in C++ on LLVM 19; `toolchain.py` builds the tool on demand and runs it
- `models`: YAML files that describe functions outside the program, and which of them receive packets
- `report`: the tool's findings, for people

This folder imports only the cache folder of `sluice.engine`; only `sluice.cli.analyze` imports it.
"""
