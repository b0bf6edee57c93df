"""Layers in integers: what `cannery.quantization` replaces float layers by.

All of them are exactly specified: products are integers that are summed in int32, which their
weights prove not to overflow; what follows is float32 with one rounding per operation, or a table.
So the references here tell every bit that generated code computes, on every processor.
"""
