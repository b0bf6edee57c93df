"""Cannery's networks against other runtimes, interleaved: what `benchmarks/compare.py` is made of.

`exchange` and the writers make the files that rivals read, `packages` lists the rivals, `child`
runs one in a process of its own, `limits` says what of the processor it may use. `ours` builds the
C program that does the same for Cannery, `contest` times all of them in turn, `report` and `plot`
write down what was found.
"""
