"""Golden C of a small chain, whole: tests/golden/codegen/chain.c. SLUICE_UPDATE_GOLDEN=1 writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from sluice.chain.description import function
from sluice.codegen.stack import generate
from sluice.engine.compiler import compile_library
from sluice.hooks.function import Functions
from sluice.lower.build import build
from sluice.passes.pipeline import run
from tests.chain.functions import Put
from tests.chain.running import checked
from tests.ir.descriptions import arp_stack

GOLDEN = Path(__file__).parents[1] / "golden" / "codegen" / "chain.c"
GUARD = """SLUICE_INLINE
SLUICE_PUBLISH(odd, { uint16_t operation; })
SLUICE_PUBLISH(unused, { uint16_t operation; })
SLUICE_ON(arp, seen) {
    SLUICE_EMIT(event, unused, .operation = data->operation);
    if (data->operation == 2) {
        SLUICE_EMIT(event, odd, .operation = data->operation);
        SLUICE_DROP(event->box);
    }
}
"""
COUNT = """SLUICE_COUNTER(seen, "packets that were not dropped before")
SLUICE_ON(arp, seen) { SLUICE_COUNTER_OF(event->box, seen)++; }
"""
LOG = """SLUICE_COUNTER(odd, "published")
SLUICE_ON(chain, odd) { SLUICE_COUNTER_OF(event->box, odd)++; }
SLUICE_ON(arp, seen) { }
"""


def test_the_generated_c_of_a_small_chain(put: Put) -> None:
    """guard >> (count | log): what guard drops is withheld from both, what it publishes reaches log."""
    parts = [function(put(name, text)) for name, text in (("guard.c", GUARD), ("count.c", COUNT), ("log.c", LOG))]
    stack = arp_stack()
    functions = Functions(tuple(checked(parts[0] >> (parts[1] | parts[2]), stack).wanted().c))
    generated = generate(run(build(stack, functions.hooks())), functions)
    text = generated.source.replace(f"{Path(parts[0].source).parent}/", "")
    if os.environ.get("SLUICE_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    assert compile_library(generated, fresh=True).messages == ""
