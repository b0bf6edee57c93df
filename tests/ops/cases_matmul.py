"""Matrix products: dense layers of any rank, two computed operands, transposed and broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from cannery.ir.graph import Graph
from cannery.ops.matmul.op import MatMul
from ops.cases import Net, add_case
from ops.epilogues import add_tail

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """A case: shapes of a and b. `const` names the constant operands, `bias` is const or input."""

    a: Shape
    b: Shape
    transpose: str = ""
    const: str = "b"
    bias: str = ""
    tail: str = ""


PRODUCTS = {
    "dense": Product((1, 37), (37, 19), bias="const", tail="relu"),
    "dense_few_inputs": Product((1, 3), (3, 1)),
    "dense_one_output": Product((1, 257), (257, 1), bias="const"),
    "dense_two_outputs": Product((1, 130), (130, 2), bias="const", tail="tanh"),
    "dense_wide": Product((1, 40), (40, 131), bias="const", tail="scale"),
    "dense_far": Product((1, 40), (40, 52), bias="const", tail="relu"),
    "dense_rows_far": Product((3, 44), (44, 20), bias="const"),
    "dense_odd_far": Product((1, 41), (41, 20)),
    "dense_transposed": Product((1, 33), (12, 33), "b", bias="const"),
    "dense_batch": Product((5, 33), (33, 12), bias="const", tail="add sigmoid"),
    "dense_large_batch": Product((13, 20), (20, 33), tail="add"),
    "dense_sequence": Product((2, 11, 16), (16, 5), bias="const", tail="relu"),
    "dense_image": Product((2, 5, 7, 9), (9, 21), bias="const", tail="scale add"),
    "dense_rank_5": Product((2, 3, 2, 3, 8), (8, 6), bias="const"),
    "dense_one_matrix": Product((2, 5, 7), (1, 7, 6), bias="const"),
    "dense_both_transposed": Product((9, 13), (17, 9), "ab", bias="const"),
    "dense_long_sums": Product((17, 516), (516, 70), bias="const", tail="scale add"),
    "dense_long_sums_bare": Product((2, 9, 512), (512, 68)),
    "dense_tiny": Product((4, 1), (1, 3)),
    "general": Product((5, 7), (7, 9), const=""),
    "general_transposed_a": Product((7, 5), (7, 9), "a", const="", tail="add"),
    "general_transposed_b": Product((5, 19), (9, 19), "b", const="", bias="input"),
    "general_both_transposed": Product((7, 5), (9, 7), "ab", const=""),
    "general_batch": Product((3, 5, 17), (3, 17, 21), const="", bias="const", tail="relu"),
    "general_images": Product((2, 3, 5, 17), (2, 3, 17, 21), const="", tail="add"),
    "general_attention": Product((2, 3, 9, 16), (2, 3, 9, 16), "b", const="", tail="add"),
    "general_broadcast": Product((1, 3, 5, 17), (2, 1, 17, 21), const=""),
    "general_rank": Product((5, 17), (2, 3, 17, 6), const=""),
    "general_rank_5": Product((2, 2, 3, 5, 8), (2, 2, 3, 8, 6), const=""),
    "general_constant_a": Product((6, 8), (2, 8, 19), const="a"),
    "general_constant_matrices": Product((2, 5, 8), (2, 19, 8), "b", bias="const"),
}


def product_graph(p: Product) -> Graph:
    """One matrix product with its epilogue."""
    net = Net()
    a = net.weight(*p.a) if "a" in p.const else net.input("a", p.a)
    b = net.weight(*p.b) if "b" in p.const else net.input("b", p.b)
    n = p.b[-2 if "b" in p.transpose else -1]
    bias = {"const": lambda: [net.weight(n)], "input": lambda: [net.input("bias", (n,))]}
    inputs = [a, b, *bias.get(p.bias, list)()]
    y = net.node(MatMul("a" in p.transpose, "b" in p.transpose), inputs)
    return net.graph(add_tail(net, y, p.tail))


for _name, _product in PRODUCTS.items():
    add_case(f"matmul_{_name}", partial(product_graph, _product), far=_name.endswith("_far"))


def matmul_square() -> Graph:
    """A value times itself."""
    net = Net()
    x = net.input("x", (4, 4))
    return net.graph(net.node(MatMul(), [x, x]))


add_case("matmul_square", matmul_square)
