"""Graphs as TensorFlow Lite models, by the schema that comes with ai-edge-litert.

`writer` is the file, the other modules know the operators, kind by kind.
"""
