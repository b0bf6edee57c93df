"""The generated network as an ONNX file for viewers such as Netron: nothing can run it.

Each step is a node of the domain `cannery`, named after its operators; its choice and results are
its metadata. Values have their shapes within the network, channels last; those of the interface
have the caller's shapes.
"""

from __future__ import annotations

from typing import Any

from cannery.emit.interface import Tensor
from cannery.emit.source import Source
from cannery.errors import CanneryError
from cannery.reporting.facts import Facts, Layer, input_ports, output_buffers, read_buffers
from cannery.reporting.measuring import Measured
from cannery.reporting.roofline import layer_roof

#: The domain of the nodes.
DOMAIN = "cannery"

#: The first version of the format in which nodes have metadata.
_IR_VERSION = 10

#: Joins the parts of an output that several steps write.
_JOIN = "Join"


def onnx_picture(source: Source, facts: Facts, measured: Measured) -> bytes:
    """The content of the file. Raises CanneryError if the onnx package is missing or too old."""
    onnx = require_onnx()
    helper, program = onnx.helper, source.program
    names = _value_names(source)
    nodes = [
        _node(
            helper, layer, [names[buffer] for buffer in reads],
            [names[buffer] for buffer in planned.writes], _metadata(facts, measured, layer),
        )
        for layer, planned, reads in zip(
            facts.layers, program.steps, read_buffers(program), strict=True
        )
    ]  # fmt: skip
    for port, parts in output_buffers(program).items():
        if len(parts) > 1:
            joined = [names[part] for part in parts]
            nodes.append(helper.make_node(_JOIN, joined, [_port_name(source, port)], domain=DOMAIN))
    graph = helper.make_graph(
        nodes, source.name, [_port(onnx, t, t.source) for t in source.inputs],
        [_port(onnx, t, _port_name(source, k)) for k, t in enumerate(source.outputs)],
        value_info=_values(onnx, source, names),
    )  # fmt: skip
    model = helper.make_model(
        graph, producer_name="cannery", producer_version=facts.version, ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid(DOMAIN, 1)],
    )  # fmt: skip
    helper.set_model_props(model, _about(facts, measured))
    return bytes(model.SerializeToString())


def require_onnx() -> Any:
    """The package onnx. Raises CanneryError if it is missing, or does not support metadata of
    nodes.
    """
    try:
        import onnx
        import onnx.helper
    except ImportError:
        raise CanneryError(
            "the picture as ONNX needs the Python package onnx", cure="pip install 'onnx>=1.16'"
        ) from None
    if "metadata_props" not in onnx.NodeProto.DESCRIPTOR.fields_by_name:
        raise CanneryError(
            f"onnx {onnx.__version__} does not support metadata of nodes",
            cure="pip install 'onnx>=1.16'",
        )
    return onnx


def _interface_names(source: Source) -> dict[str, str]:
    """The buffers that are inputs, or a whole output, and their names in the model."""
    program = source.program
    names = {name: source.inputs[port].source for name, port in input_ports(program).items()}
    for port, parts in output_buffers(program).items():
        if len(parts) == 1:
            names[parts[0]] = _port_name(source, port)
    return names


def _value_names(source: Source) -> dict[str, str]:
    """The name of each buffer: no other one has the name of an input or output."""
    ends = _interface_names(source)
    taken = {t.source for t in (*source.inputs, *source.outputs)}
    return {
        name: ends.get(name) or (f"{name}/inner" if name in taken else name)
        for name in source.program.buffers
    }


def _port_name(source: Source, port: int) -> str:
    """An output; if the network returns an input unchanged, that keeps its name."""
    name = source.outputs[port].source
    return f"{name}/output" if name in {t.source for t in source.inputs} else name


def _node(
    helper: Any, layer: Layer, reads: list[str], writes: list[str], metadata: dict[str, str]
) -> Any:
    kind = layer.kind.replace("+", "_")
    node = helper.make_node(kind, reads, writes, name=layer.title, domain=DOMAIN)
    for key, value in metadata.items():
        node.metadata_props.add(key=key, value=value)
    return node


def _metadata(facts: Facts, measured: Measured, layer: Layer) -> dict[str, str]:
    """Everything known about a step."""
    time, roof = measured.layer_time(layer.number), layer_roof(facts, measured, layer)
    check, code = measured.layer_checks.get(layer.number), measured.code_bytes[layer.number]
    found = {
        "schedule": layer.schedule, "chosen by": layer.origin, "computes": ", ".join(layer.nodes),
        "reads as": "; ".join(layer.reads), "writes as": "; ".join(layer.writes),
        "time": f"{time} us" if time else "",
        "roofline": f"{roof.us:.3g} us, limited by {roof.limit}" if roof else "",
        "error": f"{check.error:.3g} {check.fault}".strip() if check else "",
        "multiply-accumulates": f"{layer.macs:,}" if layer.macs else "",
        "bytes of weights": f"{layer.weight_bytes:,}" if layer.weight_bytes else "",
        "bytes of code": f"{code:,}" if code else "",
    }  # fmt: skip
    return {key: value for key, value in found.items() if value}


def _about(facts: Facts, measured: Measured) -> dict[str, str]:
    """Everything known about the network."""
    cpu = str(measured.device.get("cpu", "")) if measured.times else ""
    found = {
        "target": f"{facts.target} ({facts.isa})", "compiler": measured.compiler, "cpu": cpu,
        "time": f"{measured.time} us" if measured.time else "",
        "error": f"{max(measured.errors.values(), default=0.0):.3g}",
        "workspace": f"{facts.workspace_bytes:,} bytes", "model hash": facts.model_hash,
    }  # fmt: skip
    return {key: value for key, value in found.items() if value}


def _port(onnx: Any, tensor: Tensor, name: str) -> Any:
    kind = onnx.helper.np_dtype_to_tensor_dtype(tensor.type.dtype.numpy)
    return onnx.helper.make_tensor_value_info(name, kind, list(tensor.dims))


def _values(onnx: Any, source: Source, names: dict[str, str]) -> list[Any]:
    """Types of what steps write, except outputs."""
    ends, buffers = _interface_names(source), source.program.buffers
    return [
        onnx.helper.make_tensor_value_info(
            names[name], onnx.helper.np_dtype_to_tensor_dtype(buffers[name].type.dtype.numpy),
            list(buffers[name].type.shape),
        )
        for planned in source.program.steps for name in planned.writes if name not in ends
    ]  # fmt: skip
