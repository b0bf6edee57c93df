"""Exported programs of PyTorch (.pt2, torch.export.save), by PyTorch's own exporter to ONNX.

PyTorch looks up the functions that a program names, computes the sizes that it holds as texts, and
unpickles what it does not know. So a file is examined first: it may only name operators of
torch.ops, and sums and products of sizes; pickled objects other than tensors are never loaded.
"""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cannery.atomic import temporary_folder
from cannery.errors import ModelError, OptionError, ToolchainError, UnsupportedError
from cannery.frontends.archive_errors import ZIP_ERRORS
from cannery.frontends.foreign import EXPORTED, identify_archive
from cannery.frontends.json_values import mapping, parse_json, shown
from cannery.frontends.onnx import file as onnx_file
from cannery.frontends.options import ImportOptions
from cannery.frontends.torch_sizes import is_size
from cannery.ir.graph import Graph
from cannery.ir.orders import model_type

FORMAT = "PyTorch exported program (.pt2), where PyTorch is installed"

_INSTALL = "pip install torch onnx onnxscript"
_ELSEWHERE = 'export it in Python: torch.onnx.export(program, dynamo=True).save("m.onnx")'

_OTHERWISE = (
    "use other functions in the module, or export it in Python with a form of your own for it: "
    "custom_translation_table of torch.onnx.export"
)

#: The beginning of an archive, whose first member is one of these.
_START = re.compile(
    rb"PK\x03\x04.{26}[^\x00-\x1f]{0,200}?"
    rb"(data/weights/|archive_format|data/constants/|models/|serialized_exported_program\.json)",
    re.DOTALL,
)
_PROGRAM = re.compile(r"(^|/)(models/[^/]+\.json|serialized_exported_program\.json)$")
_OBJECTS = re.compile(r"(^|/)(custom_obj|opaque_obj)")
#: What programs carry along.
_UNUSED = re.compile(r"(^|/)(extra/|data/aotinductor/)")
_MOST_BYTES = 1 << 28
#: No size is larger; PyTorch writes infinity.
_LARGEST = 1 << 62

_NUMBERS = "add sub mul floordiv truediv mod pow neg getitem lt le gt ge eq ne and_ or_ not_"
_FUNCTIONS = re.compile(
    rf"torch\.ops\.(aten|prims)\.\w+\.\w+|_operator\.({_NUMBERS.replace(' ', '|')})"
    r"|torch\.(sym_\w+)|math\.(ceil|floor|trunc)"
)
_OVERLOAD = re.compile(r"<OpOverload\(op='([\w.]+)', overload='\w+'\)>")


def recognises(head: bytes) -> bool:
    """Whether a file that begins with `head` is such an archive."""
    return bool(_START.match(head))


def load(path: Path, options: ImportOptions) -> Graph:
    """The graph of an exported program; see `cannery.frontends.load_graph`."""
    foreign = identify_archive(path)
    if foreign is not None and foreign is not EXPORTED:
        raise foreign.error(path)
    with temporary_folder() as folder:
        copied, file = folder / "copy.pt2", folder / "model.onnx"
        _copy(path, copied)
        torch = _torch()
        with quiet(), _tensors_only():
            try:
                program = torch.export.load(copied)
                program = _spelled(torch, program)
                exported = torch.onnx.export(program, (), dynamo=True, verbose=False)
                exported.save(file)
            except ImportError as error:
                raise ToolchainError(
                    f"PyTorch's exporter lacks a package: {error}", cure=_INSTALL
                ) from error
            except Exception as error:
                raise ModelError(
                    f"PyTorch cannot export it: {_reason(error)}", cure=_OTHERWISE
                ) from error
        graph = onnx_file.load(file, options)
        _check_sizes(graph, program, exported)
        return graph


