"""Output for people and tools: the columns of the logs, file formats, rotation, and the interface for Python programs.

schema: types of columns. logs: the columns of each log. formats/: one file per format. output: the path of a log's rows
from a box to files. api: what `import sluice` offers. Commands and `sluice/__init__.py` import this; it imports stacks,
the engine, and the engine's functions.
"""
