"""Operators and layers that the user computes: `CUSTOM MyOp=my_op.c`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.cli.files import own_files
from cannery.errors import CanneryError, ModelError, OptionError, ToolchainError, UnsupportedError
from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate
from cannery.plugins import FRONTENDS, OPS, plugin_files, plugins
from cannery.target.user_code import error_of_user, marked
from frontends.keras_files import LayerSpec, chain, image, write_h5, write_keras
from needs import need_toolchain

EXAMPLE = Path(__file__).parents[2] / "examples" / "extension"

CODE = """\
static float CUSTOM_NAME(twice)(float x) { return 2.0f * x; }

static void CUSTOM(const float *x, float *y)
{
    for (int k = 0; k < Y_SIZE; ++k) {
        y[k] = CUSTOM_NAME(twice)(x[k]) + ATTR_shift;
    }
}
"""
REFERENCE = "def reference(inputs, attributes):\n    return 2 * inputs[0] + attributes['shift']\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "twice.py").write_text(REFERENCE)
    (tmp_path / "twice.c").write_text(CODE)
    return tmp_path / "twice.c"


def onnx_model(folder: Path, *, domain: str = "com.acme", **attributes: Any) -> Path:
    """Two nodes Twice, the second after a Relu."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    given = {"shift": 0.5, **attributes}
    nodes = [
        helper.make_node("Twice", ["x"], ["a"], domain=domain, **given),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Twice", ["b"], ["y"], domain=domain, shift=-1.0),
    ]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 3, 4]) for n in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    model = helper.make_model(
        helper.make_graph(nodes, "net", [x], [y]), opset_imports=opsets, ir_version=8
    )
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("name", ["Twice", "com.acme.Twice"])
def test_an_operator_of_onnx(name: str, files: Path, tmp_path: Path) -> None:
    graph = load_graph(onnx_model(tmp_path), ImportOptions(custom={name: files}))
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(1, 3, 4)
    (y,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(y, 2 * np.maximum(2 * x + 0.5, 0) - 1)
    assert set(graph.files) >= {files, files.with_suffix(".py")}


@pytest.mark.usefixtures("cache")
def test_an_error_in_c_names_the_file(files: Path, tmp_path: Path) -> None:
    need_toolchain("native")
    path = onnx_model(tmp_path)
    files.write_text(CODE.replace("2.0f", "nothing"))
    said = r"^twice\.c: .*undeclared.*in the line '.*nothing.*correct this file"
    with pytest.raises(ToolchainError, match=said):
        cannery.verify(path, target="native", custom={"Twice": files})
    with pytest.raises(ToolchainError, match=said):
        cannery.load(path, custom={"Twice": files})


def test_errors_outside_of_it_are_not_the_users(tmp_path: Path) -> None:
    text = f"int a;\n{marked('mine.c', 'int b;')}int c;\n"
    (tmp_path / "net.c").write_text(text)
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        found = error_of_user(tmp_path, f"net.c:{number}:4: error: no")
        assert (str(found)[:7] == "mine.c:") == (line == "int b;" or "From" in line)
    assert error_of_user(tmp_path, "other.c:3: error: no") is None
    assert error_of_user(tmp_path, "ld: cannot find -lm") is None


@pytest.mark.usefixtures("cache")
def test_in_c(files: Path, tmp_path: Path) -> None:
    """Both places have functions of their own; a change of the C file is noticed."""
    need_toolchain("native")
    path = onnx_model(tmp_path)
    assert cannery.verify(path, target="native", custom={"Twice": files}).passed
    net = cannery.load(path, custom={"Twice": files})
    assert net(np.zeros((1, 3, 4), np.float32)).tolist() == [[[0.0] * 4] * 3]
    files.write_text(CODE.replace("2.0f", "3.0f"))
    assert not cannery.verify(path, target="native", custom={"Twice": files}).passed


@pytest.mark.usefixtures("cache")
def test_the_example() -> None:
    need_toolchain("native")
    pytest.importorskip("onnx")
    custom = {"Peaks": EXAMPLE / "peaks.c"}
    assert cannery.verify(EXAMPLE / "detector.onnx", target="native", custom=custom).passed


@pytest.mark.parametrize("write", [write_h5, write_keras])
@pytest.mark.parametrize(("class_name", "by"), [("Lambda", "mine"), ("Lambda", "Lambda"),
                                                ("MyLayer", "MyLayer")])  # fmt: skip
def test_a_layer_of_keras(
    write: Any, class_name: str, by: str, files: Path, tmp_path: Path
) -> None:
    spec = LayerSpec(class_name, "mine", (), {"shift": 3, "function": ["4wEAAAAA", None, None]})
    path = write(tmp_path / "m", chain(image("x", 4), spec, LayerSpec("ReLU", "relu")))
    graph = load_graph(path, ImportOptions(custom={by: files}))
    (y,) = evaluate(graph, {"x": np.full((1, 4), -1.0, np.float32)}).values()
    assert y.tolist() == [[1.0] * 4]


def test_the_error_for_an_unknown_class_names_the_option(tmp_path: Path) -> None:
    path = write_keras(tmp_path / "m", chain(image("x", 4), LayerSpec("MyLayer", "mine", (), {})))
    with pytest.raises(UnsupportedError) as error:
        load_graph(path)
    assert "--custom MyLayer=my_op.c" in str(error.value)


@pytest.mark.parametrize("write", [write_h5, write_keras])
def test_weights_of_a_layer_are_not_left_out(write: Any, files: Path, tmp_path: Path) -> None:
    weights = {"w": np.ones(3, np.float32)}
    spec = LayerSpec("MyLayer", "mine", (), {"shift": 1}, weights)
    path = write(tmp_path / "m", chain(image("x", 4), spec))
    with pytest.raises(UnsupportedError, match="has weights"):
        load_graph(path, ImportOptions(custom={"MyLayer": files}))


@pytest.mark.parametrize("write", [write_h5, write_keras])
def test_weights_within_a_nested_model(write: Any, files: Path, tmp_path: Path) -> None:
    for weights in ({}, {"w": np.ones(3, np.float32)}):
        spec = LayerSpec("MyLayer", "mine", (), {"shift": 1}, weights)
        dense = LayerSpec("Dense", "d", (), {"units": 4, "use_bias": False},
                          {"kernel": np.eye(4, dtype=np.float32)})  # fmt: skip
        inner = chain(image("p", 4), spec, dense, name="inner")
        outer = chain(image("x", 4), LayerSpec("Functional", "inner", (), model=inner))
        path = write(tmp_path / "m", outer)
        if not weights:
            assert load_graph(path, ImportOptions(custom={"MyLayer": files})).outputs
            continue
        with pytest.raises(UnsupportedError, match="has weights"):
            load_graph(path, ImportOptions(custom={"MyLayer": files}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def reference(inputs, attributes):\n    return inputs[9]\n",
            "its reference fails: Index",
        ),
        ("import no_such_module\n", "cannot be run: ModuleNotFoundError"),
        ("reference = 3\n", "has no function reference"),
        ("def reference(inputs, attributes):\n    return 'text'\n", "its reference returns"),
        ("def reference(i, a):\n    return i[0].astype(complex)\n", "returns complex128"),
    ],
)
def test_references_that_do_not_work(text: str, message: str, files: Path, tmp_path: Path) -> None:
    files.with_suffix(".py").write_text(text)
    with pytest.raises(ModelError, match=message):
        load_graph(onnx_model(tmp_path), ImportOptions(custom={"Twice": files}))


