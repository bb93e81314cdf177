"""Protocols, one file each.

May import: lang.
"""
