"""From the graph to C.

May import: ir; of lang only constants (reasons, policies: the language is where they are defined).
"""
