"""Changes of quantisation: steps, sums, scales, what stays float."""

from __future__ import annotations

from mutations.change import Change, kernels, rows

_Q = "generator/cannery/quantization"
_T = "tests/quantization"

_LOSS = (
    f"{_T}/test_random.py",
    f"{_T}/test_steps.py",
    f"{_T}/test_quantize.py::test_loss",
    f"{_T}/test_quantize.py::test_sums_stay_within_int32_at_the_extremes",
    f"{_T}/test_quantize.py::test_branches_meet_as_integers",
    f"{_T}/test_quantize.py::test_depthwise_convolutions_are_integers",
)
_INTERFACE = (
    f"{_T}/test_random.py",
    f"{_T}/test_interface.py::test_the_meaning_of_integers_is_told",
    f"{_T}/test_interface.py::test_bad_samples",
    f"{_T}/test_interface.py::test_networks_without_such_layers",
    f"{_T}/test_interface.py::test_integers_at_the_interface",
)

_steps = rows(f"{_Q}/steps.py", *_LOSS)
_products = rows(f"{_Q}/products.py", f"{_T}/test_qdq.py")
_stored = rows(f"{_Q}/stored.py", f"{_T}/test_qdq.py")
_halves = rows(f"{_Q}/halves.py", f"{_T}/test_halves.py")
_retyped = rows("generator/cannery/ctext/halves.py", "tests/ctext/test_halves.py")
_dense = rows(f"{_Q}/dense.py", *_LOSS, f"{_T}/test_floats.py")
_codes = rows(f"{_Q}/codes.py", f"{_T}/test_codes.py")
_chosen = rows(f"{_Q}/quantize.py", f"{_T}/test_codes.py")
_packed = rows("generator/cannery/ops/quantized/codes.py", f"{_T}/test_codes.py")
_means = rows(f"{_Q}/means.py", *_LOSS, f"{_T}/test_floats.py")
_flow = rows(
    f"{_Q}/flow.py", *_LOSS, f"{_T}/test_quantize.py::test_sums_that_are_read_as_floats_stay"
)
_calibration = rows(
    f"{_Q}/calibration.py",
    *_LOSS,
    f"{_T}/test_quantize.py::test_states_are_those_of_a_sequence_if_the_samples_have_none",
    f"{_T}/test_interface.py::test_bad_samples",
)
_alike = rows(f"{_Q}/flow.py", f"{_T}/test_pasts.py")
_draft = rows(f"{_Q}/draft.py", f"{_T}/test_pasts.py")
_functions = rows(f"{_Q}/functions.py", f"{_T}/test_functions.py")
_tables = rows(f"{_Q}/tables.py", f"{_T}/test_functions.py")
_pasts = rows(f"{_Q}/pasts.py", f"{_T}/test_pasts.py")
_blocks = rows("generator/cannery/pipeline.py", f"{_T}/test_pasts.py")
_raw = rows(f"{_Q}/raw.py", *_INTERFACE)
_recurrent = rows(f"{_Q}/recurrent.py", *_LOSS, f"{_T}/test_recurrent.py::test_what_is_lost")
_rewrite = rows(f"{_Q}/rewrite.py", *_LOSS, *_INTERFACE)
_fixed = rows("generator/cannery/ops/quantized/fixed_scale.py", f"{_T}/test_fixed_scale.py")

_half = rows(f"{_Q}/half_layers.py", f"{_T}/test_half_layers.py")
_precision = rows(f"{_Q}/precision.py", f"{_T}/test_half_layers.py", f"{_T}/test_bfloat_layers.py")
_bfloat = rows(f"{_Q}/bfloat_layers.py", f"{_T}/test_bfloat_layers.py")
_states = rows("generator/cannery/ops/half/recurrent.py", f"{_T}/test_half_layers.py")
_words = rows("runtime/include/cannery/vec_half.h", "tests/runtime/test_half_words.py")

