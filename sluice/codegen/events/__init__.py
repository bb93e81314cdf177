"""Calls to functions on events, records for functions in Python, timers, and what functions control."""
