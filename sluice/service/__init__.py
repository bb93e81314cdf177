"""Application services: FLICK programs, compiled to native code and run by a platform of bounded memory.

lang/         the language: lexer, parser, types, resource bounds; messages with file, line and advice
grammar/      message grammars (`unit`): their parser, their meaning, and the C that parses and serialises
grammars/     ready grammars
interpreter/  the semantics of programs, in Python
lower/        a checked program to C
runtime/      the platform, in C: channels, instances, pools, the event loop
build.py      a program to an executable file

lang imports nothing of the others; grammar uses lang's places and errors; interpreter and lower use both. Of the packet
components they use the C compiler that engine finds; and grammar/layer.py makes a unit a layer of a stack, and the
other way.
"""
