"""microboxes.h: the interface of Microboxes (listing 1) for functions of a chain.

It is included by functions in C, which are compiled with their stack as all others (sluice/chain).
"""
