"""Tests of sluice/isolate: what needs no kernel first; then, as root, containers with a known load."""
