"""The load of a capture file, by each scope by which traffic may be divided: the stack runs over its first packets,
without functions.
"""

from __future__ import annotations

import os
import pickle
import sys

from sluice.chain.processes.boxes import stack_box
from sluice.chain.processes.instances import planned
from sluice.chain.processes.memory import PARTS, VERTICES, Memory
from sluice.chain.processes.partition import SAMPLE
from sluice.chain.processes.program import IsolatedChain
from sluice.engine.box import RunError, Settings
from sluice.engine.inputs import Inputs


def sample(chain: IsolatedChain, settings: Settings, inputs: Inputs, seed: int, given: dict[str, str]) -> None:
    """Choose by which scopes the traffic of functions is divided. seed: of the hash that divides it. given: scopes that
    the user chose, by function. Raises RunError.
    """
    found = [(name, candidate) for name in chain.vertices() for candidate in chain.candidates(name)]
    tried = [(name, one) for name, one in found if name not in given or given[name] == one.name]
    for name, scope in given.items():
        if name not in chain.vertices() or all(one.name != scope for other, one in tried if other == name):
            scopes = ", ".join(one.name for other, one in found if other == name)
            raise RunError(
                f"'{name}' cannot be divided by '{scope}'; write --partition {name}=SCOPE, of {scopes or 'none'}"
            )
    if not inputs.repeatable:  # packets read now would be missing from the run
        for name, one in reversed(tried):
            chain.scopes[name] = one
        return
    counts: list[list[int]] = []
    for begin in range(0, len(tried), VERTICES):
        counts += _count(chain, settings, inputs, seed, [one.scope for _, one in tried[begin : begin + VERTICES]])
    planned(chain, counts, tried)


def _count(
    chain: IsolatedChain, settings: Settings, inputs: Inputs, seed: int, scopes: list[tuple[str, ...]]
) -> list[list[int]]:
    """Packets of the sample by part, for each scope. The stack runs in a separate process: its sender is global."""
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        os.close(read)
        status = 1
        try:
            with os.fdopen(write, "wb") as out:
                pickle.dump(_run(chain, settings, inputs, seed, scopes), out)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as text:
        data = text.read()
    os.waitpid(child, 0)
    if not data:
        raise RunError("the load of the input could not be measured")
    return pickle.loads(data)


def _run(
    chain: IsolatedChain, settings: Settings, inputs: Inputs, seed: int, scopes: list[tuple[str, ...]]
) -> list[list[int]]:
    assert chain.stack is not None
    memory = Memory(1)
    control = memory.control
    control.absent, control.samples, control.seed = (1 << 64) - 1, 1, seed
    control.vertex_count = len(scopes)
    for number, scope in enumerate(scopes):
        control.vertices[number].fields = len(scope)
        for place, word in enumerate(scope):
            control.vertices[number].field[place].value = word.encode()
    kind = stack_box(chain, memory.mapping(None))
    with kind(chain.stack, settings, [], [{}]) as box:
        box.run(inputs, lambda _done, _size, packets: packets >= SAMPLE)
    return [list(memory.stack.packets[number])[:PARTS] for number in range(len(scopes))]
