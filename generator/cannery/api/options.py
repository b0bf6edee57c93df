"""The options of `load`, `compile`, `tune` and `verify`, for type checkers and editors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np

from cannery.ir.tensor import DType

#: A file or folder, a list of texts, or an element type.
StrPath = str | os.PathLike[str]
Texts = str | Sequence[str]
Element = str | DType | type[np.generic] | np.dtype[np.generic]


class ModelOptions(TypedDict, total=False):
    """The options of the command line by name; `cannery compile --help` says what they mean."""

    name: str
    target: str
    isa: Texts
    tuning: StrPath
    locked: bool
    io_layout: str
    io_type: str
    max_error: float
    max_lines: int
    split: int
    max_size: float
    max_ram: int | str
    max_flash: int | str
    fast_ram: int | str
    section: Texts | Mapping[str, str]
    batch: int
    dim: Texts | Mapping[str, int]
    input_dtype: Texts | Mapping[str, Element]
    scale: str | float | Sequence[float]
    offset: str | float | Sequence[float]
    reverse_channels: Texts
    input_view: Texts
    many: int
    parallel: bool
    openmp: bool
    shared: bool
    weights: StrPath
    set: Texts | Mapping[str, str | float | Sequence[float]]
    max_trips: int
    noise: str
    peepholes: StrPath
    custom: Texts | Mapping[str, StrPath]
    streaming: bool
    block: int | str | Sequence[int | str]
    latency: int | str
    time_axis: Texts | Mapping[str, int | str]
    variable_length: bool
    weights_as: str
    compute_as: str
    quantize: Element
    calibration: StrPath
    max_loss: float
    same_everywhere: bool
    state: Texts | Mapping[str, str]
    rename: Texts | Mapping[str, str]
    outputs: Texts
    macros: StrPath
    cc: str
    cflags: Texts
    ldflags: Texts
    runner: Texts
    device: Texts
    compiled_nn: bool
    class_names: StrPath
    metadata: bool
    trace_steps: bool
    dump_values: bool
    stand_in: bool
    tuned_by: str
