"""The IR: instructions and their effects, graphs, the verifier, the interpreter, and the text form.

May import: lang.
"""
