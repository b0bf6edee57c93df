"""Changes of ONNX models: mild ones mostly leave a valid model, wild ones mostly do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

onnx = pytest.importorskip("onnx")

_INTEGERS = (0, 1, -1, 2, 3, 7, -2, 2**31 - 1, -(2**31), 2**31, 2**62, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-3, 1e30, -1e38, 1e-42, float("inf"), float("nan"))
_WORDS = (
    "", "SAME_UPPER", "VALID", "NOTSET", "linear", "nearest", "cubic", "constant", "edge", "wrap",
    "forward", "reverse", "asymmetric", "align_corners", "half_pixel", "pytorch_half_pixel",
    "tf_crop_and_resize", "DCR", "Relu", "Sigmoid", "ä%n\n\"*/", "x" * 300,
)  # fmt: skip
_NAMES = ("", "x", "y", "int", "a b", "a/b:0", "*/", "ü", "1", "%s%n", "n" * 500, "a\nb", '"')

Change = Callable[[Random, Any], None]


def _node(random: Random, model: Any) -> Any:
    if not model.graph.node:
        raise LookupError
    return random.choice(model.graph.node)


def _initializer(random: Random, model: Any) -> Any:
    if not model.graph.initializer:
        raise LookupError
    return random.choice(model.graph.initializer)


def _array(tensor: Any) -> NDArray[Any]:
    return np.array(onnx.numpy_helper.to_array(tensor))


def _values(model: Any) -> list[str]:
    """Every name that a node may read."""
    graph = model.graph
    names = [v.name for v in graph.input] + [t.name for t in graph.initializer]
    return names + [o for n in graph.node for o in n.output]


def _rename(model: Any, old: str, new: str) -> None:
    graph = model.graph
    for node in graph.node:
        for names in (node.input, node.output):
            for k, name in enumerate(names):
                if name == old:
                    names[k] = new
    for holder in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        if holder.name == old:
            holder.name = new


# Mild: the model mostly stays one.


def rename_value(random: Random, model: Any) -> None:
    """Consistently, to an unusual name."""
    old = random.choice(_values(model))
    new = random.choice([n for n in _NAMES if n])
    if new not in _values(model):
        _rename(model, old, new)


def rename_node(random: Random, model: Any) -> None:
    """Names of nodes may be empty, and occur twice."""
    names = [n.name for n in model.graph.node]
    _node(random, model).name = random.choice([*_NAMES, *names])


def special_weights(random: Random, model: Any) -> None:
    """Some numbers of an initializer become zeros, NaN, huge or tiny ones."""
    tensor = _initializer(random, model)
    array = _array(tensor)
    if array.dtype.kind != "f" or not array.size:
        raise LookupError
    flat = array.reshape(-1)
    count = random.choice([1, flat.size])
    flat[: max(count, 1)] = random.choice(_FLOATS)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def scaled_weights(random: Random, model: Any) -> None:
    """An initializer of floats times a number."""
    tensor = _initializer(random, model)
    array = _array(tensor)
    if array.dtype.kind != "f":
        raise LookupError
    factor = random.choice([-1.0, 0.0, 1e-3, 30.0, 1e3])
    made = (array * factor).astype(array.dtype)
    tensor.CopyFrom(onnx.numpy_helper.from_array(made, tensor.name))


def another_output(random: Random, model: Any) -> None:
    """A value in between, an input or an initializer is an output, too."""
    name = random.choice(_values(model))
    if name not in [o.name for o in model.graph.output]:
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))


def constant_node(random: Random, model: Any) -> None:
    """An initializer becomes a Constant node."""
    tensor = _initializer(random, model)
    node = onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
    nodes = [node, *model.graph.node]
    model.graph.initializer.remove(tensor)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def initializer_is_input(random: Random, model: Any) -> None:
    """An initializer is listed as an input, as old files do, or becomes one without a value."""
    tensor = _initializer(random, model)
    info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
    model.graph.input.append(info)
    if random.random() < 0.5:
        model.graph.initializer.remove(tensor)


def input_is_initializer(random: Random, model: Any) -> None:
    """An input gets a value: more is constant."""
    info = random.choice(model.graph.input)
    dims = [d.dim_value for d in info.type.tensor_type.shape.dim]
    array = np.random.default_rng(1).standard_normal(dims).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(array, info.name))
    if random.random() < 0.7:
        model.graph.input.remove(info)


def resize_input(random: Random, model: Any) -> None:
    """Another size of one axis."""
    info = random.choice(model.graph.input)
    dims = info.type.tensor_type.shape.dim
    if not dims:
        raise LookupError
    at = random.randrange(len(dims))
    dims[at].dim_value = max(dims[at].dim_value + random.choice([-1, 1, 2, 5]), 0)


def open_dimension(random: Random, model: Any) -> None:
    """A size that the model leaves open."""
    info = random.choice(model.graph.input)
    dims = info.type.tensor_type.shape.dim
    if not dims:
        raise LookupError
    dims[random.choice([0, 0, random.randrange(len(dims))])].dim_param = random.choice(["N", "?"])


def another_opset(random: Random, model: Any) -> None:
    """What was made for one version is read as another."""
    model.opset_import[0].version = max(
        model.opset_import[0].version + random.choice([-2, 1, 2]), 7
    )


def near_attribute(random: Random, model: Any) -> None:
    """A number in an attribute is another one nearby."""
    attributes = [a for n in model.graph.node for a in n.attribute if a.ints or a.type in (1, 2)]
    if not attributes:
        raise LookupError
    attribute = random.choice(attributes)
    if attribute.ints:
        at = random.randrange(len(attribute.ints))
        attribute.ints[at] += random.choice([-1, 1])
    elif attribute.type == 2:
        attribute.i += random.choice([-1, 1])
    else:
        attribute.f = random.choice([0.0, 0.5, 1.0, -0.3, 2.0])


def drop_attribute(random: Random, model: Any) -> None:
    """The default counts."""
    node = _node(random, model)
    if not node.attribute:
        raise LookupError
    node.attribute.remove(random.choice(node.attribute))


def same_kind(random: Random, model: Any) -> None:
    """An operator becomes another one with as many inputs."""
    groups = (
        ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Softplus", "Erf", "Sqrt", "Log", "Floor"),
        ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu", "Mod"),
        ("MaxPool", "AveragePool", "LpPool"), ("Softmax", "LogSoftmax", "Hardmax"),
        ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceProd", "ReduceLogSumExp"),
        ("Less", "Greater", "Equal", "LessOrEqual"), ("ArgMax", "ArgMin"),
    )  # fmt: skip
    node = _node(random, model)
    group = next((g for g in groups if node.op_type in g), None)
    if group is None:
        raise LookupError
    node.op_type = random.choice(group)


def same_shape(random: Random, model: Any) -> None:
    """A node reads another value of the same type, wherever it is computed before."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph
    except Exception as error:
        raise LookupError from error
    types = {v.name: v.type for v in (*inferred.input, *inferred.value_info, *inferred.output)}
    at = random.randrange(len(model.graph.node)) if model.graph.node else 0
    before = [v.name for v in model.graph.input]
    before += [o for n in model.graph.node[:at] for o in n.output]
    node = _node(random, model) if not model.graph.node else model.graph.node[at]
    k = random.randrange(max(len(node.input), 1))
    known = types.get(node.input[k]) if node.input else None
    fits = [name for name in before if known is not None and types.get(name) == known]
    if not fits:
        raise LookupError
    node.input[k] = random.choice(fits)


