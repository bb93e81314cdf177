"""C text: names, expressions, control flow, and the writer of one layer's functions."""
