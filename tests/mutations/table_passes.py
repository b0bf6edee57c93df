"""Changes of the passes, and of the graph below them."""

from __future__ import annotations

from mutations.change import Change, rows

_PASSES = "generator/cannery/passes"
_TEST = "tests/passes/test_passes.py"
_RANDOM = "tests/passes/test_random.py"

_common = rows(f"{_PASSES}/eliminate_common.py", _TEST, _RANDOM)
_prune = rows(f"{_PASSES}/prune_channels.py", _TEST, _RANDOM)
_by_channel = rows(f"{_PASSES}/by_channel.py", _TEST, _RANDOM)
_order = rows(f"{_PASSES}/order_channels.py", "tests/passes/test_order_channels.py",
              "tests/passes/test_texts.py")  # fmt: skip
_attention = rows(f"{_PASSES}/fuse_attention.py", "tests/passes/test_texts.py")
_layer_norm = rows(f"{_PASSES}/fuse_layer_norm.py", "tests/passes/test_texts.py")
_folded_norm = rows(f"{_PASSES}/fuse_folded_norm.py", "tests/passes/test_texts.py")
_prelu = rows(f"{_PASSES}/fuse_prelu.py", "tests/passes/test_texts.py")
_means = rows(f"{_PASSES}/fixed_means.py", "tests/passes/test_texts.py")
_indices = rows(f"{_PASSES}/plain_indices.py", "tests/passes/test_texts.py")
_repeats = rows(f"{_PASSES}/repeats_to_resize.py", "tests/passes/test_texts.py")
_whole_first = rows(f"{_PASSES}/whole_first.py", "tests/passes/test_texts.py")
_traces = rows(f"{_PASSES}/channel_traces.py", "tests/passes/test_order_channels.py",
               "tests/passes/test_texts.py")  # fmt: skip
_fold = rows(f"{_PASSES}/fold_scale_shift.py", _TEST, _RANDOM)
_constants = rows(f"{_PASSES}/fold_constants.py", _TEST, _RANDOM)
_movement = rows(f"{_PASSES}/simplify_movement.py", _TEST, _RANDOM)
_pad = rows(f"{_PASSES}/pad_into_window.py", _TEST, _RANDOM)
_pad_texts = rows(f"{_PASSES}/pad_into_window.py", "tests/passes/test_texts.py")
_norm = rows(f"{_PASSES}/lower_batch_norm.py", _TEST, _RANDOM)
_matmul = rows(f"{_PASSES}/transpose_into_matmul.py", _TEST, _RANDOM)
_channels = rows(f"{_PASSES}/channels_into_conv.py", _TEST, _RANDOM)
_sink = rows(f"{_PASSES}/sink_upsampling.py", _TEST, _RANDOM)
_upsample = rows(f"{_PASSES}/upsample_into_conv.py", _TEST, _RANDOM)
_nest = rows(f"{_PASSES}/nest_concats.py", _TEST, _RANDOM)
_lift = rows(f"{_PASSES}/lift_1d.py", _TEST, _RANDOM)
_recurrent = rows(f"{_PASSES}/simplify_recurrent.py", _RANDOM,
                  "tests/frontends/test_keras_recurrent.py",
                  "tests/frontends/test_onnx_recurrent.py")  # fmt: skip
_last_step = rows(f"{_PASSES}/simplify_recurrent.py", "tests/passes/test_texts.py")
_one_step = rows(f"{_PASSES}/last_of_one_step.py", "tests/passes/test_texts.py")

