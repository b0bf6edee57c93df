"""Cannery's networks beside other runtimes, interleaved: what `benchmarks/compare.py` is made of.

`exchange` and the writers make the files that rivals read, `runtimes` and `child` run a rival in a
process of its own, `ours` builds the C program that does the same for Cannery, `contest` times all
of them in turn, `report` and `plot` write down what was found.
"""
