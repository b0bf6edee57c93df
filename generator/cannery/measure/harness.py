"""Sources of a program that checks and times candidates: `harness.c.j2`, `unit.c.j2`.

Candidates come in translation units of about twenty. Their data (inputs, expected outputs, large
constants) is one binary file that the assembler includes, so compiling stays quick. Generating is
separate from building (`build.py`): any build system can compile what `sources` returns.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.contents import array_digest
from cannery.ctext.arrays import ALIGNMENT, array_type, format_array
from cannery.ctext.environment import render
from cannery.ctext.halves import make_kernel
from cannery.ctext.tidy import tidy
from cannery.emit.files import runtime_folder
from cannery.ir.tensor import DType
from cannery.layouts import ORDERS, image_dims, planar
from cannery.measure.identify import device_sources
from cannery.measure.trial import BufferPlace, Trial
from cannery.schedule.schedule import ConstArray, Kernel
from cannery.target.isa import Isa

#: Candidates per translation unit, and the bytes of code after which it is full anyway.
UNIT_CANDIDATES = 20
UNIT_BYTES = 600_000

#: Constants of at least this size are in the data file by default.
STORED_BYTES = 16 * 1024

#: A candidate with constants of at least this size stays light until it is built.
LIGHT_BYTES = 256 * 1024

DATA_FILE = "harness_data.bin"

_DTYPES = {
    DType.FLOAT32: "F32", DType.UINT8: "U8", DType.BOOL: "U8", DType.INT8: "I8",
    DType.INT16: "I16", DType.INT32: "I32", DType.INT64: "I64", DType.UINT16: "U16",
    DType.UINT32: "U32", DType.UINT64: "U64", DType.HALF: "F16",
}  # fmt: skip
_ORDERS = dict(zip(ORDERS, ("NHWC", "PLANAR", "PHASE_SPLIT"), strict=True))

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

_DATA_C = f"""\
/* Inputs, expected outputs and large constants of the candidates. */
__asm__(
    ".section .rodata.harness_data,\\"a\\"\\n"
    ".balign {ALIGNMENT}\\n"
    ".globl harness_data\\n"
    "harness_data:\\n"
    ".incbin \\"{DATA_FILE}\\"\\n"
    ".previous\\n");
typedef int harness_data_not_empty;
"""


@dataclass
class Blob:
    """Bytes that grow; equal arrays are stored once."""

    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    known: dict[bytes, int] = field(default_factory=dict)

    def add(self, array: NDArray[np.generic]) -> int:
        """The offset of an array's bytes."""
        key = array_digest(array)
        if key not in self.known:
            data = np.ascontiguousarray(array).tobytes()
            self.known[key] = self.size
            self.chunks.append(data + bytes(-len(data) % ALIGNMENT))
            self.size += len(self.chunks[-1])
        return self.known[key]

    def bytes(self) -> bytes:
        """All bytes; never empty, because assemblers dislike empty files."""
        return b"".join(self.chunks) or bytes(ALIGNMENT)


@cache
def _headers_digest(folder: Path) -> bytes:
    """The digest of the runtime headers, which are part of every kernel."""
    digest = hashlib.sha256()
    for header in sorted(folder.glob("*.h")):
        digest.update(header.read_bytes() + b"\0")
    return digest.digest()


