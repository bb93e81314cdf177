"""Tokens to tree, by recursive descent: cursor.py < types.py < expressions.py < declarations.py < program.py."""
