"""ONNX operators, one function each; see `base.operator`.

Modules in this package are discovered: to add an operator, register it in any of them.
"""
