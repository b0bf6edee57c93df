"""Cases of the onnx package as generated C: fifty networks in a program, a line for each result."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cannery.emit.files import headers, model_texts, runtime_folder
from cannery.emit.source import Source
from cannery.errors import CanneryError
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.measure.build import ninja_file, run_ninja, write
from cannery.options import Options
from cannery.passes import run_passes
from cannery.pipeline import choose, generate
from cannery.target.runner import Runner
from cannery.target.targets import Target
from cannery.target.toolchain import Toolchain

_WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"

#: Networks of one program.
PROGRAM = 50

#: What the descriptor of a network calls its own, which would clash in one translation unit.
_STATICS = re.compile(r"\b(run_any|run_many_any|inputs|outputs|(?:in|out)put_\d+_dims)\b")

#: The optimisation level among flags.
_LEVEL = re.compile(r"(?<= )-O[0-9s](?= )")

_MAIN = """
static unsigned char memory[{memory}] CANNERY_ALIGN(64);
static unsigned char results[{results}] CANNERY_ALIGN(64);

static void show(int number, const cannery_model *m, const unsigned char *data)
{{
    const void *in[64] = {{0}};
    void *out[64] = {{0}};
    int beyond = 0;
    size_t at = 0;
    for (int k = 0; k < m->input_count; ++k) {{
        in[k] = data + at;
        at += (m->inputs[k].bytes + 63u) / 64u * 64u;
    }}
    at = 0;
    for (int k = 0; k < m->output_count; ++k) {{
        out[k] = results + at;
        at += m->outputs[k].bytes / 64u * 64u + 64u; /* at least a byte stays free */
    }}
    memset(results, 0xa5, at);
    memset(memory, 0, m->workspace_bytes);
    m->run(memory, in, out);
    printf("{{\\"case\\": %d, \\"bytes\\": \\"", number);
    for (int k = 0; k < m->output_count; ++k) {{
        const unsigned char *y = (const unsigned char *)out[k];
        for (size_t i = 0; i < m->outputs[k].bytes; ++i) {{
            printf("%02x", y[i]);
        }}
        beyond |= y[m->outputs[k].bytes] != 0xa5;
    }}
    printf("\\", \\"beyond\\": %d}}\\n", beyond);
    fflush(stdout);
}}

