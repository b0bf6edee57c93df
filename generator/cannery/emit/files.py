"""The output files of a model, by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cannery.contents import Content
from cannery.ctext.environment import render
from cannery.emit.interface import Tensor
from cannery.emit.library import loader_texts, render_header, render_static
from cannery.emit.many import Chunk
from cannery.emit.selftest import apart_selftest, render_selftest
from cannery.emit.source import Source, render_model
from cannery.emit.split import step_sources, step_texts
from cannery.emit.steps import Call
from cannery.emit.weights import code_hash, weights_file, with_layout
from cannery.ir.graph import Quantization
from cannery.ops.movement.op import Identity, Transpose
from cannery.ops.quantized.recurrent import QuantizedRecurrent
from cannery.ops.quantized.sums import integer_sums
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.same_bits import differing_layers
from cannery.resources import runtime_include_dir
from cannery.target.compiler import private_flags

#: The suffixes of files to compile, after the model's name.
SOURCES = (".c", "_static.c", "_weights.c", "_selftest.c")

#: What opens a file of weights.
WEIGHTS_SOURCE = "_weights_file.c"

#: The same for OpenMP's threads; only this file needs the compiler's flag for OpenMP.
OPENMP_SOURCE = "_openmp.c"
OPENMP_FLAG = "-fopenmp"

#: The headers that are copied if a network may use several cores.
PARALLEL_HEADERS = ("parallel.h", "pthread_pool.h")

#: What is copied where the library counts the time of its steps, or shows its values.
TRACE_HEADERS = ("trace.h", "trace_clock.h", "trace_file.h")
DUMP_HEADERS = ("dump.h", "dump_file.h")

#: The headers that are copied if a network may read sequences: decoding, for those who need it.
SEQUENCE_HEADERS = ("ctc.h",)

#: The headers that are copied next to a network with a state, which may decay to nearly zero.
STATE_HEADERS = ("subnormals.h",)

#: The headers that are copied next to a shared library, for programs that load it at run time.
SHARED_HEADERS = ("library.h", "loader.h")
RECURRENT = (Recurrent, QuantizedRecurrent)

RUNTIME_HEADERS_ALWAYS = ("cannery.h", "vec_scalar.h")
_BASE = ("vec_base.h", "vec_types.h")
_INCLUDES = {
    "vec_scalar.h": (),
    "vec_dsp.h": (),
    "vec_x86_128.h": _BASE,
    "vec_x86_256.h": ("vec_x86_128.h", *_BASE),
    "vec_x86_512.h": ("vec_x86_128.h", "vec_x86_256.h", *_BASE),
    "vec_mve.h": _BASE,
    "vec_neon.h": _BASE,
    "vec_rvv.h": ("vec_rvv_body.h", *_BASE),
}


def runtime_folder() -> Path:
    """The folder of the runtime headers."""
    return runtime_include_dir() / "cannery"


def output_files(source: Source, command: str) -> dict[str, Content]:
    """Everything that goes into the output folder: relative path -> content."""
    up = source.name.upper()
    if source.apart:
        source, selftest = apart_selftest(source)
    else:
        selftest = render_selftest(source)
    texts = {
        **model_texts(source, command),
        f"{source.name}.h": render_header(source, part=False),
        f"{source.name}.hpp": render("emit/header.hpp.j2", s=source, up=up),
        f"{source.name}_static.c": render_static(source),
        f"{source.name}_selftest.c": selftest,
        f"{source.name}.json": json.dumps(manifest(source), indent=2, sort_keys=True) + "\n",
    }
    texts |= openmp_texts(source) | loader_texts(source) | compiled_nn_texts(source)
    if source.apart:
        texts[f"{source.name}{WEIGHTS_SOURCE}"] = render("emit/weights_file.c.j2", s=source)
    files = {path: text.encode() for path, text in texts.items()} | binary_files(source)
    return _with_weights(source, files) if source.apart else files


def _with_weights(source: Source, files: dict[str, Content]) -> dict[str, Content]:
    """The files with the hash of the code, and that of the weights."""
    found, layout = with_layout(files)
    return {**found, f"{source.name}.weights": weights_file(source, layout)}


def binary_files(source: Source) -> dict[str, Content]:
    """Files that are copied as they are: large weights, and the runtime headers that are
    included.
    """
    large = source.blob.data and not source.apart
    blob = {f"{source.name}_weights.bin": source.blob.data} if large else {}
    read = {f"cannery/{name}": (runtime_folder() / name).read_bytes() for name in headers(source)}
    return blob | read


def openmp_texts(source: Source) -> dict[str, str]:
    """The file that makes a pool of OpenMP's threads, if requested."""
    if not (source.parallel and source.parallel.openmp):
        return {}
    return {f"{source.name}{OPENMP_SOURCE}": render("emit/openmp.c.j2", s=source)}


