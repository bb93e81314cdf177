"""Instructions and their effects, graph, builder (lang -> ir), verifier, interpreter, text form.

May import: lang.
"""
