"""Layers in integers: what `cannery.quantization` replaces float layers with.

All of them are exactly specified: products are integers summed in int32, and the weights prove that
this does not overflow; what follows is float32 with one rounding per operation, or a table. So the
references here give every bit that generated code computes, on every processor.
"""
