"""Isolated chains as C: the function that sends the stack's events, and the program of a function that receives them.

`events` numbers the events, `sender` writes what is compiled with the stack, `receiver` the program of a function. What
is the same for every stack is in runtime/isolated.
"""