def compiled_nn_texts(source: Source) -> dict[str, str]:
    """The header for programs that were written for CompiledNN, if it is asked for."""
    if not source.compiled_nn:
        return {}
    name, up = source.name, source.name.upper()
    return {f"{name}_compiled_nn.h": render("emit/compiled_nn.h.j2", s=source, up=up)}


def model_texts(source: Source, command: str) -> dict[str, str]:
    """The files of the network itself: its header, its code, its large weights."""
    up = source.name.upper()
    return {
        f"{source.name}.h": render_header(source, part=True),
        f"{source.name}.c": render_model(source, command),
        f"{source.name}_weights.c": render("emit/weights.c.j2", s=source, up=up),
        **step_texts(source),
    }


def headers(source: Source) -> list[str]:
    """The runtime headers that generated files include, directly or not, or that go with them."""
    found = {*RUNTIME_HEADERS_ALWAYS, source.isa.header, *_INCLUDES[source.isa.header]}
    if source.needs_math:
        found |= {h.name for h in runtime_folder().glob("vec_math*.h")}
    if source.needs_half:
        found.add("vec_half.h")
    if source.needs_bfloat:
        found.add("vec_bfloat.h")
    if source.needs_table:
        found.add("vec_table.h")
    if source.needs_fixed:
        found |= {"scalar_math.h", "vec_fixed.h"}
    if source.parallel:
        found |= {*PARALLEL_HEADERS}
    found |= {*(TRACE_HEADERS if source.trace else ()), *(DUMP_HEADERS if source.dump else ())}
    if any(isinstance(node.op, RECURRENT) for node in source.graph.nodes):
        found |= {*SEQUENCE_HEADERS}
    if source.states.slots:
        found |= {*STATE_HEADERS}
    if source.compiled_nn:
        found.add("compiled_nn.h")
    if source.scalar_math:
        found.add("scalar_math.h")
    if source.shared:
        found |= {*SHARED_HEADERS}
    if source.apart:
        found.add("weights.h")
    return sorted(found)


def manifest(source: Source, sources: Sequence[str] = SOURCES) -> dict[str, Any]:
    """The content of `<name>.json`, for tools; `sources` are the suffixes of the files to
    compile.
    """
    return {
        "cannery": source.version,
        "model_hash": source.hash,
        "target": source.target,
        "isa": source.isa.name,
        "bits": source.isa.bits,
        "sources": [
            *(f"{source.name}{suffix}" for suffix in (*sources, *_more_sources(source))),
            *step_sources(source),
        ],
        "compile_flags": {
            kind: [*source.isa.flags, *private_flags(kind, source.isa)] for kind in ("gcc", "clang")
        },
        "workspace_bytes": source.workspace.bytes,
        "max_length": source.max_length,
        "block_steps": source.graph.steps_of_call,
        **_blocks(source),
        **(
            {
                "calls_per_output": source.graph.calls.every,
                "first_output_call": source.graph.calls.first_output,
            }
            if source.graph.calls and source.graph.calls.every > 1
            else {}
        ),
        "latency_steps": source.graph.calls.latency if source.graph.calls else 0,
        "state_bytes": source.states.bytes,
        **({"step_workspace_bytes": source.step_workspace} if source.states.slots else {}),
        "states": [
            {"input": slot.input.name, "output": slot.output.name, "offset": slot.offset}
            for slot in source.states.slots
        ],
        "many_workspace_bytes": source.many_bytes,
        "many_chunks": [_chunk(source, chunk) for chunk in source.many.chunks],
        "workspace_lower_bound": source.workspace.lower_bound,
        **_fast_region(source),
        "guarantees": _guarantees(source),
        **_weights(source),
        **_parallel(source),
        **_quantization(source),
        **_half_weights(source),
        **_half_layers(source),
        **({"metadata": dict(source.graph.metadata)} if source.graph.metadata else {}),
        **({"class_names": list(source.class_names)} if source.class_names else {}),
        **({"notes": list(source.graph.notes)} if source.graph.notes else {}),
        "inputs": [_tensor(t) for t in source.inputs],
        "outputs": [_tensor(t) for t in source.outputs],
        "copies": [call.symbol for call in source.calls if _is_copy(call)],
        "steps": [_step(source, call) for call in source.calls],
    }


