"""The command line: one file per command; main.py lists them. May import everything."""
