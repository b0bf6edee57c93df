"""Instructions of each word of a vector header, next to the same word from vec_base.h alone.

python benchmarks/words.py TARGET [--cc COMMAND] [--all]

A header of a register family should define only words that the base does worse. Each word becomes a
function, with vectors in memory; `n` is 3. Listed are those that differ, or all.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "generator"))

from cannery.analysis.disassembly import disassemble
from cannery.errors import CanneryError
from cannery.options import make_options
from cannery.resources import runtime_include_dir
from cannery.target.isa import Isa
from cannery.target.toolchain import Toolchain, find_toolchain

_WORD = re.compile(
    r"^static inline __attribute__\(\(always_inline, unused\)\)"
    r"\s+([\w ]+?\*?)\s*\b(\w+)\(([^)]*)\)",
    re.MULTILINE,
)
_VECTOR = re.compile(r"^(f32|i32|m32|p16|q8)x(4|8|16)$")


def base_only(isa: Isa) -> str:
    """A header of all widths that defines no words."""
    widths = "".join(
        f"#define CANNERY_HAS_F32X{lanes} 1\nCANNERY_VECTOR_TYPES({lanes})\n"
        f'#define CANNERY_LANES {lanes}\n#include "cannery/vec_base.h"\n#undef CANNERY_LANES\n'
        for lanes in isa.lanes
        if lanes > 1
    )
    return f'#include "cannery/vec_types.h"\n{widths}'


def words(header: str, toolchain: Toolchain, folder: Path) -> dict[str, str]:
    """A separate function for each word of a header, by name."""
    source = folder / "header.c"
    source.write_text(header)
    includes = f"-I{runtime_include_dir()}"
    command = [*toolchain.compiler.command, *toolchain.cflags, includes, "-E", "-P", str(source)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {
        name: _function(result.strip(), name, arguments)
        for result, name, arguments in _WORD.findall(text)
        if _VECTOR.match(name.partition("_")[0])
    }


def _function(result: str, name: str, arguments: str) -> str:
    given, passed = [], []
    for argument in [] if arguments == "void" else arguments.split(","):
        kind, _, what = argument.strip().rpartition(" ")
        if _VECTOR.match(kind) and not what.startswith("*"):
            given.append(f"const {kind} *{what}")
            passed.append(f"*{what}")
        else:
            given.append(argument.strip())
            passed.append("3" if (kind, what) == ("int", "n") else what.lstrip("*"))
    call = f"{name}({', '.join(passed)})"
    if _VECTOR.match(result):
        given.append(f"{result} *result")
        body = f"*result = {call};"
    else:
        body = f"{call};" if result == "void" else f"return {call};"
    head = "void" if _VECTOR.match(result) else result
    return f"{head} word_{name}({', '.join(given) or 'void'}) {{ {body} }}\n"


def instructions(
    header: str, chosen: dict[str, str], toolchain: Toolchain, folder: Path
) -> dict[str, int]:
    """How many instructions each word takes in a header."""
    source, obj = folder / "words.c", folder / "words.o"
    source.write_text(header + "".join(chosen.values()))
    toolchain.compiler.compile(source, obj, [*toolchain.cflags, "-w"], [runtime_include_dir()])
    _, functions = disassemble(obj, toolchain.compiler)
    return {f.name.removeprefix("word_"): len(f.instructions) for f in functions}


def compared(toolchain: Toolchain) -> dict[str, tuple[int, int]]:
    """Instructions of each word that both have: of the target's header, and of the base."""
    isa = toolchain.target.isa
    headers = f'#include "cannery/{isa.header}"\n', base_only(isa)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own, base = (words(header, toolchain, folder) for header in headers)
        both = own.keys() & base.keys()
        counts = [
            instructions(header, {w: found[w] for w in sorted(both)}, toolchain, folder)
            for header, found in zip(headers, (own, base), strict=True)
        ]
    return {word: (counts[0][word], counts[1][word]) for word in own if word in both}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target")
    parser.add_argument("--cc", default="")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    raw = {"target": given.target, **({"cc": given.cc} if given.cc else {})}
    try:
        found = compared(find_toolchain(make_options(Path("net.h5"), raw)))
    except CanneryError as error:
        sys.exit(str(error))
    for word, (own, base) in found.items():
        if given.all or own != base:
            sys.stdout.write(f"{word:24} {own:4} {base:4}\n")


if __name__ == "__main__":
    main()