def _guarantees(source: Source) -> dict[str, Any]:
    """What is certain before a compiler has seen the code: RAM that a call takes beside its tensors
    and the stack, constants in flash, and of integers the largest sum.
    """
    sums = () if source.graph.weights_vary else integer_sums(source.graph)
    return {
        "ram_bytes": source.single_bytes + source.states.bytes,
        "constant_bytes": sum(call.kernel.constant_bytes for call in source.calls),
        "same_everywhere": not differing_layers(source.graph),
        **({"largest_sum": max(each.largest for each in sums)} if sums else {}),
    }


def _fast_region(source: Source) -> dict[str, Any]:
    """The region of the workspace in fast memory, if any; `workspace_bytes` counts it. Accesses are
    those of a run in bytes, as modelled.
    """
    fast = source.workspace.fast
    if fast is None:
        return {}
    found = {"bytes": fast.bytes, "accesses": fast.accesses, "most_accesses": fast.most}
    return {"fast_region": {**found, "all_accesses": fast.all}}


def _blocks(source: Source) -> dict[str, Any]:
    """The functions for calls of further sizes."""
    if not source.blocks:
        return {}
    blocks = [
        {
            "block_steps": block.graph.steps_of_call,
            "step_workspace_bytes": block.step_workspace,
            "inputs": [_tensor(t) for t in block.step_inputs],
            "outputs": [_tensor(t) for t in block.step_outputs],
            "steps": [_step(block, call) for call in block.calls],
        }
        for block in source.blocks
    ]
    return {"blocks": blocks}


def _more_sources(source: Source) -> tuple[str, ...]:
    return (WEIGHTS_SOURCE,) if source.apart else ()


def _weights(source: Source) -> dict[str, Any]:
    """What `cannery weights` needs to make other weights for the same code, and to compare."""
    if not source.apart:
        return {}
    facts = source.graph.quantization
    return {
        "weights": {
            "bytes": source.weights_bytes,
            "options": list(source.options),
            "code": {call.symbol: code_hash(call.kernel.code) for call in source.calls},
            **({"ranges": [list(each) for each in facts.ranges]} if facts else {}),
        }
    }


def _is_copy(call: Call) -> bool:
    """Whether a step only moves a value into another order or place."""
    return all(isinstance(n.op, (Identity, Transpose)) for n in call.planned.step.nodes)


def _chunk(source: Source, chunk: Chunk) -> dict[str, Any]:
    """How `run_many` computes this many images at once; constants that already exist cost
    nothing.
    """
    program = source.program
    return {
        "images": chunk.images,
        "workspace_bytes": chunk.bytes,
        "steps": [
            {
                "symbol": step.symbol,
                "nodes": [node.name for node in program.steps[step.index].step.nodes],
                "schedule": str(step.choice),
                "origin": step.choice.origin,
                "constant_bytes": step.kernel.constant_bytes,
            }
            for step in chunk.steps.values()
        ],
    }


