"""Detection: the reader of rules, the function `ids` on built and real captures, and `dpi`."""
