"""Changes of networks that run step by step, from the sequence to the state in C."""

from __future__ import annotations

from mutations.change import Change, rows

_C = "generator/cannery"
_F = f"{_C}/frontends"
_STREAMS = "tests/frontends/test_streaming_windows.py"
_SEVERAL = (
    _STREAMS, "tests/frontends/test_streaming_ends.py", "tests/frontends/test_streaming_axes.py"
)  # fmt: skip
_STORED = "tests/frontends/test_streaming_integers.py"

_stepper = rows(f"{_F}/streaming/stepper.py", *_SEVERAL)
_WHOLE = "tests/frontends/test_streaming_whole.py"
_longer = rows(f"{_F}/lengths.py", _WHOLE)
_whole = rows(f"{_F}/streaming/whole.py", _WHOLE)
_phases = rows(f"{_F}/streaming/phases.py", "tests/frontends/test_streaming_phases.py")
_calls = rows(f"{_F}/streaming/calls.py", *_SEVERAL)
_PADS = "tests/frontends/test_streaming_pads.py"
_lead = rows(f"{_F}/streaming/lead.py", _PADS)
_joined = rows(f"{_F}/streaming/joined.py", _PADS)
_LONGER = "tests/frontends/test_streaming_lengthened.py"
_lengthened = rows(f"{_F}/streaming/lengthened.py", _LONGER)
_carried = rows(f"{_F}/streaming/carried.py", "tests/frontends/test_streaming_carried.py")
_AFTER = "tests/emit/test_streaming.py::test_state_of_the_model_after_silence"
_prewarm = rows(f"{_C}/api/net.py", _AFTER)
_positions = rows(f"{_F}/streaming/positions.py", "tests/frontends/test_streaming_positions.py")
_unfolded = rows(f"{_F}/streaming/unfolded.py", _PADS)
_known = rows(f"{_F}/streaming/stepper.py", _PADS)
_lengths = rows(f"{_F}/lengths.py", *_SEVERAL)
_past = rows(f"{_F}/streaming/past.py", *_SEVERAL)
_EDGES = "tests/frontends/test_streaming_edges.py"
_edges = rows(f"{_F}/streaming/past.py", _EDGES)
_cubic = rows(f"{_F}/streaming/resizing.py", _EDGES)
_integers = rows(f"{_F}/streaming/past.py", _STORED)
_products = rows(f"{_F}/streaming/windows.py", _STORED)
_attention = rows(f"{_F}/streaming/attention.py", "tests/frontends/test_streaming_attention.py")
_counting = rows(f"{_F}/streaming/counting.py", "tests/frontends/test_streaming_attention.py")
_resizing = rows(f"{_F}/streaming/resizing.py", "tests/frontends/test_streaming_attention.py")
_windows = rows(f"{_F}/streaming/windows.py", *_SEVERAL)
_stream = rows(f"{_F}/streaming/stream.py", *_SEVERAL)
_streaming = rows(f"{_F}/streaming/stepper.py", "tests/emit/test_streaming.py")
_declared = rows(f"{_F}/streaming/states.py", "tests/emit/test_streaming.py")
_rings = rows(f"{_C}/lowering/rings.py", "tests/lowering/test_rings.py",
              "tests/emit/test_streaming.py")  # fmt: skip
_window = rows(f"{_C}/ops/concat/past.py", "tests/lowering/test_rings.py")
_step = rows(f"{_C}/emit/step.c.j2", "tests/emit/test_streaming.py")
_subnormals = rows("runtime/include/cannery/subnormals.h", "tests/runtime/test_subnormals.py",
                   "tests/emit/test_real_time.py")  # fmt: skip
_blocks = rows(f"{_C}/emit/step.c.j2", "tests/emit/test_blocks.py")
_turns = rows(f"{_C}/emit/step.c.j2", "tests/emit/test_turns.py")
_orders = rows(f"{_C}/emit/step.c.j2", "tests/emit/test_turns_everywhere.py")
_turned = rows(f"{_C}/emit/steps.py", "tests/emit/test_turns.py")
_split = rows(f"{_C}/emit/split.py", "tests/emit/test_turns.py")
_clock = rows(f"{_F}/streaming/past.py",
              f"{_STREAMS}::test_calls_of_several_sizes")  # fmt: skip
