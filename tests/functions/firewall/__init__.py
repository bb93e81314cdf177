"""Tests of the function firewall and of its rules."""