CHANGES: tuple[Change, ...] = (
    _functions(
        "functions that others read begin in the middle",
        "found.add(sources.get(value, value))",
        "found.add(value)",
    ),
    _functions(
        "the order in which tables are given up is another",
        "return float(np.nan_to_num(moved, posinf=size).mean()) / size if size else 0.0",
        "return -float(np.nan_to_num(moved, posinf=size).mean()) / size if size else 0.0",
    ),
    _tables(
        "functions of floats round what they read",
        "(function.differs and _is_made(draft, function))",
        "function.differs",
    ),
    _tables(
        "results of tables are one unit off",
        "table = np.clip(np.rint(results / unit), -bound, bound).astype(np.int8)",
        "table = np.clip(np.floor(results / unit) - 1, -bound, bound).astype(np.int8)",
    ),
    _half(
        "layers that only move or bound numbers are converted for nothing",
        "found = {step.name for step in steps if step.macs(graph)}",
        "found = {step.name for step in steps}",
    ),
    _half(
        "layers are in half precision whose values are all converted",
        "return sum(counts) > 0",
        "return False",
    ),
    _half(
        "weights of layers in half precision are not rounded",
        "rounded(array) if rounds else array",
        "array",
    ),
    _precision(
        "all layers are in half precision, whatever they lose",
        "if not MARGIN * error <= max_error:",
        "if not np.isfinite(error):",
    ),
    _bfloat(
        "weights of layers in bfloat16 are not rounded",
        "return rounded_to_bfloat(array).astype(np.float32)",
        "return array",
    ),
    _bfloat(
        "layers multiply bfloat16 that take longer so",
        "if _cycles(graph, _in_form(step)) < _cycles(graph, step)",
        "",
    ),
    rows("generator/cannery/ir/bfloat.py", "tests/runtime/test_bfloat_words.py")(
        "ties are rounded up", "0x7FFF + (bits >> 16 & 1)", "0x8000"
    ),
    _states(
        "states of recurrent layers are not rounded",
        "[f64(rounded_to_half(state)) for state in found]",
        "found",
    ),
    _states(
        "the first step of a recurrent layer is read as float16",
        'return "a number says where its sequence begins" if first else ""',
        'return ""',
    ),
    rows("generator/cannery/ctext/half.py", f"{_T}/test_half_layers.py")(
        "bits of float16 are read as numbers",
        'r"\\bf32x\\d+_(?:load|store|gather)(?!1?_f16)\\w*|\\w+\\[|\\bmem(?:cpy|set)\\b"',
        'r"\\bf32x\\d+_(?:load|store|gather)(?!1?_f16)\\w*"',
    ),
    _words(
        "the gates of a GRU in half precision change places",
        "f16x4_##word(f16x8_hi(a), f16x8_hi(b), f16x8_hi(c))",
        "f16x4_##word(f16x8_hi(b), f16x8_hi(a), f16x8_hi(c))",
    ),
    _words(
        "sums in half precision are negated",
        "return vfms##q##_f16(c, a, b);",
        "return vfma##q##_f16(c, a, b);",
    ),
    _words("signs of zeros get lost", "vdup##q##_n_u16(0x8000u)", "vdup##q##_n_u16(0x4000u)"),
    _fixed(
        "biases lose bits in their words",
        "    if (mantissas != np.rint(mantissas)).any() or ",
        "    if ",
    ),
    _fixed(
        "roundings of floats are not counted",
        "near = int(np.ceil(rounded + error * 2.0**fraction))",
        "near = int(np.ceil(rounded))",
    ),
    _fixed(
        "results are rounded down", "np.ldexp(biases + 0.5, fraction)", "np.ldexp(biases, fraction)"
    ),
    _fixed(
        "the bias takes no room",
        "reach = float((largest * np.abs(scales) + np.abs(biases)).max()) + 1.0",
        "reach = float((largest * np.abs(scales)).max()) + 1.0",
    ),
    _steps(
        "rounding of weights is not counted",
        "LARGEST_SUM // bound - (w.shape[0] + 1) // 2",
        "LARGEST_SUM // bound",
    ),
    _steps(
        "columns share the coarsest step", "np.abs(exact).max(axis=0) /", "np.abs(exact).max() /"
    ),
    _steps(
        "the noisiest bound is taken",
        "return min(noise, key=lambda bound: (noise[bound], bound))",
        "return max(noise, key=lambda bound: (noise[bound], bound))",
    ),
    _steps(
        "sums may overflow: an AssertionError",
        "most = LARGEST_SUM // bound - (w.shape[0] + 1) // 2",
        "most = LARGEST_SUM // bound",
        "tests/quantization/test_steps.py",
    ),
    _steps(
        "values are finer than their mean allows",
        "bounds = [min(2**bits - 1, largest) for bits in BITS]",
        "bounds = [2**bits - 1 for bits in BITS]",
        "tests/quantization/test_steps.py",
    ),
    _products(
        "sums of bytes in float32 may be inexact",
        "(EXACT_SUM if in_floats else LARGEST_SUM)",
        "LARGEST_SUM",
    ),
    _products(
        "weights of bytes may have any group",
        "_groups(product) == 1 or (alone and _within(w, narrow))",
        "_groups(product) >= 1",
    ),
    _stored(
        "zero points of weights are forgotten",
        "x.astype(np.int64) - zero.astype(np.int64)",
        "x.astype(np.int64)",
    ),
    _dense(
        "activations behind read values are fused",
        "if len(readers) != 1 or node.output in graph.outputs:",
        "if len(readers) != 1:",
    ),
    _halves(
        "weights beyond float16 become infinite",
        "        elif not np.isfinite(rounded(array)).all():\n",
        "        elif False:\n",
    ),
    _halves("shared weights are half float16", "if name not in own or not legal", "if not legal"),
    _halves("layers keep no margin", "MARGIN = 1.25", "MARGIN = 0.1"),
    _halves(
        "calls of other sizes round other layers",
        "        chosen = {name: found.weights[name] for name in layers}\n",
        "        pass\n",
    ),
    _halves(
        "other weights choose other layers",
        "        if graph.weights_vary:\n            raise _too_much(error, max_error)\n",
        "",
    ),
    _retyped("partial loads read floats", "{loads[2] or ''}(", "("),
    _retyped(
        "alignment is that of floats", "bytes_ = int(aligned[3]) // 2", "bytes_ = int(aligned[3])"
    ),
    _retyped(
        "pointers may be to both types",
        "    if mixed:\n",
        "    if False:\n",
    ),
    _dense("long sums are quantised", "terms <= MOST_TERMS", "terms <= MOST_TERMS ** 2"),
    _means(
        "clips are not in units",
        "Clip(o.minimum / unit, o.maximum / unit)",
        "Clip(o.minimum, o.maximum)",
    ),
    _means("products have the scale of sums", "if isinstance(node.op, Mul):", "if False:"),
    _flow(
        "joined values keep scales of their own",
        "                for value in node.inputs:\n                    self._unite(value, "
        "node.output)\n",
        "",
    ),
    _alike(
        "values that are moved have ranges of their own",
        "while source := self._presents.get(value) or self._whole_before(value):",
        "while source := self._presents.get(value):",
    ),
    _alike(
        "the past of what recurrent layers make stays floats",
        "if not fixed.isdisjoint(roots) and node.output not in self._presents:",
        "if not fixed.isdisjoint(roots):",
    ),
    _alike(
        "padding with other numbers has the scale of a recurrent layer",
        "if window and set(state.initial) <= {0.0, -inf}:",
        "if window:",
    ),
    _draft(
        "means of floats become those of integers, step by step",
        "return self.flow.only_integers(value) and self._becomes_integers(value)",
        "return self.flow.only_integers(value)",
    ),
    _draft(
        "a value has a range for each time that it is moved",
        "if origin not in self.bounds:",
        "if True:",
    ),
    _alike(
        "steps that no stride takes have no share in a range",
        "if self.graph.calls is None:",
        "if True:",
    ),
    _draft(
        "what is kept counts in the mean square",
        "made = [v for v in group if v not in self.flow.pasts] or group",
        "made = group",
    ),
    _flow("padding with ones stays integer", 'op.mode != "constant" or op.value == 0.0', "True"),
    _calibration(
        "states begin anew with each sample",
        "sample = {**state, **step}",
        "sample = {**_first_state(graph), **step}",
    ),
    _calibration(
        "states in the file are ignored",
        "sample = {**state, **step}",
        "sample = {**step, **state}",
        "tests/quantization/test_quantize.py",
    ),
    _calibration(
        "negative numbers have no range",
        "_in_range(np.abs(array).max())",
        "_in_range(array.max())",
        "tests/quantization/test_calibration.py",
    ),
    _calibration(
        "states that change seldom change in each call",
        "state |= next_state(graph, state, values, number)",
        "state |= {s.input: values[s.output].astype(np.float32) for s in graph.states}",
        "tests/quantization/test_pasts.py",
    ),
    _calibration(
        "values count in calls that do not need them",
        "if not (number + phase) % needed.get(n, 1)}",
        "if number}",
        "tests/quantization/test_pasts.py",
    ),
    _calibration(
        "a sequence may end before a stride",
        "if len(samples) < graph.calls.round:",
        "if False:",
        "tests/quantization/test_pasts.py",
    ),
    _pasts(
        "the first past is not quantised",
        "initial = quantised.op.reference(first, factor)[0] if state.initial else first",
        "initial = first",
    ),
    _pasts(
        "states that are no past are connected, whatever their scales",
        "if state.output in pasts:",
        "if True:",
    ),
    _blocks(
        "each block has scales of its own",
        "    return graph.quantization.ranges\n",
        "    return options.ranges\n",
    ),
    _blocks(
        "steps that wait for a stride have scales of their own",
        "if graph.calls and graph.calls.every > 1:",
        "if False:",
    ),
    _raw(
        "the scale of an input is turned round",
        "float(np.float32(1.0 / factor))",
        "float(np.float32(factor))",
    ),
    _raw(
        "states become integers on one side",
        "    for name in graph.outputs:\n        if name not in states:\n",
        "    for name in graph.outputs:\n        if name:\n",
        "tests/quantization/test_raw.py",
    ),
    _recurrent(
        "weights of gates keep the scale of floats",
        "np.stack([w.steps for w in rounded]) / bound * steps",
        "np.stack([w.steps for w in rounded]) * steps",
    ),
    _rewrite(
        "softmax along other axes becomes integer", "and node.op.axis == len(shape) - 1\n", "\n"
    ),
    Change(
        "scattered products keep their scale",
        "generator/cannery/quantization/scales.py",
        'node.op.reduction in ("add", "mul")',
        'node.op.reduction in ("add",)',
        ("tests/quantization/test_scales.py",),
    ),
    _codes("steps of four bits clip nothing", "range(12, 33)", "range(32, 33)"),
    _codes("levels are not weighted", "weight, 2 * LARGEST + 1)", "None, 2 * LARGEST + 1)"),
    _codes(
        "a palette may be without 0",
        "levels, end, has_zero = [0], most, True",
        "levels, end, has_zero = [0], most, False",
    ),
    _codes("few weights have codes", "count < LEAST_WEIGHTS", "count < 0"),
    _chosen(
        "layers that lose most have codes",
        "order[len(most) :]]\n    return made(most)",
        "order[len(most) :]]\n    return made(order)",
    ),
    _chosen(
        "what others chose is not kept",
        "rewritten(replace(coding, kept=frozenset(kept)))",
        "rewritten(coding)",
    ),
    _packed(
        "codes lie in the wrong order",
        "np.uint8(self.bits * k)",
        "np.uint8(BYTE - self.bits - self.bits * k)",
    ),
    _packed("all processors store codes", " or not isa.is_microcontroller", ""),
    _packed("tables take no bytes", "0 if codes.plain else len(codes.levels)", "0"),
    Change(
        "the last vectors of a piece share no bytes",
        "generator/cannery/ops/quantized/mve.py",
        "ends = [*range(0, 2 * self.passes, 2), 2 * self.passes, self.vectors]",
        "ends = [0, self.vectors]",
        (kernels("quantized.matmul_mve", "helium"),),
    ),
    Change(
        "the pairs of codes are neighbours",
        "generator/cannery/ops/quantized/dsp.py",
        "groups = groups[..., [0, 2, 1, 3]]",
        "groups = groups[..., [0, 1, 2, 3]]",
        (kernels("quantized.matmul_dsp", "thumbdsp"),),
    ),
    Change(
        "the first activation says whether results are below 0",
        "generator/cannery/ops/quantized/finish.py",
        "last = self.op.activation[-1] if",
        "last = self.op.activation[0] if",
        (kernels("quantized.matmul_n", "generic"),),
    ),
)
