"""Identifies unknown files by their content, and says how to get the network to Cannery.

It does not parse anything beyond the first bytes, except of PyTorch's checkpoints the names in
them, and does not unpickle: a pickle is a program.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from cannery.errors import ModelError
from cannery.frontends.archive_errors import ZIP_ERRORS
from cannery.frontends.torch_checkpoint import contents

_TORCH_TO_ONNX = 'torch.onnx.export(model, example, "m.onnx", dynamo=True)'
_FROM_PYTHON = "cannery.from_torch(model, example)"
_TF_TO_ONNX = "pip install tf2onnx tensorflow-cpu, then python -m tf2onnx.convert"
_UNPACK = "unpack it, and name the model in it"
_SOURCE = "export the original model as ONNX"


class Foreign(NamedTuple):
    """What a file is, "a GGUF file", and what to do about it."""

    what: str
    cure: str

    def error(self, path: Path) -> ModelError:
        """As an error."""
        found = _checkpoint(path) if self is _CHECKPOINT else self
        return ModelError(found.what, where=str(path), cure=found.cure)


_CHECKPOINT = Foreign(
    "a PyTorch checkpoint (torch.save): pickled Python, which is never executed",
    'in Python: model.load_state_dict(torch.load("FILE", weights_only=True)), model.eval(), then '
    f"{_TORCH_TO_ONNX} or {_FROM_PYTHON}",
)


def _checkpoint(path: Path) -> Foreign:
    """A PyTorch checkpoint, with the line that loads what is in this one."""
    found = None if path.is_dir() else contents(path)
    if found is None:
        return _CHECKPOINT
    loaded = f'torch.load("{path}", weights_only={found.plain})'
    if found.key:
        loaded += f'["{found.key}"]'
    trust = "" if found.plain else "if you trust the file, as this executes what is in it: "
    end = f", model.eval(), then {_TORCH_TO_ONNX} or {_FROM_PYTHON}"
    if found.module:
        return Foreign(
            "a PyTorch checkpoint (torch.save) of a whole module: pickled Python, which is never "
            f"executed; its class is {found.module}",
            f"{trust}in Python, where its source is, model = {loaded}{end}",
        )
    return Foreign(
        "a PyTorch checkpoint (torch.save): weights without the network, pickled, which is never "
        "executed",
        f"{trust}in Python, make the model, then model.load_state_dict({loaded}){end}",
    )


_TORCHSCRIPT = Foreign(
    "a TorchScript archive (torch.jit.save)",
    f"in Python, with the original model: {_TORCH_TO_ONNX}; where there is only the "
    'archive, model = torch.jit.load("FILE") and export that with dynamo=False, or '
    f"{_FROM_PYTHON}",
)
EXPORTED = Foreign(
    "a PyTorch exported program (torch.export.save)",
    f"in Python, model = torch.export.load(...), then {_TORCH_TO_ONNX}",
)
_AOT_INDUCTOR = Foreign(
    "machine code that PyTorch's AOTInductor made (.pt2), without the network",
    f"in Python, with the original model: {_TORCH_TO_ONNX}",
)
_PACKAGED = Foreign(
    "a torch.package archive: code and pickled Python, which is never executed",
    "in Python, model = torch.package.PackageImporter(...).load_pickle(...), then "
    f"{_TORCH_TO_ONNX}",
)
_SAVED_MODEL = Foreign(
    "a TensorFlow SavedModel",
    f"save the Keras model as .keras or .h5, or {_TF_TO_ONNX} --saved-model DIR --output m.onnx",
)
_FROZEN = Foreign(
    "a TensorFlow graph (.pb)",
    f"save the Keras model as .keras or .h5, or {_TF_TO_ONNX} --graphdef IN.pb --output m.onnx "
    "--inputs ... --outputs ...",
)
_CORE_ML = Foreign("a Core ML model", _SOURCE)
_OPENVINO = Foreign("an OpenVINO model", _SOURCE)
_PICKLE = Foreign(
    "a Python pickle (joblib, scikit-learn), which is never executed",
    "scikit-learn: skl2onnx.to_onnx(model, X) in Python makes ONNX; PyTorch: " + _TORCH_TO_ONNX,
)
_JOBLIB = Foreign("a compressed file, such as joblib writes, which is never executed", _PICKLE.cure)
_CONVERTED = (
    'initial_types=[("x", FloatTensorType([None, FEATURES]))]) makes ONNX; FloatTensorType is in '
    "onnxmltools.convert.common.data_types, and onnxmltools.utils.save_model writes the file"
)
_LIGHTGBM = Foreign(
    "a model of LightGBM",
    'in Python, onnxmltools.convert_lightgbm(lightgbm.Booster(model_file="FILE"), ' + _CONVERTED,
)
_XGBOOST = Foreign(
    "a model of XGBoost",
    'in Python, onnxmltools.convert_xgboost(xgboost.Booster(model_file="FILE"), ' + _CONVERTED,
)
_CATBOOST = Foreign(
    "a model of CatBoost",
    'in Python, model = catboost.CatBoost(), model.load_model("FILE"), with format="json" for a '
    'text, then model.save_model("m.onnx", format="onnx")',
)
_ARRAYS = Foreign("arrays of NumPy, not a network", "name the model to which they belong")
_PACKED = Foreign("a compressed file", _UNPACK)

#: Offset in a file, the bytes there, their meaning.
_MAGIC: Sequence[tuple[int, bytes, Foreign]] = (
    (4, b"ORTM", Foreign("an ONNX Runtime file (.ort)", "name the .onnx file from which it was "
    "made")),
    (4, b"ET", Foreign("an ExecuTorch program (.pte)", f"in Python: {_TORCH_TO_ONNX}")),
    (0, b"GGUF", Foreign(
        "weights of a language model (GGUF), without its network", "export the model as ONNX"
    )),
    (0, b"ftrt", Foreign("a TensorRT engine, for one GPU", _SOURCE)),
    (0, b"ptrt", Foreign("a TensorRT engine, for one GPU", _SOURCE)),
    (0, b"{L\x00\x00\x00\x00\x00\x00\x00\x07learner", _XGBOOST),  # .ubj
    (0, b"CBM1", _CATBOOST),
    (0, b"\x93NUMPY", _ARRAYS),
    (0, b"MATLAB", Foreign("a MATLAB file", "exportONNXNetwork in MATLAB makes ONNX")),
    # torch.save until 1.6: a pickled number, 0x1950a86a20f9469cfc6c, then others.
    (0, b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19", _CHECKPOINT),
    (0, b"\x80\x02", _PICKLE), (0, b"\x80\x03", _PICKLE), (0, b"\x80\x04", _PICKLE),
    (0, b"\x80\x05", _PICKLE),
    (0, b"\x1f\x8b", _PACKED), (0, b"BZh", _PACKED), (0, b"\xfd7zXZ\x00", _PACKED),
    (0, b"7z\xbc\xaf\x27\x1c", _PACKED), (0, b"\x28\xb5\x2f\xfd", _PACKED),
    (0, b"\x78\x01", _JOBLIB), (0, b"\x78\x5e", _JOBLIB), (0, b"\x78\x9c", _JOBLIB),
    (0, b"\x78\xda", _JOBLIB),
    (257, b"ustar", Foreign("a tar archive", _UNPACK)),
)  # fmt: skip

#: The beginning of a text, and its meaning; the first match counts.
_TEXTS: Sequence[tuple[bytes, Foreign]] = (
    (rb"^version https://git-lfs", Foreign(
        "a Git LFS pointer, not the model", "run git lfs pull"
    )),
    (rb"(?i)^(<!doctype html|<html)", Foreign(
        "a web page, not the model", "download the file itself, for example by its raw link"
    )),
    (rb"^<\?xml[^>]*>\s*<net\b|^<net\b", _OPENVINO),
    (rb"^\{.*\"(modelTopology|weightsManifest)\"", Foreign(
        "a TensorFlow.js model", "save the Keras model as .keras or .h5"
    )),
    (rb"^\{.*\"class_name\"", Foreign(
        "the configuration of a Keras model, without its weights",
        'save the whole model: model.save("m.keras")',
    )),
    (rb"^model_checkpoint_path:", Foreign(
        "a TensorFlow checkpoint", "in Python, load the weights and save the whole model as .keras"
    )),
    (rb"^c\w+(\.\w+)*\n\w+\n", _PICKLE),
    (rb"^7767517\s", Foreign("an ncnn model", _SOURCE)),
    (rb"^tree\n", _LIGHTGBM),
    (rb"^\{.*\"learner\"", _XGBOOST),
    (rb"^\{\s*\"(features_info|oblivious_trees)\"", _CATBOOST),
)  # fmt: skip


def identify(path: Path, head: bytes) -> Foreign | None:
    """What the file at `path`, which begins with `head`, is; None if unknown.

    Zip files have `identify_archive`.
    """
    for at, magic, found in _MAGIC:
        if head[at : at + len(magic)] == magic:
            return found
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    for pattern, found in _TEXTS:
        if re.search(pattern, text, re.DOTALL):
            return found
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**27:
        cure = "load them into the model, and export that as ONNX"
        return Foreign("weights without a network (safetensors)", cure)
    if path.suffix == ".data" and path.with_suffix("").is_file():
        cure = f"name {path.with_suffix('').name}, which is next to it"
        return Foreign("weights that belong to an ONNX file", cure)
    return _of_protobuf(head)


def identify_archive(path: Path) -> Foreign | None:
    """What a zip file that is not a Keras archive is, by the names of its members; else None."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except ZIP_ERRORS:
        return None  # the reader of Keras archives says what is wrong with it

    def any_name(pattern: str) -> bool:
        return any(re.search(pattern, name) for name in names)

    rows: tuple[tuple[Callable[[], bool], Foreign | None], ...] = (
        (lambda: any_name(r"^(config\.json|metadata\.json|model\.weights\.h5)$"), None),
        (lambda: any_name(r"(^|/)\.data/(extern_modules|python_version)$"), _PACKAGED),
        (lambda: any_name(r"(^|/)aotinductor/") and not any_name(r"(^|/)models/[^/]+\.json$"),
         _AOT_INDUCTOR),
        (lambda: any_name(r"(^|/)(constants\.pkl|code/)") and any_name(r"(^|/)data\.pkl$"),
         _TORCHSCRIPT),
        (lambda: any_name(r"(^|/)(archive_format|serialized_exported_program\.json)$"), EXPORTED),
        (lambda: any_name(r"(^|/)data\.pkl$"), _CHECKPOINT),
        (lambda: any_name(r"com\.apple\.CoreML|\.mlmodel$"), _CORE_ML),
        (lambda: any_name(r"(^|/)saved_model\.pb$"), _SAVED_MODEL),
        (lambda: any_name(r"\.(onnx|keras|h5|hdf5)$"), Foreign("a zip file with a model", _UNPACK)),
        (lambda: bool(names) and all(name.endswith(".npy") for name in names), _ARRAYS),
        (lambda: any_name(r"\.(pkl|pickle|joblib)$|^schema\.json$"), _PICKLE),
    )  # fmt: skip
    for fits, found in rows:
        if fits():
            return found
    return Foreign("a zip file, but not a Keras archive", "save the model as .keras, or as ONNX")


