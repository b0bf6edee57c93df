"""Evaluates nodes that depend only on constants."""

from __future__ import annotations

import numpy as np

from cannery.ir.evaluate import widen
from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ops.movement.op import Identity

#: A folded constant may be this many times larger than its inputs, or have this many elements.
MAX_GROWTH = 4
SMALL = 4096

#: Most multiplications of a folded node, because the references are slow.
MAX_MACS = 2**28


def fold_constants(graph: Graph, keep: tuple[type[Op], ...] = ()) -> Graph:
    """Nodes with constant inputs become constants, by their reference, rounded once to float32.

    A network output that turns out to be constant becomes the Identity of its value. A node that
    would blow up the model (a large Expand) or takes long stays, and so do operators in `keep`.
    """
    rewriter = Rewriter(graph)
    stored: dict[str, int] = {}  # how many elements of the model a folded constant comes from
    named: dict[str, str] = {}  # network outputs that are constants
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
    """Whether the network computes a node of constants with `size` elements at run time."""
    outputs = tuple(rewriter.types[o] for o in node.outputs)
    if sum(o.elements for o in outputs) > max(SMALL, MAX_GROWTH * size):
        return True
    inputs = tuple(rewriter.types[i] if i else None for i in names)
    return node.op.macs(inputs, outputs) > MAX_MACS
