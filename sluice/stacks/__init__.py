"""Stacks of protocols, one file each.

May import: lang, and the protocols that they stack.
"""
