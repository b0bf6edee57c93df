"""How fast ensembles of trees are beside other tools that make code of them.

    python benchmarks/forests.py [MODEL ...] [--features 20] [--on 'taskset -c 3']

Trains forests of 1 to 500 trees, depths 3 to 12, and boosted trees; generates C with each tool
that is installed (m2cgen, emlearn, tl2cgen, lleaves), compiles all with the same flags, and times
single samples, a different one in each call. MODEL is a part of a name, such as `10 x 4`. Needs
scikit-learn and skl2onnx; the others are left out if they are missing. emlearn's classifiers return
a label only, all else scores.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FLAGS = ("-O2", "-march=native", "-w")
SAMPLES = 4000

#: Features of all samples that are timed, at most: what a caller has just written is in the cache.
TIMED = 80_000

#: Trees and depths of the forests.
SIZES = ((1, 3), (10, 4), (10, 6), (10, 8), (10, 12), (100, 4), (100, 6), (100, 8), (100, 12),
         (500, 6))  # fmt: skip

#: Leaves of the largest forests that m2cgen gets: it takes long for more.
M2CGEN_LEAVES = 30_000
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Spec:
    """An ensemble to train. `library` is sklearn, xgboost or lightgbm; a class is a regression."""

    library: str
    trees: int
    depth: int
    classes: int
    features: int

    @property
    def name(self) -> str:
        kind = f"{self.classes} classes" if self.classifies else "regressor"
        return f"{self.library} {self.trees} x {self.depth} {kind}"

    @property
    def timed(self) -> int:
        """How many samples are timed."""
        return min(SAMPLES, TIMED // self.features)

    @property
    def classifies(self) -> bool:
        return self.classes > 1


def specs(features: int) -> list[Spec]:
    """What is timed, for samples of so many features."""
    sizes = [("sklearn", *size, classes) for size in SIZES for classes in (1, 2, 3)]
    boosted = [("xgboost", 100, 6, 3), ("xgboost", 100, 6, 1), ("lightgbm", 100, 5, 1)]
    return [Spec(*row, features) for row in (*sizes, *boosted)]


def train(spec: Spec, x: Any, y: Any) -> Any:
    """A trained model."""
    if spec.library == "xgboost":
        import xgboost

        kind = xgboost.XGBClassifier if spec.classifies else xgboost.XGBRegressor
        return kind(n_estimators=spec.trees, max_depth=spec.depth, n_jobs=1).fit(x, y)
    if spec.library == "lightgbm":
        import lightgbm

        made = lightgbm.LGBMRegressor(
            n_estimators=spec.trees, num_leaves=2**spec.depth - 1, n_jobs=1, verbose=-1
        )
        return made.fit(x, y)
    from sklearn import ensemble

    forest = ensemble.RandomForestClassifier if spec.classifies else ensemble.RandomForestRegressor
    return forest(spec.trees, max_depth=spec.depth, random_state=0).fit(x, y)


def data(spec: Spec) -> tuple[Any, Any]:
    """Samples and what belongs to them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SAMPLES, spec.features)).astype(np.float32)
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] + 0.3 * rng.normal(size=SAMPLES)
    if not spec.classifies:
        return x, score
    return x, np.digitize(score, np.quantile(score, np.arange(1, spec.classes) / spec.classes))


def to_onnx(spec: Spec, model: Any, x: Any) -> bytes:
    """The model as an ONNX file."""
    if spec.library == "sklearn":
        import skl2onnx

        options = {"zipmap": False} if spec.classifies else None
        made = skl2onnx.to_onnx(
            model, x[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3}
        )
        return bytes(made.SerializeToString())
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    convert = getattr(onnxmltools, f"convert_{spec.library}")
    types = [("x", FloatTensorType([None, spec.features]))]
    return bytes(convert(model, initial_types=types, target_opset=15).SerializeToString())


@dataclass(frozen=True)
class Way:
    """C that runs the model: the body of `void run(const float *x, const double *d, float *y)`."""

    name: str
    code: str
    body: str
    objects: tuple[Path, ...] = ()
    folder: Path | None = None


def by_cannery(spec: Spec, onnx: bytes, folder: Path) -> Way:
    """Cannery, not tuned."""
    path, out = folder / "forest.onnx", folder / "cannery"
    path.write_bytes(onnx)
    cannery = [sys.executable, "-m", "cannery"]
    subprocess.run(
        [*cannery, "compile", str(path), "-o", str(out), "--name", "forest"],
        check=True, capture_output=True,
    )  # fmt: skip
    head = (out / "forest.h").read_text()
    found = re.search(r"forest_run\(([^)]*)\)", head)
    assert found
    label = "int64_t" in found.group(1)
    call = "int64_t label; forest_run(x, &label, y);" if label else "forest_run(x, y);"
    objects = []
    for source in sorted(out.glob("forest*.c")):
        if "selftest" not in source.name:
            built = folder / f"{source.stem}_cannery.o"
            subprocess.run(
                ["cc", *FLAGS, f"-I{out}", "-c", str(source), "-o", str(built)], check=True
            )
            objects.append(built)
    return Way("cannery", '#include "forest.h"\n', call, tuple(objects), out)


def by_m2cgen(spec: Spec, model: Any, folder: Path) -> Way:
    """m2cgen."""
    import m2cgen

    if spec.trees * 2**spec.depth > M2CGEN_LEAVES:
        raise ValueError("would take minutes")
    code = m2cgen.export_to_c(model)
    if " nan " in code:
        raise ValueError("does not know this version of the library")
    if not spec.classifies:
        return Way("m2cgen", code, "(void)x; y[0] = (float)score((double *)d);")
    body = f"double r[{spec.classes}]; score((double *)d, r);"
    copy = f"for (int k = 0; k < {spec.classes}; ++k) y[k] = (float)r[k];"
    return Way("m2cgen", code, f"{body} {copy}")


