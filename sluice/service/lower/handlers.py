"""`except`: the alternative, where the body of a function or process fails."""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.types import UNIT, Type
from sluice.service.lower.foldt import FoldWriter

CLASSES = {
    "broken_connection": "BROKEN_CONNECTION",
    "malformed_message": "MALFORMED_MESSAGE",
    "timeout": "TIMED_OUT",
    "limit": "LIMITED",
    "failure": "FAILURE",
}
"""What `except` can name, with the platform's name of that class of faults."""


class HandlerWriter(FoldWriter):
    """Writes all expressions, and handlers."""

    bodies = 0
    """Bodies with handlers so far."""

    def caught(self, body: tree.Body, result: Type) -> str:
        """A body with its handlers; its value."""
        self.bodies += 1
        number = self.bodies
        caught, done = f"caught_{number}", f"done_{number}"
        found = "0" if result == UNIT else self.variable(result, body.expression.place)

        def run(node: tree.Expression) -> None:
            self.branch(node, None if result == UNIT else found)

        self.catchers.append(caught)
        run(body.expression)
        self.catchers.pop()
        self.put(f"goto {done};")
        self.lines.append(f"{caught}: __attribute__((unused));")
        for handler in body.handlers:
            if handler.exception in CLASSES:
                name = f"SERVICE_{CLASSES[handler.exception]}"
                with self.block(f"if (service_class(self->fault) == {name})"):
                    self.put("self->fault = 0;")
                    self.put("service_count(self, SERVICE_HANDLED, 1);")
                    self.put("self->progressed = f->did = true;")
                    run(handler.body)
                    self.put(f"goto {done};")
        self.put(f"goto {self.catchers[-1]};" if self.catchers else "return SERVICE_FAULT;")
        self.lines.append(f"{done}:;")
        return found
