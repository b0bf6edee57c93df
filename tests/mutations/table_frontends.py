"""Changes of what reads models."""

from __future__ import annotations

from mutations.change import Change, rows

_F = "generator/cannery/frontends"
_T = "tests/frontends"
_KERAS = (f"{_T}/test_keras_layers.py", f"{_T}/test_keras_weights.py")
_ONNX = (f"{_T}/test_onnx_import.py", f"{_T}/test_onnx_backend.py")

_shape = rows(f"{_F}/keras_layers/shape.py", *_KERAS)
_norm = rows(f"{_F}/keras_layers/normalization.py", *_KERAS)
_pool = rows(f"{_F}/keras_layers/pooling.py", *_KERAS)
_window = rows("generator/cannery/ops/window.py", *_KERAS)
_conv = rows(f"{_F}/keras_layers/convolution.py", *_KERAS)
_merge = rows(f"{_F}/keras_layers/merge.py", *_KERAS)
_recurrent = rows(f"{_F}/keras_layers/recurrent.py", f"{_T}/test_keras_recurrent.py")
_hdf5 = rows(f"{_F}/keras_hdf5.py", f"{_T}/test_keras_formats.py", f"{_T}/test_keras_damage.py")
_opool = rows(f"{_F}/onnx_ops/pooling.py", *_ONNX)
_oconv = rows(f"{_F}/onnx_ops/convolution.py", *_ONNX)
_omove = rows(f"{_F}/onnx_ops/movement.py", *_ONNX)
_arithmetic = rows(f"{_F}/onnx_ops/arithmetic.py", *_ONNX)
_ofold = rows(f"{_F}/onnx_fold.py", *_ONNX)
_orecurrent = rows(f"{_F}/onnx_ops/recurrent.py", f"{_T}/test_onnx_recurrent.py")
_guard = rows(f"{_F}/onnx_guard.py", f"{_T}/test_onnx_traps.py")
_streaming = rows(f"{_F}/streaming.py", "tests/emit/test_streaming.py")
_lengths = rows(f"{_F}/lengths.py", "tests/emit/test_lengths.py")
_control = rows(f"{_F}/onnx_control.py", *_ONNX)

CHANGES: tuple[Change, ...] = (
    _shape(
        "Flatten forgets that channels were first",
        "x = scope.channels_last(x, first and scope.rank(x) > 2)",
        "pass",
    ),
    _shape(
        "padding of channels first pads channels",
        "(none, none, *pairs) if first else (none, *pairs, none)",
        "(none, *pairs, none)",
    ),
    _norm(
        "gamma and beta are swapped",
        'for n in ("gamma", "beta", "moving_mean", "moving_variance")]',
        'for n in ("beta", "gamma", "moving_mean", "moving_variance")]',
    ),
    _pool(
        "strides are one where none are given",
        'config.integers("strides", rank, kernel)',
        'config.integers("strides", rank, (1,) * rank)',
    ),
    _window(
        "same padding begins with the larger half",
        "pads.append((total // 2, total - total // 2))",
        "pads.append((total - total // 2, total // 2))",
    ),
    _conv(
        "depthwise kernels are stored the other way round",
        "scope.weight(label, stored).reshape(wanted))",
        "scope.weight(label, stored).swapaxes(-1, -2).reshape(wanted))",
    ),
    _oconv(
        "weights of transposed convolutions are not turned",
        "extra, group)\n    weight = spatial_first(scope, w)",
        "extra, group)\n    weight = scope.place(w, (*range(2, len(w.shape)), 0, 1))",
    ),
    _omove("Concat takes the axis of the model", "Concat(perm.index(axis))", "Concat(axis)"),
    _omove(
        "Tile repeats in the wrong place",
        "wide = tuple(v for d, n in zip(x.shape, repeats, strict=True) for v in (n, d))",
        "wide = tuple(v for d, n in zip(x.shape, reversed(repeats), strict=True) for v in (n, d))",
    ),
    _arithmetic(
        "SAME_LOWER is SAME_UPPER",
        'pads if mode == "SAME_UPPER" else tuple((end, begin) for begin, end in pads)',
        "pads",
    ),
    _arithmetic(
        "slices with negative steps clip to the end", "start = -size\n", "start = -size - 1\n"
    ),
    _ofold(
        "Mod has the sign of C",
        'np.fmod(a, b) if scope.integer("fmod", 0) else np.mod(a, b)',
        "np.fmod(a, b)",
    ),
    _streaming(
        "states begin with zeros",
        "return tuple(map(float, array)) if array.any() else ()",
        "return ()",
    ),
    _lengths(
        "final values have an axis of time", 'time if what == "sequence" else FINAL\n', "time\n"
    ),
    _orecurrent(
        "scaled tanh scales the argument by alpha",
        "(Affine(b), Tanh(), Affine(a))",
        "(Affine(a), Tanh(), Affine(b))",
    ),
    _guard("packed numbers are not counted", "packed += size * width", "packed += size"),
    _merge("Average forgets to divide", "np.float32(1 / len(xs))", "np.float32(1 / 2)"),
    _recurrent(
        "both sides of Bidirectional begin with the same state",
        "both = (initial[:count], initial[count:])",
        "both = (initial[:count], initial[:count])",
    ),
    _hdf5(
        "weights are taken in any order",
        "if complete and len(names) == len(expected) and agree:",
        "if len(names) == len(expected):",
    ),
    _hdf5(
        "what is not trainable comes first",
        "yield from (v for v in variables if v.trainable)\n"
        "    yield from (v for v in variables if not v.trainable)",
        "yield from (v for v in variables if not v.trainable)\n"
        "    yield from (v for v in variables if v.trainable)",
    ),
)
