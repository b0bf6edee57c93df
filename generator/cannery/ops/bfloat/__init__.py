"""Products of bfloat16 with sums of float32: layers, and the schedule that computes them."""
