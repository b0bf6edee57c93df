"""Changes of planning, measuring, choosing, of records and the cache."""

from __future__ import annotations

from mutations.change import Change, rows

_TUNE = "generator/cannery/tuning"
_CHOOSE = "generator/cannery/choose"
_MEASURE = "generator/cannery/measure"
_T = "tests/tuning"

_finalists = rows(f"{_TUNE}/finalists.py", f"{_T}/test_finalists.py")
_cache = rows(f"{_MEASURE}/cache.py", "tests/measure/test_cache.py")
_search = rows(f"{_TUNE}/search.py", f"{_T}/test_search.py", f"{_T}/test_budget.py")
_plan = rows(f"{_CHOOSE}/plan.py", "tests/choose/test_plan.py")
_defaults = rows(
    f"{_CHOOSE}/defaults.py", "tests/choose/test_defaults.py", f"{_T}/test_approximations.py"
)
_optimize = rows(f"{_TUNE}/optimize.py", f"{_T}/test_optimize.py")
_record = rows(f"{_CHOOSE}/record.py", "tests/choose/test_record.py")
_lookup = rows(f"{_CHOOSE}/lookup.py", "tests/choose/test_record.py", "tests/choose/test_owner.py")
_provenance = rows(f"{_CHOOSE}/provenance.py", "tests/choose/test_provenance.py")
_recheck = rows(
    f"{_CHOOSE}/recheck.py", "tests/choose/test_defaults.py", "tests/choose/test_record.py"
)
_signature = rows(
    f"{_CHOOSE}/signature.py", "tests/choose/test_record.py", "tests/choose/test_owner.py"
)
_stacks = rows(
    f"{_CHOOSE}/stacks.py",
    f"{_T}/test_many.py::test_chunks",
    f"{_T}/test_many.py::test_stacks_have_to_gain_a_fifth",
    f"{_T}/test_many.py::test_what_a_record_says_is_for_one_number_of_images",
)
_many = rows(f"{_TUNE}/tune_many.py", f"{_T}/test_search.py")
_measure = rows(f"{_MEASURE}/measure.py", f"{_T}/test_search.py")
_trial = rows(f"{_MEASURE}/trial.py", "tests/measure/test_trial.py")
_contest = rows(f"{_MEASURE}/harness.c.j2", "tests/measure/test_contest.py")
_harness = rows(f"{_MEASURE}/harness.c.j2", "tests/measure/test_harness.py")

