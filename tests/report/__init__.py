"""Tests of sluice/report."""
