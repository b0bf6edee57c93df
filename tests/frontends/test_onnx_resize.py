"""Resize and Upsample where runtimes disagree, as `docs/reference/semantics.md` decides it.

Expected places were computed by ONNX Runtime 1.31. Where that is installed, random settings are
compared with it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnx")

from cannery.errors import ModelError, UnsupportedError
from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from cannery.ops.resize.positions import MOST_OUTPUTS
from frontends.onnx_models import expected, floats, load, model, node

Array = NDArray[Any]


def resize(
    x: Array, opset: int = 19, *, scales: Any = None, sizes: Any = None, roi: Any = None, **how: Any
) -> Any:
    """A model of one Resize, with the inputs that its version has."""
    given = {"roi": roi, "scales": scales, "sizes": sizes}
    dtypes = {"roi": np.float32, "scales": np.float32, "sizes": np.int64}
    names = ["scales"] if opset < 11 else [*given] if sizes is not None else ["roi", "scales"]
    weights: dict[str, Array] = {}
    for name in names:
        if given[name] is not None or opset < 13:
            weights[name] = np.asarray([] if given[name] is None else given[name], dtypes[name])
    inputs = ["x", *(name if name in weights else "" for name in names)]
    dtype = 1 if x.dtype == np.float32 else 2
    nodes = [node("Resize", inputs, ["y"], **{k: v for k, v in how.items() if v is not None})]
    return model(nodes, {"x": x.shape}, weights=weights, opset=opset, dtype=dtype)


def computed(folder: Path, proto: Any, x: Array) -> Array:
    """What the references of its graph compute."""
    graph = load(folder, proto)
    outputs = to_model(graph, evaluate(graph, from_model(graph, {"x": x})))
    return np.asarray(next(iter(outputs.values())))


#: Elements, scale or else size, version, coordinates, rounding: the first place taken and its steps
#: from output to output, a digit each.
NEAREST = [
    # o / 1.2f is just below 15 for o == 18, in float32, but above 5 in double for o == 6
    (40, 1.2, 0, 13, "asymmetric", "floor", "001111101111101111011111101111011111011111101111"),
    (40, 0.6, 0, 13, "asymmetric", "floor", "012212212122212122122212"),
    (10, 0.7, 0, 13, "asymmetric", "ceil", "0212121"),
    (31, 0, 19, 13, "asymmetric", "round_prefer_floor", "0212212122122121221"),
    # a fraction that float32 puts a millionth beside the middle is a tie
    (7, 0, 8, 13, "asymmetric", "round_prefer_ceil", "01111011"),
    (20, 0, 6, 13, "half_pixel", "round_prefer_ceil", "143343"),
    (20, 0, 6, 13, "half_pixel", "round_prefer_floor", "134334"),
    # the corner is element 19 of 20, not 19.4
    (12, 1.7, 0, 13, "align_corners", "floor", "00101011010101101011"),
    (7, 1.2, 0, 13, "align_corners", "round_prefer_floor", "01110111"),
    (23, 0.45, 0, 13, "pytorch_half_pixel", "ceil", "1232222322"),
    (9, 0.12, 0, 13, "pytorch_half_pixel", "round_prefer_ceil", "0"),
    (13, 1.7, 0, 19, "half_pixel_symmetric", "floor", "0001101011010110101101"),
    # before version 11: upwards where an axis shrinks
    (10, 0.7, 0, 10, None, None, "0212121"),
    (10, 1.3, 0, 10, None, None, "0011101110111"),
    (40, 0.6, 0, 11, "tf_half_pixel_for_nn", "floor", "022122122122122122122122"),
    (40, 0.6, 0, 13, "tf_half_pixel_for_nn", "round_prefer_ceil", "121221221221221212221221"),
    (7, 2.0, 0, 11, "tf_half_pixel_for_nn", "floor", "00101010101010"),
    (7, 3.0, 0, 11, "tf_half_pixel_for_nn", "round_prefer_floor", "001001001001001001000"),
    (4, 1.0, 0, 11, "tf_half_pixel_for_nn", "ceil", "0111"),
]


@pytest.mark.parametrize(
    ("size", "scale", "out", "opset", "coordinate", "rounding", "steps"), NEAREST
)
def test_nearest_takes_the_elements_that_onnx_runtime_takes(
    tmp_path: Path, size: int, scale: float, out: int, opset: int, coordinate: str | None,
    rounding: str | None, steps: str,
) -> None:  # fmt: skip
    wanted = np.cumsum([int(step) for step in steps])
    how = {"coordinate_transformation_mode": coordinate, "nearest_mode": rounding}
    # as an image's width, and as the first of two axes, which other kernels take
    for shape, at in (((1, 1, 1, size), 3), ((size, 1), 0)):
        x = np.arange(size, dtype=np.float32).reshape(shape)
        factors, target = [1.0] * x.ndim, list(shape)
        factors[at], target[at] = scale, out
        by = {"scales": factors} if scale else {"sizes": target}
        assert np.array_equal(computed(tmp_path, resize(x, opset, **by, **how), x).ravel(), wanted)


def test_upsample_repeats_or_takes_what_is_before(tmp_path: Path) -> None:
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5)
    for opset in (7, 9):
        scales = [1.0, 1.0, 2.0, 1.4]
        inputs = ["x"] if opset < 9 else ["x", "s"]
        attributes = {"scales": scales} if opset < 9 else {}
        weights = {"s": np.asarray(scales, np.float32)} if opset >= 9 else {}
        upsample = node("Upsample", inputs, ["y"], **attributes)
        y = computed(tmp_path, model([upsample], {"x": x.shape}, ("y",), weights, opset), x)
        assert np.array_equal(y[0, 0], [[0, 0, 1, 2, 2, 3, 4]] * 2)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_corners_are_those_of_whole_lengths(mode: str, tmp_path: Path) -> None:
    x = floats(1, 1, 1, 7)
    how = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    y = computed(tmp_path, resize(x, scales=[1, 1, 1, 1.2], **how), x)
    same = computed(tmp_path, resize(x, sizes=[1, 1, 1, 8], **how), x)
    assert np.allclose(y, same, atol=1e-6)
    assert np.allclose(y[..., [0, -1]], x[..., [0, -1]], atol=1e-6)


def test_one_pixel_of_pytorch_is_the_first(tmp_path: Path) -> None:
    x = floats(1, 1, 4, 7)
    for mode in ("nearest", "linear", "cubic"):
        how = {"mode": mode, "coordinate_transformation_mode": "pytorch_half_pixel"}
        y = computed(tmp_path, resize(x, sizes=[1, 1, 1, 1], **how), x)
        assert y == pytest.approx(x[0, 0, 0, 0])


def test_what_keeps_its_shape_is_copied(tmp_path: Path) -> None:
    x = floats(1, 1, 4, 10)
    for mode in ("nearest", "linear", "cubic"):
        y = computed(tmp_path, resize(x, scales=[1, 1, 1.1, 1.01], mode=mode), x)
        assert np.array_equal(y, x)
    # but an axis that keeps its size beside one that does not is resampled
    y = computed(tmp_path, resize(x, scales=[1, 1, 2, 1.01], mode="linear"), x)
    assert np.allclose(
        y[0, 0, 0], np.interp((np.arange(10) + 0.5) / 1.01 - 0.5, range(10), x[0, 0, 0])
    )


def test_a_region_counts_where_the_size_stays(tmp_path: Path) -> None:
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 1, 9)
    how = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    roi = [0, 0, 0, 0.25, 1, 1, 1, 0.75]
    proto = resize(x, sizes=[1, 1, 1, 9], roi=roi, **how)
    assert np.allclose(computed(tmp_path, proto, x).ravel(), np.linspace(2, 6, 9))
    assert np.allclose(expected(proto, {"x": x})[0].ravel(), np.linspace(2, 6, 9))


def test_one_pixel_of_a_region_is_its_middle(tmp_path: Path) -> None:
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 1, 9)
    how = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    proto = resize(x, sizes=[1, 1, 1, 1], roi=[0, 0, 0, 0.25, 1, 1, 1, 1], **how)
    assert computed(tmp_path, proto, x).item() == 5
    assert expected(proto, {"x": x})[0].item() == 5


def test_both_axes_get_the_scale_of_the_policy(tmp_path: Path) -> None:
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 1, 7) + 10 * np.arange(4).reshape(1, 1, 4, 1)
    how = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    proto = resize(
        np.float32(x), sizes=[9, 9], axes=[3, 2], keep_aspect_ratio_policy="not_larger", **how
    )
    y = computed(tmp_path, proto, np.float32(x))  # 9/7 for both: 4 becomes 5, at 0, 7/9, 14/9 ..
    assert np.array_equal(y[0, 0, :, 0], [0, 0, 10, 20, 30])
    assert np.array_equal(y, expected(proto, {"x": np.float32(x)})[0])


def test_axes_that_are_too_long(tmp_path: Path) -> None:
    size = MOST_OUTPUTS + 1
    x = np.zeros((1, 3), np.float32)
    with pytest.raises(UnsupportedError, match=f"an axis of {size} elements"):
        load(tmp_path, resize(x, 13, sizes=[1, size]))
    assert load(tmp_path, resize(x, 13, sizes=[1, size - 1])).nodes


def test_a_policy_that_leaves_nothing_is_an_error(tmp_path: Path) -> None:
    x = floats(1, 1, 2, 9)
    proto = resize(x, sizes=[1, 1], axes=[2, 3], keep_aspect_ratio_policy="not_larger")
    with pytest.raises(ModelError, match="cannot become"):
        load(tmp_path, proto)


def test_tensorflows_half_pixels_do_not_move_back(tmp_path: Path) -> None:
    x = floats(1, 1, 1, 6)
    how = {"mode": "linear", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    y = computed(tmp_path, resize(x, 11, scales=[1, 1, 1, 1.5], **how), x)
    wanted = np.interp((np.arange(9) + 0.5) / 1.5, range(6), x.ravel())
    assert np.allclose(y.ravel(), wanted, atol=1e-6)


def test_a_region_does_not_change_the_size(tmp_path: Path) -> None:
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 1, 9)
    how = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    roi = [0, 0, 0, 0.5, 1, 1, 1, 1.25]
    y = computed(tmp_path, resize(x, 13, scales=[1, 1, 1, 4 / 9], roi=roi, **how), x)
    assert np.allclose(y.ravel(), [4, 6, 8, 0])  # the last one is outside


def test_antialias_leaves_an_axis_that_keeps_its_size(tmp_path: Path) -> None:
    x = floats(1, 1, 5, 8)
    how = {"mode": "linear", "antialias": 1}
    y = computed(tmp_path, resize(x, scales=[1, 1, 1.1, 0.5], **how), x)
    same = computed(tmp_path, resize(x, scales=[1, 1, 1, 0.5], **how), x)
    assert np.array_equal(y, same)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_what_is_outside_is_left_out_of_an_antialiased_mean(mode: str, tmp_path: Path) -> None:
    x = floats(1, 1, 5, 8)
    for outside in (0, 1):
        proto = resize(x, scales=[1, 1, 1, 0.5], mode=mode, antialias=1, exclude_outside=outside)
        assert np.allclose(computed(tmp_path, proto, x), expected(proto, {"x": x})[0], atol=1e-6)


def _settings(rng: Random) -> Iterator[tuple[Array, Mapping[str, Any]]]:
    """Resizes that ONNX Runtime accepts, for the most part."""
    coordinates = (
        "half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners", "pytorch_half_pixel",
        "tf_half_pixel_for_nn", "tf_crop_and_resize",
    )  # fmt: skip
    while True:
        opset, mode = rng.choice((10, 11, 13, 18, 19)), rng.choice(("nearest", "linear", "cubic"))
        shape = (1, rng.randint(1, 2), rng.randint(1, 12), rng.randint(1, 60))
        factors = [rng.choice((1, 2, 0.5, 1.2, 0.6, 2 / 3, rng.uniform(0.3, 3))) for _ in range(2)]
        target = [
            int(np.float32(d) * np.float32(f)) for d, f in zip(shape[2:], factors, strict=True)
        ]
        coordinate = rng.choice(coordinates)
        unknown = opset < 19 and coordinate == "half_pixel_symmetric"
        if not all(target) or unknown or (opset == 10 and mode == "cubic"):
            continue
        how: dict[str, Any] = {"mode": mode, "opset": opset}
        if opset > 10 and rng.random() < 0.5:
            how["sizes"] = [*shape[:2], *target]
        else:
            how["scales"] = [1.0, 1.0, *factors]
        if opset > 10:
            how["coordinate_transformation_mode"] = coordinate
            how["nearest_mode"] = rng.choice(
                ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
            )
        if coordinate == "tf_crop_and_resize" and opset > 10:
            if target[0] == shape[2] or target[1] == shape[3]:
                continue  # see above
            how["roi"] = [0, 0, 0.125, 0.0, 1, 1, 0.75, rng.choice((1.0, 1.125))]
        if opset > 17 and mode != "nearest":
            how["antialias"] = rng.choice((0, 1))
            how["exclude_outside"] = int(mode == "cubic" or how["antialias"])
        x = np.random.default_rng(len(how)).standard_normal(shape).astype(np.float32)
        yield x, how


def test_random_settings_are_as_in_onnx_runtime(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    settings = _settings(Random(5))
    for _ in range(200):
        x, how = next(settings)
        proto = resize(x, **how)
        session = runtime.InferenceSession(proto.SerializeToString(), options)
        wanted = session.run(None, {"x": x})[0]
        assert np.allclose(computed(tmp_path, proto, x), wanted, rtol=1e-4, atol=1e-4), how
