"""Labels of flows and hosts from the logs of applications: the application and a name of a flow, names of addresses."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.report.page.text import visible

FLOWS = 1 << 20
"""Flows with a label."""
NAMED = 100_000
"""Flows with a name, and addresses with names."""
ORDER = ("http", "smtp", "ftp", "ssh", "tls", "dns", "mdns", "llmnr", "dhcp", "ntp", "gtp")
"""Applications. The first that a flow has is its label: a mail after STARTTLS has TLS as well."""


class Labels:
    """Labels by flow, names by address. Logs add to it from several threads, each its own application."""

    def __init__(self) -> None:
        self._labels: dict[str, dict[int, str]] = {name: {} for name in ORDER}
        self.names: dict[str, list[str]] = {}
        self.left_out = 0

    def flow(self, number: int, application: str, name: str | None) -> None:
        """An application of a flow, and its first name."""
        labels = self._labels[application]
        known = labels.get(number)
        if known:
            return
        if known is None and len(labels) >= FLOWS:
            self.left_out += 1
            return
        labels[number] = visible(name, 120) if name and len(labels) < NAMED else ""

    def address(self, address: str, name: str) -> None:
        """A name of an address; the first three are stored."""
        names = self.names.get(address)
        if names is None:
            if len(self.names) >= NAMED:
                return
            names = self.names[address] = []
        name = visible(name, 120)
        if len(names) < 3 and name not in names:
            names.append(name)

    def of(self, flow: int) -> tuple[str, str]:
        """The application and the name of a flow, or empty texts."""
        found = [(name, self._labels[name][flow]) for name in ORDER if flow in self._labels[name]]
        return (found[0][0], next((name for _, name in found if name), "")) if found else ("", "")

    def all(self) -> Iterator[tuple[int, str]]:
        """Flows and their applications."""
        for place, name in enumerate(ORDER):
            for flow in self._labels[name]:
                if not any(flow in self._labels[other] for other in ORDER[:place]):
                    yield flow, name
