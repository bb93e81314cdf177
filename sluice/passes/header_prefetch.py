"""Width of the prefetch of headers: as many bytes of a packet are prefetched as are read of most packets.

A cache line that is prefetched but not read occupies one of the buffers for misses, and so delays the misses that the
program waits for. `http32k` with cold packets is slower if three lines are prefetched and only two are read.
"""

from __future__ import annotations

from dataclasses import replace

from sluice.ir.graph import PREFETCH_MOST, Program
from sluice.passes.analysis.fast_path import fast_path_stage, templates
from sluice.passes.analysis.header_size import header_of

LIST = 4
"""Bytes after the last header: the first word of an option list identifies most lists (pass `padding`)."""


def run(program: Program) -> Program:
    """The program with the number of bytes to prefetch."""
    size = header_bytes(program)
    return program if program.prefetch == size else replace(program, prefetch=size)


def header_bytes(program: Program) -> int:
    """The bytes that are read of most packets: the headers of the layers with templates, and of the next layer. Without
    templates, the headers are not predicted, and the maximum is prefetched.
    """
    next_stage = fast_path_stage(program)
    if next_stage is None:
        return PREFETCH_MOST
    headers = [*(layer.template for layer in templates(program)), next_stage.main]
    return min(sum(header_of(graph) for graph in headers if graph is not None) + LIST, PREFETCH_MOST)