def twice(random: Random, model: Any) -> None:
    """A node is there twice, and what reads its result reads either."""
    node = _node(random, model)
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    at = list(model.graph.node).index(node)
    for k, name in enumerate(copy.output):
        copy.output[k] = f"{name}_again"
    readers = [n for n in model.graph.node[at + 1 :] if set(n.input) & set(node.output)]
    if readers:
        reader = random.choice(readers)
        for k, name in enumerate(reader.input):
            if name in node.output:
                reader.input[k] = f"{name}_again"
    nodes = [*model.graph.node[: at + 1], copy, *model.graph.node[at + 1 :]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def skip(random: Random, model: Any) -> None:
    """A node is left out: its readers read what it reads."""
    node = _node(random, model)
    if not node.input or not node.input[0]:
        raise LookupError
    for other in model.graph.node:
        for k, name in enumerate(other.input):
            if name in node.output:
                other.input[k] = node.input[0]
    if node.output[0] in [o.name for o in model.graph.output]:
        raise LookupError
    model.graph.node.remove(node)


def shuffled(random: Random, model: Any) -> None:
    """Nodes are not in order."""
    nodes = list(model.graph.node)
    random.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


# Wild: the model is mostly none any more.


def any_attribute(random: Random, model: Any) -> None:
    """An attribute gets an extreme value, another type, or an unknown name."""
    node = _node(random, model)
    name = random.choice([a.name for a in node.attribute] or ["axis", "alpha", "mode"])
    if random.random() < 0.1:
        name = "not_there"
    value = random.choice([
        random.choice(_INTEGERS), random.choice(_FLOATS), random.choice(_WORDS),
        [random.choice(_INTEGERS) for _ in range(random.randrange(1, 5))],
        [random.choice(_FLOATS) for _ in range(random.randrange(1, 3))],
        [random.choice(_WORDS)],
    ])  # fmt: skip
    for old in [a for a in node.attribute if a.name == name]:
        node.attribute.remove(old)
    node.attribute.append(onnx.helper.make_attribute(name, value))


def any_integer(random: Random, model: Any) -> None:
    """An element of an attribute or an initializer of integers is extreme."""
    tensors = [t for t in model.graph.initializer if t.data_type in (6, 7)]
    attributes = [a for n in model.graph.node for a in n.attribute if a.ints]
    if not tensors and not attributes:
        raise LookupError
    chosen = random.choice([*tensors, *attributes])
    if chosen in attributes:
        chosen.ints[random.randrange(len(chosen.ints))] = random.choice(_INTEGERS)
        return
    array = _array(chosen)
    if not array.size:
        raise LookupError
    limits = np.iinfo(array.dtype)
    value = min(max(random.choice(_INTEGERS), int(limits.min)), int(limits.max))
    array.reshape(-1)[random.randrange(array.size)] = value
    chosen.CopyFrom(onnx.numpy_helper.from_array(array, chosen.name))


def any_type(random: Random, model: Any) -> None:
    """Another element type of an input, of an initializer or of a declared output."""
    dtype = random.randrange(0, 24)
    holders = [*model.graph.input, *model.graph.output]
    if model.graph.initializer and random.random() < 0.5:
        tensor = _initializer(random, model)
        array = _array(tensor)
        made = array.astype(random.choice([np.float64, np.float16, np.int32, np.uint8, np.bool_]))
        tensor.CopyFrom(onnx.numpy_helper.from_array(made, tensor.name))
    else:
        random.choice(holders).type.tensor_type.elem_type = dtype


def any_dims(random: Random, model: Any) -> None:
    """The shape of an initializer or an input does not fit its numbers."""
    if model.graph.initializer and random.random() < 0.6:
        tensor = _initializer(random, model)
        dims = list(tensor.dims)
        kind = random.randrange(4)
        if kind == 0 and dims:
            dims[random.randrange(len(dims))] = random.choice([*_INTEGERS[:8], 1000])
        elif kind == 1:
            dims = [1, *dims]
        elif kind == 2:
            dims = dims[1:]
        else:
            random.shuffle(dims)
        del tensor.dims[:]
        tensor.dims.extend(dims)
        return
    shape = random.choice([*model.graph.input, *model.graph.output]).type.tensor_type.shape
    kind = random.randrange(3)
    if kind == 0:
        shape.dim.add().dim_value = random.choice(_INTEGERS)
    elif kind == 1 and shape.dim:
        del shape.dim[random.randrange(len(shape.dim))]
    elif shape.dim:
        random.choice(shape.dim).dim_value = random.choice(_INTEGERS)


def any_wire(random: Random, model: Any) -> None:
    """A node reads something else: a later value, itself, nothing, an unknown one."""
    node = _node(random, model)
    name = random.choice([*_values(model), "", "nowhere"])
    if node.input and random.random() < 0.8:
        node.input[random.randrange(len(node.input))] = name
    else:
        node.input.append(name)


def any_output(random: Random, model: Any) -> None:
    """Results are called alike, or not at all; the model's outputs are missing or unknown."""
    kind = random.randrange(4)
    if kind == 0:
        node = _node(random, model)
        node.output[0] = random.choice([*_values(model), ""])
    elif kind == 1:
        del model.graph.output[:]
    elif kind == 2:
        model.graph.output.append(model.graph.output[0])
    else:
        random.choice(model.graph.output).name = "nowhere"


def no_node(random: Random, model: Any) -> None:
    """A node is gone."""
    model.graph.node.remove(_node(random, model))


def any_operator(random: Random, model: Any) -> None:
    """Another operator, domain or version."""
    kinds = sorted({s.name for s in onnx.defs.get_all_schemas()})
    kind = random.randrange(4)
    if kind < 2:
        _node(random, model).op_type = random.choice(kinds)
    elif kind == 2:
        _node(random, model).domain = random.choice(["com.microsoft", "ai.onnx.ml", "x.y"])
    else:
        model.opset_import[0].version = random.choice([0, 1, 6, 22, 99, 2**40])


def damaged_tensor(random: Random, model: Any) -> None:
    """Fewer bytes than numbers, or none; numbers elsewhere."""
    tensor = _initializer(random, model)
    kind = random.randrange(3)
    if kind == 0:
        tensor.raw_data = tensor.raw_data[: random.randrange(len(tensor.raw_data) + 1)]
    elif kind == 1:
        tensor.ClearField("raw_data")
    else:
        tensor.data_location = 1
        tensor.external_data.add(key="location", value=random.choice(["/etc/passwd", "no.bin"]))


MILD: Sequence[Change] = (
    rename_value, rename_node, special_weights, scaled_weights, another_output, another_output,
    constant_node, initializer_is_input, input_is_initializer, resize_input, open_dimension,
    another_opset, near_attribute, near_attribute, drop_attribute, same_kind, same_kind,
    same_shape, same_shape, twice, skip, shuffled,
)  # fmt: skip
WILD: Sequence[Change] = (
    any_attribute, any_attribute, any_integer, any_integer, any_type, any_dims, any_wire,
    any_output, no_node, any_operator, damaged_tensor,
)  # fmt: skip


def changed(random: Random, model: Any) -> tuple[bytes, list[str]]:
    """The bytes of a changed model, and which changes were made."""
    made: list[str] = []
    for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3])):
        change = random.choice(MILD if random.random() < 0.87 else WILD)
        try:
            change(random, model)
            made.append(change.__name__)
        except Exception:  # onnx raises its own errors for models that were changed before
            continue
    if made and random.random() < 0.85:
        _forget_shapes(model)
    data = model.SerializeToString()
    if random.random() < 0.02 and data:
        made.append("bytes")
        return damaged_bytes(random, data), made
    return data, made


def _forget_shapes(model: Any) -> None:
    """Outputs without the shapes that were declared, with which a changed model seldom agrees."""
    for info in model.graph.output:
        info.ClearField("type")


def damaged_bytes(random: Random, data: bytes) -> bytes:
    """Truncated, or with a few other bytes."""
    if random.random() < 0.5:
        return data[: random.randrange(len(data))]
    damaged = bytearray(data)
    for _ in range(random.randrange(1, 6)):
        damaged[random.randrange(len(data))] = random.randrange(256)
    return bytes(damaged)
