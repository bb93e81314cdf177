"""The simulation of the protocol of several instances: the compiled functions, the client in C and the server's
functions, over a network and a clock that a seed decides (network.c, schedule.py).
"""