CHANGES: tuple[Change, ...] = (
    Change(
        "softplus ends at any threshold",
        "generator/cannery/passes/fuse_activations.py",
        "limit.size != 1 or not float(limit.reshape(-1)[0]) >= STRAIGHT",
        "limit.size != 1",
        ("tests/passes/test_texts.py",),
    ),
    _means(
        "means along one axis are of the whole image",
        "total.op.axes == (1, 2) and",
        "len(total.op.axes) > 0 and",
    ),
    _last_step(
        "the last step of a sequence that has not begun is the state",
        "op.lengths or op.first_input(source.inputs):",
        "op.lengths:",
    ),
    _one_step(
        "last_of_one_step forgets samples without steps",
        "steps == 1 and not op.lengths and",
        "steps == 1 and",
    ),
    _one_step(
        "last_of_one_step takes a sequence for its last step",
        "sure = steps == 1 and not op.lengths",
        "sure = not op.lengths",
    ),
    _common(
        "what reads the newest step reads the next state",
        "if isinstance(node.op, Slice) and output in next_states:",
        "if False:",
        "tests/quantization/test_pasts.py",
    ),
    _common(
        "what reads the newest steps reads a state that is only moved",
        "while maker is not None and isinstance(maker.op, MOVES):",
        "while False:",
        "tests/quantization/test_pasts.py",
    ),
    _common(
        "eliminate_common ignores attributes",
        "(node.op.kind, repr(node.op), node.inputs)",
        "(node.op.kind, node.inputs)",
    ),
    _common(
        "eliminate_common ignores the order of inputs",
        "repr(node.op), node.inputs)",
        "repr(node.op), frozenset(node.inputs))",
    ),
    _prune(
        "prune_channels lets constants through pools",
        "return _Constant(x.known & (x.value == 0.0), x.value)",
        "return x",
    ),
    _prune(
        "prune_channels lets constants through depthwise convolutions",
        "_all_zero(w, -1) | (x.known & (x.value == 0.0))",
        "_all_zero(w, -1) | x.known",
    ),
    _prune(
        "prune_channels drops every known channel",
        "drop = unused | (constant.known & (constant.value == 0.0))",
        "drop = unused | constant.known",
    ),
    _by_channel(
        "channels of a reader's weights are counted, not chosen",
        "rewriter.constants[weight][..., chosen, :])",
        "rewriter.constants[weight][..., : len(chosen), :])",
    ),
    _by_channel(
        "depthwise convolutions with multipliers are narrowed",
        "return bool(rewriter.constants[node.inputs[1]].shape[-1] == channels)",
        "return True",
    ),
    _attention(
        "attention: a mask is broadcast along keys",
        "if len(mask) > 4 or mask[-1:] != scores[-1:]:",
        "if len(mask) > 4:",
    ),
    _attention(
        "attention: keys are not scaled",
        "scores.scale * q.scale * k.scale",
        "scores.scale * q.scale",
    ),
    _attention(
        "attention: rows need not follow each other",
        "channels.end(heads) > width or elements != samples * rows * width",
        "channels.end(heads) > width",
    ),
    _attention(
        "attention: scores may be read elsewhere",
        "return rewriter.single_reader(node.output) is not None",
        "return True",
    ),
    _attention(
        "attention: rows are asked of another mask",
        'guard.mask not in ("", scores.mask)',
        "not guard.shares",
    ),
    _attention(
        "attention: samples of a step may be apart",
        "if samples > 1 and heads > 1 and sample != heads * head:",
        "if samples < 0:",
    ),
    _attention(
        "attention: scores are not capped",
        "softcap = scale",
        "softcap = scale * 0.0",
    ),
    _attention(
        "attention: axes of one element have a place in the order",
        "[a for a in p if shape[a] > 1]",
        "list(p)",
    ),
    _layer_norm(
        "whatever power is a variance",
        "self.number(last) == 2.0 if isinstance(square.op, Pow)",
        "self.number(last) is not None if isinstance(square.op, Pow)",
    ),
    _layer_norm(
        "the mean of another value is taken off",
        "return mean if node and mean and mean.value == node.inputs[0] else None",
        "return mean if node else None",
    ),
    _layer_norm(
        "axes of mean and variance differ",
        "x if x and mean and x.axes == mean.axes",
        "x if x and mean",
    ),
    _layer_norm(
        "layer normalisation takes what others read",
        "found[0] == x and alone(rewriter, spelling, node):",
        "found[0] == x:",
    ),
    _whole_first(
        "what is broadcast twice is turned",
        "shapes[0] != shapes[2] == shapes[1]",
        "shapes[0] != shapes[2]",
    ),
    _order(
        "channels move whatever reads them elsewhere",
        "free = all(end in known for end in _ends(rewriter, traces, value))",
        "free = True",
    ),
    _order(
        "channels of outputs move",
        """            yield ""
""",
        """            continue
""",
    ),
    _order(
        "convolutions keep the old order of what they read",
        "choose_inputs(self.rewriter, conv, chosen)",
        "choose_inputs(self.rewriter, conv, np.arange(len(chosen)))",
    ),
    _order(
        "layers before a convolution keep the old order",
        "            choose_channels(self.rewriter, between, chosen)\n",
        "",
    ),
    _order(
        "short runs are joined",
        "return sum(len(demand.channels)",
        "return True or sum(len(demand.channels)",
    ),
    _order(
        "channels of several samples move",
        "node if image and rewriter.types[value].shape[0] == 1 else None",
        "node if image else None",
    ),
    _traces(
        "slices of pixels are slices of channels",
        "return isinstance(op, Reshape | Slice) and shapes[0][:PIXELS] == shapes[-1][:PIXELS]",
        "return isinstance(op, Reshape | Slice)",
    ),
    _fold(
        "a scale leaves the bias alone",
        "weight * _along_outputs(producer, weight, c), bias * c",
        "weight * _along_outputs(producer, weight, c), bias",
    ),
    _fold("a shift goes into a padded convolution", "elif _padded(reader):", "elif False:"),
    _fold(
        "a scale goes back past other readers",
        "if producer is None or rewriter.single_reader(value) is not node:",
        "if producer is None:",
    ),
    _fold(
        "groups of a transposed convolution are mixed",
        "return np.repeat(table.T, ic // groups, axis=1)",
        "return np.tile(table.T, (1, ic // groups))",
    ),
    _fold(
        "shifts in a row are multiplied",
        "c * after[1] if isinstance(node.op, Mul) else c + after[1]",
        "c * after[1]",
    ),
    _fold(
        "division is turned round", "orders[:1] if isinstance(node.op, Div) else orders", "orders"
    ),
    _fold(
        "scale before a product whose first operand is transposed",
        "    if isinstance(reader.op, MatMul) and reader.op.transpose_a:\n        return False\n",
        "",
        "tests/passes/test_random.py",
    ),
    _constants(
        "a folded output is read by its old name",
        "inputs = tuple(named.get(i, i) for i in node.inputs)",
        "inputs = tuple(node.inputs)",
    ),
    _constants(
        "folding has no limit of size",
        "if sum(o.elements for o in outputs) > max(SMALL, MAX_GROWTH * size):",
        "if sum(o.elements for o in outputs) > max(SMALL, MAX_GROWTH * size) ** 2:",
    ),
    _movement(
        "transposes are joined the wrong way round",
        "tuple(source.op.perm[p] for p in node.op.perm)",
        "tuple(node.op.perm[p] for p in source.op.perm)",
    ),
    _movement(
        "a slice backwards is no change",
        "any(s < 0 for s in op.steps))",
        "any(s < -1 for s in op.steps))",
    ),
    _movement(
        "a slice of a slice ends one early",
        "(1 if r.step > 0 else -1) for r in taken",
        "(0 if r.step > 0 else -1) for r in taken",
    ),
    _pad(
        "padding with anything goes into a convolution",
        "    return pad.value == 0.0\n",
        "    return True\n",
    ),
    _pad(
        "an average that counts no padding takes some",
        "(node.op.count_include_pad or unpadded)",
        "True",
    ),
    _pad("padding of other modes goes into windows", 'if pad.mode != "constant":', "if False:"),
    _pad_texts(
        "windows with gaps ignore copies of the edge",
        "return all(d == 1 for d in node.op.dilations)",
        "return True",
    ),
    _pad(
        "average pool that leaves out its own padding counts it",
        "return pad.value == 0.0 and (node.op.count_include_pad or unpadded)",
        "return pad.value == 0.0",
    ),
    _norm(
        "epsilon is added to the deviation",
        "np.sqrt(var + np.float64(node.op.epsilon))",
        "(np.sqrt(var) + np.float64(node.op.epsilon))",
    ),
    _norm(
        "batch norm along another axis than the last",
        "shape[node.op.axis % type_.rank] = -1",
        "shape[-1] = -1",
    ),
    _matmul("rows are permuted forwards", "np.argsort(inner)", "inner"),
    _matmul("the batch may move", " or moved.op.perm[0] != 0:", ":"),
    _matmul("a transpose that moves the batch goes into weights", " or moved.op.perm[0] != 0", ""),
    _channels(
        "constants are not turned",
        "return rewriter.constant(name, array[..., ::-1].copy())",
        "return name",
    ),
    _channels("groups are turned, too", " or node.op.group != 1:", ":"),
    _channels(
        "vector of factors stays in the old order of channels",
        "if array.ndim == 0 or array.shape[-1] != channels:",
        "if array.ndim < 2 or array.shape[-1] != channels:",
    ),
    _sink(
        "a convolution with padding goes before the upsampling",
        " and not any(map(any, op.pads))",
        "",
    ),
    _sink(
        "a value that others read goes, too",
        "if rewriter.single_reader(source.output) is not node:",
        "if rewriter.single_reader(source.output) is None and False:",
    ),
    _upsample("taps are not flipped", "flipped = np.flip(w, axis)", "flipped = w"),
    _upsample(
        "the part behind the first takes its weights",
        "        begin = end\n",
        "        begin = 0\n",
    ),
    _nest(
        "parts beside those that fit get lost", "*parts[at + size :])", "*parts[at + size + 1 :])"
    ),
    _lift(
        "padding is lifted to the other axis",
        "pads=((0, 0), *op.pads), dilations=(1, "
        "*op.dilations)\n        )\n    if isinstance(op, ConvTranspose)",
        "pads=(*op.pads, (0, 0)), dilations=(1, "
        "*op.dilations)\n        )\n    if isinstance(op, ConvTranspose)",
    ),
    _lift(
        "constants [L,C] are taken for per-channel ones",
        "c is not None and c.size == (c.shape[-1] if c.ndim else 1) for c in constants",
        "c is not None and c.size >= (c.shape[-1] if c.ndim else 1) for c in constants",
    ),
    _recurrent(
        "the last step of a layer that runs backwards",
        "(0 if op.reverse[0] else steps - 1)",
        "(steps - 1)",
    ),
    _recurrent(
        "backward layer: the wrong step counts as last",
        "(0 if op.reverse[0] else steps - 1)",
        "steps - 1",
        "tests/passes/test_passes.py",
        "tests/passes/test_random.py",
    ),
    Change(
        "evaluation keeps float32",
        "generator/cannery/ir/evaluate.py",
        "astype(np.float64",
        "astype(np.float32",
        ("tests/ir/test_graph.py",),
    ),
    Change(
        "padded convolutions become one product",
        "generator/cannery/passes/conv_to_matmul.py",
        " or any(pair != (0, 0) for pair in op.pads)",
        "",
        ("tests/passes/test_passes.py", "tests/passes/test_random.py"),
    ),
    Change(
        "zeros on both sides of the channels change places",
        f"{_PASSES}/pad_channels.py",
        "zip(counts, (0, 2), strict=True)",
        "zip(counts, (0, 1), strict=True)",
        ("tests/passes/test_texts.py", "tests/passes/test_random.py"),
    ),
    _folded_norm(
        "the shift has the mean of other axes",
        "return spelling.mean(mean) == x",
        "return spelling.mean(mean) is not None",
    ),
    _folded_norm("the mean is added", "negative = isinstance(node.op, Add)", "negative = False"),
    _prelu(
        "slopes of a sum keep their sign",
        "slopes if isinstance(node.op, Sub) else np.negative(slopes)",
        "slopes",
    ),
    _prelu(
        "PReLU of two values",
        "if negated.inputs[0] != x or rewriter.types[node.output] != rewriter.types[x]:",
        "if rewriter.types[node.output] != rewriter.types[x]:",
    ),
    _indices(
        "indices are moved by another size",
        "if value == plain and _number(rewriter, other) == size:",
        "if value == plain:",
    ),
    _repeats(
        "repeated images are repeated pixels",
        "if not np.array_equal(moved, repeated):",
        "if moved.size != repeated.size:",
    ),
    Change(
        "slices of strided convolutions shrink their padding",
        f"{_PASSES}/slice_into_conv.py",
        "return pads if set(conv.strides) == {1} and all(",
        "return pads if all(",
        ("tests/passes/test_texts.py", "tests/passes/test_random.py"),
    ),
    Change(
        "normalisation that adds an axis is one operator",
        "generator/cannery/passes/fuse_layer_norm.py",
        "same = x and rewriter.types[x.value] == rewriter.types[node.output]",
        "same = bool(found)",
        ("tests/passes/test_spellings.py",),
    ),
    Change(
        "normalisation by a factor that adds an axis is one operator",
        "generator/cannery/passes/fuse_folded_norm.py",
        "same = found and rewriter.types[found.x.value] == rewriter.types[node.output]",
        "same = bool(found)",
        ("tests/passes/test_spellings.py",),
    ),
)
