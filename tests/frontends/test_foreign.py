"""Files of other programs: the error says what they are and how the network gets to Cannery."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from cannery.errors import CanneryError
from cannery.frontends import load_graph


def archive(*names: str) -> Sequence[str]:
    return names


class Trap:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('executed')",)


def error_of(path: Path) -> str:
    with pytest.raises(CanneryError) as caught:
        load_graph(path)
    text = str(caught.value)
    assert text.startswith(str(path)) and "\n" not in text and caught.value.cure
    return text


@pytest.mark.parametrize(
    ("names", "what", "cure"),
    [
        (archive("m/data.pkl", "m/data/0", "m/version"), "checkpoint", "torch.onnx.export("),
        (archive("archive/data.pkl", "archive/code/__torch__.py", "archive/constants.pkl"),
         "TorchScript", 'torch.onnx.export(model, example, "m.onnx", dynamo=True)'),
        (archive("e/models/model.json", "e/archive_format", "e/data/sample_inputs/model.pt"),
         "the program is damaged", "save the model again"),
        (archive("serialized_exported_program.json", "version"), "is damaged", "save the model"),
        (archive("m/byteorder", "m/models/model.json", "m/archive_format"),
         "exported program", "torch.export.load"),
        (archive("m/archive_format", "m/data/aotinductor/model/c.wrapper.cpp", "m/version",
                 "m/data/aotinductor/model/c.so"), "AOTInductor", "torch.onnx.export("),
        (archive("m/archive_format", "m/data/aotinductor/model/c.so", "m/models/model.json"),
         "the program is damaged", "save the model again"),
        (archive("p/model/model.pkl", "p/.data/extern_modules", "p/.data/version", "p/net.py"),
         "torch.package", "PackageImporter"),
        (archive("a.npy", "b.npy"), "arrays of NumPy", "the model to which they belong"),
        (archive("m.mlpackage/Data/com.apple.CoreML/model.mlmodel"), "Core ML", "as ONNX"),
        (archive("net/saved_model.pb"), "SavedModel", "tf2onnx"),
        (archive("nets/ball.onnx"), "a zip file with a model", "unpack it"),
        (archive("schema.json"), "pickle", "skl2onnx"),
        (archive("readme.txt"), "not a Keras archive", "save the model"),
        (archive("config.json"), "metadata.json", "save the model again"),
    ],
)  # fmt: skip
def test_archives_by_their_members(
    names: Sequence[str], what: str, cure: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, pickle.dumps(Trap()))
    text = error_of(path)
    assert what in text
    assert cure in text


FILES = {
    "legacy.pth": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03", "checkpoint"),
    "c.joblib": (pickle.dumps(Trap()), "skl2onnx"),
    "c0.pkl": (b"ccopy_reg\n_reconstructor\np0\n", "skl2onnx"),
    "c3.joblib": (b"x^}\x93\xbf", "skl2onnx"),
    "saved_model.pb": (b"\x08\x01\x12\xf0\x10\n\x90\x08\x12\x8a\x08\n7\n\x03Add", "SavedModel"),
    "frozen.pb": (b"\n*\n\x07input/x\x12\x0bPlaceholder*\x0b\n\x05dtype", "--graphdef"),
    "m.mlmodel": (b"\x08\x04\x12\x8f\x01\n\x18\n\x05image\x1a\x0f", "Core ML"),
    "m.tflite": (b"\x1c\0\0\0TFL3", "damaged TensorFlow Lite file"),
    "m.ort": (b"\x18\0\0\0ORTM", ".onnx file from which it was made"),
    "m.pte": (b"\x18\0\0\0ET12", "torch.onnx.export"),
    "w.gguf": (b"GGUF\x03\0\0\0", "GGUF"),
    "w.safetensors": (b'8\0\0\0\0\0\0\0{"a":{"dtype"', "safetensors"),
    "m.engine": (b"ftrt\x01\0\0\0", "TensorRT"),
    "m.xml": (b'<?xml version="1.0"?>\n<net name="m" version="11">', "OpenVINO"),
    "a.npy": (b"\x93NUMPY\x01\0v\0", "arrays of NumPy"),
    "m.mat": (b"MATLAB 5.0 MAT-file", "exportONNXNetwork"),
    "m.json": (b'{"class_name": "Sequential", "config"', 'model.save("m.keras")'),
    "package.json": (b'{"name": "amp", "version": "0.7.0", "metadata": {}}', "not a model file"),
    "model.json": (b'{"format": "layers-model", "modelTopology": {"class_name"', "TensorFlow.js"),
    "checkpoint": (b'model_checkpoint_path: "m.ckpt"', "TensorFlow checkpoint"),
    "page.onnx": (b"\n<!DOCTYPE html><html>", "a web page"),
    "m.onnx.gz": (b"\x1f\x8b\x08\0", "unpack it"),
    "m.tar": (b"m.onnx".ljust(257, b"\0") + b"ustar", "unpack it"),
    "m.param": (b"7767517\n75 83\n", "ncnn"),
    "trees.txt": (b"tree\nversion=v4\n", 'lightgbm.Booster(model_file="FILE")'),
    "trees.json": (b'{"learner":{"attributes":{}', 'xgboost.Booster(model_file="FILE")'),
    "trees.ubj": (b"{L\0\0\0\0\0\0\0\x07learner{L\0", 'xgboost.Booster(model_file="FILE")'),
    "trees.cbm": (b"CBM1\x10!\0\0", 'save_model("m.onnx", format="onnx")'),
    "cat.json": (b'{\n"features_info":\n', "a model of CatBoost"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_by_their_first_bytes(name: str, tmp_path: Path) -> None:
    data, expected = FILES[name]
    path = tmp_path / "m"  # what a file is called does not matter
    path.write_bytes(data)
    assert expected in error_of(path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("saved_model.pb", "SavedModel"),
        ("Data/com.apple.CoreML", "Core ML"),
        ("model.weights.h5", "name the .keras file itself"),
        ("openvino_model.xml", "OpenVINO"),
        ("other", "a folder, not a model file"),
    ],
)
def test_folders(name: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir(parents=True)
    assert expected in error_of(tmp_path)


def test_weights_of_an_onnx_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    (tmp_path / "m.onnx.data").write_bytes(bytes(64))
    assert "name m.onnx" in error_of(tmp_path / "m.onnx.data")


@pytest.mark.parametrize("producer", ["ETrainer", "ORTMaker", "TFL3", "tf2onnx"])
def test_the_producer_of_an_onnx_file_does_not_disguise_it(producer: str, tmp_path: Path) -> None:
    from frontends.onnx_models import load, model, node

    proto = model([node("Relu", ["x"], ["y"])], {"x": (1, 2)})
    proto.producer_name = producer
    assert load(tmp_path, proto).nodes
