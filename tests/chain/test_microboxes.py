"""The listing of Microboxes, with its dots filled in, as a function of a chain after one that detects applications."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.lang.errors import DescriptionError
from tests.chain.functions import Put
from tests.chain.running import checked, run
from tests.support.connection import handshake, pair

DPI = """
#include "microboxes.h"

static mb_controller cntrlr;
static mb_port port;

static void cb_packet(PKT_TCP_msg m) {
    if (m.offset || m.side)
        return;
    DPI_DETECT_msg found = mb_new_msg(DPI_DETECT);
    found.dpi_app_type = memcmp(m.payload.at, "GET", 3) == 0 ? HTTP : memcmp(m.payload.at, "SELECT", 6) == 0 ? SQL : 0;
    mb_publish_event(port, found);
}
static void startDPI() {
    mb_nf_mem_init(cntrlr);
    mb_sub(cntrlr, PKT_TCP, cb_packet);
    port = mb_pub(cntrlr, EVENT_DPI_DETECT);
    mb_nf_run();
}
MB_MAIN(startDPI)
"""
LISTING = """
#include "microboxes.h"

static mb_controller cntrlr;
static mb_port port;
static uint64_t nothing, http, sql;

static void cb_noop(PKT_TCP_msg m) { (void)m; nothing++; }
static void cb_http(PKT_TCP_msg m) { (void)m; http++; }
static bool sql_injection_attack(sl_bytes bytes) {
    for (uint32_t i = 0; i + 7 <= bytes.captured; i++)
        if (memcmp(bytes.at + i, "OR 1=1;", 7) == 0)
            return true;
    return false;
}
static void cb_sql(PKT_TCP_msg m)
{
    sql++;
    if (sql_injection_attack(m.payload))
    {
        IDS_ALERT_msg m2 = mb_new_msg(IDS_ALERT);
        m2.code = 7;   // fill in m2
        mb_publish_event(port, m2);
    }
}
static void cb_detect(DPI_DETECT_msg m)
{
    if (m.dpi_app_type == HTTP)
        mb_up_sub(cntrlr, PKT_TCP, e.flow, cb_http);
    else if (m.dpi_app_type == SQL)
        mb_up_sub(cntrlr, PKT_TCP, e.flow, cb_sql);
}
void startIDS()
{
    mb_nf_mem_init(cntrlr);  // map shared memory to controller
    // announce subscribed types
    mb_sub(cntrlr, PKT_TCP, cb_noop);
    mb_sub(cntrlr, DPI_DETECT, cb_detect);
    // request an output port for publication type
    port = mb_pub(cntrlr, EVENT_IDS_ALERT);
    mb_nf_run();  // enter run loop
}
MB_MAIN(startIDS)
SLUICE_CLOSE {
    sl_report(box, "noop", nothing);
    sl_report(box, "http", http);
    sl_report(box, "sql", sql);
}
"""
COUNT = """
SLUICE_COUNTER(alerts, "of the function before")
SLUICE_COUNTER(flow, "of the last one")
SLUICE_ON(chain, IDS_ALERT) {
    SLUICE_COUNTER_OF(event->box, alerts) += data->code == 7;
    SLUICE_COUNTER_OF(event->box, flow) = sl_event_number(event);
}
"""


def talk(*flows: list[bytes]) -> tuple[bytes, ...]:
    """Connections whose clients send these segments."""
    packets: list[bytes] = []
    for number, segments in enumerate(flows):
        client, server = pair(port=40000 + number)
        packets += [*handshake(client, server), *(client.data(segment) for segment in segments)]
    return tuple(packets)


def test_the_listing_runs(put: Put, tmp_path: Path) -> None:
    """Each flow gets the callback for its application before its first segment, as what DPI publishes comes first."""
    chain = [function(put(name, text)) for name, text in (("dpi.c", DPI), ("ids.c", LISTING), ("count.c", COUNT))]
    packets = talk(
        [b"GET / HTTP/1.0", b"OR 1=1;"], [b"SELECT 1;", b"SELECT x OR 1=1;", b"SELECT 2;"], [b"SSH-2.0", b"OR 1=1;"]
    )
    came = run(checked(chain[0] >> chain[1] >> chain[2]), tmp_path / "out", packets)
    assert came.reports == {"ids.noop": 2, "ids.http": 2, "ids.sql": 3, "count.alerts": 1, "count.flow": 2}


def test_its_declarations_are_those_of_a_chain(put: Put) -> None:
    """So its subscriptions are checked as others are."""
    dpi, ids = function(put("dpi.c", DPI)), function(put("ids.c", LISTING))
    with pytest.raises(DescriptionError, match=r"'ids' subscribes to 'DPI_DETECT' .*, which 'dpi' publishes"):
        checked(ids >> dpi)
