"""Messages about interfaces that go down while a box receives from them."""

from __future__ import annotations

import sys

from sluice.engine.box import Box
from sluice.engine.inputs import Inputs, is_interface


class Links:
    """The interfaces of a run. `look` is called by the thread that drives the box, some times a second."""

    def __init__(self, box: Box, inputs: Inputs) -> None:
        self._box = box
        self._names = {number: uri.partition(":")[2] for number, uri in enumerate(inputs.uris) if is_interface(uri)}
        self._downs = dict.fromkeys(self._names, 0)

    def look(self) -> None:
        """Report those that went down since the last call."""
        source = self._box.source
        if source is None:
            return
        for number, name in self._names.items():
            downs = source.part(number).statistics()["link_downs"]
            if downs > self._downs[number]:
                text = f"{name} went down; packets are received again once it is up"
                print(f"sluice: warning: {text}", file=sys.stderr, flush=True)
            self._downs[number] = downs
