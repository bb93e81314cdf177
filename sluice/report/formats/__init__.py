"""The file formats of logs. base: what a format's writer does. find: the format of a file's name. One file per format.

Packages that formats need (pyarrow, duckdb) are optional and are imported when the first file is created.
"""