@dataclass(frozen=True)
class Candidate:
    """A trial with its code. `contest` numbers the trials that are timed against each other.

    A light one has the `digest` of the whole one instead of constants; `whole` restores them.
    """

    trial: Trial
    symbol: str
    kernel: Kernel
    contest: int
    digest: str = ""

    @property
    def images(self) -> int:
        """Calls for one batch."""
        return 1 if self.kernel.whole else self._dims[0]

    @property
    def rows(self) -> int:
        """Output rows of one image."""
        return self._dims[1]

    @property
    def _dims(self) -> tuple[int, int, int, int]:
        return image_dims(self.trial.graph.types[self.trial.step.outputs[0]])

    @property
    def arguments(self) -> list[str]:
        """The expressions that a call passes, except the rows."""
        trial = self.trial
        places = [*(("const ", p) for p in trial.inputs), *(("", p) for p in trial.outputs)]
        found = []
        for k, (const, place) in enumerate(places):
            text = f"({const}{place.layout.dtype.c_name} *)p[{k}]"
            found.append(f"{text} + n * {place.layout.elements}" if self.images > 1 else text)
        return [*found, f"(float *)p[{len(places)}]"] if self.kernel.scratch_bytes else found

    def code_key(self) -> str:
        """Digest of the code without comments, of the constants, ignoring names, and of how many
        images a call computes.
        """
        if self.digest:
            return self.digest
        code = _COMMENT.sub("", self.kernel.code).replace(self.symbol, "trial")
        digest = hashlib.sha256(_headers_digest(runtime_folder()) + code.encode())
        for constant in self.kernel.constants:
            digest.update(constant.name.replace(self.symbol, "trial").encode())
            digest.update(np.ascontiguousarray(constant.values).tobytes())
        for place in (*self.trial.inputs, *self.trial.outputs):
            digest.update(f"{place.layout!r}{place.halo!r}".encode())
        if self.images > 1:  # not visible in the code, which is called for each
            digest.update(f"{self.images} images".encode())
        return digest.hexdigest()

    def light(self) -> Candidate:
        """Without constants if these are large: those of all candidates may fill the memory."""
        if sum(c.values.nbytes for c in self.kernel.constants) < LIGHT_BYTES:
            return self
        kernel = replace(self.kernel, constants=())
        return replace(self, kernel=kernel, digest=self.code_key())

    def whole(self, known: dict[bytes, ConstArray]) -> Candidate:
        """With its constants; equal ones of several candidates are in `known`, by digest."""
        if not self.digest:
            return self
        kernel = _kernel(self.trial, self.symbol)
        constants = tuple(
            replace(known.setdefault(array_digest(c.values), c), name=c.name, comment=c.comment)
            for c in kernel.constants
        )
        return replace(self, kernel=replace(kernel, constants=constants), digest="")


def make_candidate(trial: Trial, number: int, contest: int = 0) -> Candidate:
    """Generates the code of a trial."""
    symbol = f"trial{number:05d}"
    return Candidate(trial, symbol, _kernel(trial, symbol), contest)


def _kernel(trial: Trial, symbol: str) -> Kernel:
    kernel = make_kernel(trial.choice.schedule, trial.job(symbol))
    return replace(kernel, code=tidy(kernel.code))


@dataclass(frozen=True)
class Sources:
    """Generated files by name. `units` maps files to their candidates; `main` is the rest.

    The main file names every candidate: render it (`main_source`) for those that compile.
    """

    files: Mapping[str, bytes]
    units: Mapping[str, tuple[Candidate, ...]]


