"""The file formats of logs. base: the interface of a writer. find: the format of a file's name. One file per format.

Packages that formats need (pyarrow, duckdb) are optional and are imported when the first file is created.
"""
