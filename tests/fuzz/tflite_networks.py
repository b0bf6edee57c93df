"""Files of TensorFlow Lite: the operators of the tests, one or several after each other, with other
options, shapes and bytes.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random
from typing import Any

from frontends import tflite_cases, tflite_quantised
from frontends.tflite_files import TYPES, Tensor, TfliteFile
from fuzz.onnx_changes import damaged_bytes

#: Values of options and dimensions that files should not have, or rarely have.
_NUMBERS = (0, 1, 2, 3, 7, -1, -2, 64, 255, 2**16, 2**31 - 1, -(2**31))


#: What may come after each other, by the type of a value; others take none of them.
_BYTES = ["RELU", "RELU6", "LEAKY_RELU", "RELU_N1_TO_1"]
_AFTER = {
    "FLOAT32": ["RELU", "TANH", "LOGISTIC", "RELU6", "ABS", "NEG", "SQUARE"], "INT8": _BYTES,
    "UINT8": _BYTES,
}  # fmt: skip


def changed(random: Random) -> tuple[bytes, list[str], str, tuple[int, ...]]:
    """The bytes of a file, which changes were made, and its only input, if it has one."""
    cases: Any = random.choice([tflite_cases.CASES, tflite_quantised.CASES])
    name = random.choice(list(cases))
    case, made = cases[name], [name]
    if random.random() < 0.2:
        case = _other(random, case, made)
    file: TfliteFile = case.file()
    for _ in range(random.choice([0, 0, 0, 0, 1, 2])):
        made.append(_change(random, file))
    if random.random() < 0.3 and _last(file).dtype in _AFTER:
        _chain(random, file)
        made.append("chain")
    data = file.data()
    if random.random() < 0.07:
        made.append("bytes")
        data = _damaged(random, data)
    inputs = [file.main.tensors[k] for k in file.main.inputs]
    alone = len(inputs) == 1
    return data, made, inputs[0].name if alone else "", tuple(inputs[0].shape) if alone else ()


def _other(random: Random, case: Any, made: list[str]) -> Any:
    """The operator with another value of an option, mostly a number that some operator has."""
    if not case.fields:
        return case
    key = random.choice(list(case.fields))
    old = case.fields[key]
    if not isinstance(old, int) or isinstance(old, bool):
        return case
    made.append(key)
    value = random.choice(_NUMBERS) if random.random() < 0.5 else random.randrange(5)
    if key in (
        "Padding",
        "FusedActivationFunction",
        "Mode",
        "InDataType",
        "OutDataType",
        "OutputType",
    ):
        value = random.randrange(-1, 7)
    return replace(case, fields={**case.fields, key: value})


def _change(random: Random, file: TfliteFile) -> str:
    """Another shape, type, buffer or tensor of an operator."""
    graph, kind = file.main, random.randrange(6)
    tensor, node = random.choice(graph.tensors), random.choice(graph.operators)
    shape = list(tensor.shape)
    if kind == 0 and shape:
        shape[random.randrange(len(shape))] = random.choice(_NUMBERS)
        tensor.shape = shape
        return "dimension"
    if kind == 1:
        tensor.shape = [*shape, 1] if random.random() < 0.5 else shape[1:]
        return "rank"
    if kind == 2:
        tensor.dtype = random.choice([*TYPES.values(), "STRING", "FLOAT64", "INT4"])
        return "type"
    if kind == 3:
        tensor.signature = [-1 if random.random() < 0.5 else d for d in tensor.shape]
        return "signature"
    if kind == 4:
        numbers = [*node.inputs]
        numbers[random.randrange(len(numbers))] = random.randrange(-1, len(graph.tensors) + 1)
        node.inputs = numbers
        return "input"
    tensor.scales = [random.choice([0.5, 0.0, -1.0, float("nan")])] * random.choice([1, 2])
    return "scales"


def _last(file: TfliteFile) -> Tensor:
    return file.main.tensors[file.main.outputs[0]]


def _chain(random: Random, file: TfliteFile) -> None:
    """Further operators after the first output."""
    graph = file.main
    last = graph.outputs[0]
    for _ in range(random.randrange(1, 4)):
        old = graph.tensors[last]
        made = graph.tensor(old.shape, old.dtype, scales=old.scales, zeros=old.zeros)
        kind = random.choice(_AFTER[old.dtype])
        last = graph.add(kind, [last], made)
    graph.outputs = [last, *graph.outputs[1:]]


def _damaged(random: Random, data: bytes) -> bytes:
    """Other bytes, or a number of four bytes that may be an offset or a length."""
    if random.random() < 0.5:
        return damaged_bytes(random, data)
    found: Any = bytearray(data)
    value = random.choice([0, 1, 4, 2**31, 2**32 - 1, len(data), 2**32 - 8])
    struct.pack_into("<I", found, random.randrange(2, len(found) // 4) * 4, value)
    return bytes(found)
