"""Integer operators as TensorFlow Lite's reference kernels compute them, bit by bit.

A real factor is an integer of 31 bits times a power of two, and products with it are rounded twice.
"""
