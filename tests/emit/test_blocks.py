"""Libraries whose calls bring different numbers of steps: on one state, in any order."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import cannery
from cannery.api.net import Net as Network
from cannery.choose.lookup import find_record
from cannery.cli import cli
from cannery.emit.source import Source
from cannery.errors import CanneryError, OptionError
from cannery.execution import program
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.recurrent.op import Rnn
from cannery.options import Options, make_options
from cannery.passes import run_passes
from cannery.pipeline import Compiled, compile_graphs, compile_model
from cannery.target.toolchain import resolve_target
from emit.c_programs import LANGUAGES, compile_file, write_all
from emit.stepping_models import F, causal
from frontends.causal_nets import Maker
from frontends.keras_files import LayerSpec, Model, image, write_h5
from frontends.keras_files import chain as chain_
from needs import need_program, need_runner, need_toolchain
from ops.cases import Net

Array = NDArray[Any]

STEPS, BLOCKS = 200, (1, 3, 8)

#: Calls of any size.
LOOP = "if (net_steps_in(memory, state, cuts[k], in, out) != cuts[k]) { return 1; }"

#: Calls of the sizes in `cuts`, on inputs and outputs that lie one after the other.
MAIN = """
#include "net.h"
#include "cannery/vec_scalar.h"
#include <stdio.h>
static double state[(NET_STATE_BYTES + 7) / 8];
static unsigned char memory[NET_WORKSPACE_BYTES] CANNERY_ALIGN(64);
static const float x[] = {{ {x} }};
static const int cuts[] = {{ {cuts} }};
static float y[{outputs}];
int main(void)
{{
    const float *in = x;
    float *out = y;
    net_reset(state);
    for (size_t k = 0; k < sizeof(cuts) / sizeof(cuts[0]); ++k) {{
        switch (cuts[k]) {{
        {cases}
        default:
            {other}
        }}
        in += cuts[k] * {per_in};
        out += cuts[k] * {per_out};
    }}
    for (int k = 0; k < {outputs}; ++k) {{
        printf("%.9g\\n", (double)y[k]);
    }}
    return 0;
}}
"""


def compiled(graph: Graph, options: Options) -> Compiled:
    """The library of a network over a whole sequence, for calls of these sizes."""
    each = [
        (run_passes(to_streaming(graph, own.block[0], AUTO, own.block)), own)
        for own in options.each_block
    ]
    return compile_graphs(each)


def options_for(target: str, blocks: Sequence[int], **given: object) -> Options:
    raw = {"target": target, "name": "net", "block": blocks, "streaming": True, **given}
    return make_options(Path("net.h5"), raw)


def random_cuts(seed: int, sizes: Sequence[int], steps: int) -> list[int]:
    random, cuts = Random(seed), []
    while left := steps - sum(cuts):
        cuts.append(min(random.choice(sizes), left))
    return cuts


def chain(dilations: Sequence[int] = (1, 2, 4, 9, 27), channels: int = 6) -> Graph:
    """Dilated convolutions, one after the other, and a pool."""
    b = Net(3)
    x = b.input("x", (1, STEPS, 3))
    for dilation in dilations:
        op = Conv((1,), ((2 * dilation, 0),), (dilation,))
        taken = b.types[x].shape[-1]
        x = b.node(Tanh(), [b.node(op, [x, b.weight(3, taken, channels), b.weight(channels)])])
    return b.graph(b.node(MaxPool((5,), (1,), ((4, 0),), (1,)), [x]))


def sequence(graph: Graph) -> Array:
    (name,) = graph.inputs
    shape = graph.types[name].shape
    return np.random.default_rng(4).standard_normal(shape).astype(np.float32)


def c_program(graph: Graph, cuts: Sequence[int], blocks: Sequence[int] = BLOCKS) -> str:
    (output,) = graph.outputs
    elements, steps = graph.types[output].elements, graph.types["x"].shape[1]
    cases = [
        f"case {n}: net_step_{n}_in(memory, state, in, out); break;" for n in sorted(blocks)[1:]
    ]
    cases += [f"case {min(blocks)}: net_step_in(memory, state, in, out); break;"]
    return MAIN.format(
        x=", ".join(map(str, sequence(graph).ravel().tolist())), cuts=", ".join(map(str, cuts)),
        outputs=elements, per_in=3, per_out=elements // steps, cases="\n        ".join(cases),
        other=LOOP,
    )  # fmt: skip


def expected(graph: Graph) -> Array:
    (found,) = evaluate(graph, {graph.inputs[0]: sequence(graph)}).values()
    return np.asarray(found)


def counting_program(graph: Graph, cuts: Sequence[int], blocks: Sequence[int], group: int) -> str:
    """Calls of the smallest size say whether they have written the outputs of a group."""
    (output,) = graph.outputs
    elements, steps = graph.types[output].elements, graph.types["x"].shape[1]
    few, *more = sorted(blocks)
    per_group = elements * group // steps
    cases = [f"case {few}: out += {per_group} * net_step_in(memory, state, in, out); break;"]
    cases += [
        f"case {n}: net_step_{n}_in(memory, state, in, out); out += {per_group * n // group}; "
        "break;"
        for n in more
    ]
    return MAIN.format(
        x=", ".join(map(str, sequence(graph).ravel().tolist())), cuts=", ".join(map(str, cuts)),
        outputs=elements, per_in=3, per_out=0, cases="\n        ".join(cases), other="return 1;",
    )  # fmt: skip


def run_on(
    target: str, folder: Path, graph: Graph, made: Compiled, cuts: Sequence[int], main: str = ""
) -> Array:
    """What a program with these calls computes."""
    toolchain = need_toolchain(target)
    write_all(folder, {**made.files, "main.c": main or c_program(graph, cuts)})
    toolchain.build(sorted(folder.glob("*.c")), folder / "program", [folder])
    text = need_runner(toolchain).run_text(folder / "program", ())
    return np.array(text.split(), np.float32).reshape(expected(graph).shape)


@pytest.mark.parametrize("target", ["generic", "sse2", "avx2", "avx512", "aarch64-a53", "armv7-a9"])
def test_any_order_of_calls_is_the_whole_sequence(tmp_path: Path, target: str) -> None:
    graph = chain()
    made = compiled(graph, options_for(target, BLOCKS))
    assert len(made.source.states.rings) == len(made.source.states.slots) == 6
    found = run_on(target, tmp_path, graph, made, random_cuts(1, (*BLOCKS, 2, 17), STEPS))
    np.testing.assert_allclose(found, expected(graph), atol=1e-5)


def with_strides(*, widened: bool) -> Graph:
    """Two convolutions with strides and a recurrent layer; `widened`: back to the first rate."""
    b = Net(5)
    x = b.input("x", (1, STEPS, 3))
    for taps, channels in ((4, 6), (3, 5)):
        op = Conv((2,), ((taps - 2, 0),), (1,))
        x = b.node(Tanh(), [b.node(op, [x, b.weight(taps, b.types[x].shape[-1], channels)])])
    p = b.node(MatMul(), [x, b.weight(5, 4)])
    (x,) = b.nodes(Rnn(4, ((Tanh(),),), (False,)), [p, b.weight(1, 4, 4)], name="rnn")
    if widened:
        x = b.node(ConvTranspose((4,), ((0, 0),), (1,), (0,)), [x, b.weight(4, 2, 4)])
    return b.graph(x)


@pytest.mark.parametrize("target", ["generic", "avx2", "avx512", "aarch64-a53"])
@pytest.mark.parametrize(("blocks", "widened"), [((1, 16), False), ((2, 4, 12), True)])
def test_short_calls_of_strides_beside_long_ones(
    tmp_path: Path, target: str, blocks: tuple[int, ...], widened: bool
) -> None:
    graph, random = with_strides(widened=widened), Random(3)
    made = compiled(graph, options_for(target, blocks))
    assert made.source.graph.calls and made.source.graph.calls.every == 4 // blocks[0]
    cuts = [random.choice(blocks) for _ in range(12)]
    cuts += [blocks[0]] * ((STEPS - sum(cuts)) // blocks[0])
    main = counting_program(graph, cuts, blocks, 4)
    found = run_on(target, tmp_path, graph, made, cuts, main)
    np.testing.assert_allclose(found, expected(graph), atol=1e-5)


def random_network(seed: int) -> Graph:
    """One with a single output, which is a sequence."""
    for number in range(50 * seed, 50 * seed + 50):
        try:
            graph = Maker(number, ahead=False, rates=False).graph()
        except CanneryError:
            continue  # branches of different lengths
        shapes = [graph.types[v].shape for v in (*graph.inputs, *graph.outputs)]
        if len(shapes) == 2 and len(shapes[1]) == 3 and shapes[0][1] == shapes[1][1]:
            return graph
    raise AssertionError(seed)


@pytest.mark.parametrize("seed", range(6))
def test_random_networks(tmp_path: Path, seed: int) -> None:
    graph = random_network(seed)
    made = compiled(graph, options_for("native", BLOCKS))
    cuts = random_cuts(seed, (*BLOCKS, 5), graph.types["x"].shape[1])
    found = run_on("native", tmp_path, graph, made, cuts)
    np.testing.assert_allclose(found, expected(graph), atol=1e-5)


def test_constants_that_blocks_share_are_there_once(tmp_path: Path) -> None:
    """The code for more blocks has no weights of its own where they are packed alike."""
    graph = chain()
    one = compiled(graph, options_for("generic", (4,))).source
    several = compiled(graph, options_for("generic", (4, 8))).source
    assert one.graph.calls and several.blocks[0].graph.calls
    own = [c for call in several.blocks[0].calls for c in call.kernel.constants]
    assert not own and any(call.aliases for call in several.blocks[0].calls)


def test_state_is_that_of_the_smallest_block() -> None:
    """A ring serves all sizes: it has room for the largest call, and for what crosses its end."""
    graph = chain((1, 50))
    small, both = (compiled(graph, options_for("generic", b)).source for b in ((1,), (1, 64)))
    for one, more in zip(small.states.slots, both.states.slots, strict=True):
        row = one.input.type.dtype.bytes * one.input.type.shape[-1]
        assert more.bytes <= one.bytes + 3 * 64 * row


def keras(folder: Path, **given: Any) -> Network:
    return cannery.load(write_h5(folder / "net.h5", causal(STEPS)), isa="sse2", **given)


def test_python_takes_as_many_steps_as_there_are(tmp_path: Path) -> None:
    need_program("gcc")
    x = np.random.default_rng(2).standard_normal((1, STEPS, F)).astype(np.float32)
    whole = keras(tmp_path)(x)
    net = keras(tmp_path, streaming=True, block=[1, 16])
    for cuts in ([16] * 12 + [1] * 8, random_cuts(5, (1, 16, 40), STEPS)):
        state, found, at = net.new_state(), [], 0
        for size in cuts:
            found.append(net.step(state, x[:, at : at + size]))
            assert found[-1].shape[1] == size
            at += size
        assert np.abs(np.concatenate(found, 1) - whole).max() < 1e-5
    state, out = net.new_state(), np.empty_like(whole[:, :20])
    assert net.step(state, x=x[0, :20], out=out) is out
    assert np.abs(out - whole[:, :20]).max() < 1e-5


def test_python_says_which_steps_there_are(tmp_path: Path) -> None:
    need_program("gcc")
    net = keras(tmp_path, streaming=True, block="4 16")
    state = net.new_state()
    for size in (3, 6, 0):
        with pytest.raises(OptionError, match=rf"{size} steps; calls bring 4, 16 or sums of these"):
            net.step(state, np.zeros((1, size, F), np.float32))
    assert net.step(state, np.zeros((1, 24, F), np.float32)).shape[1] == 24


CALLER = """
#include "{header}"
#include <string.h>
int main(void)
{{
    {body}
    return 0;
}}
"""

C_BODY = """static double one[(NET_STATE_BYTES + 7) / 8], two[(NET_STATE_BYTES + 7) / 8];
    float x[NET_STEP_4_X_LEN], y[NET_STEP_4_SCORES_LEN], z[NET_STEP_4_SCORES_LEN];
    for (int k = 0; k < NET_STEP_4_X_LEN; ++k) {
        x[k] = (float)k - 5.0f;
    }
    net_reset(one);
    net_reset(two);
    net_step_4(one, x, y);
    for (int k = 0; k < 4; ++k) {
        net_step(two, x + k * NET_X_LEN, z + k * NET_SCORES_LEN);
    }
    for (int k = 0; k < NET_STEP_4_SCORES_LEN; ++k) {
        if (!(y[k] - z[k] < 1e-5f && z[k] - y[k] < 1e-5f)) {
            return 1;
        }
    }
    if (net_steps(two, 3, x, y) != 3 || NET_LARGEST_BLOCK_STEPS != 4) {
        return 2;
    }"""

CPP_BODY = """net::Net one, two;
    float x[NET_STEP_4_X_LEN] = { 1.0f, 2.0f }, y[NET_STEP_4_SCORES_LEN], z[NET_STEP_4_SCORES_LEN];
    one.step_4(x, y);
    if (two.steps(4, x, z) != 4 || memcmp(y, z, sizeof(y)) != 0) {
        return 1;
    }"""


@pytest.mark.parametrize("language", ["c99 gcc", "c++11 clang"])
@pytest.mark.parametrize("isas", [("sse2",), ("avx2", "sse2")], ids=["one", "several"])
def test_programs(tmp_path: Path, language: str, isas: tuple[str, ...]) -> None:
    """C and C++ callers, without a warning; with a choice of instruction sets, too."""
    file = write_h5(tmp_path / "net.h5", causal(STEPS))
    given = {"streaming": True, "isa": isas, "block": (1, 4)}
    made = compile_model(make_options(file, given))
    cpp = "++" in language
    main = CALLER.format(header="net.hpp" if cpp else "net.h", body=CPP_BODY if cpp else C_BODY)
    assert run_caller(tmp_path / "out", made, main, language) == 0


def run_caller(folder: Path, made: Compiled, main: str, language: str) -> int:
    """The exit code of a program around a library; no warnings."""
    files = {**made.files, "main.c": main}
    write_all(folder, files)
    objects = []
    for name in sorted(n for n in files if n.endswith(".c")):
        flags = ["-O1", "-mavx2", "-mfma"] if "avx2" in name else ["-O1", "-msse2"]
        objects.append(str(compile_file(folder, name, language, flags)))
    program = folder / "program"
    subprocess.run([LANGUAGES["c++11 g++"][0], *objects, "-o", program, "-lm"], check=True)
    return subprocess.run([program], check=False).returncode


def test_instruction_sets_share_rings(tmp_path: Path) -> None:
    """A state that one instruction set has made is good for the others, and nothing is copied."""
    need_program("gcc")
    file = write_h5(tmp_path / "net.h5", causal(STEPS))
    given = {"streaming": True, "isa": ("avx2", "sse2"), "block": (1, 4)}
    made = compile_model(make_options(file, given))
    assert len(made.source.states.rings) == 2
    sizes = {
        line for path, text in made.files.items() if path.endswith(".h")
        for line in text.decode().splitlines() if "_STATE_BYTES " in line
    }  # fmt: skip
    assert len({line.split()[-1] for line in sizes}) == 1 and len(sizes) == 3


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (["3", "3"], "3 is given twice"), ("0", "not a whole number"), ("1 x", "'x' is not"),
        ([str(n) for n in range(1, 12)], "more than 8"),
    ],
)  # fmt: skip
def test_wrong_blocks(block: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_options(Path("net.h5"), {"streaming": True, "block": block})


@pytest.mark.parametrize("name", ["trace_steps", "dump_values"])
def test_what_is_shown_is_of_one_block(name: str) -> None:
    with pytest.raises(OptionError, match="give one --block"):
        make_options(Path("net.h5"), {"streaming": True, "block": ("1", "2"), name: True})


def test_blocks_read_the_same_file_of_weights(tmp_path: Path) -> None:
    file = write_h5(tmp_path / "net.h5", causal(STEPS))
    weights = tmp_path / "net.weights"
    given = {"streaming": True, "isa": ("sse2",), "block": (1, 4), "weights": str(weights)}
    made = compile_model(make_options(file, given))
    folder = tmp_path / "out"
    opened = f'if (net_weights_open("{folder}/net.weights", 0, 0) != 0) {{ return 9; }}'
    body = C_BODY.replace("net_reset(one);", f"{opened}\n    net_reset(one);", 1)
    main = CALLER.format(header="net.h", body=body)
    assert run_caller(folder, made, main, "c99 gcc") == 0


@pytest.mark.parametrize("target", ["generic", "avx2", "aarch64-a53"])
def test_a_sequence_that_begins_late_begins_within_a_call(tmp_path: Path, target: str) -> None:
    b, late = Net(), 4
    op = Conv((1,), ((0, late),), (1,))
    x = b.node(op, [b.input("x", (1, STEPS, 3)), b.weight(late + 1, 3, 3)])
    layer = Rnn(3, ((Tanh(),),), (False,), returns=("sequence",))
    (y,) = b.nodes(layer, [x, b.weight(1, 3, 3), b.weight(1, 3)], name="rnn")
    graph = b.graph(y)
    made = compiled(graph, options_for(target, BLOCKS))
    assert made.source.graph.calls and made.source.graph.calls.latency == late
    cuts = random_cuts(2, (*BLOCKS, 5), STEPS)
    found = run_on(target, tmp_path, graph, made, cuts)
    np.testing.assert_allclose(found[:, late:], expected(graph)[:, :-late], atol=1e-5)


def test_commands_show_each_block(tmp_path: Path) -> None:
    file = write_h5(tmp_path / "net.h5", causal(STEPS))
    words = [str(file), "--streaming", "--block", "1", "--block", "8", "--isa", "generic"]
    done = CliRunner().invoke(cli, ["verify", *words])
    assert done.exit_code == 0, done.output
    assert "scores, 8 steps" in done.output
    done = CliRunner().invoke(cli, ["verify", *words, "--json"])
    assert len(json.loads(done.stdout)["errors"]) == 2 * (1 + 4)  # and the next states


def test_each_block_has_a_record(tmp_path: Path) -> None:
    """The smallest one that of a network for it alone; others have their own."""
    file = write_h5(tmp_path / "net.h5", causal(STEPS))
    given = {"streaming": True, "block": (8, 1), "isa": ("sse2",)}
    options = make_options(file, given)
    names = [find_record(each, resolve_target(each))[0].name for each in options.each_block]
    alone = make_options(file, {**given, "block": 1})
    assert names[0] == find_record(alone, resolve_target(alone))[0].name
    assert "block8" in names[1] and names[0] != names[1]
    with pytest.raises(OptionError, match=r"have a record of their own.*name a folder"):
        make_options(file, {**given, "tuning": "one.json"})


def strided() -> Model:
    """Three layers, of which the last one runs in every sixth call of one step."""
    rng = np.random.default_rng(6)

    def conv(name: str, channels: int, taps: int, stride: int) -> LayerSpec:
        values = {"kernel": rng.standard_normal((taps, channels, F)).astype(np.float32),
                  "bias": rng.standard_normal(F).astype(np.float32)}  # fmt: skip
        config = {"filters": F, "kernel_size": taps, "padding": "causal", "strides": stride,
                  "activation": "tanh"}  # fmt: skip
        return LayerSpec("Conv1D", name, (), config, values)

    return chain_(image("x", 48, F), conv("a", F, 4, 2), conv("b", F, 3, 1), conv("c", F, 5, 3))


@pytest.mark.parametrize("block", [1, 2, 4, 6])
def test_calls_without_outputs(tmp_path: Path, block: int) -> None:
    need_program("gcc")
    file = write_h5(tmp_path / "net.h5", strided())
    x = np.random.default_rng(7).standard_normal((1, 48, F)).astype(np.float32)
    whole = cannery.load(file, isa="sse2")(x)
    net = cannery.load(file, isa="sse2", streaming=True, block=block)
    for _ in range(2):
        state = net.new_state()
        found = [net.step(state, x[:, t : t + block]) for t in range(0, 48, block)]
        every = {1: 6, 2: 3, 4: 3, 6: 1}[block]
        due = [k % every == every - 1 for k in range(len(found))]
        assert [each is not None for each in found] == due
        steps = np.concatenate([each for each in found if each is not None], 1)
        np.testing.assert_allclose(steps, whole, atol=1e-5)


RATES_C = """static double state[(NET_STATE_BYTES + 7) / 8];
    float x[NET_X_LEN] = { 1.0f, -1.0f, 0.5f }, y[NET_C_LEN];
    net_reset(state);
    for (int k = 1; k <= 24; ++k) {
        y[0] = 9.0f;
        const int due = k % NET_CALLS_PER_OUTPUT == 0;
        if (net_step(state, x, y) != due || (y[0] < 9.0f) != due || NET_CALLS_PER_OUTPUT != 6) {
            return k;
        }
    }"""

RATES_CPP = """net::Net net;
    for (int k = 1; k <= 24; ++k) {
        if (net.step() != (k % NET_CALLS_PER_OUTPUT == 0)) {
            return k;
        }
    }"""


def test_calls_begin_within_a_round(tmp_path: Path) -> None:
    """Outputs that need one later step leave one call later, also after silence."""
    need_program("gcc")
    values = {"kernel": np.ones((4, F, F), np.float32)}
    config = {"filters": F, "kernel_size": 4, "padding": "same", "strides": 2, "use_bias": False}
    model = chain_(image("x", 48, F), LayerSpec("Conv1D", "a", (), config, values))
    file = write_h5(tmp_path / "net.h5", model)
    x = np.arange(48 * F, dtype=np.float32).reshape(1, 48, F) % 7
    net = cannery.load(file, isa="sse2", streaming=True, latency="auto")
    assert (net.latency, net.calls_per_output, net.first_output_call) == (1, 2, 1)
    whole = cannery.load(file, isa="sse2")(x)
    state = net.new_state()
    found = [net.step(state, x[:, t : t + 1]) for t in range(48)]
    assert [each is not None for each in found] == [k % 2 == 0 for k in range(48)]
    steps = np.concatenate([each for each in found[2::2] if each is not None], 1)
    np.testing.assert_allclose(steps, whole[:, :23], atol=1e-5)
    made = compile_model(
        make_options(file, {"streaming": True, "latency": "auto", "isa": ("sse2",)})
    )
    assert "#define NET_FIRST_OUTPUT_CALL 1\n" in made.files["net.h"].decode()
    assert json.loads(made.files["net.json"])["first_output_call"] == 1


@pytest.mark.parametrize("language", ["c99 gcc", "c++11 clang"])
@pytest.mark.parametrize("isas", [("sse2",), ("avx2", "sse2")], ids=["one", "several"])
def test_programs_count_outputs(tmp_path: Path, language: str, isas: tuple[str, ...]) -> None:
    """Outputs of other calls stay as they are."""
    file = write_h5(tmp_path / "net.h5", strided())
    made = compile_model(make_options(file, {"streaming": True, "isa": isas}))
    assert "calls_per_output" in made.files["net.json"].decode()
    cpp = "++" in language
    main = CALLER.format(header="net.hpp" if cpp else "net.h", body=RATES_CPP if cpp else RATES_C)
    assert run_caller(tmp_path / "out", made, main, language) == 0


def test_the_header_tells_the_past_as_state() -> None:
    """At its beginning are the tensors that users pass; below, what the state holds."""
    text = compiled(chain(), options_for("generic", (1,))).files["net.h"].decode()
    head, rest = text.split("#ifndef", 1)
    assert "in  x:" in head and "and a state of" in head and "past" not in head
    assert "x_past: float32" in rest


def biased() -> Graph:
    """Layers whose results of zeros are not what the next one pads with; strides, branches."""
    b = Net(5)
    x = b.input("x", (1, STEPS, 3))
    for stride, dilation in ((1, 4), (2, 3), (1, 5)):
        op = Conv((stride,), ((2 * dilation, 0),), (dilation,))
        weights = [b.weight(3, b.types[x].shape[-1], 4), b.weight(4)]
        x = b.node(Tanh(), [b.node(op, [x, *weights])])
    return b.graph(x)


@pytest.mark.parametrize("target", ["generic", "avx2", "aarch64-a53"])
@pytest.mark.parametrize("blocks", [(1,), (4, 8)])
def test_state_after_silence(tmp_path: Path, target: str, blocks: tuple[int, ...]) -> None:
    """As many zeros give just that, and more of them leave it as it is, bit by bit."""
    toolchain = need_toolchain(target)
    made = compiled(biased(), options_for(target, blocks))
    write_all(tmp_path, {**made.files, "main.c": SILENCE})
    toolchain.build(sorted(tmp_path.glob("*.c")), tmp_path / "program", [tmp_path])
    assert need_runner(toolchain).run_text(tmp_path / "program", ()).split() == ["1", "1", "1"]


SILENCE = """
#include "net.h"
#include "cannery/vec_scalar.h"
#include <stdio.h>
#include <string.h>
static double one[(NET_STATE_BYTES + 7) / 8], two[(NET_STATE_BYTES + 7) / 8];
static unsigned char memory[NET_WORKSPACE_BYTES] CANNERY_ALIGN(64);
static float x[NET_X_LEN], y[NET_OUT0_LEN], z[NET_OUT0_LEN];
int main(void)
{
    net_prewarm(memory, one, NET_PREWARM_CALLS);
    net_reset(two);
    for (int k = 0; k < NET_PREWARM_CALLS; ++k) {
        net_step_in(memory, two, x, y);
    }
    printf("%d\\n", memcmp(one, two, sizeof(one)) == 0);
    for (int k = 0; k < 24; ++k) {
        net_step_in(memory, one, x, z);
    }
    printf("%d\\n", memcmp(y, z, sizeof(y)) == 0);
    net_reset(two);
    for (int k = 0; k < 4; ++k) {
        net_step_in(memory, two, x, z);
    }
    printf("%d\\n", memcmp(y, z, sizeof(y)) != 0); /* it takes more than a few */
    return 0;
}
"""


def test_python_begins_after_silence(tmp_path: Path) -> None:
    need_program("gcc")
    net = keras(tmp_path, streaming=True)
    zeros = np.zeros((1, 1, F), np.float32)
    state, after = net.new_state(), net.new_state(prewarm=True)
    for _ in range(5000):
        y = net.step(state, zeros)
    assert np.abs(net.step(after, zeros) - y).max() < 1e-6


def test_verify_judges_calls_of_each_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is cut into calls of each size, in parts: programs do not grow with the sequence."""
    need_program("gcc")
    monkeypatch.setattr(program, "_PART_BYTES", 0)
    monkeypatch.setattr(program, "_PART_SAMPLES", 8)
    file = write_h5(tmp_path / "net.h5", causal(20))
    whole = cannery.load(file, isa="generic")
    x = np.random.default_rng(5).random((1, 20, F), np.float32)
    (given,), (name,) = ([t.name for t in ts] for ts in (whole.inputs, whole.outputs))
    parts: list[int] = []

    def judged(expected: Array) -> cannery.VerifyResult:
        against = {name: expected}
        return cannery.verify(
            file, inputs={given: x}, against=against, streaming=True, block=(1, 5), isa="generic"
        )

    right = judged(whole(x))
    assert right.passed
    assert right.compared == {name: "against, 20 samples", f"{name}, 5 steps": "against, 4 calls"}
    data = program._data

    def counted(source: Source, samples: Sequence[program.Sample]) -> bytes:
        parts.append(len(samples))
        return data(source, samples)

    monkeypatch.setattr(program, "_data", counted)
    wrong = judged(whole(x) + (np.arange(20) == 19)[:, None].astype(np.float32))
    assert parts == [8, 8, 4, 4]
    assert min(wrong.errors.values()) > 100 * wrong.max_error


def test_calls_of_a_network_without_a_past(tmp_path: Path) -> None:
    """Where the axis of time is named; in blocks of any size, also after silence."""
    need_program("gcc")
    layer = LayerSpec("Activation", "act", (), {"activation": "tanh"}, {})
    file = write_h5(tmp_path / "net.h5", chain_(image("x", 8, F), layer))
    net = cannery.load(file, streaming=True, block=(1, 4), time_axis={"x": 1}, isa="generic")
    x = np.random.default_rng(1).standard_normal((1, 8, F)).astype(np.float32)
    for state in (net.new_state(), net.new_state(prewarm=True)):
        found = [net.step(state, x[:, a:b]) for a, b in ((0, 1), (1, 5), (5, 6))]
        assert np.abs(np.concatenate(found, axis=1) - np.tanh(x[:, :6])).max() < 1e-6
