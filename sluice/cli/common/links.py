"""Messages about interfaces that go down, or are removed, while a box receives from them."""

from __future__ import annotations

import sys

from sluice.engine.box import Box
from sluice.engine.inputs import Inputs, is_interface

_CHANGES = {
    "link_downs": "warning: {} went down; packets are received again once it is up",
    "removals": "warning: {} was removed; packets are received again once it is made again",
    "returns": "note: {} was made again; packets are received from it",
}
"""What to say of an interface, by the counter that says so."""


class Links:
    """The interfaces of a run. `look` is called by the thread that drives the box, some times a second."""

    def __init__(self, box: Box, inputs: Inputs) -> None:
        self._box = box
        self._names = {
            number: uri.partition(":")[2].partition(",")[0]
            for number, uri in enumerate(inputs.uris)
            if is_interface(uri)
        }
        self._counted = {number: dict.fromkeys(_CHANGES, 0) for number in self._names}

    def look(self) -> None:
        """Report those that went down, were removed or made again since the last call."""
        source = self._box.source
        if source is None:
            return
        for number, name in self._names.items():
            counted = source.statistics_of(number)
            for change, text in _CHANGES.items():
                if counted[change] > self._counted[number][change]:
                    print(f"sluice: {text.format(name)}", file=sys.stderr, flush=True)
                self._counted[number][change] = counted[change]
