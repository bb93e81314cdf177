"""A dashboard for Grafana of the numbers that `--metrics` serves (metrics.py)."""

from __future__ import annotations

from typing import Any

_PANELS = (
    ("Packets received", "pps", "rate(sluice_received_packets_total{instance=~\"$instance\"}[1m])", "{{instance}}"),
    ("Packets lost, by reason", "pps", "rate(sluice_lost_packets_total{instance=~\"$instance\"}[1m])", "{{reason}}"),
    (
        "Busy, by worker", "percentunit", "rate(sluice_worker_busy_seconds_total{instance=~\"$instance\"}[1m])",
        "{{worker}}",
    ),
    (
        "Time per packet, by worker", "s",
        "rate(sluice_worker_busy_seconds_total{instance=~\"$instance\"}[1m]) / "
        "rate(sluice_worker_packets_total{instance=~\"$instance\"}[1m])", "{{worker}}",
    ),
    ("Longest stall", "s", "sluice_worker_longest_stall_seconds{instance=~\"$instance\"}", "{{worker}}"),
    ("Packets, by layer", "pps", "rate(sluice_layer_packets_total{instance=~\"$instance\"}[1m])", "{{layer}}"),
    ("Bits, by layer", "bps", "8 * rate(sluice_layer_bytes_total{instance=~\"$instance\"}[1m])", "{{layer}}"),
    ("Flows, by layer", "short", "sluice_layer_instances{instance=~\"$instance\"}", "{{layer}}"),
    ("New flows, by layer", "short", "rate(sluice_layer_instances_total{instance=~\"$instance\"}[1m])", "{{layer}}"),
    (
        "Malformed and dropped, by layer and reason", "pps",
        "rate(sluice_layer_events_total{instance=~\"$instance\","
        "counter=~\"(malformed|dropped|cut):.*|gaps|no memory\"}[1m])",
        "{{layer}} {{counter}}",
    ),
    ("Functions", "short", "rate(sluice_function_total{instance=~\"$instance\"}[1m])", "{{function}} {{counter}}"),
    ("Forwarded", "pps", "rate(sluice_forwarded_packets_total{instance=~\"$instance\"}[1m])", "{{instance}}"),
)  # fmt: skip
"""Of each panel the title, the unit, the query, and the names of the lines."""


def dashboard() -> dict[str, Any]:
    """The dashboard, which Grafana imports."""
    source = {"type": "prometheus", "uid": "${source}"}
    panels: list[dict[str, Any]] = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [{"refId": "A", "datasource": source, "expr": query, "legendFormat": legend}],
        }
        for number, (title, unit, query, legend) in enumerate(_PANELS)
    ]
    instance = {
        "name": "instance", "type": "query", "datasource": source, "query": "label_values(sluice_info, instance)",
        "includeAll": True, "multi": True, "refresh": 2, "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip
    return {
        "title": "Sluice",
        "uid": "sluice",
        "schemaVersion": 39,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}, instance]},
        "panels": panels,
    }