CHANGES: tuple[Change, ...] = (
    _finalists(
        "the slowest network wins",
        "if us <= min(tuned) * (1 + TIE))",
        "if us >= max(tuned) / (1 + TIE))",
    ),
    _finalists(
        "a tie is enough to stay untuned",
        "if before < tuned[winner] / (1 + TIE)",
        "if before < tuned[winner] * (1 + TIE)",
    ),
    _finalists(
        "errors are not mended",
        "plan if error <= bound else optimizer",
        "plan if error >= bound else optimizer",
    ),
    _finalists(
        "networks are made less exact than allowed",
        "return min(max(bound / 2, rounding_error(graph, max_error) or 0.0), bound)",
        "return max(bound / 2, rounding_error(graph, max_error) or 0.0)",
    ),
    _cache(
        "damaged caches end the program",
        "    OSError, ValueError, KeyError, TypeError,",
        "    OSError, ValueError, TypeError,",
    ),
    _cache("other processes' measurements get lost", "                self.load()\n", ""),
    Change(
        "files are written in place",
        "generator/cannery/atomic.py",
        'temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")',
        "temporary = path",
        ("tests/measure/test_cache.py", "tests/cli/test_files.py"),
    ),
    _search(
        "a wrong candidate is timed",
        "bad = [k for k in inside if self._bad(found[built.candidates[k].symbol])]",
        "bad: list[int] = []",
    ),
    _search(
        "half known contests count as known",
        "return all(map(self._is_known, contest.candidates))",
        "return any(map(self._is_known, contest.candidates))",
    ),
    _search(
        "time that is over is not noticed",
        "return left / self.seconds_each, BUDGET_CANDIDATES",
        "return left, BUDGET_CANDIDATES",
    ),
    _plan(
        "a reorder of an output is free",
        "cost += self.change(value, order, Read(self.port(value), plain=True))",
        "pass",
    ),
    _plan(
        "orders of values that are read later get lost",
        "if self.last.get(value, -1) > segment.end:",
        "if self.last.get(value, -1) > segment.end + 1:",
    ),
    _plan(
        "memory of one pixel is reordered",
        "(c == 1 or h * w == 1) and set(orders)",
        "c == 1 and set(orders)",
    ),
    _plan(
        "the dearer option of equal orders stays",
        "or option.cost < best[key].cost:",
        "or option.cost > best[key].cost:",
    ),
    _plan(
        "a halo is read from the caller's memory",
        "if (read.plain or order == source) and (",
        "if (True) and (",
    ),
    _plan("slack counts as plain", "not want.halo and not want.slack)", "not want.halo)"),
    _plan(
        "overlap begins too late",
        "one.first < other.end and other.first < one.end",
        "one.first < other.end - 1 and other.first < one.end",
    ),
    _defaults(
        "inexact schedules may take all of the bound",
        "return min(self.max_error / 2, self.max_error - rounding)",
        "return self.max_error - rounding",
    ),
    _defaults(
        "known inexact choices are judged again",
        "if k not in known and choice.inexact]",
        "if choice.inexact]",
    ),
    _defaults(
        "in half precision all inexact schedules or none",
        "if self.graph.half_layers and (",
        "if False and (",
        "tests/choose/test_defaults.py",
    ),
    _defaults(
        "losses without bound are squared",
        "(1.0 if error is None else error) / sqrt(step.macs(self.graph) + 1)",
        "(1.0 if error is None else error) ** 2 / (step.macs(self.graph) + 1)",
        "tests/choose/test_defaults.py",
    ),
    _defaults(
        "options lie beside known chains",
        "elif any(overlap(segment, self.segments[other]) for other in known):",
        "elif any(segment.first == self.segments[other].first for other in known):",
        "tests/choose/test_defaults.py",
        "tests/choose/test_record.py",
    ),
    _optimize(
        "emulated times decide",
        "if found is None or self.origin is Origin.EMULATED:",
        "if found is None:",
    ),
    _optimize(
        "faulty candidates are sound",
        "return not measured.fault and measured.error <= bound",
        "return measured.error <= bound",
    ),
    _optimize(
        "inexact candidates that nobody measured are usable",
        "if measured else not choice.inexact",
        "if measured else True",
    ),
    _optimize(
        "of ties the largest code wins",
        "min(ties, key=lambda t: t.code_bytes)",
        "max(ties, key=lambda t: t.code_bytes)",
    ),
    _optimize(
        "errors saved are not counted", "            total -= saved\n", "            total = 0.0\n"
    ),
    _optimize(
        "rivals of other orders take part",
        "if t.usable and t.label != str(choice) and (t.option.reads, t.option.writes) == orders",
        "if t.usable and t.label != str(choice)",
    ),
    _optimize(
        "estimates stand for themselves",
        "return us if self.timed or not modelled else math.sqrt(us * modelled)",
        "return us if self.timed or not modelled else us * modelled",
    ),
    _optimize(
        "faulty candidates become runner-up, or repair",
        "if t.usable and t.label != str(choice) and",
        "if t.label != str(choice) and",
    ),
    _optimize(
        "the dearest exactness is bought first",
        "better = max(savings, key=lambda found: found[0])",
        "better = min(savings, key=lambda found: found[0])",
    ),
    _record(
        "records of other bits are used",
        "if (record.isa, record.bits) != (isa.name, isa.bits):",
        "if record.isa != isa.name:",
    ),
    _record(
        "new versions of schedules are taken for the old",
        "if known.version != version:",
        "if known.version < version:",
    ),
    _record(
        "an inexact choice without an error is trusted",
        "entry.error or 0.0\n    bound",
        "0.0\n    bound",
    ),
    _record(
        "the error of other weights does not count", "error, bound = emulated, min(", "bound = min("
    ),
    _record("illegal schedules are taken from records", "    if reason:\n", "    if False:\n"),
    _record(
        "parameters are not compared",
        "if dict(candidate) == given:",
        "if set(candidate) == set(given):",
    ),
    _record(
        "entries are used in any order",
        "entries[number].nodes != nodes, number != following,",
        "number != following, entries[number].nodes != nodes,",
    ),
    _record(
        "worse origins replace better ones",
        "_rank(entry.origin) - _rank(same.origin)\n",
        "_rank(same.origin) - _rank(entry.origin)\n",
    ),
    _record(
        "equal content is written again",
        "        if path.read_bytes() == data:\n            return False\n",
        "        pass\n",
    ),
    _record(
        "orders are not checked",
        "                if order not in ORDERS:",
        "                if not order:",
    ),
    _record(
        "record keeps an old, smaller error",
        "known / SAME_ERROR <= error <= known * SAME_ERROR",
        "known / SAME_ERROR <= error",
    ),
    _record("old times of another device stay", "(worth == 0 and same_device)", "worth == 0"),
    _lookup(
        "a record of native serves every instruction set",
        "if other is not None and (other.isa, other.bits) == (target.isa.name, target.isa.bits):",
        "if other is not None:",
    ),
    _lookup(
        "a missing record is no error where it is locked",
        "if options.locked or place is not None:",
        "if place is not None:",
    ),
    _lookup("locked options only warn", "    if options.locked:\n", "    if False:\n"),
    _lookup(
        "the advised command tunes another layout",
        '    "name", "rename", "input_view",',
        '    "name", "rename", "input_view", "io_layout",',
        "tests/choose/test_owner.py",
        "tests/choose/test_record.py",
    ),
    _provenance(
        "flags are compared word by word",
        "        return _last_flags(text.split())\n",
        "        return text\n",
    ),
    _provenance("major versions do not matter", "number and number[0]", "number and None"),
    _provenance("paths are kept in flags", ' and "/" not in w]', "]"),
    _provenance(
        "clang 14 for gcc 14: no note",
        'return "clang" in text.lower(), number and number[0]',
        "return number and number[0]",
    ),
    _recheck("networks are judged on one sample", "SAMPLES = 2", "SAMPLES = 0"),
    _recheck(
        "an error that is no number is none",
        "return error if np.isfinite(error) else 1e300",
        "return error if np.isfinite(error) else 0.0",
    ),
    _recheck(
        "the cache of emulation forgets the weights",
        "                digest.update(np.ascontiguousarray(graph.constants[value]).tobytes())\n",
        "                digest.update(value.encode())\n",
    ),
    _recheck(
        "the error of another schedule is taken from the cache",
        ".id} {schedule.v",
        ".v",
        "tests/choose/test_keys.py",
    ),
    _recheck(
        "only the last output's error counts",
        "            worst = max(worst, _distance(found[name], expected[name]))",
        "            worst = _distance(found[name], expected[name])",
        "tests/choose/test_defaults.py",
    ),
    _signature(
        "attributes are no part of a signature",
        ' {format_attributes(node)}".rstrip()',
        '".rstrip()',
    ),
    _signature(
        "types are no part of a signature",
        'return f"{names[value]}:{graph.types[value]}{stored}"',
        "return names[value] + stored",
    ),
    _signature(
        "how weights are stored is no part of a signature",
        '" as float16" if value in graph.halves else ""',
        '""',
        "tests/quantization/test_halves.py",
    ),
    _stacks(
        "chunks leave out the largest",
        "found = [many] if many > 1 else []",
        "found: list[int] = []",
    ),
    _stacks(
        "what a record says for other numbers is taken",
        "if record.many is None or record.many.images != many:",
        "if record.many is None:",
    ),
    _stacks(
        "a gain is expected of everything",
        "< WORTH * images * max(alone, slowest)",
        "< images * images * max(alone, slowest)",
    ),
    _stacks(
        "entries for many of an old version of a schedule are used",
        "return (way.schedule.id, way.schedule.version, dict(way.params)) == named",
        "return (way.schedule.id, entry.version, dict(way.params)) == named",
        "tests/tuning/test_many.py",
    ),
    _many(
        "wrong stacked candidates win",
        "            and not measured.fault\n            and measured.error <= search.max_error\n",
        "",
    ),
    _many("chunks that gain nothing stay", "if gain >= LEAST_GAIN]", "if gain >= 0.0]"),
    _many(
        "stacked steps have to be as fast as one image",
        "best[1].us < LESS * self.images * single.us:",
        "best[1].us < LESS * single.us:",
        "tests/tuning/test_many.py",
    ),
    _measure(
        "missing candidates go unseen",
        "if len(found) != len(built.candidates):",
        "if len(found) > len(built.candidates):",
        f"{_T}/test_search.py",
    ),
    _measure(
        "median and quartile are swapped",
        "Timing(us, median, int(samples))",
        "Timing(median, us, int(samples))",
    ),
    _trial(
        "values are not rounded to their types",
        "return np.ascontiguousarray(array, dtype=graph.types[value].dtype.numpy)",
        "return np.ascontiguousarray(array)",
    ),
    _trial(
        "in place without the same layout",
        " or inputs[0].layout != outputs[0].layout:",
        ":",
    ),
    Change(
        "the cache forgets the compiler's flags",
        f"{_TUNE}/search.py",
        '" ".join([*self.toolchain.compiler.command, *self.toolchain.cflags])',
        '" ".join(self.toolchain.compiler.command)',
        ("tests/measure/test_identify.py",),
    ),
    Change(
        "the cache forgets the device",
        f"{_TUNE}/search.py",
        'device = runner.device.key if runner.device else ""',
        'device = ""',
        ("tests/measure/test_identify.py",),
    ),
    _search(
        "checked but untimed candidates count as measured",
        "return found is not None and (found.us is not None or self._bad(found))",
        "return found is not None",
        "tests/tuning/test_search.py",
    ),
    _cache(
        "flags are no part of an environment",
        "json.dumps(asdict(self))",
        'json.dumps({**asdict(self), "flags": ""})',
    ),
    _optimize(
        "tuning looks for speed alone",
        "kept = [plan for plan in found if self._keeps(plan)]",
        "kept = found",
    ),
    _optimize(
        "what is made more exact may take any memory",
        "return found if self._keeps(found) else plan",
        "return found",
    ),
    Change(
        "a record that breaks the bound of memory is good enough",
        "generator/cannery/tuning/tuner.py",
        "if found.unusable or _breaks(",
        "if found.unusable and _breaks(",
        ("tests/tuning/test_tuner.py",),
    ),
    Change(
        "record of a larger model is overwritten",
        "generator/cannery/choose/owner.py",
        " and used == {entry.signature for entry in record.steps}",
        "",
        ("tests/choose/test_owner.py",),
    ),
    Change(
        "a tuning that measured nothing replaces a good record",
        "generator/cannery/tuning/tuner.py",
        "known = search.decides or (there is None and not idle)",
        "known = True",
        ("tests/tuning/test_deadline.py",),
    ),
    Change(
        "an emulator shares the work with a device",
        "generator/cannery/measure/identify.py",
        " or bool(other.emulated) != bool(first.emulated)",
        "",
        ("tests/measure/test_identify.py",),
    ),
    Change(
        "the best output is a network's error",
        "generator/cannery/tuning/confirm.py",
        "return max(errors_by_output(",
        "return min(errors_by_output(",
        ("tests/tuning/test_finalists.py",),
    ),
    Change(
        "another device's steps are kept",
        "generator/cannery/tuning/earlier.py",
        "if device is None or recorded_device(device, there) != there:",
        "if device is None:",
        ("tests/tuning/test_earlier.py",),
    ),
    Change(
        "the search ends before it begins",
        "generator/cannery/tuning/budget.py",
        "kept = min(CONFIRM_SECONDS",
        "kept = max(CONFIRM_SECONDS",
        ("tests/tuning/test_budget.py",),
    ),
    _cache("times of another clock are taken", '"mhz": self.mhz,', '"mhz": 0.0,'),
    Change(
        "notes about this machine",
        "generator/cannery/measure/identify.py",
        "if device is None or not runner.given:",
        "if device is None:",
        ("tests/measure/test_identify.py",),
    ),
    Change(
        "a cheaper plan within the bound of bytes is forgotten",
        f"{_CHOOSE}/size.py",
        "                best, high = found, middle",
        "                high = middle",
        ("tests/choose/test_size.py",),
    ),
    Change(
        "one record that was measured speaks for all",
        f"{_CHOOSE}/bounds.py",
        "measured = served and all(record.error is not None",
        "measured = served and any(record.error is not None",
        ("tests/choose/test_bounds.py",),
    ),
    _contest("slow candidates stay", "quantile(all + k, 0.25) <= 1.1 * best;", "1;"),
    _contest(
        "what has no rival is compared with all",
        "if (candidates[all[j].index].rivals == candidates[all[k].index].rivals) {",
        "{",
    ),
    _contest(
        "memory of a contest is kept",
        "        pool_free();\n        start = end;",
        "        start = end;",
    ),
    _contest("samples of a contest are kept", "            free(all[k].samples);\n", ""),
    _contest(
        "the limit counts for the first rounds alone",
        "fitting(settings.more, 2,",
        "fitting(settings.more, settings.more,",
    ),
)