def by_emlearn(spec: Spec, model: Any, folder: Path) -> Way:
    """emlearn, its inline code."""
    import emlearn

    converted = emlearn.convert(model, method="inline", dtype="float")
    path = folder / "emlearn.h"
    converted.save(name="em", format="c", file=str(path))
    return Way("emlearn", path.read_text(), f"y[0] = (float)em_predict(x, {spec.features});")


def by_tl2cgen(spec: Spec, model: Any, folder: Path) -> Way:
    """tl2cgen, which took over the code generator of treelite."""
    import tl2cgen
    import treelite

    if spec.library == "sklearn":
        made = treelite.sklearn.import_model(model)
    elif spec.library == "xgboost":
        made = treelite.frontend.from_xgboost(model.get_booster())
    else:
        made = treelite.frontend.from_lightgbm(model.booster_)
    out = folder / "tl2cgen"
    tl2cgen.generate_c_code(made, dirpath=str(out), params={}, verbose=False)
    built = folder / "tl2cgen.o"
    subprocess.run(["cc", *FLAGS, "-c", str(out / "main.c"), "-o", str(built)], check=True)
    real = "double" if "double* result" in (out / "header.h").read_text() else "float"
    field = "d" if "double fvalue" in (out / "header.h").read_text() else "x"
    zeros = f"{real} r[{spec.classes}] = {{0}};"
    body = f"{zeros} predict((void *){field}, 0, r);"
    copy = f"for (int k = 0; k < {spec.classes}; ++k) y[k] = (float)r[k];"
    return Way("tl2cgen", f"void predict(void *, int, {real} *);\n", f"{body} {copy}", (built,))


def by_lleaves(spec: Spec, model: Any, folder: Path) -> Way:
    """lleaves, which compiles LightGBM's models with LLVM."""
    import lleaves

    if spec.library != "lightgbm":
        raise ImportError("LightGBM only")
    path, cache = folder / "lightgbm.txt", folder / "lleaves.o"
    model.booster_.save_model(str(path))
    lleaves.Model(model_file=str(path)).compile(cache=str(cache))
    code = "void forest_root(const double *, double *, int, int);\n"
    return Way("lleaves", code, "double r; forest_root(d, &r, 0, 1); y[0] = (float)r;", (cache,))


RIVALS: tuple[Callable[[Spec, Any, Path], Way], ...] = (
    by_m2cgen, by_emlearn, by_tl2cgen, by_lleaves,
)  # fmt: skip


def program(spec: Spec, ways: list[Way], folder: Path) -> Path:
    """The timing program."""
    objects: list[str] = []
    for way in ways:
        source = folder / f"way_{way.name}.c"
        head = f"{way.code}\nvoid run_{way.name}(const float *x, const double *d, float *y)"
        source.write_text(f"#include <stdint.h>\n{head}\n{{\n    {way.body}\n}}\n")
        include = [f"-I{way.folder}"] if way.folder else []
        built = source.with_suffix(".o")
        subprocess.run(["cc", *FLAGS, *include, "-c", str(source), "-o", str(built)], check=True)
        objects += [str(built), *map(str, way.objects)]
    kind = "void (*run)(const float *, const double *, float *)"
    declared = "".join(
        f"void run_{w.name}(const float *, const double *, float *);\n" for w in ways
    )
    listed = ", ".join(f'{{ "{w.name}", run_{w.name} }}' for w in ways)
    (folder / "ways.h").write_text(
        f"enum {{ FEATURES = {spec.features}, SAMPLES = {spec.timed}, OUTPUTS = {spec.classes}, "
        f"WAYS = {len(ways)} }};\n{declared}"
        f"static const struct {{ const char *name; {kind}; }} ways[] = {{ {listed} }};\n"
    )
    built = folder / "forests"
    main = [*FLAGS, f"-I{folder}", str(HERE / "forests.c"), *objects, "-o", str(built), "-lm"]
    subprocess.run(["cc", *main], check=True)
    return built


def run(spec: Spec, on: str) -> None:
    """One line of the table."""
    x, y = data(spec)
    try:
        model = train(spec, x, y)
    except ImportError as error:
        print(f"{spec.name}: {error}")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ways = [by_cannery(spec, to_onnx(spec, model, x), folder)]
        for rival in RIVALS:
            try:
                ways.append(rival(spec, model, folder))
            except (ImportError, NotImplementedError, ValueError, AttributeError) as error:
                print(f"  ({rival.__doc__}: {error!s:.60})", file=sys.stderr)
        built = program(spec, ways, folder)
        np.ascontiguousarray(x).tofile(folder / "samples")
        command = [*shlex.split(on), str(built), str(folder / "samples")]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    own = float(rows[0][1])
    told = "  ".join(f"{n} {float(t):.0f} ns ({float(t) / own:.1f})" for n, t, _ in rows)
    print(f"{spec.name:30} {told}   [{' '.join(r[2] for r in rows)}]", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ensembles of trees beside other tools.")
    parser.add_argument("models", nargs="*", help="parts of names, such as xgboost")
    parser.add_argument("--features", type=int, default=20, help="of a sample; at least 4")
    parser.add_argument("--on", default="", help="what to put before the program, such as taskset")
    given = parser.parse_args()
    for spec in specs(given.features):
        if not given.models or any(part in spec.name for part in given.models):
            run(spec, given.on)


if __name__ == "__main__":
    main()
