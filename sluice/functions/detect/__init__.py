"""Detection rules: reads them, checks them, groups them, and writes the table that the function `ids` evaluates.

May import: sluice.lang.errors. The order of reading: lines -> header and options -> model -> parts -> table.
"""
