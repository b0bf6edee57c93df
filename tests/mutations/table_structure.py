"""Changes of layouts, steps, memory, and the C around kernels."""

from __future__ import annotations

from mutations.change import Change, rows

_C = "generator/cannery"
_PROGRAMS = "tests/lowering/test_programs.py"
_PLAN = "tests/lowering/test_memory_plan.py"

_assign = rows(f"{_C}/lowering/assign.py", _PROGRAMS)
_lifetimes = rows(f"{_C}/lowering/lifetimes.py", _PROGRAMS)
_plan = rows(f"{_C}/lowering/memory_plan.py", _PLAN)
_layout = rows(f"{_C}/layouts/layout.py", "tests/layouts/test_layouts.py", _PROGRAMS)
_nhwc = rows(f"{_C}/layouts/nhwc.py", "tests/layouts/test_layouts.py")
_planar = rows(f"{_C}/layouts/planar.py", "tests/layouts/test_layouts.py")
_phase = rows(f"{_C}/layouts/phase_split.py", "tests/layouts/test_layouts.py")
_halo = rows(f"{_C}/emit/halo.py", "tests/emit/test_halo.py")
_lower = rows(f"{_C}/lowering/lower.py", "tests/passes/test_passes.py", "tests/ops/test_sources.py",
              _PROGRAMS)  # fmt: skip
_stack = rows(
    f"{_C}/lowering/stack.py",
    "tests/lowering/test_run_functions.py",
    "tests/emit/test_many.py::test_steps_alternate",
    "tests/tuning/test_many.py::test_what_cannot_be_stacked",
)
_apart = rows(f"{_C}/ctext/apart.py", "tests/ctext/test_apart.py")
_parser = rows(f"{_C}/ir/parser.py", "tests/ir/test_parser.py")
_printer = rows(f"{_C}/ir/printer.py", "tests/ir/test_parser.py")
_attributes = rows(f"{_C}/ir/attributes.py", "tests/ir/test_parser.py")
_cores = rows(f"{_C}/lowering/cores.py", "tests/lowering/test_cores.py")
_ahead = rows(f"{_C}/schedule/ahead.py", "tests/schedule/test_ahead.py")
_many = rows(
    f"{_C}/emit/many.py",
    "tests/lowering/test_run_functions.py",
    "tests/emit/test_many.py::test_weights_of_the_same_packing_are_stored_once",
    "tests/emit/test_many.py::test_the_same_bits_as_single_calls",
)
_parallel = rows(
    f"{_C}/emit/parallel.py",
    "tests/emit/test_parallel.py::test_sequences_of_any_length",
    "tests/nets/test_parallel.py",
)
_pieces = rows(f"{_C}/emit/pieces.py", "tests/emit/test_pieces.py", "tests/nets/test_parallel.py")
_arrays = rows(f"{_C}/ctext/arrays.py", "tests/ctext/test_arrays.py")
_literals = rows(f"{_C}/ctext/literals.py", "tests/emit/test_literals.py")
_selftest = rows(f"{_C}/emit/selftest.c.j2", "tests/emit/test_selftest.py")
_stored = rows(f"{_C}/emit/selftest.py", "tests/emit/test_selftest.py")
_interface = rows(f"{_C}/emit/interface.py", "tests/emit/test_interface.py",
                  "tests/emit/test_interface_names.py", "tests/emit/test_view.py")  # fmt: skip
_ROOM = "tests/emit/test_many.py::test_a_choice_at_run_time_has_room_for_each"
_dispatch = rows(f"{_C}/emit/dispatch.py", _ROOM)
_source = rows(f"{_C}/emit/source.py", "tests/emit/test_interface.py",
               "tests/emit/test_determinism.py",
               "tests/lowering/test_run_functions.py")  # fmt: skip
_making = rows(f"{_C}/emit/making.py", "tests/emit/test_golden.py", "tests/emit/test_interface.py",
                "tests/lowering/test_run_functions.py")  # fmt: skip
