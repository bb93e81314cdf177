"""Tests of the page of `sluice report`."""
