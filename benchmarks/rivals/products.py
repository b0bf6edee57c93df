"""Small products with a constant matrix, some of it zero: what MARLIN generates code for.

MARLIN (Jayaweera et al., "Data vs. Instructions: Runtime Code Generation for Convolutions", CGO
2021, student research) writes the constant matrix into instructions, for AVX-512 only. Its
benchmark multiplies square matrices of 1 to 32 and compares with oneDNN, as is done here. Cannery
gets a product as what it is in a network: a 1x1 convolution of M pixels.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import product
from pathlib import Path

import numpy as np

from cannery.errors import CanneryError
from cannery.execution.samples import relative_error
from cannery.ir.graph import Array
from cannery.measure.build import build_error, ninja_file, run_ninja, write
from cannery.measure.elf import section_sizes
from cannery.options import make_options
from cannery.target.toolchain import find_toolchain
from isas import isa_words
from rivals.contest import Settings, alone, time_in_turn
from rivals.ours import SERVING, Ours, build_ours, peak
from rivals.results import Contest, Result, best_ours, reasons
from rivals.served import Served, serve

#: What `compare.py --seed` calls them.
MARLIN = "marlin"

#: Rows and columns of both matrices, and the shares of zeros in the constant one.
SIZES = (4, 8, 12, 16, 24, 32)
ZEROS = (0.0, 0.5, 0.8, 0.9, 0.95)

#: oneDNN without SYCL, which is what has least to do before a small product.
_PACKAGE = "onednn-cpu-gomp"
_TITLE = "oneDNN"
_FORMS = ("sgemm", "matmul")

_DRIVER = Path(__file__).with_name("products.c")

_PUBLISHED = (
    "MARLIN's published figures: 1.12 times as fast as MKL and 1.05 times as fast as MKL's JIT,"
    " geometric means for 32 input channels without zeros, AVX-512."
)


@dataclass(frozen=True)
class Product:
    """A (size x size, an input) times B (size x size, constant), a share of B being zero."""

    size: int
    zeros: float

    @property
    def title(self) -> str:
        return f"{self.size}x{self.size}x{self.size}, {100 * self.zeros:.0f}% zeros"

    def matrices(self) -> tuple[Array, Array]:
        """A and B, the same every time; the zeros are anywhere."""
        rng, shape = np.random.default_rng(self.size), (self.size, self.size)
        left, right = (rng.standard_normal(shape, np.float32) for _ in range(2))
        right.flat[rng.permutation(right.size)[: round(self.zeros * right.size)]] = 0
        return left, right


def write_product(of: Product, folder: Path) -> Path:
    """Write it as a network: pixels times a matrix of channels, last as they are in memory."""
    from onnx import TensorProto, helper, numpy_helper

    _, right = of.matrices()
    weights = np.ascontiguousarray(right.T)[..., None, None]
    nodes = [
        helper.make_node("Transpose", ["a"], ["pixels"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["pixels", "b"], ["products"]),
        helper.make_node("Transpose", ["products"], ["c"], perm=[0, 2, 3, 1]),
    ]
    a, c = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, of.size, of.size])
        for name in "ac"
    )
    body = helper.make_graph(nodes, "product", [a], [c], [numpy_helper.from_array(weights, "b")])
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "product.onnx"
    file.write_bytes(model.SerializeToString())
    return file


def compare_products(
    settings: Settings, folder: Path, sizes: Sequence[int] = SIZES, zeros: Sequence[float] = ZEROS
) -> Iterator[Contest]:
    """Each product, one after the other; raises CanneryError if Cannery fails."""
    library = _library()
    driver = _build_driver(folder / "driver") if library else None
    for size, share in product(sizes, zeros):
        of = Product(size, share)
        yield _contest(of, settings, folder / f"{size}_{round(100 * share)}", library, driver)


def _library() -> Path | None:
    """Of oneDNN, if its package is installed."""
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    found = [Path(str(f.locate())) for f in files if f.name == "libdnnl.so.3"]
    return found[0] if found else None


def _version() -> str:
    return metadata.version(_PACKAGE)


def _build_driver(folder: Path) -> Path:
    """The program that calls oneDNN; raises CanneryError."""
    toolchain = find_toolchain(make_options(Path("unused"), {}))
    toolchain = replace(toolchain, ldflags=(*toolchain.ldflags, "-ldl"))
    write(folder, {file.name: file.read_bytes() for file in (_DRIVER, SERVING)})
    failures = run_ninja(folder, ninja_file(toolchain, [_DRIVER.name], executable="products"))
    if failures:
        raise build_error(failures, toolchain)
    return (folder / "products").resolve()


def _contest(
    of: Product, settings: Settings, folder: Path, library: Path | None, driver: Path | None
) -> Contest:
    """Builds, checks and times all contestants."""
    absent: dict[tuple[str, str], str] = {} if driver else {(_TITLE, ""): "not installed"}
    entrants: list[tuple[Served, Result]] = []
    with ExitStack() as stack:
        for isa, cc in product(settings.isas or ("",), settings.compilers or ("",)):
            entrants.append(_ours(of, settings, isa, cc, folder))
            stack.callback(entrants[-1][0].end)
        for form in _FORMS if library and driver else ():
            try:
                entrants.append(_one_dnn(of, form, folder / form, library, driver))
                stack.callback(entrants[-1][0].end)
            except CanneryError as error:
                absent[_TITLE, f"{_TITLE} {form}"] = str(error)
        served = [s for s, _ in entrants]
        with alone(served, settings):
            gone = time_in_turn(served, settings)
        results = [replace(r, us=s.us) for s, r in entrants if id(s) not in gone]
    absent |= {(r.rival, r.name): gone[id(s)] for s, r in entrants if id(s) in gone}
    return Contest(of.title, of.size**3, tuple(results), reasons(absent, results))


def _ours(
    of: Product, settings: Settings, isa: str, cc: str, folder: Path
) -> tuple[Served, Result]:
    """Cannery's code in its process, its output checked."""
    folder = folder / "_".join(filter(None, ["ours", isa, cc])).replace("/", "_")
    raw = {"isa": isa_words(isa), "cc": cc or None, "tuning": settings.tuning, "name": "network"}
    options = make_options(write_product(of, folder), raw)
    ours = build_ours(options, folder, 1, autotune=settings.autotune)
    (name,) = ours.source.graph.inputs
    left, _ = of.matrices()
    label = " ".join(filter(None, ["Cannery", isa, cc]))
    served = serve(label, ours.command({name: left[None, None]}, folder), folder)
    (output,) = ours.outputs(folder)
    toolchain = ours.toolchain
    return served, Result(
        label, toolchain.compiler.version, "tuned" if ours.tuned else "untuned", 1, 0.0, 0.0,
        _error(of, output), _loaded_bytes(ours), 0, toolchain.target.isa.name,
        peak(toolchain, folder)(),
    )  # fmt: skip