int main(void)
{{
{calls}
    return 0;
}}
"""


@dataclass(frozen=True)
class Program:
    """A case as a network: its graph as it was imported, and its inputs by name."""

    name: str
    graph: Graph
    inputs: Mapping[str, RefArray]


@dataclass(frozen=True)
class Result:
    """The outputs of a network in the order of its graph, or what went wrong."""

    name: str
    outputs: tuple[NDArray[np.generic], ...]
    fault: str = ""


def network(graph: Graph, target: Target, name: str) -> Source:
    """The untuned network of an imported graph."""
    options = Options(model=Path("case.onnx"), name=name)
    simplified = run_passes(graph)
    return generate(simplified, target.isa, choose(simplified, target, options), options)


def _unit(sources: Sequence[Source], inputs: Sequence[bytes]) -> tuple[str, dict[str, bytes]]:
    """One translation unit with all networks and the main function, and its headers and data."""
    parts = ["#include <stdio.h>\n#include <string.h>\n"]
    files: dict[str, bytes] = {}
    calls, blob = [], b""
    for number, source in enumerate(sources):
        for path, text in model_texts(source, "scoreboard").items():
            if path.endswith(".h"):
                files[path] = text.encode()
            elif path == f"{source.name}.c":
                parts.append(_STATICS.sub(rf"{source.name}_\1", text))
            elif source.blob.data:
                files[path] = text.encode()
        if source.blob.data:
            files[f"{source.name}_weights.bin"] = source.blob.data
        for header in headers(source):
            files[f"cannery/{header}"] = (runtime_folder() / header).read_bytes()
        calls.append(f"    show({number}, &{source.name}_model, case_data + {len(blob)});")
        blob += inputs[number]
    files["case_data.bin"] = blob + bytes(64)
    memory = max(s.many_bytes for s in sources)
    results = 1 + max(sum(t.type.bytes + 64 for t in s.outputs) for s in sources)
    parts.append(
        '__asm__(".section .rodata\\n.balign 64\\n.globl case_data\\ncase_data:\\n"\n'
        '        ".incbin \\"case_data.bin\\"\\n.previous\\n");\n'
        "extern const unsigned char case_data[];\n"
    )
    parts.append(_MAIN.format(memory=memory, results=results, calls="\n".join(calls)))
    return "".join(parts), files


def _input_bytes(source: Source, case: Program) -> bytes:
    found = b""
    for tensor in source.inputs:
        array = np.ascontiguousarray(tensor.from_graph(case.inputs[tensor.source]))
        data = array.astype(tensor.type.dtype.numpy).tobytes()
        found += data + bytes(-len(data) % 64)
    return found


def _results(source: Source, data: bytes) -> Iterator[NDArray[np.generic]]:
    at = 0
    for tensor in source.outputs:
        size = tensor.type.bytes
        flat = np.frombuffer(data[at : at + size], tensor.type.dtype.numpy)
        yield tensor.to_graph(flat.reshape(tensor.dims))
        at += size


def fingerprint(case: Program) -> str:
    """Equal for cases that differ only in names."""
    graph, seen = case.graph, hashlib.sha256()
    numbers: dict[str, int] = {}

    def note(what: str, value: str, data: NDArray[np.generic] | None = None) -> None:
        known = value in numbers
        number = numbers.setdefault(value, len(numbers))
        last = value in graph.channels_first
        seen.update(f"{what} {number} {graph.types[value] if value else ''} {last};".encode())
        if data is not None and not known:
            seen.update(data.tobytes())

    for name in graph.inputs:
        note("input", name, case.inputs[name])
    for node in graph.nodes:
        seen.update(f"{node.op!r} ".encode())
        for value in (*node.inputs, *node.outputs):
            note("value", value, graph.constants.get(value))
    for name in graph.outputs:
        note("output", name, graph.constants.get(name))
    return seen.hexdigest()


def run_programs(
    cases: Sequence[Program], toolchain: Toolchain, runner: Runner, level: str = ""
) -> Iterator[Result]:
    """Results of all cases, in order; those that differ only in names run once.

    `level` is the optimisation level of the compiler instead of Cannery's, such as "-O0".
    """
    prints = [fingerprint(case) for case in cases]
    different = list(dict(zip(reversed(prints), reversed(cases), strict=True)).items())[::-1]
    found: dict[str, Result] = {}
    for first in range(0, len(different), PROGRAM):
        part = different[first : first + PROGRAM]
        results = _run([case for _, case in part], toolchain, runner, level)
        found.update(zip((key for key, _ in part), results, strict=True))
    for case, key in zip(cases, prints, strict=True):
        yield replace(found[key], name=case.name)


def _run(
    cases: Sequence[Program], toolchain: Toolchain, runner: Runner, level: str
) -> list[Result]:
    """Results of up to fifty cases; of those that cannot be generated, why."""
    made: list[tuple[Program, Source]] = []
    found: dict[str, Result] = {}
    for number, case in enumerate(cases):
        try:
            made.append((case, network(case.graph, toolchain.target, f"c{number}")))
        except Exception as error:  # a defect of one network must not hide the others
            found[case.name] = Result(case.name, (), f"{type(error).__name__}: {error}")
    for result in _built(made, toolchain, runner, level):
        found[result.name] = result
    return [found[case.name] for case in cases]


def _built(
    made: Sequence[tuple[Program, Source]], toolchain: Toolchain, runner: Runner, level: str
) -> list[Result]:
    """Results of generated networks; if a program fails, its halves show which one it was."""
    if not made:
        return []
    with tempfile.TemporaryDirectory() as temporary:
        lines, fault = _lines(Path(temporary), made, toolchain, runner, level)
    if fault and len(made) > 1:
        half = len(made) // 2
        parts = (made[:half], made[half:])
        return [r for part in parts for r in _built(part, toolchain, runner, level)]
    if fault:
        return [Result(made[0][0].name, (), fault)]
    found = []
    for (case, source), line in zip(made, lines, strict=True):
        outputs = tuple(_results(source, bytes.fromhex(str(line["bytes"]))))
        beyond = "bytes beyond the outputs were written" if line["beyond"] else ""
        found.append(Result(case.name, outputs, beyond))
    return found


def _lines(
    folder: Path,
    made: Sequence[tuple[Program, Source]],
    toolchain: Toolchain,
    runner: Runner,
    level: str,
) -> tuple[list[dict[str, object]], str]:
    """What the program prints, one line for each network, or why there is nothing."""
    text, files = _unit(
        [source for _, source in made], [_input_bytes(source, case) for case, source in made]
    )
    write(folder, {**files, "main.c": text.encode()})
    units = ["main.c", *(path for path in files if path.endswith(".c"))]
    build = ninja_file(toolchain, units, executable="cases").replace(" -w ", f" {_WARNINGS} ")
    build = _LEVEL.sub(level, build) if level else build
    failures = run_ninja(folder, build)
    if failures:
        return [], f"does not compile: {str(failures)[:2000]}"
    try:
        return runner.run(folder / "cases"), ""
    except CanneryError as error:
        return [], str(error)
