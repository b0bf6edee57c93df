"""Random options, as texts: mostly such as fit any network, now and then any at all."""

from __future__ import annotations

import io
from random import Random
from typing import Any

import numpy as np

from cannery.target.targets import isa_names

#: Instruction sets whose code most machines run.
_HERE = ("generic", "sse2", "ssse3", "sse42", "avx2")

#: Options that any network takes, or many do, and values of them.
_COMMON: dict[str, tuple[Any, ...]] = {
    "many": ("4", "8", "3"), "parallel": (True,), "openmp": (True,), "io_layout": ("nhwc", "nchw"),
    "max_error": ("1e-6", "1e-2"), "name": ("net", "robot_net"),
}  # fmt: skip

#: Options for networks of some kind.
_RARE: dict[str, tuple[Any, ...]] = {
    "io_type": ("raw",), "batch": ("2", "3"), "streaming": (True,), "variable_length": (True,),
    "input_view": (("x",),), "input_dtype": (("x=uint8",),), "scale": ("0.5",),
    "offset": ("-1",), "reverse_channels": (("x",),), "dims": (("N=2",), ("T=3",)),
    "rename": (("x=other_name",), ("v1_0=b",)), "outputs": (("v1_0",), ("nowhere",)),
    "state": (("x=v1_0",),), "same_everywhere": (True,),
    "fixed": (("x=0.5",), ("other=1",), ("other=true",)), "max_trips": ("1", "3"),
    "custom": (("Relu=missing.c",),),
    "noise": ("seed", "input", "mean"),
    "isa": (("sse2", "avx2"), ("avx2", "nope")),
    "locked": (True,),
}  # fmt: skip


def random_options(random: Random) -> dict[str, Any]:
    """Texts by option; the instruction set is always given."""
    isas = _HERE if random.random() < 0.5 else isa_names()
    found: dict[str, Any] = {"isa": (random.choice(isas),)}
    for table, share in ((_COMMON, 0.15), (_RARE, 0.008)):
        for name, values in table.items():
            if random.random() < share:
                found[name] = random.choice(values)
    return found


def fitting_options(
    random: Random, name: str, dims: tuple[int, ...], *, recurrent: bool
) -> dict[str, Any]:
    """Options for an input of floats, and for networks with recurrent layers."""
    found: dict[str, Any] = {}
    image = len(dims) == 4
    if image and random.random() < 0.12:
        found["input_view"] = (name,)
    if random.random() < 0.12:
        found["input_dtype"] = (f"{name}=uint8",)
        channels = random.choice(dims[1:] or (1,))
        by_channel = ",".join(str(0.5 + k) for k in range(channels))
        found["scale"] = random.choice(["0.0039", by_channel])
        if random.random() < 0.3:
            found["offset"] = "-0.5"
    if image and 3 in dims and random.random() < 0.15:
        found["reverse_channels"] = (name,)
    if recurrent and random.random() < 0.6:
        found[random.choice(["streaming", "variable_length"])] = True
    elif len(dims) > 2 and random.random() < 0.15:
        found["streaming"] = True
    if found.get("streaming") and random.random() < 0.4:
        found["block"] = random.choice(["1", "2", "4", "7"])
    if found.get("streaming") and random.random() < 0.5:
        found["latency"] = random.choice(["auto", "auto", "1", "9"])
    if random.random() < 0.05:
        found["rename"] = (f"{name}=renamed",)
    return found


def calibration(random: Random, name: str, dims: tuple[int, ...], samples: int = 3) -> bytes:
    """A .npz file with samples of one input."""
    rng = np.random.default_rng(random.randrange(2**32))
    scale = random.choice([1.0, 1.0, 1.0, 0.0, 1e-3, 100.0])
    array = (rng.standard_normal((samples * dims[0], *dims[1:])) * scale).astype(np.float32)
    if random.random() < 0.05:
        array = array[..., :-1]
    if random.random() < 0.05 and array.size:
        array.reshape(-1)[0] = random.choice([np.nan, np.inf, 3e38])
    buffer = io.BytesIO()
    np.savez(buffer, **{name: array})
    return buffer.getvalue()
