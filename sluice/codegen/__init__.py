"""Code generation: from the IR to C.

c/ writes C text, layer/ the instructions of a layer, burst/ the two stages of a burst, events/ the calls to functions.

May import: hooks, passes (analyses), lower, ir; of lang only constants (reasons and policies, which are defined there).
"""