_shared = _clock
_rates = rows(f"{_F}/streaming/past.py",
              f"{_STREAMS}::test_random_networks")  # fmt: skip
_groups = rows(f"{_F}/streaming/groups.py",
               f"{_STREAMS}::test_short_calls_of_strides_beside_long_ones")  # fmt: skip
_beginning = rows(f"{_F}/streaming/beginning.py", _PADS)
_spelled = rows(f"{_F}/streaming/spelled.py", "tests/frontends/test_streaming_attention.py")
_voices = rows(f"{_F}/streaming/voices.py", "tests/frontends/test_streaming_voices.py")
_counts = rows(f"{_C}/emit/source.py", "tests/execution/test_counts.py")
_settled = rows(f"{_F}/streaming/past.py", "tests/emit/test_blocks.py::test_state_after_silence")
_periods = rows(f"{_C}/lowering/periods.py", "tests/lowering/test_periods.py")
_states = rows(f"{_C}/emit/states.py", "tests/emit/test_streaming.py")
_sequences = rows(f"{_C}/execution/sequences.py", "tests/execution/test_sequences.py")

CHANGES: tuple[Change, ...] = (
    _stream(
        "outputs come a step earlier than their inputs",
        "return -((self.stride + self.before - self.span - source) // self.stride)",
        "return -((self.stride + self.before - self.span - source + 1) // self.stride)",
    ),
    _stream(
        "windows look back without their padding",
        "return delay * self.stride + self.before - source",
        "return delay * self.stride + max(self.before - source, 0)",
    ),
    _past(
        "the past begins without the model's padding",
        "initial = after(np.concatenate(both, axis), axis, -stream.delay)",
        "initial = initial + dtype.numpy.type(0)",
    ),
    _past(
        "what is before the first element is used",
        "if stream.delay <= 0:\n            return value\n        stored",
        "if stream.delay <= 9:\n            return value\n        stored",
    ),
    _past(
        "last steps of what ends before the input are those of another",
        "if known - length >= 1:",
        "if known - length >= 99:",
    ),
    _past(
        "what begins later than the input is late",
        "return max(0, int(length - known))",
        "return max(stream.delay, 0)",
    ),
    _edges(
        "copies of the first step are made in the second call, too",
        "next_call = self.scalar(float(call * stream.count + 1))",
        "next_call = self.scalar(float((call + 1) * stream.count + 1))",
    ),
    _edges(
        "copies are made of the first step of a call",
        "divmod(stream.delay + stream.copies, stream.count)",
        "divmod(0, stream.count)",
    ),
    _cubic(
        "elements at the end may be weighted differently",
        "(read | ~used).all()",
        "True",
    ),
    _groups(
        "long calls forget the steps that short ones have collected",
        "np.arange(most, most + self.block, dtype=np.float32)",
        "np.arange(most + 1, most + 1 + self.block, dtype=np.float32)",
    ),
    _groups(
        "the number of collected steps never returns to none",
        "b.add(Node(Where(), following, (left, more, none), (following,)))",
        "b.add(Node(Where(), following, (left, more, more), (following,)))",
    ),
    _beginning(
        "what follows a beginning comes with it",
        "whether = b.early(delay + size, result, shape)",
        "whether = b.early(delay, result, shape)",
    ),
    _beginning(
        "a beginning makes what follows late",
        "delay = max(early.delay, late.delay - size)",
        "delay = max(early.delay, late.delay)",
    ),
    _beginning(
        "a beginning has all features",
        'b.op(from_first(begin.op, axis, late.count), f"{begin.output}/early", first)',
        "first",
    ),
    _attention(
        "attention waits for steps that are known before the first call",
        "if late + ahead < 0 and b.folds and not is_turned:",
        "if False:",
    ),
    _attention(
        "attention to padding has the shares of other distances",
        "array[..., -keys:] if _by_steps(array)",
        "array[..., :keys] if _by_steps(array)",
    ),
    _past(
        "recurrent layers begin before their sequence does in some calls",
        "late = self.scalar(float(stream.delay))",
        "late = self.scalar(float(stream.delay - 1))",
    ),
    _attention(
        "what is no number before the first step has a share",
        "value = b.masked(value, stream, 0.0)",
        "pass",
    ),
    _lengths(
        "errors are about the attempt that came furthest",
        "return isinstance(self.error, AheadError), sum(steps), done",
        "return isinstance(self.error, AheadError), done, sum(steps)",
    ),
    _lengths(
        "errors do not say why other axes are not time",
        "for each in others[:_MAX_TOLD]",
        "for each in others[:0]",
    ),
    _calls(
        "inputs stay whole sequences where steps would be late",
        "if times[value] is None and steps.intersection(types[value].shape):",
        "if False:",
    ),
    _stepper(
        "outputs may be windows of all steps",
        "if value in self.whole:",
        "if value in ():",
    ),
    _stepper(
        "what reads a window is no window",
        "self._keep_whole(node, self.whole)",
        "pass",
    ),
    _whole(
        "products keep the dimension that they sum up",
        "a >= use.input.rank - 2 and a != inner",
        "a >= use.input.rank - 2",
    ),
    _whole(
        "convolutions keep channels",
        "set(use.axes) - {use.input.rank - 1}",
        "set(use.axes)",
    ),
    _whole(
        "axes of one element have steps",
        "in _after(use) if output.shape[axis] > 1",
        "in _after(use)",
    ),
    _whole(
        "features that were merged with steps stay with them",
        "if all(_keeps_order(use) for use in uses):",
        "if False:",
    ),
    _longer(
        "a shorter axis is taken silently",
        "if shape[longest] > shape[time]:",
        "if False:",
    ),
    _calls(
        "the size that is named makes whole elements of one layer",
        "steps = _whole_steps(wish.graph, times)",
        "steps = 2",
    ),
    _spelled(
        "spelled-out attention does not scale its products",
        "np.full(1, factor, np.float32)",
        "np.ones(1, np.float32)",
    ),
    _voices(
        "copies of the first step do not belong to the window after them",
        'if isinstance(op, Pad) and op.mode == "edge":',
        "if False:",
    ),
    _voices(
        "constants for each step meet sequences",
        "reshape((*shape[:-1], 1, shape[-1]))",
        "reshape((1, *shape))",
    ),
    _voices(
        "rows are joined along sequences",
        "return Concat(op.axis + (op.axis > 1)) if op.axis else None",
        "return Concat(op.axis) if op.axis else None",
    ),
    _counts(
        "layers that run seldom count as often as others",
        "(all_calls // periods[call.number])",
        "all_calls",
    ),
    _past(
        "readers with different pads share a past",
        "key = (value, fill)\n        most",
        "key = (value, 0.0)\n        most",
    ),
    _integers(
        "zero is the integer 0 in the past of bytes",
        "return np.asarray(found) if exact.all() else None",
        "return np.zeros_like(found)",
    ),
    _integers(
        "padding of integers is that of floats",
        "integers = replace(stream, lead=stored.lead)",
        "integers = stream",
    ),
    _integers(
        "integers of another scale count as the same",
        "return replace(node, op=Identity(), inputs=(stored.value,)) if same else node",
        "return replace(node, op=Identity(), inputs=(stored.value,))",
    ),
    _products(
        "convolutions of integers are padded with 0",
        "return float(zero.item())",
        "return 0.0",
    ),
    _attention(
        "queries attend to keys from before the first step",
        "early = b.early(band.late + band.behind + band.ahead, queries, (band.keys,))",
        "early = b.early(0, queries, (band.keys,))",
    ),
    _attention(
        "queries of a block see further than alone",
        "seen = (self.distances >= -self.ahead) & (self.distances <= self.behind)",
        "seen = self.distances >= -self.ahead",
    ),
    _attention(
        "a mask that differs from step to step is accepted",
        "if _by_steps(array) and not _by_distance(array, steps):",
        "if _by_steps(array) and array.ndim > 9:",
    ),
    _counting(
        "constants that stay as they are grow on",
        "if found.last < array.shape[axis] - 1:",
        "if found.last < 0:",
    ),
    _counting(
        "constants that are not on a line are accepted",
        "if (off <= allowed).all() else None",
        "if (off <= 1e6 * allowed).all() else None",
    ),
    _resizing(
        "before the first element there are zeros",
        "if reach.back:  # the element",
        "if not reach.back:  # the element",
    ),
    _windows(
        "means at the start count padding",
        "alike = isinstance(op, MaxPool) or op.count_include_pad or op.pads[k][0] == 0",
        "alike = isinstance(op, MaxPool) or op.count_include_pad or op.pads[k][0] >= 0",
    ),
    _windows(
        "transposed convolutions forget their past",
        "reach = (span - 1) // s",
        "reach = (span - 1) // s - 1",
    ),
    _windows(
        "running sums begin anew in each call",
        "last = b.cut(node.output, axis, source.count - 1, source.count)",
        "last = b.cut(own, axis, source.count - 1, source.count)",
    ),
    _stepper(
        "branches with different delays are not aligned",
        "if stream and self._late(stream) != late:",
        "if stream and self._late(stream) > late:",
    ),
    _stepper(
        "recurrent layers begin before the sequence does",
        "if stream and stream.delay > 0:",
        "if stream and stream.delay > 9:",
    ),
    _stepper(
        "padding is not carried through activations",
        "lead = None if source.lead is None else self._of_padding(node, streams, -source.delay)",
        "lead = source.lead",
    ),
    _calls(
        "padding serves the first window after it alone",
        "for folds in (False, True):",
        "for folds in (False,):",
        _PADS,
    ),
    _lead(
        "what kernels may round otherwise is known",
        "_UNSURE = 1e-3",
        "_UNSURE = -1.0",
    ),
    _unfolded(
        "any indices are windows",
        "if not even or min(by, step) < 1 or indices[0, 0] < 0:",
        "if min(by, step) < 1 or indices[0, 0] < 0:",
    ),
    _unfolded(
        "windows lie side by side along the other axis",
        "taps = 0 if indices.shape[0] <= indices.shape[1] else 1",
        "taps = 1 if indices.shape[0] <= indices.shape[1] else 0",
    ),
    _lengthened(
        "windows of one step may have strides",
        "if op.strides[axis - 1] != 1 or op.pads[axis - 1] != (0, 0):",
        "if op.pads[axis - 1] != (0, 0):",
    ),
    _lengthened(
        "windows of one step may be padded",
        "if op.strides[axis - 1] != 1 or op.pads[axis - 1] != (0, 0):",
        "if op.strides[axis - 1] != 1:",
    ),
    _lengthened(
        "what is padded is no window",
        "if op.pads[axis] != (0, 0) and node.output not in self.joined:",
        "if False:",
    ),
    _lengthened(
        "the end of a part of a window stays",
        "ends[axis] += self.more",
        "ends[axis] += 0",
    ),
    _lengthened(
        "outputs may have other axes than inputs",
        "self.axis if is_output else axis)",
        "axis)",
    ),
    _lengthened(
        "caches are along any axis",
        "if wrong := [value for value, axis in self.joined.items() if self._time(value) != axis]:",
        "if wrong := []:",
    ),
    _joined(
        "any constants before the first step are padding",
        "if len(values) != 1 or len(numbers) != 1:",
        "if len(values) != 1:",
    ),
    _joined(
        "any steps are the next cache",
        "if np.array_equal(end, following):",
        "if end.shape == following.shape:",
    ),
    _joined(
        "the next cache has the axes of the cache",
        "following, axis = elements.reshape(-1)[places], node.op.axis",
        "following, axis = elements.reshape(places.shape), node.op.axis",
    ),
    _carried(
        "a state that is also an output is no input any longer",
        "alone = not state.initial and not _is_output(rewriter, state.input)",
        "alone = not state.initial",
    ),
    _carried(
        "layers keep any states, whatever comes back",
        "return np.array_equal(following, first + np.arange(places.size).reshape(places.shape))",
        "return True",
    ),
    _joined(
        "constants at the end are padding before the first step",
        "before, after = size(node.inputs[:k]), size(node.inputs[k + 1 :])",
        "before, after = size(node.inputs[:k]) + size(node.inputs[k + 1 :]), 0",
    ),
    _calls(
        "caches of features are the past",
        "if value not in streams or streams[value].time != axis:",
        "if value not in streams:",
        _PADS,
    ),
    _prewarm(
        "the state after silence is that after a reset where the model names it",
        "elif prewarm:",
        "elif False:",
    ),
    _known(
        "recurrent layers begin with zeros after padding",
        "starts = dict(enumerate(ends))",
        "pass",
    ),
    _known(
        "constants of steps are those of the first one in padding",
        "first(self.graph.constants[node.inputs[k]], axis, count)",
        "first(self.graph.constants[node.inputs[k]], axis, 1)",
    ),
    _windows(
        "running sums begin with zero after padding",
        "so_far = after(lead, axis, lead.shape[axis] - 1)",
        "pass",
        _PADS,
    ),
    _streaming(
        "states begin with zeros",
        "return np.asarray(self.graph.constants[value]).reshape(shape) if value else None",
        "return None",
    ),
    _declared(
        "states of other sizes are accepted",
        "if graph.types[input_] != graph.types[output]:",
        "if graph.types[input_].rank != graph.types[output].rank:",
    ),
    _states(
        "states overlap",
        "at += slot.bytes",
        "at = slot.bytes",
    ),
    _states("next states lie in the workspace", "return _up(before, _NEXT_ALIGN)\n", "return 0\n"),
    _states(
        "parts of a state are not aligned",
        "at = _up(at, RING_ALIGN if ring else STATE_ALIGN)",
        "at = at + 0",
    ),
    _states(
        "next states overlap",
        "next_ += 0 if ring else _up(slot.bytes, STATE_ALIGN)",
        "next_ = _up(slot.bytes, STATE_ALIGN)",
    ),
    _states(
        "rings begin with the rows before their first window",
        "return self.offset + self.ring.first * self.ring.pitch_bytes",
        "return self.offset",
    ),
    _states(
        "all rings have one position",
        "positions = {ring.state: 4 * k for k, ring in enumerate(moving)}",
        "positions = {ring.state: 0 for ring in moving}",
    ),
    _step(
        "new rows of a ring are not copied to where its window returns to",
        "{{ ring.count * ring.pitch_bytes }}u);\n%%     if ring.alone",
        "0u);\n%%     if ring.alone",
    ),
    _subnormals(
        "operands that are subnormal are not taken for zero",
        "#define CANNERY_FLUSH_BITS 0x8040u",
        "#define CANNERY_FLUSH_BITS 0x8000u",
    ),
    _subnormals(
        "the mode before is not told",
        "mode = _mm_getcsr();",
        "mode = _mm_getcsr() | CANNERY_FLUSH_BITS;",
    ),
    _rings(
        "rings are a call too short",
        "(self.back - gcd(*self._moving) if self.moves else 0)",
        "(self.back - 2 * gcd(*self._moving) if self.moves else 0)",
    ),
    _rings(
        "rings turn around too early",
        "return -(-(self.reach + max(self._moving) - grain) // grain) * grain",
        "return (self.reach + max(self._moving) - grain) // grain * grain",
    ),
    _rings(
        "large calls in a ring of small ones cross its end too far",
        "return -(-(self.reach + max(self._moving) - grain) // grain) * grain",
        "return -(-self.reach // grain) * grain",
    ),
    _rings(
        "programs that disagree on rows share a ring",
        "return None not in known and len(known) == 1",
        "return None not in known",
    ),
    _blocks(
        "the window of a large call is copied to where it was",
        "memcpy((char *)state{{ offset(slot.window_at) }}, {{ b }} + {{ ring.count * ring.pitch }}",
        "memcpy((char *)state{{ offset(slot.window_at) }}, {{ b }}",
    ),
    _turns(
        "weights are read in the same order in each call", "*turns = 1u - *turns;", "(void)turns;"
    ),
    _turns(
        "orders change in each call where layers run in every second one",
        "'if (call %% %du == 0u) ' | format(body.turn_period) if body.turn_period > 1",
        "''",
    ),
    _orders(
        "the library counts calls, not the state",
        "const int turn = (int)*turns;",
        "static int calls; const int turn = calls++ & 1;",
    ),
    _turned(
        "kernels do not get the order in which to read weights",
        '(*call.arguments, "turn")',
        '(*call.arguments, "0")',
    ),
    _split("files of steps hide the second function of a kernel", "(?:{TURNED})?", ""),
    _blocks("loops over calls count too few steps", "done += {{ size }};", "done += 1;"),
    _clock(
        "clocks count calls, whatever their size",
        "units = float(self.block // gcd(*self.blocks))",
        "units = 1.0",
    ),
    _rates(
        "clocks of layers that run seldom count all calls",
        'clock, following = self.state("clock", (1,), every=every)',
        'clock, following = self.state("clock", (1,))',
    ),
    _rates(
        "layers with strides read what came in their last call alone",
        "more = stream.count * (times - 1)",
        "more = 0 * stream.count * (times - 1)",
    ),
    _periods(
        "layers run in calls in which nothing needs them",
        "own = gcd(*(found.get(value, 0) for value in node.outputs))",
        "own = 1",
    ),
    _blocks(
        "windows of layers that run seldom move in each call",
        "%%       if slot.period > 1\n    if (call % {{ slot.period }}u == 0u) {",
        "%%       if slot.period > 1\n    if (call > 0u) {",
    ),
    _blocks(
        "steps always tell of outputs",
        "return call % {{ b.graph.calls.every }}u == 0u;",
        "return 1;",
    ),
    _phases(
        "rounds begin with the first call where outputs could leave earlier",
        "while enough - too_early > 1:",
        "while enough < too_early:",
    ),
    _phases(
        "states before the first call are those before the calls that it follows",
        "for number in range(1, calls.phase + 1):",
        "for number in range(1, 1):",
    ),
    _settled(
        "branches and strides do not count for the silence before",
        "self.settled[past] = -(-reach // stream.count) * self.block * stream.every",
        "self.settled[past] = 1",
    ),
    _shared(
        "pasts that one size does not need are left out",
        "most = max(self.reaches.get(key, 0), reach)",
        "most = reach",
    ),
    _rings(
        "a copy that also writes new rows is spared",
        "if not (reads | writes) <= past.before:",
        "if not reads <= past.before:",
    ),
    _rings(
        "windows whose memory is taken over are rings",
        "if written.root == past.value and k not in spared and written.layout.origin < new:",
        "if written.root == '' and k not in spared and written.layout.origin < new:",
    ),
    _window(
        "windows that move by other numbers of rows are rings",
        "ends = op.ends[axis] == shape[axis]",
        "ends = True",
    ),
    _window(
        "states that are read besides are rings",
        "if len(readers) != 1 or past in graph.outputs:",
        "if not readers or past in graph.outputs:",
    ),
    _step(
        "the first part of a state is copied alone",
        "{{ slot.output.name }}, {{ slot.input.type.bytes }}u);",
        "{{ slot.output.name }}, 4u);",
    ),
    _sequences(
        "every step of a sequence begins with the first state",
        "state |= next_state(graph, state, found, number)",
        "state = first_state(graph)",
    ),
    _positions(
        "any scores are taken for those of distances",
        "if off <= _ALIKE * np.abs(scores).max():",
        "if off <= np.abs(scores).max():",
    ),
    _positions(
        "tables of more steps are those of the model again",
        "weights @ np.stack([wave[-n:], wave[-2 * n : -n]])",
        "wave[:n]",
    ),
    _positions(
        "all queries have the first number",
        "part = array.take(range(start, start + count), axis)",
        "part = array.take(range(count), axis)",
    ),
    _sequences(
        "silence ends before a round of calls does",
        "if number % every == 0:",
        "if number:",
    ),
    _sequences(
        "silence is 0 among integers with a scale",
        "scale.zero_point if scale else 0",
        "0",
    ),
    _sequences(
        "a sequence is cut across time",
        "np.split(array, parts, other[0])",
        "np.split(array, parts, array.ndim - 1)",
    ),
    _sequences(
        "states that are given are computed instead",
        "left_out = bool(states) and not states & arrays.keys()",
        "left_out = bool(states)",
    ),
)
