"""What programs with a deadline rely on: no memory is taken, no lock, no system call is made.

The kernel ends programs that make one, and clang's RealtimeSanitizer looks for the rest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.options import make_options
from cannery.output_files import write_files
from cannery.pipeline import compile_model
from emit.stepping_models import LONG, F, H, causal, dense, stack
from emit.test_blocks import strided
from frontends.keras_files import LayerSpec, Model, chain, image, write_h5
from frontends.test_keras_recurrent import weights
from needs import need_program
from nets.compilation import MAY_NEED, needed

#: Programs around a network called `net`.
CALLS = Path(__file__).with_name("real_time.c")
SILENCE = Path(__file__).with_name("silence.c")

NAM = Path(__file__).parents[1] / "frontends/nam"

#: Killed by SIGSYS; and where the system does not let programs give up system calls.
KILLED, REFUSED = -31, 77

#: Versions of clang with RealtimeSanitizer, newest first.
SANITIZING = range(24, 19, -1)

#: Where a library looks at the processor at its first call.
CHOOSES = {"__cpu_model", "__cpu_indicator_init"}

ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="programs give up system calls as on Linux"
)

FLAGS = {"sse2": ("-msse2",), "avx2": ("-mavx2", "-mfma"), "generic": ()}

STEPS: Mapping[str, Any] = {"streaming": True}


def shared() -> Model:
    """An image that is large enough for several threads."""
    rng = np.random.default_rng(1)
    weights = {"kernel": rng.standard_normal((3, 3, 3, 24)) / 5, "bias": rng.standard_normal(24)}
    config = {"filters": 24, "kernel_size": [3, 3], "padding": "same"}
    arrays = {name: array.astype(np.float32) for name, array in weights.items()}
    return chain(image("x", 48, 64, 3), LayerSpec("Conv2D", "scores", (), config, arrays))


#: Networks and options; a calibration is with samples of the input `x`.
NETWORKS: dict[str, tuple[Model | Path, Mapping[str, Any]]] = {
    "convolutions": (causal(LONG), STEPS),
    "recurrent": (stack(None), STEPS),
    "sequence": (stack(LONG), {}),
    "dense": (chain(image("x", H), dense()), {}),
    "blocks": (causal(LONG), {**STEPS, "block": (1, 4, 16)}),
    "strides": (strided(), {**STEPS, "rename": {"c": "scores"}}),
    "strides in blocks": (strided(), {**STEPS, "rename": {"c": "scores"}, "block": (6, 12)}),
    "voices": (causal(LONG), {**STEPS, "batch": 3}),
    "wavenet": (NAM / "wavenet_gated.nam", {**STEPS, "rename": {"input": "x", "output": "scores"}}),
    "integers": (causal(LONG), {**STEPS, "block": (1, 16), "quantize": "int8"}),
    "recurrent integers": (stack(None), {**STEPS, "quantize": "int16", "max_loss": 0.5}),
    "many": (chain(image("x", H), dense()), {"many": 4}),
    "parallel": (shared(), {"parallel": True, "many": 4}),
}


def write_network(
    folder: Path,
    model: Model | Path,
    isa: Sequence[str],
    options: Mapping[str, Any],
    compiler: Sequence[str] = ("gcc",),
) -> list[Path]:
    """The generated files of a network called `net`, and the objects of its code."""
    given = {"isa": tuple(isa), "name": "net", **options}
    if "quantize" in given:
        given["calibration"] = folder / "samples.npz"
        x = np.random.default_rng(1).standard_normal((1, LONG, F)).astype(np.float32)
        np.savez(given["calibration"], x=x)
    file = model if isinstance(model, Path) else write_h5(folder / "model.h5", model)
    files = compile_model(make_options(file, given)).files
    write_files({folder / name: data for name, data in files.items()})
    found = []
    for name in sorted(n for n in files if re.fullmatch(r"net(_[a-z0-9]+)?(_weights)?\.c", n)):
        flags = FLAGS[next((i for i in isa if i in name), isa[0])]
        command = [
            need_program(compiler[0]),
            *compiler[1:],
            "-std=c99",
            "-O1",
            *flags,
            "-I.",
            "-c",
            name,
        ]
        subprocess.run(command, cwd=folder, check=True)
        found.append((folder / name).with_suffix(".o"))
    return found


def run(
    folder: Path, main: Path, objects: Sequence[Path], *flags: str,
    compiler: Sequence[str] = ("gcc",),
) -> tuple[int, str]:  # fmt: skip
    """The exit code of a program around the network, and what it prints."""
    program = folder / "program"
    command = [
        need_program(compiler[0]),
        *compiler[1:],
        "-O1",
        "-I.",
        *flags,
        main,
        *objects,
        "-o",
        program,
        "-lm",
    ]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    if done.returncode == REFUSED:
        pytest.skip("system calls cannot be given up here")
    return done.returncode, done.stdout + done.stderr


def calls(options: Mapping[str, Any]) -> list[str]:
    """How large the calls of a network are, for the program."""
    sizes = options.get("block", (1,))
    size = f"-DSTEPS={max(sizes) // min(sizes)}", f"-DBLOCK={min(sizes)}"
    return [*size, f"-DMANY={options.get('many', 1)}"]


@ON_LINUX
@pytest.mark.parametrize("isa", [("generic",), ("sse2", "avx2")], ids=["one", "several"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_heap_no_lock_no_system_call(tmp_path: Path, name: str, isa: Sequence[str]) -> None:
    """From the first call on, which also decides for an instruction set.

    The code asks for no function that could take memory or a lock, on any way through it.
    """
    model, options = NETWORKS[name]
    objects = write_network(tmp_path, model, isa, options)
    assert needed(objects) <= MAY_NEED | CHOOSES
    assert run(tmp_path, CALLS, objects, *calls(options)) == (0, "")


@ON_LINUX
@pytest.mark.parametrize("kind", [1, 2])
def test_a_system_call_would_be_seen(tmp_path: Path, kind: int) -> None:
    """One that is made directly, and one by which malloc takes memory."""
    objects = write_network(tmp_path, stack(None), ("generic",), STEPS)
    assert run(tmp_path, CALLS, objects, f"-DBREAK={kind}")[0] == KILLED


@cache
def sanitizing() -> Sequence[str]:
    """A clang with RealtimeSanitizer, which few distributions have."""
    for version in SANITIZING:
        command = (f"clang-{version}", "-fsanitize=realtime")
        if shutil.which(command[0]):
            made = subprocess.run(
                [*command, "-x", "c", "-", "-o", os.devnull], input="int main(void) { return 0; }",
                text=True, check=False, capture_output=True,
            )  # fmt: skip
            if made.returncode == 0:
                return command
    pytest.skip("no clang with RealtimeSanitizer (clang-20 or newer, libclang-rt-20-dev)")


@ON_LINUX
@pytest.mark.parametrize("name", NETWORKS)
def test_the_sanitizer_finds_nothing(tmp_path: Path, name: str) -> None:
    """It knows functions of the C library that take locks or memory, or wait, in whatever calls."""
    model, options = NETWORKS[name]
    objects = write_network(tmp_path, model, ("sse2", "avx2"), options, sanitizing())
    flags = ("-DSANITIZED", *calls(options))
    assert run(tmp_path, CALLS, objects, *flags, compiler=sanitizing()) == (0, "")


@ON_LINUX
@pytest.mark.parametrize(("kind", "function"), [(2, "malloc"), (3, "pthread_mutex_lock")])
def test_the_sanitizer_would_see_it(tmp_path: Path, kind: int, function: str) -> None:
    objects = write_network(tmp_path, stack(None), ("generic",), STEPS, sanitizing())
    flags = ("-DSANITIZED", f"-DBREAK={kind}")
    code, printed = run(tmp_path, CALLS, objects, *flags, compiler=sanitizing())
    assert code != 0
    assert f"`{function}` in real-time context" in printed


def forgetting() -> Model:
    """An LSTM that returns to zero after its input did: the only bias is that of forgetting."""
    values = {k: 0.3 * v for k, v in weights("LSTM").items()}
    bias = np.repeat(np.array([0, 1, 0, 0], np.float32), H)
    config = {"units": H, "return_sequences": True}
    return chain(
        image("x", None, F), LayerSpec("LSTM", "scores", (), config, {**values, "cell/bias": bias})
    )


@pytest.mark.parametrize("isa", [("generic",), ("sse2",), ("avx2",)], ids=str)
def test_silence_after_noise(tmp_path: Path, isa: Sequence[str]) -> None:
    """States that decay remain at subnormal numbers, unless these are flushed."""
    objects = write_network(tmp_path, forgetting(), isa, STEPS)
    code, printed = run(tmp_path, SILENCE, objects, *FLAGS[isa[0]])
    as_it_is, flushed = map(int, printed.split())
    assert (code, flushed) == (0, 0)
    assert as_it_is > 0