def _check_sizes(graph: Graph, program: Any, exported: Any) -> None:
    """Raise OptionError for sizes of inputs for which the program was not exported.

    With other sizes the module may have taken another branch. A least size of 2 is none: PyTorch
    writes it where it has looked at no size in particular.
    """
    ranges = {str(symbol): found for symbol, found in program.range_constraints.items()}
    for value in exported.model.graph.inputs:
        if value.name not in graph.inputs:
            continue
        sizes = model_type(graph, value.name).shape
        for axis, (size, dim) in enumerate(zip(sizes, value.shape, strict=True)):
            found = ranges.get(str(getattr(dim, "value", "")))
            if found is None or (max(size, 2) >= found.lower and size <= found.upper):
                continue
            most = f"to {found.upper}" if found.upper < _LARGEST else "or more"
            raise OptionError(
                f"axis {axis} of {value.name!r}, {dim.value}, is {size}; the program was exported "
                f"for {found.lower} {most}", where="--dim",
                cure="give a size from there, or export the module for others",
            )  # fmt: skip


def _spelled(torch: Any, program: Any) -> Any:
    """The program with operators that the exporter lacks as others: cdist as norms."""
    aten = torch.ops.aten
    if not any(node.target is aten.cdist.default for node in program.graph.nodes):
        return program

    def cdist(a: Any, b: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
        return torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), ord=p, dim=-1)

    return program.run_decompositions({aten.cdist.default: cdist})


def _reason(error: BaseException) -> str:
    """What the first of a chain of errors says; the later ones say where it was."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _OVERLOAD.sub(r"\1", lines[0]).split(". Failure message")[0]


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ToolchainError(
            f"an exported program of PyTorch, which cannot be imported here: {error}",
            cure=f"{_INSTALL}; or, where it is, {_ELSEWHERE}",
        ) from None
    return torch


def _copy(path: Path, to: Path) -> None:
    """Copy what the network needs: the program without its Python code, and tensors.

    Raises ModelError for archives that are not one program, UnsupportedError for other contents.
    """
    try:
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(to, "w") as copy:
            names = archive.namelist()
            programs = [name for name in names if _PROGRAM.search(name)]
            if len(programs) != 1 or len(set(names)) != len(names):
                what = f"holds {len(programs)} programs, expected one"
                raise ModelError(what, cure="save one program with torch.export.save")
            for name in names:
                if _OBJECTS.search(name):
                    raise UnsupportedError(
                        f"holds an object of another class ({name!r:.60}), which is never loaded",
                        cure=_ELSEWHERE,
                    )
                if name == programs[0]:
                    copy.writestr(name, _without_code(archive, name))
                elif not _UNUSED.search(name):
                    copy.writestr(name, archive.read(name))
    except ZIP_ERRORS as error:
        raise ModelError(f"a damaged or truncated archive: {error}", cure="save it again") from None


def _without_code(archive: zipfile.ZipFile, name: str) -> str:
    """The program as JSON, examined, without the Python that checks sizes of inputs."""
    if archive.getinfo(name).file_size > _MOST_BYTES:
        raise ModelError(f"{name!r:.60} is too large", cure="save it again")
    program = mapping(parse_json(archive.read(name), "the program"), "the program")
    _check_program(program)
    return json.dumps({**program, "guards_code": []} if "guards_code" in program else program)


def _check_program(program: object) -> None:
    """Raises UnsupportedError if a program names more than operators, or computes odd sizes."""
    waiting = [program]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        if not isinstance(value, dict):
            continue
        waiting += value.values()
        target, size = value.get("target"), value.get("expr_str")
        if isinstance(target, str) and "inputs" in value and not _FUNCTIONS.fullmatch(target):
            raise UnsupportedError(f"calls {shown(target)}, which is no operator", cure=_ELSEWHERE)
        if size is not None and not is_size(size):
            raise UnsupportedError(f"has the size {shown(size)}", cure=_ELSEWHERE)


@contextmanager
def _tensors_only() -> Iterator[None]:
    """PyTorch unpickles nothing but tensors, whatever its own code asks for."""
    key = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(key)
    os.environ[key] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[key]
        else:
            os.environ[key] = before


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the exporter says of its own progress."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
