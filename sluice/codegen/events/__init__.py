"""Functions on events: calls, records and columns for functions in Python, timers, and the control of instances."""
