"""Changes of what reads models."""

from __future__ import annotations

from mutations.change import Change, rows

_F = "generator/cannery/frontends"
_T = "tests/frontends"
_KERAS = (f"{_T}/test_keras_layers.py", f"{_T}/test_keras_weights.py")
_ONNX = (f"{_T}/test_onnx_import.py", f"{_T}/test_onnx_backend.py")

_shape = rows(f"{_F}/keras/layers/shape.py", *_KERAS)
_norm = rows(f"{_F}/keras/layers/normalization.py", *_KERAS)
_pool = rows(f"{_F}/keras/layers/pooling.py", *_KERAS)
_window = rows("generator/cannery/ops/window.py", *_KERAS)
_conv = rows(f"{_F}/keras/layers/convolution.py", *_KERAS)
_merge = rows(f"{_F}/keras/layers/merge.py", *_KERAS)
_recurrent = rows(f"{_F}/keras/layers/recurrent.py", f"{_T}/test_keras_recurrent.py")
_both = rows(f"{_F}/keras/layers/directions.py", f"{_T}/test_keras_networks.py")
_area = rows(f"{_F}/keras/layers/resizing.py", f"{_T}/test_keras_augmentation.py")
_hdf5 = rows(f"{_F}/keras/hdf5.py", f"{_T}/test_keras_formats.py", f"{_T}/test_keras_damage.py")
_opool = rows(f"{_F}/onnx/operators/pooling.py", *_ONNX)
_oconv = rows(f"{_F}/onnx/operators/convolution.py", *_ONNX)
_omove = rows(f"{_F}/onnx/operators/movement.py", *_ONNX)
_arithmetic = rows(f"{_F}/onnx/operators/arithmetic.py", *_ONNX)
_ofold = rows(f"{_F}/onnx/fold.py", *_ONNX)
_orecurrent = rows(f"{_F}/onnx/operators/recurrent.py", f"{_T}/test_onnx_recurrent.py")
_guard = rows(f"{_F}/onnx/guard.py", f"{_T}/test_onnx_traps.py")
_lengths = rows(f"{_F}/lengths.py", "tests/emit/test_lengths.py")
_control = rows(f"{_F}/onnx/control.py", *_ONNX)
_row_axes = rows(f"{_F}/onnx/row_axes.py", f"{_T}/test_onnx_rows.py")
_rows = rows(f"{_F}/onnx/rows.py", f"{_T}/test_onnx_rows.py")
_unique = rows("generator/cannery/ops/indexing/unique.py", f"{_T}/test_onnx_rows.py")
_tflite_control = rows(f"{_F}/tflite/operators/control.py", f"{_T}/test_tflite_control.py")
_spread = rows(f"{_F}/tflite/operators/spread.py", f"{_T}/test_tflite_operators.py")
_grids = rows(f"{_F}/tflite/operators/grids.py", f"{_T}/test_tflite_operators.py")
_spectra = rows(f"{_F}/tflite/operators/spectra.py", f"{_T}/test_tflite_spectra.py")
_found = rows(f"{_F}/tflite/operators/found.py", f"{_T}/test_tflite_found.py")
_statistics = rows(f"{_F}/keras/operations/statistics.py", f"{_T}/test_keras_networks.py")
_spectrograms = rows(f"{_F}/keras/layers/spectrograms.py", f"{_T}/test_keras_networks.py")
_fused = rows(f"{_F}/onnx/fused.py", f"{_T}/test_onnx_fused.py")

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
    _shape(
        "an ambiguous version of Keras is guessed",
        "if (version.major, version.minor) >= (2, 3):",
        "if (version.major, version.minor) >= (2, 2):",
        "tests/frontends/test_keras_layers.py",
        "tests/frontends/test_keras_errors.py",
        "tests/frontends/test_keras_formats.py",
    ),
    _norm(
        "gamma and beta are swapped",
        'for n in ("gamma", "beta", "moving_mean", "moving_variance")]',
        'for n in ("beta", "gamma", "moving_mean", "moving_variance")]',
    ),
    _norm(
        "groups=-1 is layer norm, not instance norm",
        "channels if groups == -1 else groups",
        "1 if groups == -1 else groups",
        "tests/frontends/test_keras_layers.py",
    ),
    _pool(
        "strides are one where none are given",
        'config.integers("strides", rank, kernel)',
        'config.integers("strides", rank, (1,) * rank)',
    ),
    _pool(
        "pools without strides move by two",
        'strides = config.integers("strides", rank, kernel)',
        'strides = config.integers("strides", rank, (2,) * rank)',
        "tests/frontends/test_keras_layers.py",
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
    _oconv(
        "output_shape larger than what is computed",
        "more.append(e + max(-total, 0))",
        "more.append(e)",
        "tests/frontends/test_onnx_import.py",
        "tests/frontends/test_onnx_semantics.py",
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
    _ofold(
        "integer division rounds down instead of to zero",
        " + ((rest != 0) & ((a < 0) != (b < 0))).astype(a.dtype)",
        "",
        "tests/frontends/test_onnx_import.py",
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
    _merge(
        "operands of fewer axes are aligned at the front",
        "lifted = (shape[0], *((1,) * missing), *shape[1:])",
        "lifted = (*shape, *((1,) * missing))",
        "tests/frontends/test_keras_layers.py",
    ),
    _merge(
        "Dot normalises as the other Keras",
        "least = _MIN_SQUARES[config.version.is_3]",
        "least = _MIN_SQUARES[not config.version.is_3]",
        "tests/frontends/test_keras_layers.py",
    ),
    _recurrent(
        "both sides of Bidirectional begin with the same state",
        "both = (initial[:count], initial[count:])",
        "both = (initial[:count], initial[:count])",
    ),
    _both(
        "Bidirectional of ConvLSTM leaves the second result in the opposite order",
        'flipped(own, y, "flipped") if sequences[0] and k else y',
        "y",
    ),
    _both(
        "both ConvLSTM layers begin with the same states",
        "initial[2 * k : 2 * k + 2]",
        "initial[:2]",
    ),
    _area(
        "an output by area misses the last pixel that it covers",
        "(starts + size - 1) // wanted",
        "(starts + size - 1) // wanted - 1",
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
    _opool(
        "ceil_mode: a window wholly in the padding",
        "if (windows - 1) * s >= size + begin:",
        "if (windows - 1) * s > size + begin:",
        "tests/frontends/test_onnx_pools.py",
    ),
    Change(
        "inverse real DFT doubles the Nyquist bin",
        "generator/cannery/frontends/onnx/operators/signal.py",
        "matrix[j] *= 0 if j > length // 2 else 1 if 2 * j == length else 2",
        "matrix[j] *= 0 if j > length // 2 else 2",
        ("tests/frontends/test_onnx_signal.py",),
    ),
    Change(
        "RoiAlign 16 without attribute is off by half a pixel",
        "generator/cannery/frontends/onnx/operators/vision.py",
        "scope.opset >= 16",
        "scope.opset > 16",
        ("tests/frontends/test_onnx_defaults.py",),
    ),
    Change(
        "stride along time is ignored step by step",
        "generator/cannery/frontends/time_axis.py",
        "if taps != 1 or use.op.strides[k] != 1 or use.op.pads[k] != (0, 0):",
        "if taps != 1 or use.op.pads[k] != (0, 0):",
        ("tests/frontends/test_time_axis.py",),
    ),
    Change(
        "halves that are not cast are not told",
        "generator/cannery/frontends/onnx/halves.py",
        "    return any(name in halves for name in node.inputs)\n",
        "    return False\n",
        ("tests/frontends/test_onnx_halves.py",),
    ),
    Change(
        "Normalization bounds the variance, not the deviation",
        "generator/cannery/frontends/keras/layers/preprocessing.py",
        "deviation = np.maximum(np.sqrt(variance), _EPSILON)",
        "deviation = np.sqrt(np.maximum(variance, _EPSILON))",
        ("tests/frontends/test_keras_weights.py",),
    ),
    Change(
        "a scale of 0 divides",
        "generator/cannery/frontends/onnx/operators/quantize.py",
        "least = float(np.finfo(np.float32).tiny) if divides else 0.0",
        "least = 0.0",
        ("tests/frontends/test_onnx_scales.py",),
    ),
    Change(
        "scales per channel of BGR images",
        "generator/cannery/frontends/interface.py",
        "factor = factor[::-1] if is_reversed and factor.ndim else factor",
        "factor = factor",
        ("tests/frontends/test_import_options.py",),
    ),
    Change(
        "parts of Split need not make up the whole",
        f"{_F}/onnx/operators/movement.py",
        "if sum(sizes) != total or min(sizes, default=0) < 0 or len(sizes) != scope.outputs:",
        "if len(sizes) != scope.outputs:",
        (f"{_T}/test_onnx_refusals.py",),
    ),
    Change(
        "known indices may lie outside",
        f"{_F}/onnx/operators/indexing.py",
        "if low < -size or high >= size:",
        "if low < -size or high > size:",
        (f"{_T}/test_onnx_refusals.py",),
    ),
    Change(
        "the largest scale is another one",
        f"{_F}/options.py",
        "_LARGEST = (2 - 2**-23) * 2.0**127",
        "_LARGEST = (2 - 2**-23) + 2.0**127",
        (f"{_T}/test_import_options.py",),
    ),
    Change(
        "peepholes in the order of Keras",
        f"{_F}/keras/layers/cells.py",
        "np.concatenate([i, o, f])",
        "np.concatenate([i, f, o])",
        (f"{_T}/test_peepholes.py", f"{_T}/test_keras_recurrent.py"),
    ),
    Change(
        "pixels outside count where they are excluded",
        "generator/cannery/ops/resize/tables.py",
        "within = np.where((at >= 0) & (at < axis.size), found, 0.0)",
        "within = np.where((at >= 0) & (at <= axis.size), found, 0.0)",
        (f"{_T}/test_onnx_resize.py",),
    ),
    Change(
        "images in another order are normalised as they lie",
        f"{_F}/onnx/operators/normalization.py",
        "    if perm[0] != 0:  # statistics are those of one sample\n",
        "    if False:\n",
        (f"{_T}/test_onnx_layouts.py", f"{_T}/test_onnx_import.py"),
    ),
    Change(
        "a type that was declared may be another one where sizes are open",
        f"{_F}/onnx/declared.py",
        "if dims is None or _kind(self.dtype) != _kind(self.declared.dtype):",
        "if dims is None:",
        (f"{_T}/test_onnx_declared.py",),
    ),
    _row_axes(
        "the last of several rows are taken for rows",
        "return rows if (op.starts[rows], op.steps[rows]) == (0, 1) else None",
        "return rows",
    ),
    _row_axes(
        "rows beside what has no rows",
        "if len(axes) == count and len(found) == 1",
        "if len(found) == 1",
    ),
    _row_axes("a softmax along the rows", "None if op.axis == rows else rows", "rows"),
    _row_axes(
        "axes of rows do not move where others are reduced",
        "rows if keepdims else rows - sum(axis < rows for axis in axes)",
        "rows",
    ),
    _rows(
        "there are more rows than there is room",
        "if number.shape[0] == 1 or room < number.shape[0] - 1:",
        "if False:",
    ),
    _rows("which one each is counts only in part", "None if complete else", ""),
    _unique(
        "equal slices are in any order",
        'before = _before(c, "rows[j * 3 + from]", "rows[i * 3 + from]")',
        'before = "!" + _before(c, "rows[i * 3 + from]", "rows[j * 3 + from]")',
    ),
    _unique(
        "kinds are in the order of their first slices", "leaders=not self.ascending", "leaders=True"
    ),
    Change(
        "loops in branches that are not taken are unfinished",
        f"{_F}/onnx/control.py",
        "for condition, holds in host.unfinished.taken:",
        "for condition, holds in ():",
        (f"{_T}/test_onnx_choices.py",),
    ),
    Change(
        "a number of iterations does not make a loop unfinished",
        f"{_F}/onnx/control.py",
        "more = choices.also(more, choices.is_before(turn, course.count))",
        "pass",
        (f"{_T}/test_onnx_choices.py",),
    ),
    _fused(
        "a skipped sum has no bias",
        'both = _sum(form, both, form.input(3 if simplified else 4), "sum")',
        "pass",
    ),
    _fused("a fused product is not scaled", "if alpha == 1.0:", "if alpha:"),
    _fused("attention looks ahead", 'bool(_number(form, "unidirectional", 0))', "False"),
    Change(
        "places are expanded to any shape",
        f"{_F}/onnx/expands.py",
        "if _root(source.inputs[0], made) != _root(x, made):",
        "if False:",
        (f"{_T}/test_onnx_rows.py",),
    ),
    _spread("gaps after the last element", "(0, size - gap, 1)", "(0, size, 1)"),
    _spread(
        "windows overlap by one element",
        "last = shape[axis] - (sizes[axis] - 1) * dilations[axis]",
        "last = shape[axis] - sizes[axis] * dilations[axis]",
    ),
    _spectra("rows of a transform are not transformed", "if height == rows == 1:", "if True:"),
    _spectra("imaginary parts are real", 'real if scope.kind == "REAL" else imaginary', "real"),
    _found(
        "a kind is its first element",
        "_column(scope, found, k, label)",
        "_column(scope, found, 0, label)",
    ),
    _statistics("a quantile is the element below", "if not share[method]:", "if True:"),
    _statistics("a NaN counts", 'o.node(compare.Not(), [nan], "there")', "nan"),
    _spectrograms("windows are symmetric", "2 * np.pi / length *", "2 * np.pi / (length - 1) *"),
    _spectrograms(
        "the density has one side",
        'return scope.node(Add(), [power, wide], "density")',
        "return power",
    ),
    Change(
        "what a loop collects counts from its end on",
        f"{_F}/onnx/choices.py",
        "certain = sum(not condition for condition in conditions)",
        "certain = len(conditions)",
        (f"{_T}/test_onnx_choices.py",),
    ),
    _tflite_control(
        "a loop goes on after its end",
        "scope.node(And(), [guard, goes_on],",
        "scope.node(And(), [goes_on, goes_on],",
    ),
    _tflite_control("branches change variables", "if scope.kept() != before:", "if False:"),
    _tflite_control(
        "a loop that is cut short says nothing",
        "_record(scope, guard)\n            return",
        "return",
    ),
)
