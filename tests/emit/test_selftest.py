"""The self-test: Python and C generate the same input, and a wrong network does not pass."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cannery.emit import selftest
from cannery.emit.selftest import _rounded
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.stimulus import Stimulus, best_stimulus
from cannery.ir.tensor import DType
from cannery.ops.elementwise.binary import Add
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Transpose
from cannery.passes import run_passes
from emit.c_programs import (
    Files,
    build,
    compile_file,
    link,
    net_files,
    network,
    run,
    write_all,
)
from emit.mutants import NETWORKS, mutants

#: Runs the self-test, reports its result, and writes the input that it generated.
MAIN = """
#include "net_selftest.h"
#include <stdio.h>
static unsigned char memory[NET_WORKSPACE_BYTES] CANNERY_ALIGN(64);
int main(void)
{
    putchar('0' + net_selftest(memory));
    fwrite(input_0, sizeof input_0, 1, stdout);
    return 0;
}
"""


#: Only reports the result.
RESULT = """
#include "net.h"
#include "cannery/vec_scalar.h"
#include <stdio.h>
static unsigned char memory[NET_WORKSPACE_BYTES] CANNERY_ALIGN(64);
int main(void)
{
    putchar('0' + net_selftest(memory));
    return 0;
}
"""


def files_and_main(dtype: DType) -> Files:
    """A network whose self-test is part of main.c."""
    files: Files = {**net_files(network(dtype=dtype), "net"), "main.c": MAIN}
    files["net_selftest.h"] = files.pop("net_selftest.c")
    return files


def image(graph: Graph, stimulus: Stimulus | None = None) -> bytes:
    """The input of the self-test; without `stimulus` it is the one that was found."""
    graph = run_passes(graph)
    best = stimulus or best_stimulus(graph, 3e-4).stimulus
    return best.inputs(graph)["image"].tobytes()


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
@pytest.mark.parametrize("language", ["c99 gcc", "c++11 g++"])
def test_input_is_the_same_in_c(tmp_path: Path, dtype: DType, language: str) -> None:
    written = run(build(tmp_path, files_and_main(dtype), language))
    assert written == b"0" + image(network(dtype=dtype))


def several_inputs() -> Graph:
    """The sum of products of three inputs, two of them alike."""
    rng = np.random.default_rng(1)
    b = GraphBuilder("net")
    total = ""
    for name, dtype in (("a", DType.FLOAT32), ("b", DType.FLOAT32), ("c", DType.UINT8)):
        x = b.input(name, (1, 6), dtype)
        if dtype is not DType.FLOAT32:
            x = b.node(Cast(DType.FLOAT32), [x], name="cast")
        weights = b.constant("w", rng.standard_normal((6, 4), np.float32))
        y = b.node(MatMul(), [x, weights], name=f"product_{name}")
        total = b.node(Add(), [total, y], name=f"sum_{name}") if total else y
    b.output(total)
    return b.build()


def test_each_input_has_numbers_of_its_own(tmp_path: Path) -> None:
    files: Files = {**net_files(several_inputs(), "net"), "main.c": RESULT}
    assert run(build(tmp_path, files)) == b"0"
    graph = run_passes(several_inputs())
    a, b, _ = best_stimulus(graph, 3e-4).stimulus.inputs(graph).values()
    assert not np.array_equal(a, b)


def test_a_wrong_weight_is_found(tmp_path: Path) -> None:
    files = files_and_main(DType.FLOAT32)
    code = net_files(network(), "net")["net.c"].decode()
    at = code.index("conv_")
    changed, count = re.subn(r"(-?\d+\.\d+f), ", "9.0f, ", code[at:], count=1)
    assert count == 1
    files["net.c"] = code[:at] + changed
    assert run(build(tmp_path, files))[:1] == b"1"


def two_outputs(first: float, second: float) -> Graph:
    """Two dense layers on one input, their weights times these."""
    rng = np.random.default_rng(1)
    b = GraphBuilder("net")
    x = b.input("x", (1, 7))
    for name, factor in (("one", first), ("two", second)):
        w = rng.standard_normal((7, 3)).astype(np.float32) * np.float32(factor)
        b.output(b.node(MatMul(), [x, b.constant("w", w)], name=name))
    return b.build()


@pytest.mark.parametrize("wrong", [1.05, 0.0, np.nan, np.inf])
def test_a_wrong_output_is_found_whichever_it_is(wrong: float, tmp_path: Path) -> None:
    """Also if the others are right, and if it is NaN."""
    right = net_files(two_outputs(1.0, 1.0), "net")
    for k, factors in enumerate(((1.0, 1.0), (wrong, 1.0), (1.0, wrong))):
        with np.errstate(all="ignore"):
            code = net_files(two_outputs(*factors), "net")["net.c"]
        files: Files = {**right, "net.c": code, "main.c": RESULT}
        assert run(build(tmp_path / str(k), files)) == (b"1" if k else b"0")


def test_large_networks_need_a_finite_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "MAX_COST", 0)
    files = files_and_main(DType.FLOAT32)
    assert run(build(tmp_path / "right", files)) == b"0" + image(network(), Stimulus())
    broken = without_tanh(1e38)
    assert run(build(tmp_path / "wrong", {**files, "net.c": broken["net.c"]}))[:1] == b"1"


def without_tanh(scale: float) -> dict[str, bytes]:
    """The same network with other weights, which end in infinities."""
    graph = network()
    constants = {
        k: v * np.float32(scale) if v.ndim == 4 else v * np.float32(100)
        for k, v in graph.constants.items()
    }
    nodes = tuple(n for n in graph.nodes if n.op.kind != "Tanh")
    last = replace(nodes[-1], outputs=graph.outputs)
    return net_files(replace(graph, nodes=(*nodes[:-1], last), constants=constants), "net")


def test_of_a_large_output_a_part_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "MAX_STORED", 2)
    files = files_and_main(DType.FLOAT32)
    assert b"expected_0[1]" in net_files(network(), "net")["net_selftest.c"]
    assert run(build(tmp_path, files))[:1] == b"0"


def test_integer_outputs_are_compared(tmp_path: Path) -> None:
    b = GraphBuilder("net")
    x = b.input("image", (1, 7, 6, 3), DType.UINT8)
    b.output(b.node(Transpose((0, 3, 1, 2)), [x], name="scores"))
    files: Files = {**net_files(b.build(), "net"), "main.c": MAIN}
    files["net_selftest.h"] = files.pop("net_selftest.c")
    assert run(build(tmp_path, files)) == b"0" + image(b.build())


def test_stored_results_have_few_digits() -> None:
    values = np.array([1234.56789, -0.0123456789, 0.0])
    assert _rounded(values).tolist() == [1234.57, -0.01, 0.0]
    assert _rounded(np.array([9.9999996e-4])).tolist() == [0.001]
    assert _rounded(np.array([np.inf, 1.5])).tolist() == [np.inf, 1.5]
    assert _rounded(np.array([200], np.uint8)).tolist() == [200]


@pytest.mark.parametrize("network", NETWORKS)
def test_wrong_weights_of_any_layer_are_found(tmp_path: Path, network: str) -> None:
    """The self-test of the right network, linked with wrong ones."""
    right = NETWORKS[network]()
    code = net_files(right, "net")
    write_all(tmp_path, {**code, "main.c": RESULT})
    rest = [compile_file(tmp_path, f, "c99 gcc") for f in ("main.c", "net_selftest.c")]

    def result(graph: Graph) -> bytes:
        write_all(tmp_path, {"net.c": net_files(graph, "net")["net.c"]})
        return run(link(tmp_path, [*rest, compile_file(tmp_path, "net.c", "c99 gcc")]))

    assert result(right) == b"0"
    results = {what: result(graph) for what, graph in mutants(right)}
    assert len(results) >= 4
    assert set(results.values()) == {b"1"}, results


def test_what_does_not_show_is_said() -> None:
    """Far negative biases before a ReLU leave the output without any influence of the weights."""
    graph = network()
    constants = {k: v - np.float32(1e4 * (v.ndim == 1)) for k, v in graph.constants.items()}
    text = net_files(replace(graph, constants=constants), "net")["net_selftest.c"].decode()
    told = re.search(r"hardly changes the result:\n((?: \*   .*\n)+) \*/", text)
    assert told
    assert told[1].split() == ["*", "conv", "*", "dense"]
    assert "hardly changes" not in net_files(graph, "net")["net_selftest.c"].decode()
