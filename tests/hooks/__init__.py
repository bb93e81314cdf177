"""Declarations of functions on events, and what their files consist of."""
