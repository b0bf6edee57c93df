"""The loops that a person would write for a layer, as a schedule, to measure others against.

Scalar C over dense channels-last tensors with literal sizes. Sums have two forms, of which the
faster counts: `inner` accumulates one output at a time, `outer` adds each input to a row of
outputs, which compilers can vectorise without reordering sums.
"""
