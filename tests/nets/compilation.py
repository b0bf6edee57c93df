"""Compiles all files of generated networks by any compiler for any target, without tolerance."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cannery.emit.files import SOURCES, output_files
from cannery.frontends import load_graph
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.passes import run_passes
from cannery.resources import ball_example_dir
from cannery.target.compiler import private_flags
from cannery.target.targets import Target, find_target
from needs import need_program, need_toolchain
from nets.net_bench import DEPTH_FIRST, make_net_source
from nets.random_graphs import random_graph
from ops.cases_depth_first import byte_network

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")

#: Kind of compiler, and the flags that make it read a file in a language.
LANGUAGES: Mapping[str, tuple[str, ...]] = {
    "c99 gcc": ("gcc", "-x", "c", "-std=c99"),
    "c99 clang": ("clang", "-x", "c", "-std=c99"),
    "c++11 g++": ("g++", "-x", "c++", "-std=c++11"),
    "c++17 g++": ("g++", "-x", "c++", "-std=c++17"),
    "c++11 clang": ("clang", "-x", "c++", "-std=c++11"),
}

#: What code may ask for: two functions of the C library, and what compilers add by default on some
#: distributions.
MAY_NEED = {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}

#: Symbols of the network itself, and of the compiler: those of the Arm ABI, and for dividing
#: 64-bit integers on 32-bit x86.
OWN = ("net_", "__aeabi_", "__divdi3", "__moddi3", "__udivdi3", "__umoddi3")

#: Networks of a robot soccer team, which may be next to the checkout.
MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"


@dataclass(frozen=True)
class Setting:
    """A target and a language; `optimise` is a level such as `-O2`."""

    target: str
    language: str
    optimise: str = "-O2"

    @property
    def command(self) -> list[str]:
        """The compiler with all flags; skips the test if it is not there."""
        kind, *standard = LANGUAGES[self.language]
        target = find_target(self.target)
        flags = [*target.flags, *private_flags("clang" if kind == "clang" else "gcc", target.isa)]
        compiler = _compiler(kind, target)
        return [*compiler, *standard, *flags, self.optimise, *WARNINGS]


def _compiler(kind: str, target: Target) -> list[str]:
    triple = target.triple
    native = triple in ("", "x86_64-linux-gnu")
    if target.clang and kind == "clang":
        return list(need_toolchain(target.name).compiler.command)
    if kind != "clang":
        return [need_program(kind if native else f"{triple}-{kind}")]
    folder = Path("/usr") / triple / "include"
    return [need_program("clang"), *([] if native else [f"--target={triple}", f"-I{folder}"])]


def models() -> dict[str, Path]:
    """The Keras files that are here, by name."""
    found = (p for suffix in ("*.h5", "*.hdf5") for p in MODELS.glob(suffix))
    return {"ball": ball_example_dir() / "ball.h5", **{p.stem: p for p in sorted(found)}}


@cache
def graph_of(name: str) -> Graph:
    """A model by its name, the random network `random_<seed>`, or bytes for DEPTH_FIRST;
    simplified.
    """
    if name.startswith("random_"):
        return run_passes(random_graph(int(name.removeprefix("random_"))))
    if name == DEPTH_FIRST:
        return byte_network(DType.INT8, 21, 13)
    return run_passes(load_graph(models()[name]))


def write_network(folder: Path, name: str, target: str) -> list[str]:
    """The generated files in a folder; returns the names of the sources, `net<suffix>`."""
    prefer = name if name == DEPTH_FIRST else ""
    source = make_net_source(graph_of(name), find_target(target).isa, "net", prefer=prefer)
    for path, content in output_files(source, "test").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return [f"net{suffix}" for suffix in SOURCES]


def compile_all(folder: Path, names: Sequence[str], setting: Setting) -> list[Path]:
    """The objects of networks; any warning is a failure."""
    objects = []
    wrong = []
    for name in names:
        place = folder / name
        for source in write_network(place, name, setting.target):
            output = place / f"{source}.o"
            command = [*setting.command, "-I.", "-c", source, "-o", str(output)]
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
            if done.returncode or done.stderr:
                wrong.append(f"{name}: {' '.join(command)}\n{done.stderr[:3000]}")
            objects.append(output)
    assert not wrong, "\n".join(wrong)
    return objects


def needed(objects: Sequence[Path]) -> set[str]:
    """Symbols that objects do not define, except their own and the compiler's."""
    command = [need_program("nm"), "-u", *map(str, objects)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = (line.split() for line in listing.splitlines())
    return {w[1] for w in words if len(w) == 2 and w[0] in "Uw" and not w[1].startswith(OWN)}
