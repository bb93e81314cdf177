"""The command line: one file a command, all listed in main.py. May import everything."""
