"""Changes of targets, compilers, commands, the analysis of code, programs, CMake files."""

from __future__ import annotations

from mutations.change import Change, rows

_C = "generator/cannery"

_TARGETS = "tests/target/test_targets.py"
_COMMANDS = "tests/cli/test_network_commands.py"

_runner = rows(
    f"{_C}/target/runner.py",
    f"{_TARGETS}::test_programs_do_not_run_where_anything_is_missing",
    f"{_TARGETS}::test_failures_of_programs",
    f"{_TARGETS}::test_other_lines_are_passed_over",
    "tests/cli/test_failing_tools.py",
)
_compiler = rows(
    f"{_C}/target/compiler.py",
    f"{_TARGETS}::test_private_flags_by_compiler_and_processor",
    f"{_TARGETS}::test_missing_and_foreign_compilers",
)
_toolchain = rows(
    f"{_C}/target/toolchain.py",
    f"{_TARGETS}::test_own_flags_win_over_those_of_users",
    f"{_TARGETS}::test_a_target_must_fit_the_listing",
)
_wavenet = rows("benchmarks/rivals/wavenet.py", "tests/benchmarks/test_steps.py")
_steps = rows("benchmarks/steps.py", "tests/benchmarks/test_steps.py")
_isa = rows(
    f"{_C}/target/choice.py",
    f"{_TARGETS}::test_of_several_instruction_sets_the_richest_comes_first",
)
_targets = rows(
    f"{_C}/target/targets.py", f"{_TARGETS}::test_targets_of_32_bit_x86_compute_with_sse"
)
_files = rows(f"{_C}/output_files.py", "tests/cli/test_files.py")
_contents = rows(f"{_C}/contents.py", "tests/test_contents.py")
_verify = rows(
    f"{_C}/api/verify.py",
    f"{_COMMANDS}::test_verify_fails_if_any_output_is_wrong",
)
_autotune = rows(
    f"{_C}/tuning/outcome.py", f"{_COMMANDS}::test_autotune_fails_if_the_network_is_wrong"
)
_samples = rows(
    f"{_C}/execution/samples.py", "tests/cli/test_network_commands.py", "tests/api/test_load.py"
)
_api = rows(f"{_C}/api/library.py", "tests/api/test_load.py")
_options = rows(f"{_C}/options.py", "tests/test_options.py")
_mix = rows(f"{_C}/analysis/mix.py", "tests/analysis/test_mix.py")
_loops = rows(
    f"{_C}/analysis/loops.py", "tests/analysis/test_mix.py", "tests/analysis/test_walk.py"
)
_integers = rows(f"{_C}/analysis/integers.py", "tests/analysis/test_walk.py")
_walk = rows(f"{_C}/analysis/walk.py", "tests/analysis/test_walk.py")
_mca = rows(
    f"{_C}/analysis/mca.py", "tests/analysis/test_objects.py", "tests/analysis/test_walk.py"
)
_inorder = rows(f"{_C}/analysis/inorder.py", "tests/analysis/test_inorder.py")
_arm_pipeline = rows(f"{_C}/analysis/arm_pipeline.py", "tests/analysis/test_inorder.py")
_sections = rows(f"{_C}/emit/sections.py", "tests/emit/test_sections.py")
_errors = rows(f"{_C}/execution/error_bounds.py", "tests/execution/test_numbers.py")
_functions = rows(f"{_C}/execution/function_bounds.py", "tests/execution/test_numbers.py")
_normal = rows(f"{_C}/execution/normalization_bounds.py", "tests/execution/test_numbers.py")
_recurrent = rows(f"{_C}/execution/recurrent_bounds.py", "tests/execution/test_numbers.py")
_control = rows(f"{_C}/analysis/control.py", "tests/analysis/test_control.py")
_longest = rows(f"{_C}/analysis/longest.py", "tests/analysis/test_longest.py")
_stack = rows(f"{_C}/analysis/stack.py", "tests/analysis/test_stack.py")
_driver = rows(f"{_C}/execution/driver.c", "tests/execution/test_driver.py")
_add = rows("cmake/AddNnModel.cmake", "tests/cmake/test_errors.py", "tests/cmake/test_building.py")
_capture = rows("cmake/capture_compiler.py", "tests/cmake/test_building.py",
                "tests/cmake/test_autotune.py")  # fmt: skip
