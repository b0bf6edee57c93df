"""Turns ONNX Runtime's own operators into standard ones, quantised ones with floats between them.

`fused.py` has those of floats. `quantize_static` with QuantFormat.QOperator writes QLinearAdd,
QGemm and so on. Each becomes DequantizeLinear, the operator of its name, QuantizeLinear: a form
that the passes know.
"""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.expansion import Expansion
from cannery.frontends.onnx.fused import FUSED, MICROSOFT, expand_fused
from cannery.frontends.onnx.model import OnnxNode

#: Operators of two quantised tensors, and of one, and the equivalent standard ones.
_PAIRS = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
_SINGLE = {
    "QLinearSigmoid": "Sigmoid", "QLinearLeakyRelu": "LeakyRelu", "QLinearSoftmax": "Softmax",
    "QLinearAveragePool": "AveragePool", "QLinearGlobalAveragePool": "GlobalAveragePool",
}  # fmt: skip
_OTHERS = ("QLinearConcat", "QGemm", "MatMulIntegerToFloat", "QuantizeLinear", "DequantizeLinear")

#: What the optimisation puts into the standard's domain.
_WITHOUT_DOMAIN = "SimplifiedLayerNormalization"

#: Attributes that standard operators do not have.
_OWN = ("channels_last", "opset")


def has_standard_form(node: OnnxNode) -> bool:
    """Whether `standard_form` knows an operator."""
    fused = node.kind in FUSED and (node.domain == MICROSOFT or node.kind == _WITHOUT_DOMAIN)
    return fused or (node.domain == MICROSOFT and node.kind in (*_PAIRS, *_SINGLE, *_OTHERS))


def standard_form(node: OnnxNode, prefix: str) -> list[OnnxNode]:
    """The nodes that a node expands to; tensors between them are called `<prefix>/<name>`.

    Raises ModelError for missing inputs, UnsupportedError for images with channels last, and for
    what has no standard form.
    """
    if node.kind in FUSED:
        expansion = Expansion(node, prefix)
        expand_fused(expansion)
        return expansion.nodes
    if node.attributes.get("channels_last"):
        raise UnsupportedError("images with channels last are not supported")
    form = _Form(node, prefix)
    inputs = (*node.inputs, *[""] * 8)
    if node.kind in _PAIRS:
        a, b = form.floats("a", inputs[:3]), form.floats("b", inputs[3:6])
        form.quantised(form.node(_PAIRS[node.kind], [a, b]), inputs[6:8])
    elif node.kind in _SINGLE:
        x = form.floats("x", inputs[:3])
        opset = node.attributes.get("opset") if node.kind == "QLinearSoftmax" else 0
        version = opset if isinstance(opset, int) else 0
        single = form.node(_SINGLE[node.kind], [x], form.attributes(), version=version)
        form.quantised(single, inputs[3:5])
    elif node.kind == "QLinearConcat":
        parts = [inputs[k : k + 3] for k in range(2, len(node.inputs), 3)]
        names = [form.floats(f"x{k}", part) for k, part in enumerate(parts)]
        form.quantised(form.node("Concat", names, form.attributes()), inputs[:2])
    elif node.kind == "QGemm":
        form.gemm(inputs)
    elif node.kind == "MatMulIntegerToFloat":
        a, b, a_scale, b_scale, a_zero, b_zero, bias = inputs[:7]
        names = [form.floats("a", (a, a_scale, a_zero)), form.floats("b", (b, b_scale, b_zero), 1)]
        product = form.node("MatMul", names)
        form.output("Add" if bias else "Identity", [product, *([bias] if bias else [])])
    else:
        form.output(node.kind, list(node.inputs), node.attributes)
    return form.nodes


class _Form(Expansion):
    """Of a quantised operator."""

    def attributes(self) -> dict[str, object]:
        """Those of the standard operator."""
        return {k: v for k, v in self.of.attributes.items() if k not in _OWN}

    def floats(self, name: str, parts: Sequence[str], axis: int = 0) -> str:
        """A tensor, its scale, and its zero point, which may be absent, as floats."""
        x, scale, zero = parts
        if not x or not scale:
            raise ModelError("a quantised input or its scale is missing")
        inputs = [x, scale, *([zero] if zero else [])]
        return self.node("DequantizeLinear", inputs, {"axis": axis}, name)

    def quantised(self, floats: str, parts: Sequence[str]) -> None:
        """The result by its scale and zero point; floats if it has no scale."""
        scale, zero = parts
        if not scale:
            self.output("Identity", [floats])
            return
        self.output("QuantizeLinear", [floats, scale, *([zero] if zero else [])])

    def gemm(self, inputs: Sequence[str]) -> None:
        """QGemm: the bias is in units of the products."""
        transposed = bool(self.of.attributes.get("transB", 0))
        a, b = self.floats("a", inputs[:3]), self.floats("b", inputs[3:6], 0 if transposed else 1)
        operands = [a, b]
        if inputs[6]:
            unit = self.node("Mul", [inputs[1], inputs[4]], name="unit")
            operands.append(self.node("DequantizeLinear", [inputs[6], unit], {"axis": 0}, "c"))
        self.quantised(self.node("Gemm", operands, self.attributes()), inputs[7:9])