_tidy = rows(f"{_C}/ctext/tidy.py", "tests/ctext/test_tidy.py")
_verify = rows(f"{_C}/ir/verify.py", "tests/ir/test_graph.py")
_rewrite = rows(f"{_C}/ir/rewrite.py", "tests/ir/test_graph.py", "tests/passes/test_passes.py")

CHANGES: tuple[Change, ...] = (
    _assign("memory that is read later is taken over", " and last[source.root] == k", ""),
    _assign(
        "parts of two concatenations are in one only",
        'if self.parents.get(value, ("",))[0] == step.output:',
        "if value in self.parents:",
    ),
    _assign(
        "parts that occur twice are written once",
        "if value not in self.parents and times[value] == 1:",
        "if value not in self.parents:",
    ),
    _assign("reshapes count as written in place", "if value in views or not fits:", "if not fits:"),
    _assign(
        "neighbours of a part are its halo",
        "        if (h, w) == parent.layout.shape[:2]:\n    ",
        "",
    ),
    _assign(
        "aliases stay behind when memory is shared",
        "replace(buffers[n], root=source.name) for n in moved})",
        "replace(buffers[n], root=source.name) for n in moved[:1]})",
    ),
    _assign("in place between layouts", " and source.layout == target.layout", ""),
    _assign(
        "outputs of another order are exported",
        "if layout == port and whole",
        "if layout.elements == port.elements and whole",
    ),
    _assign(
        "a want of dense memory is forgotten",
        "merged = want if want.dense else merge_wants(",
        "merged = merge_wants(",
    ),
    _assign(
        "a part by rows claims a halo that is its neighbour",
        "if (h, w) == parent.layout.shape[:2]:\n            ",
        "",
        "tests/lowering/test_programs.py",
        "tests/lowering/test_run_functions.py",
    ),
    _lifetimes(
        "halos in shared memory are not cleared",
        "for n in halos if n not in pinned}",
        "for n in ()}",
    ),
    _lifetimes("pinned memory is shared", "life = (0, end) if name in pinned else", "life ="),
    _lifetimes(
        "batches have memory for one image",
        "return image_dims(buffer.type)[0] * buffer.layout.bytes",
        "return buffer.layout.bytes",
    ),
    _lifetimes(
        "scratch lives one step too early",
        "Allocation(scratch_name(index), size, index, index)",
        "Allocation(scratch_name(index), size, index - 1, index - 1)",
    ),
    _lifetimes(
        "second run finds another value in the halo",
        "life = (0, end) if name in pinned else (first[name], last[name])",
        "life = (0, last[name]) if name in pinned else (first[name], last[name])",
        "tests/lowering/test_programs.py",
        "tests/lowering/test_run_functions.py",
    ),
    _plan(
        "blocks that end where others begin overlap",
        "(first <= block.last) & (block.first <= last)",
        "(first < block.last) & (block.first < last)",
    ),
    _plan(
        "gaps are taken without rounding",
        "before[:-1] + align(block.bytes) <= starts",
        "before[:-1] + block.bytes <= starts",
        equivalent="gaps begin and end at multiples of 64, so a block that fits, fits rounded",
    ),
    _plan(
        "blocks overlap the end of what is busy", "np.maximum.accumulate(end[busy])", "end[busy]"
    ),
    _layout(
        "a halo counts as covered by any",
        "return self.union(other) == self",
        "return bool(self) or not other",
    ),
    _layout(
        "slack is not looked at",
        "            and layout.slack >= self.slack\n",
        "",
        "tests/layouts/test_layouts.py",
        _PROGRAMS,
    ),
    _layout(
        "one pixel of many channels is any order",
        "not (c == 1 or h * w == 1):",
        "not (c == 1 or h == 1):",
    ),
    _layout(
        "one channel of many is read as a plane",
        "    if layout.col != 1:\n        return None\n",
        "",
        "tests/layouts/test_layouts.py",
    ),
    _nhwc("the tail of an image is missing", "tail = min(halo.left, halo.right) * col", "tail = 0"),
    _planar("planes have no tail", "tail = min(halo.left, halo.right)", "tail = 0"),
    _phase("planes have no row of zeros", "(-(-h // 4) + 1) * row", "-(-h // 4) * row"),
    _halo("rows of halo between images stay", "if plane > end:", "if plane > end + layout.row:"),
    _halo(
        "the last row's gap is cleared, too",
        "for (int i = 0; i < {h - 1}; ++i)",
        "for (int i = 0; i < {h}; ++i)",
    ),
    _halo("the gap between two rows alone stays", "if gap and h > 1:", "if gap and h > 2:"),
    _halo("columns of phases stay where a row is short", "p % 4 >= {w % 4}", "p % 4 > {w % 4}"),
    _lower(
        "outputs are fused away",
        "while reads.get(running) == 1:",
        "while len(graph.consumers(running)) == 1:",
    ),
    _lower(
        "inputs of inner parts are inputs of chains",
        "for v in part.inputs if v not in inner)",
        "for v in part.inputs)",
    ),
    Change(
        "chains where the value is not the first input",
        "generator/cannery/lowering/lower.py",
        "return alone and inputs.count(step.output) == 1 and step.output == inputs[0]",
        "return alone and inputs.count(step.output) == 1",
        (),
        equivalent="no schedule of a chain takes such a value",
    ),
    _stack(
        "what differs along the first axis is stacked",
        "if any(len(shape) == rank and shape[0] != 1 for shape in shapes):",
        "if False:",
    ),
    _stack(
        "images with halos are stacked", "== root.elements and not root.halo", "== root.elements"
    ),
    _stack("what lives between phases is shared", " or len(set(numbers)) > 1", ""),
    _stack(
        "stacked images get the constants of other rows",
        "    if any(len(shape) == rank and shape[0] != 1 for shape in shapes):\n"
        '        return "its constants differ along the first axis"\n',
        "",
        "tests/tuning/test_many.py",
        "tests/emit/test_many.py",
    ),
    _stack(
        "memory of run_many is given away too early",
        "root: (min(numbers), max(numbers))",
        "root: (min(numbers), min(numbers))",
        "tests/lowering/test_run_functions.py",
        "tests/emit/test_many.py",
    ),
    _cores(
        "a writer's axis does not matter",
        "if before in (UNITS, TILES):\n        return 0.25",
        "if before in (UNITS, TILES):\n        return 0.0",
    ),
    _cores("uneven parts take no longer", "us * -(-work.parts // 2) / work.parts", "us / 2"),
    _ahead(
        "the last step prefetches nothing",
        "[*fetchers[1:], len(own) - 1]",
        "[*fetchers[1:], fetchers[-1]]",
    ),
    _many(
        "halos that begin in a later phase stay",
        "(spread and root not in seen)",
        "(spread and root not in seen and number == 0)",
    ),
    _many("halos of many images are not cleared", "(spread and root not in seen)", "False"),
    _many(
        "images lie too close",
        "stride = image_dims(buffer.type)[0] * buffer.layout.elements",
        "stride = buffer.layout.elements",
    ),
    Change(
        "constants of other values are shared",
        f"{_C}/ctext/known.py",
        "array_digest(constant.values)",
        "array_digest(constant.values[:1])",
        (
            "tests/emit/test_many.py::test_weights_of_the_same_packing_are_stored_once",
            "tests/emit/test_many.py::test_the_same_bits_as_single_calls",
        ),
    ),
    Change(
        "constants of other types are shared",
        f"{_C}/ctext/known.py",
        "return constant.values.dtype.name, ",
        'return "", ',
        ("tests/ctext/test_known.py",),
    ),
    _many(
        "workspace of run_many too small",
        "return max((chunk.bytes for chunk in self.chunks), default=0) + self.spare",
        "return max((chunk.bytes for chunk in self.chunks), default=0)",
        "tests/emit/test_many.py",
    ),
    _parallel(
        "threads share scratch memory",
        "(size_t)(index - 1) * {self._thread_bytes}u",
        "(size_t)(index - 1) * 64u",
    ),
    _parallel(
        "scratch is that of the first step",
        "max((calls[step.index].kernel.scratch_bytes for step in steps), default=0)",
        "min((calls[step.index].kernel.scratch_bytes for step in steps), default=0)",
    ),
    _pieces(
        "the last band is whole",
        "? {last} * {band} : {call.rows})",
        "? {last} * {band} : {last} * {band})",
    ),
    _pieces("bands of images begin anew", "part += end - begin;", "part += end;"),
    _arrays("equal arrays are stored twice", "if digest not in self._known:", "if True:"),
    _arrays(
        "arrays in the blob are not aligned",
        "self.data.write(bytes(-values.nbytes % ALIGNMENT))",
        "self.data.write(b'')",
    ),
    _literals(
        "the least integer overflows", "if value in (-(2**31), -(2**63)):", "if value == -(2**63):"
    ),
    _literals(
        "infinities lose their sign",
        '"(1.0f / 0.0f)" if single > 0 else "(-1.0f / 0.0f)"',
        '"(1.0f / 0.0f)"',
    ),
    _selftest(
        "the self-test accepts NaN",
        "if (!(f32x1_abs(y[i * stride] - expected[i]) <= {{ limit }} * largest)) {",
        "if (f32x1_abs(y[i * stride] - expected[i]) > {{ limit }} * largest) {",
    ),
    _selftest("the last output alone is judged", "    wrong |= differs(", "    wrong = differs("),
    _selftest(
        "NaN passes the selftest",
        "!(f32x1_abs(y[i * stride] - expected[i]) <= {{ limit }} * largest)",
        "f32x1_abs(y[i * stride] - expected[i]) > {{ limit }} * largest",
    ),
    _stored("every element is stored", "stride = -(-values.size // MAX_STORED) | 1", "stride = 1"),
    _interface(
        "names that differ in case are no clash", "if name.lower() in owners:", "if name in owners:"
    ),
    _interface(
        "views may have batches",
        "if type_.rank != 4 or type_.shape[0] != 1:",
        "if type_.rank != 4:",
    ),
    _interface(
        "dense strides are swapped",
        "return (c, w * c) if self.view",
        "return (w * c, c) if self.view",
    ),
    _interface(
        "two parameters of one name: does not compile",
        "        while taken & {made.name, *made.strides}:",
        "        while made.name in taken:",
        "tests/emit/test_interface_names.py",
    ),
    _interface(
        "strides of a dense view are exchanged",
        "return (c, w * c) if self.view else ()",
        "return (w * c, c) if self.view else ()",
        "tests/emit/test_view.py",
    ),
    Change(
        "a library for Arm asks for its plainest instruction set alone",
        f"{_C}/emit/dispatch.py",
        "on_arm = [part.isa for part in parts[:-1]",
        "on_arm = [part.isa for part in parts[-1:]",
        ("tests/emit/test_choice.py",),
    ),
    Change(
        "dot products are another bit of the kernel's",
        f"{_C}/target/choice.py",
        '"asimddp", "AT_HWCAP", 20,',
        '"asimddp", "AT_HWCAP", 1,',
        ("tests/emit/test_choice.py",),
    ),
    _dispatch(
        "the workspace is that of the plainest",
        "bytes_ = max(part.single_bytes for part in parts)",
        "bytes_ = parts[-1].workspace.bytes",
        "tests/emit/test_step_workspace.py",
    ),
    _source(
        "the hash forgets the weights",
        "for piece in array_pieces(graph.constants[name]):",
        "for piece in ():",
    ),
    _making(
        "kernels of one image run for each of a batch",
        "images = 1 if kernel.whole else image_dims(written.type)[0]",
        "images = image_dims(written.type)[0]",
    ),
    _tidy(
        "braces in text count",
        'if "/" in line or _quotes(line) else line',
        "if False else line",
    ),
    _tidy(
        "lines with braces count as plain",
        'not ("{" in line or "}" in line or ',
        "not (",
    ),
    _verify(
        "values may be read before they are defined",
        "if value and value not in defined:",
        "if value and value not in graph.types:",
    ),
    _verify(
        "types of outputs are not compared",
        "if inferred != tuple(graph.types[o] for o in node.outputs):",
        "if len(inferred) != len(node.outputs):",
    ),
    _rewrite(
        "an output loses its name",
        "        if node.output not in self.outputs:\n            return True\n",
        "        return True\n",
    ),
    _rewrite(
        "readers of outputs count alone",
        "if len(readers) != 1 or value in self.outputs:",
        "if len(readers) != 1:",
    ),
    _apart(
        "sums of pieces are not taken back",
        """return [*found, *(f"{name} = sums[{j}];" for j, name in enumerate(self.sums)), "}"]""",
        """return [*found, "}"]""",
    ),
    _apart(
        "names from nowhere are handed over",
        "                    return None\n            elif re.search(rf",
        "                    continue\n            elif re.search(rf",
    ),
    _apart(
        "variables of loops that have ended are still seen",
        "            found.pop()\n",
        "            pass\n",
    ),
    _parser(
        "layers are called as their outputs",
        'layer = line.name() if line.took("named") else names[0]',
        'layer = names[0] if line.took("named") and line.name() else names[0]',
    ),
    _parser(
        "types of results are not compared",
        "if type_ not in (None, own):",
        "if False:",
    ),
    _printer(
        "equal constants are those whose numbers are equal",
        "if elements and len(set(elements)) == 1:",
        "if elements and bool((array == array.reshape(-1)[0]).all()):",
    ),
    _attributes(
        "attributes are of any type",
        "        if not _fits(values[name], hints[name]):\n",
        "        if False:\n",
    ),
    Change(
        "run_parallel with a negative length",
        "generator/cannery/emit/parallel.c.j2",
        "if (length < 0 || length > {{ s.max_length }}) {",
        "if (length > {{ s.max_length }}) {",
        ("tests/emit/test_lengths.py",),
    ),
    Change(
        "OpenMP's pool has no thread",
        "generator/cannery/emit/openmp.c.j2",
        "threads > 0 ? threads",
        "threads >= 0 ? threads",
        ("tests/cmake/test_cores.py",),
    ),
    _layout(
        "a pixel with room around it is one without",
        "if layout.channel != 1 or not layout.compact:",
        "if layout.channel != 1:",
    ),
    Change(
        "several cores take inputs that are not there",
        f"{_C}/emit/descriptor.c.j2",
        "        const int32_t count = n - first < AT_ONCE ? n - first : AT_ONCE;\n"
        "        {{ s.name }}_run_many{{ suffix }}(workspace, pool, count",
        "        const int32_t count = AT_ONCE;\n"
        "        {{ s.name }}_run_many{{ suffix }}(workspace, pool, count",
        ("tests/emit/test_descriptor.py",),
    ),
    Change(
        "all inputs of a self-test are alike",
        f"{_C}/ir/stimulus.py",
        "top = upper_bits(prod(dims), self.seed + number)",
        "top = upper_bits(prod(dims), self.seed)",
        ("tests/emit/test_selftest.py",),
    ),
    Change(
        "files of steps are not even",
        f"{_C}/emit/split.py",
        "if len(_filled(sizes, middle)) <= parts else",
        "if len(_filled(sizes, middle)) < parts else",
        ("tests/emit/test_split.py",),
    ),
    Change(
        "the workspace of many is that of one",
        f"{_C}/emit/header.h.j2",
        "_MANY_WORKSPACE_BYTES {{ s.many_bytes - s.fast_bytes }}u",
        "_MANY_WORKSPACE_BYTES {{ s.single_bytes }}u",
        ("tests/emit/test_many.py",),
    ),
    _assign(
        "the whole has no halo for those who read a part of it",
        "            found += self.children.get(value, ())\n",
        "            pass\n",
    ),
)