def test_files_and_names_that_do_not_fit(files: Path, tmp_path: Path) -> None:
    path = onnx_model(tmp_path)
    with pytest.raises(OptionError, match="no operator or layer 'Thrice'"):
        load_graph(path, ImportOptions(custom={"Twice": files, "Thrice": files}))
    with pytest.raises(OptionError, match="is not a C file"):
        cannery.compile(path, tmp_path / "out", custom={"Twice": "twice.py"}, target="generic")
    files.with_suffix(".py").unlink()
    with pytest.raises(OptionError, match=r"twice\.py"):
        load_graph(path, ImportOptions(custom={"Twice": files}))


def test_attributes_that_are_no_macros(files: Path, tmp_path: Path) -> None:
    path = onnx_model(tmp_path, text='a "quoted" one')
    with pytest.raises(UnsupportedError, match="expected numbers or a text"):
        load_graph(path, ImportOptions(custom={"Twice": files}))


def test_unknown_operators_and_layers_point_here(tmp_path: Path) -> None:
    spec = LayerSpec("Lambda", "mine", ())
    for path in (onnx_model(tmp_path), write_keras(tmp_path / "m", chain(image("x", 4), spec))):
        with pytest.raises(CanneryError, match=r"--custom \w+=my_op\.c"):
            load_graph(path)


@pytest.mark.usefixtures("cache")
def test_other_formats_have_none(files: Path) -> None:
    amp = Path(__file__).parent / "guitarml"
    with pytest.raises(OptionError, match="it is for ONNX and Keras"):
        load_graph(next(amp.glob("*.json")), ImportOptions(custom={"A": files}, streaming=True))


def test_a_project_file_cannot_name_python(files: Path, tmp_path: Path) -> None:
    from cannery.project_file import _KNOWN, _REFUSED

    assert "custom" in _REFUSED and "custom" not in _KNOWN


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with both kinds of entry points, as if it were installed."""
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[cannery.frontends]\nacme = acme_reader\n[cannery.ops]\nacme = acme_ops\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.cache_clear()
    yield tmp_path
    plugins.cache_clear()
    for name in ("acme_reader", "acme_ops"):
        sys.modules.pop(name, None)


READER = """
from cannery.ir.graph import GraphBuilder
from cannery.ops.elementwise.activations import Relu

FORMAT = "Acme"


def recognises(head):
    return head.startswith(b"ACME")


def load(path, options):
    builder = GraphBuilder("acme")
    builder.output(builder.node(Relu(), [builder.input("x", (1, 3))], name="y"))
    return builder.build()
"""


def test_a_reader_of_another_package(package: Path) -> None:
    (package / "acme_reader.py").write_text(READER)
    (package / "net.acme").write_bytes(b"ACME")
    assert load_graph(package / "net.acme").outputs == ("y",)
    assert "Acme" in cannery.frontends.formats()


def test_a_package_that_fails(package: Path) -> None:
    (package / "acme_ops.py").write_text("raise ValueError('broken')")
    with pytest.raises(ToolchainError, match=r"acme: its entry point 'acme' of cannery\.ops fails"):
        plugins(OPS)
    (package / "acme_ops.py").write_text("")
    assert [module.__name__ for module in plugins(OPS)] == ["acme_ops"]
    assert FRONTENDS != OPS


def test_results_depend_on_the_files_of_packages(package: Path) -> None:
    """`load` and build tools look whether these changed."""
    for name in ("acme_reader", "acme_ops"):
        (package / f"{name}.py").write_text("")
    assert plugin_files() == [package / "acme_ops.py", package / "acme_reader.py"]
    assert {*plugin_files()} < {*own_files()}
