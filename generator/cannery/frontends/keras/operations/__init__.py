"""Functions of keras.ops in functional models: one function per operation, registered by name.

`base.py` has the registry; every other module of this package is imported by it.
"""
