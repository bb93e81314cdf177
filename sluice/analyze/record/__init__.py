"""Records a build: compilers that add bitcode to every object file replace those that the build calls, and the
bitcode of each linked program becomes one module. `wrapper.py` runs in their place and imports nothing of Sluice.
"""
