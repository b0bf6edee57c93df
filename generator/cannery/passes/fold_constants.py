"""Evaluates what depends on constants only."""

from __future__ import annotations

import numpy as np

from cannery.ir.evaluate import widen
from cannery.ir.graph import Graph
from cannery.ir.rewrite import Rewriter

#: A folded constant may be this much larger than what it is made from, or this many elements.
MAX_GROWTH = 4
SMALL = 4096


def fold_constants(graph: Graph) -> Graph:
    """Nodes with constant inputs become constants, by their reference, rounded once to float32.

    A node that would blow up the model (a large Expand) is left alone.
    """
    rewriter = Rewriter(graph)
    for node in list(rewriter.nodes):
        known = [i for i in node.inputs if i]
        if not known or any(i not in rewriter.constants for i in known):
            continue
        if any(o in graph.outputs for o in node.outputs):
            continue
        size = sum(rewriter.types[i].elements for i in known)
        result_size = sum(rewriter.types[o].elements for o in node.outputs)
        if result_size > max(SMALL, MAX_GROWTH * size):
            continue
        results = node.op.reference(
            *(widen(rewriter.constants[i]) if i else None for i in node.inputs)
        )
        for output, result in zip(node.outputs, results, strict=True):
            dtype = rewriter.types[output].dtype.numpy
            rewriter.constants[output] = np.array(result, dtype, order="C")
        rewriter.replace_node(node, [])
    return rewriter.finish()