def _loaded_bytes(ours: Ours) -> int:
    """Of the network's code and constants, which is what caches have to hold."""
    object_ = ours.executable.with_name(f"{ours.source.name}.o")
    sizes = section_sizes(object_)
    return sizes.code + sizes.constants if sizes else object_.stat().st_size


def _one_dnn(
    of: Product, form: str, folder: Path, library: Path, driver: Path
) -> tuple[Served, Result]:
    """The rival in its process, its output checked."""
    write(folder, {"inputs.bin": b"".join(matrix.tobytes() for matrix in of.matrices())})
    files = [str(folder / name) for name in ("inputs.bin", "outputs.bin")]
    sizes = [str(of.size)] * 3
    title, threads = f"{_TITLE} {form}", {"OMP_NUM_THREADS": "1"}
    served = serve(title, [str(driver), str(library), form, *sizes, *files], folder, threads)
    output = np.fromfile(files[1], np.float32)
    return served, Result(
        title, _version(), "", 1, 0.0, 0.0, _error(of, output),
        library.stat().st_size, 0, rival=_TITLE,
    )  # fmt: skip


def _error(of: Product, output: Array) -> float:
    """Beside the product in float64; other sizes: inf."""
    left, right = (matrix.astype(np.float64) for matrix in of.matrices())
    expected = left @ right
    if output.size != expected.size:
        return float("inf")
    return relative_error(output.reshape(expected.shape), expected)


def as_products(contests: Sequence[Contest]) -> str:
    """A line for each product: Cannery and every form of oneDNN; then means, and MARLIN's."""
    titles = [f"{_TITLE} {form}" for form in _FORMS]
    header = (
        "product, constant matrix", "Cannery us", "code and constants, bytes",
        *(f"{title} us" for title in titles), "times as long",
    )  # fmt: skip
    lines = [header, ("---",) * len(header)]
    ratios: dict[str, list[float]] = {}
    for contest in contests:
        ours = best_ours(contest)
        if ours is None:
            continue
        us = {r.name: r.us for r in contest.results if not r.is_ours and r.is_right}
        if us:
            share = contest.network.split(", ")[1]
            ratios.setdefault(share, []).append(min(us.values()) / ours.us)
        lines.append((
            contest.network, f"{ours.us:.3g} ({ours.isa}; {ours.remark})", str(ours.library),
            *(f"{us[t]:.3g}" if t in us else "-" for t in titles),
            f"{min(us.values()) / ours.us:.2f}" if us else "-",
        ))  # fmt: skip
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n{_means(ratios)}{_PUBLISHED}\n"


def _means(ratios: Mapping[str, Sequence[float]]) -> str:
    """Geometric means over the sizes, by zeros; empty without rivals."""
    found = [f"{share} {statistics.geometric_mean(some):.2f}" for share, some in ratios.items()]
    return f"Times as long as Cannery, geometric means: {', '.join(found)}.\n" if found else ""
