"""Programs that were written for CompiledNN, over networks that are linked into them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cannery.ir.evaluate import evaluate
from cannery.names import make_identifier
from cannery.options import make_options
from cannery.pipeline import compile_model, import_graph
from cannery.resources import ball_example_dir
from emit.c_programs import LANGUAGES, compile_file, link, run, write_all
from needs import need_program
from tiny_models import write_tiny_dense

BALL = ball_example_dir() / "ball.h5"

#: Image k is k * 7 % 101; the scores are printed.
MAIN = """
#include "ball_compiled_nn.h"
#include <cstdio>
#include <utility>
using namespace NeuralNetwork;

int main()
{
    Model model;
    model.load("Config/NeuralNets/ball.h5");
    %(prepare)s
    CompiledNN nn(nullptr);
    if (nn.valid()) {
        return 1;
    }
    nn.compile(model, CompilationSettings());
    if (!nn.valid() || nn.numOfInputs() != 1 || nn.numOfOutputs() != 1) {
        return 2;
    }
    TensorXf &image = nn.input(0);
    const std::vector<unsigned int> dims = { 16, 16, 1 };
    if (image.rank() != 3 || image.dims() != dims || image.dims(1) != 16 || image.size() != 256) {
        return 3;
    }
    if (image.end() - image.begin() != 256 || &image(2, 3, 0) != &image[35] ||
        &image({2u, 3u}) != image.data() + 35 ||
        reinterpret_cast<std::size_t>(image.data()) %% 16 != 0) {
        return 4;
    }
    %(type)s *const pixels = reinterpret_cast<%(type)s *>(nn.input(0).data());
    for (int k = 0; k < 256; ++k) {
        pixels[k] = static_cast<%(type)s>(k * 7 %% 101);
    }
    nn.apply();
    const TensorXf first = nn.output(0);
    const CompiledNN other(nn);
    nn.apply();
    other.apply();
    for (std::size_t k = 0; k < nn.output(0).size(); ++k) {
        if (first[k] != nn.output(0)[k]) {
            return 5;
        }
        std::printf("%%.9g ", static_cast<double>(first[k]));
    }
    return 0;
}
"""

REFUSED = """
#include "ball_compiled_nn.h"
#include "wide_compiled_nn.h"
#include <algorithm>
#include <cmath>
using namespace NeuralNetwork;

int main()
{
    CompiledNN nn;
    nn.compile("ball.h5");
    if (nn.valid()) {
        return 1;
    }
    nn.compile("Nets/none.h5");
    nn.apply();
    if (nn.valid()) {
        return 2;
    }
    nn.compile("some\\\\where/wide.tuned.h5");
    if (nn.valid()) {
        return 3;
    }
    nn.compile("wide");
    nn.apply();
    const TensorXf zero = nn.output(0);
    nn.input(0)[3] = 9.0f;
    nn.apply();
    float most = 0.0f;
    for (std::size_t k = 0; k < zero.size(); ++k) {
        most = std::max(most, std::abs(zero[k] - nn.output(0)[k]));
    }
    return nn.valid() && nn.input(0).rank() == 1 && zero.dims(0) == 4 && most > 0.1f ? 0 : 4;
}
"""


def files(model: Path, **given: object) -> dict[str, bytes]:
    """What is generated."""
    options = make_options(model, {"isa": "generic", "compiled_nn": True, **given})
    return dict(compile_model(options).files)


def program(folder: Path, found: dict[str, bytes], main: str, language: str) -> Path:
    """C libraries, and a program in C++."""
    write_all(folder, {**found, "main.cpp": main})
    objects = [compile_file(folder, n, "c99 gcc") for n in found if n.endswith(".c")]
    return link(folder, [*objects, compile_file(folder, "main.cpp", language)])


@pytest.mark.parametrize("language", [name for name in LANGUAGES if "++" in name])
@pytest.mark.parametrize("form", ["floats", "bytes widened", "bytes"])
def test_a_program_of_its_readme(tmp_path: Path, language: str, form: str) -> None:
    need_program("g++")
    given: dict[str, object] = {"input_dtype": "image=uint8"} if form == "bytes" else {}
    words = {
        "prepare": "" if form == "floats" else "model.setInputUInt8(0);",
        "type": "float" if form == "floats" else "unsigned char",
    }
    built = program(tmp_path, files(BALL, outputs="conv_2", **given), MAIN % words, language)
    found = [float(word) for word in run(built).split()]
    image = np.float32(np.arange(256) * 7 % 101).reshape(1, 16, 16, 1)
    graph = import_graph(make_options(BALL, {"outputs": "conv_2"}))
    expected = evaluate(graph, {"image": image})["conv_2"].ravel()
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_networks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    need_program("g++")
    wide = files(write_tiny_dense(tmp_path / "wide.h5"))
    both = {**wide, **files(BALL, input_dtype="image=uint8")}
    built = program(tmp_path, both, REFUSED, "c++17 g++")
    assert run(built) == b""


def test_files_have_the_names_of_their_networks(tmp_path: Path) -> None:
    """Folders, suffixes and what no identifier has."""
    need_program("g++")
    stems = ("ball", "ball (1)", "my-net 2", "a.b.c", "2nd", "__x__", "--", "net_", "B_1-")
    paths = [f"Config/Nets 2/{stem}.h5" for stem in stems] + [r"C:\nets\ball-3_.onnx"]
    lines = "\n".join(
        f"    std::puts(cannery::model_name({json.dumps(path)}).c_str());" for path in paths
    )
    main = f'#include "ball_compiled_nn.h"\n#include <cstdio>\nint main()\n{{\n{lines}\n}}\n'
    found = run(program(tmp_path, files(BALL), main, "c++11 g++")).decode().splitlines()
    assert found == [make_identifier(stem) for stem in (*stems, "ball-3_")]
