"""What inputs and outputs are called in C."""

from __future__ import annotations

import pytest

from cannery.emit.interface import interface
from cannery.errors import OptionError
from cannery.ir.graph import Graph, GraphBuilder
from cannery.layouts import nhwc
from cannery.ops.elementwise import Relu
from needs import need_toolchain


def net(given: str = "image", result: str = "scores") -> Graph:
    builder = GraphBuilder("net")
    builder.output(builder.node(Relu(), [builder.input(given, (1, 4))], name=result))
    return builder.build()


def names(graph: Graph, **rename: str) -> list[str]:
    inputs, outputs = interface(graph, rename, nhwc.ORDER)
    return [tensor.name for tensor in (*inputs, *outputs)]


def test_equal_names_are_told_apart() -> None:
    assert names(net("Image", "image")) == ["image", "image_2"]
    assert names(net("state", "n")) == ["state_2", "n_2"]
    assert names(net("ws", "fast")) == ["ws_2", "fast_2"], "a variable, a parameter"


GIVEN = ("a", "A", "a_row_stride", "a_pixel_stride", "n", "workspace", "lengths")


@pytest.mark.parametrize("first", GIVEN)
@pytest.mark.parametrize("views", [0, 1, 7])
def test_no_two_parameters_have_one_name(first: str, views: int) -> None:
    """Neither those of a view's strides, whichever comes first."""
    builder = GraphBuilder("net")
    order = [first, *(name for name in reversed(GIVEN) if name != first)]
    for name in order:
        builder.output(builder.node(Relu(), [builder.input(name, (1, 2, 3, 1))], name=f"{name}/y"))
    for viewed in (order[:views], order[len(order) - views :]):
        inputs, outputs = interface(builder.build(), {}, nhwc.ORDER, viewed)
        assert [t.view for t in inputs] == [t.source in viewed for t in inputs]
        made = [name for t in (*inputs, *outputs) for name in (t.name, *t.strides)]
        assert len({*made, "workspace", "n", "length", "lengths"}) == len(made) + 4


def test_words_and_macros_are_no_names() -> None:
    assert names(net("For", "Linux")) == ["for_net", "linux_net"]
    macros = need_toolchain("native").compiler.macros(["-std=gnu99"])
    for macro in (name for name in macros if not name.startswith("_")):
        assert names(net(macro))[0] not in macros


def test_tensors_may_swap_their_names() -> None:
    assert names(net(), image="scores", scores="image") == ["scores", "image"]
    assert names(net(), image="Image") == ["Image", "scores"]


@pytest.mark.parametrize(
    ("name", "owner"), [("scores", "tensor 'scores'"), ("SCORES", "tensor"), ("state", "parameter")]
)
def test_a_name_that_is_taken_is_refused(name: str, owner: str) -> None:
    with pytest.raises(OptionError, match=f"--rename: 'image' cannot be called '{name}'.*{owner}"):
        names(net(), image=name)
