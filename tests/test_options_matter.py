"""Every option of a network does to the files that are written what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.options import SPECS, make_options
from cannery.pipeline import compile_model
from emit.stepping_models import stack
from frontends.keras_files import LayerSpec, Model, chain, image, layer, write_h5
from tiny_models import write_tiny_dense, write_tiny_model

Given = dict[str, object]

BYTES: Given = {"input_dtype": "image=uint8"}
SEVERAL: Given = {"isa": ["generic", "sse2"]}
INTEGERS: Given = {"quantize": "int16", "calibration": "samples.npz"}

#: A model and other options; an option; a file, and what is in it if and only if that is given.
EFFECTS: list[tuple[str, Given, Given, str, str]] = [
    ("tiny", {}, {"name": "ball"}, "ball.h", "void ball_run("),
    ("tiny", {}, {"isa": "sse2"}, "tiny.h", "for sse2 (64 bit)"),
    ("tiny", {}, {"max_error": "1e-3"}, "tiny_selftest.c", "than 0.003 of the largest"),
    ("tiny", {}, {"max_lines": "20"}, "tiny.c", "/* Part of tiny_L00"),
    ("wide", {"isa": "sse2"}, {"max_size": "1.5"}, "wide.json", '"conv.direct'),
    ("wide", {"isa": "sse2"}, {"max_ram": "1K"}, "wide.c", "Workspace: 0 bytes"),
    ("wide", {"isa": (), "target": "cortex-m7"}, {"max_flash": "22K"}, "wide.json", '"conv.direct'),
    ("tiny", {}, {"fast_ram": "1K"}, "tiny.h", "#define TINY_FAST_BYTES"),
    ("tiny", {}, {"section": "code=.itcm"}, "tiny.c", 'section(".itcm")'),
    ("tiny", {}, {"split": "2"}, "tiny.json", '"tiny_steps2.c"'),
    ("tiny", {}, {"io_layout": "nchw"}, "tiny.h", "float32[1x4x8x8] (NCHW)"),
    ("tiny", {}, {"batch": "2"}, "tiny.h", "TINY_IMAGE_LEN = 128"),
    ("tiny", {}, BYTES, "tiny.h", "const uint8_t *image"),
    ("tiny", BYTES, {"scale": "0.5"}, "tiny.c", "0.17279209f"),
    ("tiny", BYTES, {"offset": "-7"}, "tiny.json", '"image/offset"'),
    ("tiny", {}, {"input_view": "image"}, "tiny.h", "int32_t image_row_stride"),
    ("tiny", {}, {"parallel": True}, "tiny.h", "void tiny_run_parallel("),
    ("tiny", {}, {"openmp": True}, "tiny_openmp.c", "omp parallel"),
    ("tiny", {}, {"weights": "tiny.weights"}, "tiny.h", "int tiny_weights_set("),
    ("tiny", {}, {"shared": True}, "tiny_loader.h", "tiny_library_open("),
    ("tiny", {}, {"metadata": True}, "tiny.c", '{ "keras.version", "2.'),
    ("tiny", SEVERAL, {"metadata": True}, "tiny.h", " * keras.version: 2."),
    ("tiny", {}, {"class_names": "classes.txt"}, "tiny.h", "#define TINY_CLASSES 4"),
    ("tiny", SEVERAL, {"class_names": "classes.txt"}, "tiny.c", '"d\\303\\266g",'),
    ("tiny", {}, {"compiled_nn": True}, "tiny_compiled_nn.h", "tiny_linked(&tiny_model)"),
    ("tiny", SEVERAL, {"compiled_nn": True}, "tiny_compiled_nn.h", "tiny_linked(&tiny_model)"),
    ("tiny", {}, {"trace_steps": True}, "tiny.h", "int32_t tiny_trace_read("),
    ("tiny", {}, {"dump_values": True}, "tiny.h", "void tiny_dump("),
    (
        "tiny",
        {"trace_steps": True, "dump_values": True},
        {"shared": True},
        "tiny.h",
        "_API cannery_dump_lines tiny_dump_header(",
    ),
    ("tiny", SEVERAL, {"trace_steps": True}, "tiny.c", "tiny_sse2_trace_read("),
    ("tiny", SEVERAL, {"dump_values": True}, "tiny.c", "tiny_sse2_dump_header("),
    ("tiny", SEVERAL, {"parallel": True}, "tiny.h", "void tiny_run_parallel("),
    ("tiny", SEVERAL, {"openmp": True}, "tiny_openmp.c", "omp parallel"),
    ("tiny", SEVERAL, {"max_lines": "20"}, "tiny_sse2.c", "/* Part of tiny_sse2_L00"),
    ("tiny", SEVERAL, {"split": "2"}, "tiny.json", '"tiny_sse2_steps2.c"'),
    ("tiny", {}, INTEGERS, "tiny.json", '"quantization": {'),
    ("tiny", {"max_error": "0.1"}, {"weights_as": "float16"}, "tiny.c", "f32x1_load_f16(wk"),
    ("tiny", {"isa": "neon64half", "max_error": "1"}, {"compute_as": "float16"}, "tiny.c", "f16x8"),
    (
        "dense",
        {"isa": "neon64bf16", "max_error": "1"},
        {"compute_as": "bfloat16"},
        "dense.c",
        "_dot",
    ),
    ("tiny", INTEGERS, {"io_type": "raw"}, "tiny.h", "const int16_t *image"),
    ("tiny", {}, {"rename": "scores=goals"}, "tiny.h", "TINY_GOALS_LEN"),
    ("colours", {}, {"reverse_channels": "image"}, "colours.c", "4.0f, 5.0f, 2.0f, 3.0f,"),
    ("colours", {}, {"outputs": "conv"}, "colours.h", "out conv"),
    ("dense", {}, {"many": "8"}, "dense.h", "up to 8 at once"),
    ("steps", {}, {"streaming": True}, "steps.h", "void steps_step("),
    ("steps", {"streaming": True}, {"block": "3"}, "steps.h", "STEPS_BLOCK_STEPS 3"),
    ("steps", {"streaming": True}, {"latency": "2"}, "steps.h", "STEPS_LATENCY_STEPS 2"),
    (
        "lines",
        {"streaming": True},
        {"time_axis": "image=2"},
        "lines.h",
        "time is axis 2 of 'image'",
    ),
    ("steps", {}, {"variable_length": True}, "steps.h", "int32_t length"),
    ("scaled", {}, {"fixed": "scale=2.5"}, "scaled.c", "2.5f"),
    ("open", {"dims": "x.1=3"}, {"dims": "x.1=4"}, "open.h", "float32[1x4x3]"),
]

#: What the network's files do not depend on: tools, where choices come from, and what is an error.
ELSEWHERE = {"target", "tuning", "locked", "cc", "cflags", "ldflags", "runner", "device",
             "stand_in", "tuned_by", "macros", "peepholes", "calibration", "max_loss",
             "same_everywhere", "state", "noise", "max_trips", "custom"}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, and samples for `tiny`."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    write_tiny_model(folder / "tiny.h5")
    (folder / "classes.txt").write_text("cat\nd\u00f6g\ncow\n?\n", encoding="utf-8")
    write_tiny_dense(folder / "dense.h5")
    write_h5(folder / "steps.h5", stack(6))
    write_h5(folder / "open.h5", stack(None))
    np.savez(folder / "samples.npz", image=rng.random((4, 8, 8, 1), np.float32))
    arrays = {"kernel": np.arange(6, dtype=np.float32).reshape(1, 1, 3, 2), "bias": np.zeros(2)}
    conv = LayerSpec("Conv2D", "conv", (), {"filters": 2, "kernel_size": [1, 1]}, arrays)
    write_h5(folder / "colours.h5", chain(image("image", 4, 4, 3), conv, layer("ReLU", "relu")))
    arrays = {"kernel": np.ones((2, 2, 1, 1), np.float32), "bias": np.zeros(1)}
    conv = LayerSpec("Conv2D", "conv", (), {"filters": 1, "kernel_size": [2, 2]}, arrays)
    pad = layer("ZeroPadding2D", "pad", padding=[[1, 0], [1, 0]])
    write_h5(folder / "lines.h5", chain(image("image", 5, 7, 1), pad, conv))
    arrays = {"kernel": rng.standard_normal((3, 3, 24, 24)).astype(np.float32)}
    config = {"filters": 24, "kernel_size": [3, 3], "padding": "same", "use_bias": False}
    wide = LayerSpec("Conv2D", "conv", (), config, arrays)
    write_h5(folder / "wide.h5", chain(image("image", 16, 16, 24), wide))
    both = [
        image("image", 2, 3, 1),
        image("scale", 2, 3, 1),
        layer("Multiply", "y", "image", "scale"),
    ]
    write_h5(folder / "scaled.h5", Model("net", both, ["image", "scale"], ["y"]))
    return folder


def files(folder: Path, model: str, given: Given) -> dict[str, str]:
    """What is written, by name."""
    texts = {
        k: folder / str(v) if k in ("calibration", "class_names") else v for k, v in given.items()
    }
    options = make_options(folder / f"{model}.h5", {"isa": "generic", **texts})
    found = compile_model(options).files
    return {name: data.decode(errors="replace") for name, data in found.items()}


@pytest.mark.parametrize(("model", "others", "given", "file", "text"), EFFECTS)
def test_options_have_effects(
    folder: Path, model: str, others: Given, given: Given, file: str, text: str
) -> None:
    assert text not in files(folder, model, others).get(file, "")
    assert text in files(folder, model, {**others, **given})[file]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**INTEGERS, "quantize": "int8", "max_loss": "1e-5"}, "more than --max-loss 1e-05"),
        ({"same_everywhere": True}, "same-everywhere"),
        ({"state": "image=scores"}, "--state"),
        ({"outputs": "nothing"}, "--outputs"),
        ({"noise": "seed"}, "nothing draws random numbers"),
    ],
)
def test_options_that_are_errors(folder: Path, given: Given, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        files(folder, "tiny", given)


def test_every_option_is_tried() -> None:
    tried = {name for _, _, given, _, _ in EFFECTS for name in given}
    assert tried | ELSEWHERE == {spec.name for spec in SPECS}
    assert not tried & ELSEWHERE - {"calibration"}