def _quantization(source: Source) -> dict[str, Any]:
    """The result of quantisation, if any; losses by C name of the output."""
    facts = source.graph.quantization
    if facts is None:
        layers = source.graph.integer_layers
        if not layers:
            return {}
        same = not differing_layers(source.graph)
        return {"integer_layers": list(layers), "same_everywhere": same}
    return {
        "quantization": {
            "dtype": facts.dtype.value,
            "layers": list(facts.layers),
            "float_layers": [asdict(layer) for layer in facts.floats],
            "same_everywhere": not facts.differs,
            "samples": facts.samples,
            "loss": {t.name: facts.by_output[t.source] for t in source.outputs},
            "weight_bytes": facts.bytes,
            "float_weight_bytes": facts.float_bytes,
            **_codes(source, facts),
        }
    }


def _codes(source: Source, facts: Quantization) -> dict[str, Any]:
    """Weights of few levels, if there are any."""
    if facts.codes is None:
        return {}
    stored = source.isa.is_microcontroller
    return {
        "codes": {
            "form": facts.codes.form,
            "layers": list(facts.codes.layers),
            "byte_layers": [{"name": name, "reason": why} for name, why in facts.codes.kept],
            "stored": stored,
            "weight_bytes": facts.codes.bytes if stored else facts.bytes,
        }
    }


def _half_weights(source: Source) -> dict[str, Any]:
    """The result of storing weights as float16, if any."""
    facts = source.graph.half_weights
    if facts is None:
        return {}
    measured = {"samples": facts.samples, "error": facts.error}
    return {
        "float16_weights": {
            "layers": list(facts.layers),
            "float32_layers": [{"name": name, "reason": why} for name, why in facts.floats],
            **({} if source.graph.weights_vary else measured),
            "weight_bytes": facts.bytes,
            "float_weight_bytes": facts.float_bytes,
        }
    }


def _half_layers(source: Source) -> dict[str, Any]:
    """The result of computing in half precision, if any."""
    facts = source.graph.half_layers
    if facts is None:
        return {}
    return {
        f"{facts.type}_layers": {
            "layers": list(facts.layers),
            "float32_layers": [{"name": name, "reason": why} for name, why in facts.floats],
            "samples": facts.samples,
            "estimated_error": facts.error,
            "weight_bytes": facts.bytes,
            "float_weight_bytes": facts.float_bytes,
        }
    }


def _parallel(source: Source) -> dict[str, Any]:
    """What several cores do, if allowed; the memory of `threads` threads in bytes."""
    parallel = source.parallel
    if parallel is None:
        return {}
    openmp = {"source": f"{source.name}{OPENMP_SOURCE}", "flags": [OPENMP_FLAG]}
    return {
        "parallel": {
            "workspace_bytes": source.parallel_base_bytes,
            "thread_bytes": source.thread_bytes,
            "many_thread_bytes": source.many_thread_bytes,
            "inputs_per_thread": parallel.samples,
            "steps": [
                {
                    "symbol": source.calls[step.index].symbol,
                    "axis": step.axis,
                    "parts": step.parts,
                    "pieces": step.pieces,
                }
                for step in parallel.steps
            ],
            **({"openmp": openmp} if parallel.openmp else {}),
        }
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "tensor": tensor.source,
        "shape": list(tensor.dims),
        "dtype": tensor.type.dtype.value,
        **({"scale": tensor.scale.scale, "zero_point": tensor.zero_point} if tensor.scale else {}),
    }


def _step(source: Source, call: Call) -> Mapping[str, Any]:
    planned = call.planned
    buffers = source.program.buffers
    return {
        "symbol": call.symbol,
        "nodes": [node.name for node in planned.step.nodes],
        "schedule": planned.choice.schedule.label(planned.choice.params),
        "origin": planned.choice.origin,
        "reads": [str(buffers[n].layout) for n in planned.reads],
        "writes": [str(buffers[n].layout) for n in planned.writes],
        "macs": planned.step.macs(source.graph),
        "constant_bytes": call.kernel.constant_bytes,
        "scratch_bytes": call.kernel.scratch_bytes,
    }
