"""Networks whose ends saturate easily, and the same with wrong weights in one layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from cannery.frontends import load_graph
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op
from cannery.ir.stimulus import layer_weights
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise.activations import Relu, Sigmoid
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape
from cannery.ops.softmax.op import Softmax
from cannery.passes import run_passes
from cannery.resources import ball_example_dir

#: What is done to all weights of a layer.
FACTORS = {"zero": 0.0, "5 % more": 1.05}


def ball() -> Graph:
    """The example's classifier."""
    return load_graph(ball_example_dir() / "ball.h5")


def _tiny(end: Op, classes: int) -> Graph:
    """6x5x2 `image` -> convolution -> `scores`: differences of about 20 for normal inputs."""
    rng = np.random.default_rng(11)
    b = GraphBuilder("net")

    def weight(*shape: int) -> str:
        return b.constant("w", (2.0 * rng.standard_normal(shape)).astype(np.float32))

    x = b.input("image", (1, 6, 5, 2))
    x = b.node(Conv((1, 1), ((0, 0), (0, 0)), (1, 1)), [x, weight(3, 3, 2, 4)], name="conv")
    x = b.node(Relu(), [x], name="relu")
    x = b.node(Reshape((1, 48)), [x], name="flat")
    x = b.node(MatMul(), [x, weight(48, classes), weight(classes)], name="dense")
    b.output(b.node(end, [x], name="scores"))
    return b.build()


def tiny_softmax() -> Graph:
    """Ends in a softmax of three."""
    return _tiny(Softmax(1), 3)


def tiny_sigmoid() -> Graph:
    """Ends in one sigmoid."""
    return _tiny(Sigmoid(), 1)


NETWORKS: dict[str, Callable[[], Graph]] = {
    "ball": ball, "softmax": tiny_softmax, "sigmoid": tiny_sigmoid,
}  # fmt: skip


def mutants(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """What is wrong, and the graph with that, for every layer with weights."""
    graph = run_passes(graph)
    for layer, name in layer_weights(graph).items():
        for what, factor in FACTORS.items():
            wrong = (graph.constants[name] * np.float32(factor)).astype(np.float32)
            yield f"{layer}: {what}", replace(graph, constants={**graph.constants, name: wrong})
