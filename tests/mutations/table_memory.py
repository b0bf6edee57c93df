"""Changes of what keeps memory small: bounds, needs, and chains that are computed depth first."""

from __future__ import annotations

from mutations.change import Change, kernels, rows

_C = "generator/cannery"
_RAM, _DEPTH = "tests/choose/test_ram.py", "tests/lowering/test_depth.py"
_DEEP = kernels("chains.depth_first", "generic")

_needs = rows(f"{_C}/choose/needs.py", _RAM)
_ram = rows(f"{_C}/choose/ram.py", _RAM)
_lifetimes = rows(f"{_C}/lowering/lifetimes.py", _RAM)
_regions = rows(f"{_C}/lowering/lifetimes.py", "tests/emit/test_fast_ram.py")
_source = rows(f"{_C}/emit/source.py", "tests/emit/test_fast_ram.py")
_stepping = rows(f"{_C}/lowering/lifetimes.py", "tests/emit/test_step_workspace.py")
_fast = rows(f"{_C}/lowering/fast_memory.py", "tests/lowering/test_fast_memory.py")
_depth = rows(f"{_C}/lowering/depth.py", _DEPTH)
_order = rows(f"{_C}/lowering/order.py", "tests/lowering/test_order.py")
_pulling = rows(f"{_C}/ops/chains/pulling.py", _DEPTH)
_sliced = rows(f"{_C}/ops/chains/sliced.py", _DEEP)
_rings = rows(f"{_C}/ops/chains/row_rings.py", _DEEP)
_flash = rows(f"{_C}/choose/flash.py", "tests/choose/test_flash.py")
_sharing = rows(f"{_C}/emit/sharing.py", "tests/emit/test_sharing.py")
_code = rows(f"{_C}/ops/chains/depth_first.c.j2", _DEEP)

CHANGES: tuple[Change, ...] = (
    _flash(
        "the code of each layer counts as if none shared it",
        "return constants + _CALL + code / self._alike[kind]",
        "return constants + _CALL + code",
    ),
    _flash(
        "what a library has besides its steps is free",
        "return self.flash(plan) <= self.most",
        "return self.size(plan) <= self.most",
    ),
    _sharing(
        "a layer computes with the weights of the first one",
        "words.append(numbers.get(read) or symbol + read.removeprefix(first))",
        "words.append(numbers.get(read) or read)",
    ),
    _sharing(
        "numbers that differ stay those of the first layer",
        "differing = (column for column in columns if len(set(column)) > 1)",
        "differing = (column for column in columns if len(set(column)) > 99)",
    ),
    _sharing(
        "sizes of arrays are shared, though they are pointers then",
        r'rf"^#|\bsizeof\b|',
        'rf"^#|',
    ),
    _sharing(
        "only images with a border share",
        'text = _NO_OFFSET.sub(r"\\1 + 0", text)',
        "pass",
    ),
    _needs(
        "views count twice in what is proved",
        "            if may_be_view(step.anchor.op):",
        "            if False:",
    ),
    _needs(
        "outputs count in what is proved",
        "for v, size in sizes.items() if v not in outside)",
        "for v, size in sizes.items())",
    ),
    _needs(
        "values that cross a step are free",
        "if value not in own and self._made[value] <= segment.first < self._last[value]",
        "if False",
    ),
    _needs(
        "one way to compute a chain rules out the others",
        "return index, str(choice) if choice.schedule.depth_first else choice.schedule.id",
        "return index, choice.schedule.id",
    ),
    _needs(
        "nothing works in place",
        "if step.inputs and choice.schedule.in_place(step):",
        "if False:",
    ),
    _ram(
        "a plan that takes a byte too many is taken",
        "if ram.bytes <= self.most:",
        "if ram.bytes <= self.most + 64:",
    ),
    _ram(
        "points of the curve that are slower and larger",
        "if not kept or point.cost < kept[-1].cost:",
        "if True:",
    ),
    Change(
        "a placement that wastes memory stays",
        f"{_C}/lowering/memory_plan.py",
        "best = min(best, plan, key=lambda each: each.bytes)",
        "best = best",
        ("tests/lowering/test_memory_plan.py",),
    ),
    _lifetimes("halos stay pinned", "plan = made(held - 1)", "break"),
    _lifetimes(
        "halos stay pinned where fast memory has more accesses without them",
        "if other.fast and other.fast.accesses > plan.fast.accesses else plan",
        "if other is None else plan",
        "tests/lowering/test_fast_memory.py",
    ),
    _stepping(
        "what whole runs need lies among what steps need",
        "plan = other if other.bytes <= allowed else plan",
        "plan = plan",
    ),
    Change(
        "next states lie among what steps need",
        f"{_C}/emit/source.py",
        "return self.states.next_at(self._end_of_steps)",
        "return self.states.next_at(self.base)",
        ("tests/emit/test_streaming.py",),
    ),
    Change(
        "libraries for several instruction sets name the memory of one",
        f"{_C}/emit/source.py",
        "return max(own, self.least_step)",
        "return own",
        ("tests/emit/test_step_workspace.py",),
    ),
    _fast("the first choice stays", "        if excess <= 0:", "        if False:"),
    _fast(
        "a choice with fewer accesses stays",
        "if old is None or old.worth < new.worth:",
        "if old is None:",
    ),
    _fast(
        "blocks are alive after their end",
        "if items[j].block.last >= item.block.first",
        "if items[j].block.last + 1 >= item.block.first",
    ),
    _fast(
        "what is not proved counts as proved",
        "bound = max(best.worth, known) if complete else",
        "bound = max(best.worth, known) if True else",
    ),
    _fast(
        "the room of the rest costs nothing",
        "gain + room * prices.between(start, steps)",
        "gain",
    ),
    _regions(
        "the fast region is that of the caller's slow memory",
        'return f"quick + {at}" if at < self.fast_bytes else',
        'return f"quick + {at}" if at <= self.fast_bytes else',
    ),
    _source(
        "tools give both regions the same memory",
        'cut = f"(char *)workspace + {self.fast_bytes}, workspace"',
        'cut = "workspace, workspace"',
    ),
    _depth("values that others read end in chains", " and reach <= k:", ":"),
    _order("a step frees what others read", "if not self.readers[v] & ~gone", "if True"),
    _order(
        "parts of concatenations count twice",
        "return max(alive, after) if k in self.views else alive + made, after",
        "return alive + made, after",
    ),
    _order(
        "an order that needs more is taken",
        "return other if peak(other) < peak(graph) else graph",
        "return other",
        equivalent="orders that need as much are as good; it only keeps the code as it was",
    ),
    _pulling(
        "shortcuts keep no rows",
        "starts = [window.first(made[reader]) for reader, window in reading[number]]",
        "starts = [window.first(made[reader]) for reader, window in reading[number][:1]]",
    ),
    _pulling(
        "stages do not wait for the last row of their windows",
        "if made[source] < window.first(made[number]) + window.rows(stage.rows)",
        "if made[source] < window.first(made[number]) + window.rows(stage.rows) - 1",
    ),
    _sliced(
        "padding above and below is done twice",
        "return replace(op, pads=((0, 0), *op.pads[1:]))",
        "return op",
    ),
    _rings("images keep their last rows", "max(tops), max(bottoms)", "max(tops), 0"),
    _code("rows do not move", "low{{ k }} = first;", ""),
    _code(
        "rows below the image are not zero",
        "if (made{{ k }} >= {{ stages[k].height }}) {",
        "if (0) {",
    ),
)
