"""Keras layers: one small function each, registered by the class names that it reads.

A function takes the layer's LayerConfig and returns a Plan: which weights it stores, and how one
application of it becomes nodes. `base` holds the registry; the other modules are families of
layers.
"""