_run = rows("cmake/run_cannery.py", "tests/cmake/test_run_cannery.py")

CHANGES: tuple[Change, ...] = (
    _wavenet(
        "rivals keep more than the past",
        "later.append(ops.last(joined, layer.conv.reach))",
        "later.append(joined)",
    ),
    _wavenet(
        "rivals begin the head anew in each layer",
        "head = a if head is None else ops.add(head, a)",
        "head = a",
    ),
    _steps(
        "wrong outputs get a time",
        "if e.served and e.error <= MOST_ERROR",
        "if e.served",
    ),
    _steps(
        "microseconds of a call are those of a sample",
        "median(e.served.times) / block",
        "median(e.served.times)",
    ),
    _contents(
        "full disks are errors of Python",
        "except OSError as error:\n        place",
        "except KeyError as error:\n        place",
    ),
    _sections(
        "large weights stay where they were",
        "text = re.sub(blob,",
        "re.sub(blob,",
    ),
    _sections(
        "functions stay in .text",
        'if "code" in sections:',
        'if "cod" in sections:',
    ),
    _errors(
        "errors of inputs are not carried on by products",
        "return Span(low, high, carried + own + (terms + 1) * UNDERFLOW)",
        "return Span(low, high, own + (terms + 1) * UNDERFLOW)",
    ),
    _errors(
        "Winograd rounds as direct sums do",
        "own = _winograd(way.tile, x.size, w.low, bias)",
        "own = gamma(terms + 1) * (_of(op, x.size, np.abs(w.low)) + np.abs(bias))",
    ),
    _errors(
        "sums are rounded once",
        "own = gamma(terms + 1) * sizes",
        "own = gamma(1) * sizes",
    ),
    _functions("exponentials carry errors on as they are", "high * np.expm1(x.error)", "x.error"),
    _functions(
        "quotients ignore the error of what divides",
        "carried = (a.error + size * b.error) / computed",
        "carried = a.error / computed",
    ),
    _functions(
        "a choice that may turn out otherwise has no error of its own",
        "either + np.where(condition.error > 0.0, apart, 0.0)",
        "either",
    ),
    _functions("Log of negative numbers is bounded", "x.low - x.error < UNDERFLOW", "False"),
    _normal(
        "errors of values that are standardised grow no more than they are large",
        "wrong = (error + largest * drift) / least +",
        "wrong = (0.0 * error) / least +",
    ),
    _recurrent(
        "errors of one step do not reach the next",
        "start.error + h.error @ np.abs(r) + own, sizes + own,",
        "start.error + own, sizes + own,",
    ),
    _recurrent(
        "bounds grow without end",
        "return capped(y.low, y.high, y.error, ends.size)",
        "return y",
    ),
    _control(
        "what is set under a condition does not depend on it",
        "known, found[1], max(depends, _depends(found[2], known, tables))",
        "known, found[1], _depends(found[2], known, tables)",
    ),
    _control(
        "a variable whose address is given stays as it is",
        "_raise(known, found[1], Depends.DATA)",
        "_raise(known, found[1], Depends.SHAPES)",
    ),
    _longest(
        "loops inside a loop count twice",
        "own = node == number and _smallest(self.bodies, number) == region",
        "own = True",
    ),
    _longest(
        "loops with several entries are no loops",
        "bodies[_OUTSIDE - number] = component",
        "pass",
    ),
    _stack(
        "a jump to another function keeps no frame",
        "if leaves or kind is Branch.CALL:",
        "if kind is Branch.CALL:",
    ),
    _stack(
        "paths that disagree do not matter",
        "elif entry[successor] != depths[-1]:",
        "elif False:",
    ),
    _stack(
        "calls are as deep as the whole frame",
        "if call.depth + below.bytes > deepest.bytes:",
        "if frame.bytes + below.bytes > deepest.bytes:",
    ),
    _stack(
        "long jumps of Thumb-1 are calls",
        "if kind is Branch.CALL and instruction.target in own[1:]:",
        "if False:",
    ),
    _inorder(
        "what has to come first of a pair does not come second",
        "if self.issued and (one.alone or one.first):",
        "if self.issued and one.alone:",
    ),
    _inorder(
        "vectors are not loaded while a multiply-add adds",
        "one.meets and any(",
        "one.branches and any(",
    ),
    _inorder(
        "arithmetic that waits in the second stage is done later",
        "_Value(at + latency + late, at, 1)",
        "_Value(at + latency, at, 1)",
    ),
    _arm_pipeline(
        "registers of a list arrive one after the other",
        "(r, latency + int(k * each))",
        "(r, latency)",
    ),
    _arm_pipeline(
        "128 bits take both vector units",
        "halves=2 if wide else 1, meets",
        "halves=1, meets",
    ),
    _runner(
        "deaths by signals behind a shell are exit codes",
        "number = -code if code < 0 else code - 128",
        "number = -code",
    ),
    _runner(
        "programs run where the processor lacks something",
        "missing = [flag for flag in target.cpu_flags if flag not in host_cpu_flags()]",
        "missing = [flag for flag in target.cpu_flags[:1] if flag not in host_cpu_flags()]",
    ),
    _compiler(
        "32-bit x86 computes with the old unit",
        'if isa.family == "x86" and isa.bits == 32:',
        'if isa.family == "x86" and isa.bits == 16:',
    ),
    _toolchain(
        "own flags go before the user's",
        "(*target.flags, *options.cflags, *private_flags(compiler.kind, target.isa))",
        "(*target.flags, *private_flags(compiler.kind, target.isa), *options.cflags)",
    ),
    _isa(
        "plainest instruction sets go first",
        "key=lambda isa: -rank[isa.name]",
        "key=lambda isa: rank[isa.name]",
    ),
    _targets(
        "32-bit programs need no other unit", "flags = (*flags, _FPMATH)", "flags = (*flags,)"
    ),
    _files("folders of failed runs stay", "for folder in reversed(made):", "for folder in ():"),
    _verify(
        "verify passes where one output is right",
        "passed = all(error <= most for error in errors.values())",
        "passed = any(error <= most for error in errors.values())",
    ),
    _verify(
        "verify --layers passes with a faulty step",
        "    passed &= not any(step.fault for step in steps)\n",
        "",
        "tests/cli/test_network_commands.py",
    ),
    _verify(
        "verify judges further sizes of calls by the reference alone",
        "    expected = join_calls(given.expected, graph, larger) if given.expected else []\n",
        "    expected: list[Sample] = []\n",
        "tests/emit/test_blocks.py",
    ),
    _autotune(
        "autotune of a wrong network succeeds",
        "self.error is not None and self.error > self.max_error",
        "False",
    ),
    _samples(
        "batches are cut into single images", "array.shape[0] // type_.shape[0])", "array.shape[0])"
    ),
    _mix(
        "spills count loads alone",
        "spilled = times * (one.loads + one.stores) if framed else 0",
        "spilled = times * one.loads if framed else 0",
    ),
    _add(
        "AUTOTUNE takes several instruction sets",
        "if(NOT problem AND ARG_AUTOTUNE AND count GREATER 1)",
        "if(NOT problem AND ARG_AUTOTUNE AND count GREATER 9)",
    ),
    _add(
        "paths are relative to the build", "if(keyword IN_LIST _CANNERY_PATH_OPTIONS)", "if(FALSE)"
    ),
    _add(
        "flags of other targets are forgotten",
        'target_compile_options(${compiled} PRIVATE "$<TARGET_PROPERTY:${other},${property}>")',
        "",
        "tests/cmake/test_instruction_sets.py",
    ),
    _add(
        "FLAGS_FROM an imported library is ignored",
        'if(type STREQUAL "INTERFACE_LIBRARY" OR imported)',
        'if(type STREQUAL "INTERFACE_LIBRARY")',
        "tests/cmake/test_instruction_sets.py",
    ),
    _add(
        "an emulator's path with a space",
        "list(APPEND words \"'${word}'\")",
        'list(APPEND words "${word}")',
        "tests/cmake/test_autotune.py",
    ),
    _capture("the dependency file stays in the command", '"-MF": 1, ', '"-MF": 0, '),
    _run(
        "missing packages are not told",
        "missing = [name for name in NEEDED if find_spec(name) is None]",
        "missing = []",
    ),
    _api(
        "cannery.load with other flags takes the old library",
        "(*toolchain.compiler.command, *toolchain.cflags)",
        "toolchain.compiler.command",
    ),
    _options(
        "--variable-length with --state is accepted",
        '"--state": bool(options.state),',
        "",
        "tests/emit/test_lengths.py",
    ),
    _run("CMake runs another Cannery", "    if found not in packages:\n", "    if not found:\n"),
    Change(
        "bench counts an operation for two",
        "generator/cannery/cli/bench.py",
        "2e-3 * self.macs",
        "1e-3 * self.macs",
        ("tests/cli/test_network_commands.py",),
    ),
    Change(
        "an unknown clock is another one",
        "generator/cannery/target/device.py",
        "return not one or not other or",
        "return not one and not other or",
        (
            "tests/target/test_device.py",
            "tests/measure/test_cache.py",
        ),
    ),
    Change(
        "slow floats count as emulation",
        "generator/cannery/target/device.py",
        "math.prod(slow) ** (1 / len(slow)) >= EMULATED_RATIO",
        "math.prod(slow) >= EMULATED_RATIO",
        ("tests/target/test_device.py",),
    ),
    Change(
        "emulators wait for each other",
        "generator/cannery/target/device.py",
        'if self.boot and not self.emulated else ""',
        'if self.boot else ""',
        (
            "tests/target/test_device.py",
            "tests/measure/test_identify.py",
        ),
    ),
    _options(
        "max_loss alone is accepted",
        'for name in ("calibration", "max_loss"):',
        'for name in ("calibration",):',
        "tests/quantization/test_interface.py",
    ),
    Change(
        "sequences without a batch are cut along another axis",
        f"{_C}/api/inputs.py",
        "return argument.time - len(argument.dims) + array.ndim",
        "return argument.time",
        ("tests/emit/test_lengths.py",),
    ),
    Change(
        "cannery.load does not see a tuning record that was not there",
        f"{_C}/api/make.py",
        "files += record_places(read)",
        "files += []",
        ("tests/api/test_kept.py",),
    ),
    Change(
        "an output of Python may lie on an input",
        f"{_C}/api/arrays.py",
        "for other in (*inputs, *outputs[:k]):",
        "for other in outputs[:k]:",
        ("tests/api/test_calls.py",),
    ),
    Change(
        "edges of pictures end where they begin",
        f"{_C}/reporting/picture.py",
        "        if k:\n",
        "        if False:\n",
        ("tests/reporting/test_page.py::test_every_edge_leads_from_box_to_box",),
    ),
    Change(
        "places that conflict are joined, whether they conflict or not",
        f"{_C}/reporting/placing.py",
        "while pools and pools[-1][0] / pools[-1][1] >= total / size:",
        "while pools:",
        ("tests/reporting/test_placing.py",),
    ),
    Change(
        "images of the caller are checked as they lie",
        f"{_C}/execution/layers.py",
        "choice = replace(choice, schedule=MovementStrided())",
        "choice = replace(choice)",
        ("tests/execution/test_layers.py",),
    ),
    _driver(
        "the reset of a state is counted as a part of the first call",
        "repeat(1); /* the first call resets the state */",
        "",
        "tests/execution/test_counts.py::test_single_steps_and_the_emulator_agree",
    ),
    _driver(
        "outputs but the first are kept after the second run",
        "        memcpy(first[k], outputs[k], model->outputs[k].bytes);\n    }\n"
        "    model->run(workspace, inputs, outputs);\n",
        "        model->run(workspace, inputs, outputs);\n"
        "        memcpy(first[k], outputs[k], model->outputs[k].bytes);\n    }\n",
    ),
    _driver(
        "of many runs each writes the first output",
        "outputs[t] = (char *)many_outputs[t] + (size_t)i * model->outputs[t].bytes;",
        "outputs[t] = (char *)many_outputs[t];",
    ),
    _driver(
        "steps are not divided by the runs that they took",
        "(laps[k] - lapped[k] * clock_read) / repeats",
        "laps[k] - lapped[k] * clock_read",
    ),
    _driver(
        "the time of a run is that of all repeats",
        "const double time = 1e6 * (now - start) / repeats;",
        "const double time = 1e6 * (now - start);",
    ),
    _driver(
        "of a long measurement only the end is kept",
        "column(s, k)[i] = column(s, k)[2 * i];",
        "column(s, k)[i] = column(s, k)[i + s->count];",
    ),
    _driver(
        "signals around what is counted: one is missing",
        "repeat(atoi(argv[2]));\n        raise(SIGUSR1);",
        "repeat(atoi(argv[2]));",
    ),
    Change(
        "what a missing file of the kernel says is what was there",
        f"{_C}/measure/device.h",
        "    FILE *file = 0;\n    text[0] = 0;\n#if defined(__unix__)\n    file = fopen(path",
        "    FILE *file = 0;\n    text[1] = 0;\n#if defined(__unix__)\n    file = fopen(path",
        ("tests/measure/test_identify.py",),
    ),
    Change(
        "a library that was made on another processor is taken",
        f"{_C}/api/kept.py",
        "own_stamp(), processor_stamp(), where",
        "own_stamp(), where",
        ("tests/api/test_kept.py",),
    ),
    Change(
        "instructions are those that the weights at hand allow, not any weights",
        f"{_C}/ops/quantized/ways.py",
        "if graph.weights_vary:  # any",
        "if False:  # any",
        ("tests/emit/test_integer_weights.py",),
    ),
    Change(
        "code with other weights has the sums that the weights at hand begin with",
        f"{_C}/ops/quantized/finish.py",
        "or (vary and job.graph.quantization is None)",
        "",
        ("tests/emit/test_integer_weights.py",),
    ),
    Change(
        "scales of a library are found anew",
        f"{_C}/cli/weights.py",
        "    if options.quantize:\n",
        "    if False:\n",
        ("tests/cli/test_weights.py",),
    ),
    Change(
        "options that name files mean the same from everywhere",
        f"{_C}/api/kept.py",
        "_absolute(text) if name in PATHS else text",
        "text",
        ("tests/api/test_kept.py",),
    ),
    Change(
        "a library that needs more than this processor has is taken",
        f"{_C}/api/store.py",
        "if interface.machine != platform_name() or missing:",
        "if interface.machine != platform_name():",
        ("tests/api/test_calls.py::test_pickled_for_another_processor",),
    ),
    Change(
        "the last byte of a network's code is not looked at",
        f"{_C}/execution/counts.py",
        "addresses = range(first & ~1, last)",
        "addresses = range(first & ~1, last - 1)",
        ("tests/execution/test_counts.py::test_all_code_of_a_network_is_looked_at",),
    ),
    Change(
        "tables for unwinding are constants",
        f"{_C}/measure/elf.py",
        "if name not in _UNWINDING and section[1] != _UNWIND:",
        "if section[1] != _UNWIND:",
        ("tests/execution/test_sizes.py",),
    ),
    Change(
        "templates of other functions are kept",
        f"{_C}/ctext/template_cache.py",
        "self._salt.update(module.read_bytes())",
        "self._salt.update(module.name.encode())",
        ("tests/ctext/test_template_cache.py",),
    ),
    Change(
        "calls that were put off as caches were emptied are missed",
        f"{_C}/execution/pace.py",
        "unbegun = pace.calls - len(latencies) if pace.context is Context.WARM else 0",
        "unbegun = pace.calls - len(latencies)",
        ("tests/execution/test_pace.py",),
    ),
    Change(
        "another major version is accepted",
        "cmake/CanneryConfigVersion.cmake",
        "if(PACKAGE_FIND_VERSION AND NOT PACKAGE_FIND_VERSION_MAJOR STREQUAL _cannery_major)",
        "if(FALSE)",
        ("tests/cmake/test_versions.py",),
    ),
    Change(
        "a kernel without a function is one without code",
        f"{_C}/analysis/kernels.py",
        "    if call.kernel.code.strip() and not own:\n",
        "    if False:\n",
        ("tests/analysis/test_mix.py",),
    ),
    Change(
        "errors of sections name the first line",
        f"{_C}/project_file.py",
        "last = re.escape(key or title.rpartition(",
        "last = re.escape(key and title.rpartition(",
        ("tests/test_project_file.py",),
    ),
    Change(
        "sources of other configurations have no language",
        "cmake/AddNnModel.cmake",
        '    list(TRANSFORM units PREPEND "${place}/${ARG_NAME}" OUTPUT_VARIABLE sources)\n',
        "",
        ("tests/cmake/test_building.py::test_only_cxx_inside_a_function_with_strict_warnings",),
    ),
)
