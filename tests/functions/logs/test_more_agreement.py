"""sshlog, dhcplog, ftplog and gtplog agree with tshark's fields on captures of the corpus that have these protocols."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict

import pytest

from tests.functions.logs.boxes import needs_parsers
from tests.functions.logs.more_boxes import Rows, run_capture
from tests.functions.logs.truth_more import truth
from tests.support.corpus import captures

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.slow_matrix,
    needs_parsers,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark, with which rows are compared"),
]

TYPES = ("", "DISCOVER", "OFFER", "REQUEST", "DECLINE", "ACK", "NAK", "RELEASE", "INFORM")
CAPTURES = {
    "OISF_suricata-verify__output-eve-ftp-data-input.pcap": ("dhcp", "command", "reply"),
    "orion-belt_tempo__TCPTRAFFIC.pcap": ("ssh", "hassh", "hasshserver"),
    "FoxIO-LLC_ja4__gre-sample.pcap": ("ssh", "hassh", "hasshserver"),
}
"""The captures, and the kinds of messages that are compared."""


def ours(rows: Rows) -> dict[str, Counter[str]]:
    """How often each message occurs in rows, by kind."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows["sshlog"]:
        found["ssh"].update(text for text in (row["client"], row["server"]) if text)
        found["hassh"].update([row["hassh"]] if row["hassh"] else [])
        found["hasshserver"].update([row["hassh_server"]] if row["hassh_server"] else [])
    for row in rows["dhcplog"]:
        if row["version"] == 4:
            found["dhcp"][f"{row['transaction']} {TYPES.index(row['type'])} {row['client_mac']}"] += 1
    for row in rows["ftplog"]:
        found["command"].update([row["command"]] if row["command"] else [])
        found["reply"].update([str(row["reply_code"])] if row["reply_code"] else [])
    return found


@pytest.mark.parametrize("name", CAPTURES)
def test_messages(name: str) -> None:
    capture = next((path for path in captures() if path.name == name), None)
    if capture is None:
        pytest.skip("not in this corpus")
    rows, said = ours(run_capture(capture)), truth(capture)
    del said["reply"]["150"]  # a preliminary reply, of which rows have the final one
    for kind in CAPTURES[name]:
        assert rows[kind] == said[kind], kind
