"""Steps in several C files: the same results, and nothing that programs see of it."""

from __future__ import annotations

import json
import random
import re
import subprocess
from dataclasses import replace
from itertools import accumulate, combinations, pairwise
from pathlib import Path

import pytest

from cannery.emit.files import output_files
from cannery.emit.source import Source
from cannery.emit.split import even_parts, step_files
from cannery.passes import run_passes
from cannery.target.isa import isa
from emit.c_programs import LANGUAGES, Files, build, compile_file, network, run, write_all
from emit.test_interface import symbols
from emit.test_many import MAIN as MANY
from emit.test_many import stacked_source, two_heads
from emit.test_parallel import MAIN as PARALLEL
from emit.test_parallel import source as parallel_source
from needs import need_program
from nets.net_bench import make_net_source

SELFTEST = """
#include "net.h"
#include <stdio.h>
static unsigned char memory[NET_WORKSPACE_BYTES + 64];
int main(void)
{
    unsigned char *const aligned = memory + (64 - (uintptr_t)memory % 64) % 64;
    printf("%d", net_selftest(aligned));
    return 0;
}
"""


def split_source(count: int) -> Source:
    """A network of three steps in this many files."""
    source = make_net_source(run_passes(network()), isa("generic"), "net")
    return replace(source, split=count)


def files_of(source: Source) -> Files:
    """The output folder."""
    return dict(output_files(source, "test"))


@pytest.mark.parametrize("count", [2, 3, 7])
def test_every_step_is_in_one_file_and_in_order(count: int) -> None:
    source = split_source(count)
    files = step_files(source)
    assert [file.number for file in files] == list(range(1, count + 1))
    assert tuple(call for file in files for call in file.calls) == source.calls
    assert files[0].calls


def largest(sizes: list[int], counts: list[int]) -> int:
    """The size of the largest part."""
    ends = list(accumulate(counts))
    return max(sum(sizes[end - n : end]) for n, end in zip(counts, ends, strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_no_other_cut_has_a_smaller_largest_part(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randrange(1, 50) for _ in range(7)]
    for parts in (1, 2, 3, 4, 9):
        counts = even_parts(sizes, parts)
        assert len(counts) == parts
        assert sum(counts) == 7
        cuts = combinations(range(1, 7), min(parts, 7) - 1)
        others = [[b - a for a, b in pairwise((0, *cut, 7))] for cut in cuts]
        assert largest(sizes, counts) == min(largest(sizes, other) for other in others)


def test_no_steps_are_no_trouble() -> None:
    assert even_parts([], 3) == [0, 0, 0]


def test_one_file_is_what_it_was() -> None:
    whole = files_of(split_source(1))
    assert not [name for name in whole if "_steps" in name]
    assert "static void net_L00" in bytes(whole["net.c"]).decode()  # type: ignore[arg-type]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_selftest_passes(tmp_path: Path, language: str) -> None:
    files = files_of(split_source(2)) | {"main.c": SELFTEST}
    assert run(build(tmp_path, files, language, ["-O1", "-Wmissing-declarations"])) == b"0"


def test_nothing_is_exported_and_the_manifest_names_all(tmp_path: Path) -> None:
    files = files_of(split_source(3))
    sources = json.loads(files["net.json"])["sources"]
    assert sorted(sources) == sorted(name for name in files if name.endswith(".c"))
    write_all(tmp_path, files)
    objects = [compile_file(tmp_path, name, "c99 gcc", ["-fPIC"]) for name in sources]
    defined = set().union(*(symbols(o, "-g", "--defined-only") for o in objects))
    assert all(name.startswith("net_") for name in defined)
    library = tmp_path / "libnet.so"
    build_shared(objects, library)
    seen = {name for name in symbols(library, "-D", "--defined-only") if name.startswith("net_")}
    assert seen == {"net_run", "net_run_in", "net_run_many", "net_selftest", "net_model"}


def build_shared(objects: list[Path], library: Path) -> None:
    """A shared library of objects."""
    command = [need_program("gcc"), "-shared", *map(str, objects), "-o", str(library)]
    subprocess.run(command, check=True)


def test_several_inputs_at_once(tmp_path: Path) -> None:
    source = replace(stacked_source(two_heads(), "generic", (8, 4, 2)), split=3)
    first, *rest = step_files(source)
    assert first.stacked and first.calls == source.calls
    assert not any(file.calls or file.stacked for file in rest)
    assert run(build(tmp_path, files_of(source) | {"main.c": MANY})) == b"0"


def test_on_several_cores(tmp_path: Path) -> None:
    whole = parallel_source()
    source = replace(whole, split=2)
    assert source.parallel and source.parallel.steps
    found = []
    for number, each in enumerate((whole, source)):
        files = files_of(each) | {"main.c": PARALLEL}
        files = {name: text for name, text in files.items() if not name.endswith("_openmp.c")}
        found.append(run(build(tmp_path / str(number), files, flags=["-O1", "-pthread"])))
    assert found[0] == found[1]


def test_the_code_is_that_of_one_file() -> None:
    """But for `static`, and where it stands."""
    whole = bytes(files_of(split_source(1))["net.c"]).decode()  # type: ignore[arg-type]
    split = files_of(split_source(2))
    steps = "".join(bytes(split[f"net_steps{k}.c"]).decode() for k in (1, 2))  # type: ignore[arg-type]
    for call in split_source(1).calls:
        code = call.kernel.code
        assert code.strip() in whole
        assert re.sub(rf"^static (void {call.symbol}\()", r"\1", code, flags=re.M).strip() in steps