@dataclass
class Harness:
    """All candidates of one program, for one instruction set.

    A translation unit has `unit` of them, or `unit_bytes` of code. `bands` also makes an entry that
    runs in bands, for checks. Constants of at least `stored_bytes` are in the data file.
    """

    isa: Isa
    bands: bool = False
    stored_bytes: int = STORED_BYTES
    unit: int = UNIT_CANDIDATES
    unit_bytes: int = UNIT_BYTES
    blob: Blob = field(default_factory=Blob)

    def sources(self, candidates: Sequence[Candidate]) -> Sources:
        """Everything except the main file."""
        units = {}
        files: dict[str, bytes] = {}
        for number, group in enumerate(split(candidates, self.unit, self.unit_bytes)):
            name = f"unit{number:03d}.c"
            units[name] = tuple(group)
            files[name] = self.unit_source(group)
        for header in sorted(runtime_folder().glob("*.h")):
            files[f"cannery/{header.name}"] = header.read_bytes()
        return Sources(files, units)

    def unit_source(self, candidates: Sequence[Candidate]) -> bytes:
        """One translation unit."""
        contexts = [self._unit_context(c) for c in candidates]
        text = render(
            "measure/unit.c.j2",
            candidates=contexts,
            isa=self.isa,
            bands=self.bands,
            needs_math=any(c.kernel.needs_math for c in candidates),
            needs_half=any(c.kernel.needs_half for c in candidates),
            needs_bfloat=any(c.kernel.needs_bfloat for c in candidates),
            needs_table=any(c.kernel.needs_table for c in candidates),
            needs_fixed=any(c.kernel.needs_fixed for c in candidates),
            scalar_math=any(c.kernel.scalar_math for c in candidates),
            format_array=format_array,
        )
        return tidy(text).encode()

    def _unit_context(self, c: Candidate) -> dict[str, Any]:
        large = [k for k in c.kernel.constants if k.values.nbytes >= self.stored_bytes]
        return {
            "trial": c.trial, "symbol": c.symbol, "kernel": c.kernel, "images": c.images,
            "rows": c.rows, "arguments": c.arguments,
            "arrays": [k for k in c.kernel.constants if k.values.nbytes < self.stored_bytes],
            "stored": [(k.name, array_type(k.values), self.blob.add(k.values)) for k in large],
        }  # fmt: skip

    def main_source(self, candidates: Sequence[Candidate]) -> dict[str, bytes]:
        """The main file with the table of `candidates`, and the data."""
        places: dict[str, int] = {}
        table: list[dict[str, Any]] = []
        rivals: dict[tuple[int, tuple[str, ...]], int] = {}
        contexts = [self._main_context(c, places, table, rivals) for c in candidates]
        widest = self.isa.lanes[-1]
        text = render(
            "measure/harness.c.j2",
            candidates=contexts,
            places=table,
            isa=self.isa,
            bands=self.bands,
            max_places=max((len(c["places"]) for c in contexts), default=1),
            t=self.isa.vec(widest),
            lanes=widest,
        )
        return {
            "harness_main.c": text.encode(),
            "harness_data.c": _DATA_C.encode(),
            DATA_FILE: self.blob.bytes(),
            **device_sources(),
        }

    def _main_context(
        self,
        c: Candidate,
        places: dict[str, int],
        table: list[dict[str, Any]],
        rivals: dict[tuple[int, tuple[str, ...]], int],
    ) -> dict[str, Any]:
        trial = c.trial
        values = [*zip((*trial.step.inputs, *trial.step.outputs),
                       (*trial.inputs, *trial.outputs),
                       (*trial.data.inputs, *trial.data.outputs), strict=True)]  # fmt: skip
        numbers = []
        for k, (value, place, array) in enumerate(values):
            row = self._place(image_dims(trial.graph.types[value])[0], place, array)
            key = f"{k < len(trial.inputs)} {row}"
            if key not in places:
                places[key] = len(table)
                table.append(row)
            numbers.append(places[key])
        group = rivals.setdefault((c.contest, trial.orders), len(rivals))
        return {
            "trial": trial, "symbol": c.symbol, "kernel": c.kernel, "rows": c.rows,
            "places": numbers, "contest": c.contest, "rivals": group,
        }  # fmt: skip

    def _place(self, images: int, place: BufferPlace, array: NDArray[np.generic]) -> dict[str, Any]:
        layout = place.layout
        per_plane = layout.order == planar.ORDER or bool(layout.phase)
        planes = layout.shape[2] * (16 if layout.phase else 1) if per_plane else 1
        plane = (layout.phase or layout.channel) if per_plane else layout.elements
        return {
            "layout": layout, "order": _ORDERS[layout.order], "dtype": _DTYPES[layout.dtype],
            "bytes": layout.dtype.bytes, "images": images, "shape": layout.shape,
            "halo": place.halo, "slack": place.slack, "planes": planes, "plane": plane,
            "dense": int(layout.dense), "data": self.blob.add(array),
        }  # fmt: skip


def split(
    candidates: Sequence[Candidate], most: int, most_bytes: int = UNIT_BYTES
) -> list[list[Candidate]]:
    """Candidates in groups for one translation unit each."""
    groups: list[list[Candidate]] = []
    size = 0
    for candidate in candidates:
        length = len(candidate.kernel.code)
        full = not groups or len(groups[-1]) >= most or size + length > most_bytes
        if full:
            groups.append([])
            size = 0
        groups[-1].append(candidate)
        size += length
    return groups
