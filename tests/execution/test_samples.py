"""Samples in files of arrays: one or several along the first axis, or one clear error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.execution.samples import read_samples
from cannery.ir.tensor import TensorType


@pytest.mark.parametrize(
    ("found", "needed", "count"),
    [
        ((2, 3), (2, 3), 1),
        ((6, 3), (2, 3), 3),
        ((), (), 1),
        ((0, 3), (0, 3), 1),
        ((2, 0), (2, 0), 1),
        ((5, 3), (2, 3), 0),
        ((0, 3), (2, 3), 0),
        ((2, 3), (0, 3), 0),
        ((4, 0), (2, 0), 0),
        ((6, 4), (2, 3), 0),
        ((6,), (2, 3), 0),
        ((1,), (), 0),
        ((), (1,), 0),
    ],
)  # fmt: skip
def test_the_first_axis_counts_samples(
    found: tuple[int, ...], needed: tuple[int, ...], count: int, tmp_path: Path
) -> None:
    file, types = tmp_path / "x.npz", {"x": TensorType(needed)}
    array = np.arange(np.prod(found), dtype=np.float32).reshape(found)
    np.savez(file, x=array)
    if not count:
        with pytest.raises(OptionError, match="is needed"):
            read_samples(file, types)
        return
    samples = read_samples(file, types)
    assert [sample["x"].shape for sample in samples] == [needed] * count
    assert np.array_equal(np.concatenate([s["x"].ravel() for s in samples]), array.ravel())