#: A number in protobuf's encoding.
_SIZE = rb"[\x80-\xff]{0,4}[\x00-\x7f]"

#: How messages begin: a version and a description of inputs by name; a version and a graph's facts;
#: a node with a name and an operator.
_MESSAGES: Sequence[tuple[bytes, Foreign]] = (
    (rb"\x08[\x01-\x1f]\x12" + _SIZE + rb"\n" + _SIZE + rb"\n", _CORE_ML),
    (rb"\x08\x01\x12" + _SIZE + rb"\n", _SAVED_MODEL),
    (rb"\n" + _SIZE + rb"\n" + _SIZE + rb"[\w./-]+\x12" + _SIZE + rb"[A-Z]\w+", _FROZEN),
)


def _of_protobuf(head: bytes) -> Foreign | None:
    """Models as protobuf messages: what their first fields hold."""
    return next((found for start, found in _MESSAGES if re.match(start, head, re.DOTALL)), None)


def identify_folder(path: Path) -> Foreign:
    """What a folder given as a model is."""
    rows = (
        ("saved_model.pb", _SAVED_MODEL),
        ("Data/com.apple.CoreML", _CORE_ML),
        ("model.weights.h5", Foreign("a Keras archive, unpacked", "name the .keras file itself")),
        ("data.pkl", _CHECKPOINT),
        ("openvino_model.xml", _OPENVINO),
    )
    for name, found in rows:
        if (path / name).exists():
            return found
    return Foreign("a folder, not a model file", "name a file in it")
