"""Epilogues by name, for cases that come from tables."""

from __future__ import annotations

from cannery.ops.elementwise import Add, Mul, Relu, Sigmoid, Tanh
from ops.cases import Net


def add_tail(net: Net, y: str, words: str) -> str:
    """`y` after the named nodes: add (a residual input), scale (per channel), an activation."""
    for word in words.split():
        shape = net.types[y].shape
        if word == "add":
            y = net.node(Add(), [y, net.input(net.unique("r"), shape)])
        elif word == "scale":
            y = net.node(Mul(), [y, net.weight(shape[-1])])
        else:
            y = net.node({"relu": Relu(), "sigmoid": Sigmoid(), "tanh": Tanh()}[word], [y])
    return y
