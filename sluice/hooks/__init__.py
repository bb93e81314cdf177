"""The model of a function on events: what a function in C declares (subscriptions, own events, state, parameters,
counters, timers, needs), and how the text of its file is read.

May import: ir; of lang the names of built-in events and the helpers for messages.
"""
