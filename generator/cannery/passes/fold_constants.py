"""Evaluates what depends on constants only."""

from __future__ import annotations

import numpy as np

from cannery.ir.evaluate import widen
from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ops.movement.op import Identity

#: A folded constant may be this much larger than what it is made from, or this many elements.
MAX_GROWTH = 4
SMALL = 4096

#: Multiplications of one node that is folded, which the references are slow at.
MAX_MACS = 2**28


def fold_constants(graph: Graph, keep: tuple[type[Op], ...] = ()) -> Graph:
    """Nodes with constant inputs become constants, by their reference, rounded once to float32.

    An output of the network that turns out to be constant is the Identity of its value. A node
    that would blow up the model (a large Expand) or takes long is left alone, and so are operators
    to `keep`.
    """
    rewriter = Rewriter(graph)
    stored: dict[str, int] = {}  # how many elements of the model a folded constant is made of
    named: dict[str, str] = {}  # the constants that outputs of the network are
    for node in list(rewriter.nodes):
        inputs = tuple(named.get(i, i) for i in node.inputs)
        known = [i for i in inputs if i]
        if not known or any(i not in rewriter.constants for i in known):
            continue
        if isinstance(node.op, keep):
            continue
        if isinstance(node.op, Identity) and node.output in graph.outputs:
            continue
        size = sum(stored.get(i, rewriter.types[i].elements) for i in known)
        if _is_too_much(rewriter, node, inputs, size):
            continue
        with np.errstate(all="ignore"):
            results = node.op.reference(
                *(widen(rewriter.constants[i]) if i else None for i in inputs)
            )
        kept = []
        for output, result in zip(node.outputs, results, strict=True):
            array = np.array(result, rewriter.types[output].dtype.numpy, order="C")
            if output in graph.outputs:
                name = named[output] = rewriter.constant(f"{output}/value", array)
                kept.append(Node(Identity(), output, (name,), (output,)))
            else:
                name = output
                rewriter.constants[name] = array
            stored[name] = size
        rewriter.replace_node(node, kept)
    return rewriter.finish()


def _is_too_much(rewriter: Rewriter, node: Node, names: tuple[str, ...], size: int) -> bool:
    """Whether a node of constants with `size` elements is left for the network to compute."""
    outputs = tuple(rewriter.types[o] for o in node.outputs)
    if sum(o.elements for o in outputs) > max(SMALL, MAX_GROWTH * size):
        return True
    inputs = tuple(rewriter.types[i] if i else None for i in names)
    return node.op.macs(inputs, outputs) > MAX_MACS
