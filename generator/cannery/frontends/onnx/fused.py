"""Turns what ONNX Runtime's optimisation fuses into standard operators again.

`SessionOptions.optimized_model_filepath` and the optimiser of its transformers write FusedConv,
BiasGelu and so on; passes fuse what suits the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.expansion import Expansion

#: The domain of ONNX Runtime's own operators.
MICROSOFT = "com.microsoft"

#: What makes a model without such operators.
UNFUSED = (
    "use the model from before ONNX Runtime's optimisation, or optimise it with "
    "GraphOptimizationLevel.ORT_ENABLE_BASIC"
)

#: The version of the standard's operators Split and Attention that are meant here.
_SPLIT, _ATTENTION = 13, 23

#: What LayerNormalization adds to the variance where nothing is said.
_EPSILON = 1e-12


def expand_fused(form: Expansion) -> None:
    """Append the nodes of an operator of `FUSED`.

    Raises ModelError for missing inputs, UnsupportedError for attributes that have no standard
    form.
    """
    needed, build, known = FUSED[form.of.kind]
    if any(not form.input(k) for k in range(needed)):
        raise ModelError(f"needs {needed} inputs")
    for name in form.of.attributes:
        if name not in known.split():
            raise UnsupportedError(f"attribute {name!r} is not supported", cure=UNFUSED)
    build(form)


def _number(form: Expansion, name: str, default: float) -> float:
    value = form.of.attributes.get(name, default)
    if not isinstance(value, int | float):
        raise ModelError(f"attribute {name!r} is not a number")
    return value


def _own(form: Expansion, *names: str) -> Mapping[str, object]:
    """All attributes but those that the fusion added."""
    return {k: v for k, v in form.of.attributes.items() if k not in names}


def _sum(form: Expansion, first: str, second: str, name: str) -> str:
    """Two tensors added, of which the second may be absent."""
    return form.node("Add", [first, second], name=name) if second else first


def _activated(form: Expansion, x: str) -> None:
    """The activation that an attribute names, with its parameters."""
    kind = form.of.attributes.get("activation", "")
    given = form.of.attributes.get("activation_params", ())
    if kind == "LeakyRelu" and "activation_alpha" in form.of.attributes:
        given = (form.of.attributes["activation_alpha"],)
    numbers = given if isinstance(given, tuple) else ()
    if not kind:
        form.output("Identity", [x])
    elif kind in ("Relu", "Tanh", "Sigmoid"):
        form.output(str(kind), [x])
    elif kind == "LeakyRelu":
        form.output("LeakyRelu", [x], dict(zip(("alpha",), numbers, strict=False)))
    elif kind == "HardSigmoid" and len(numbers) == 2:
        form.output("HardSigmoid", [x], {"alpha": numbers[0], "beta": numbers[1]})
    elif kind == "Clip" and len(numbers) == 2:
        form.output("Clip", [x], {"min": numbers[0], "max": numbers[1]}, version=6)
    else:
        raise UnsupportedError(f"the activation {kind!s:.40} is not supported", cure=UNFUSED)


def _conv(form: Expansion) -> None:
    """Conv(x, w, bias), plus a tensor, then an activation."""
    own = _own(form, "activation", "activation_params")
    inputs = [form.input(k) for k in range(3 if form.input(2) else 2)]
    _activated(form, _sum(form, form.node("Conv", inputs, own), form.input(3), "sum"))


def _gemm(form: Expansion) -> None:
    """Gemm, then an activation."""
    added = [name for name in form.of.attributes if name.startswith("activation")]
    _activated(form, form.node("Gemm", form.of.inputs, _own(form, *added)))


def _matmul(form: Expansion) -> None:
    """Alpha * a @ b, each of which may be transposed."""
    first = "...ji" if _number(form, "transA", 0) else "...ij"
    second = "...kj" if _number(form, "transB", 0) else "...jk"
    alpha = _number(form, "alpha", 1.0)
    if _number(form, "transBatchA", 0) or _number(form, "transBatchB", 0):
        raise UnsupportedError("batches that are transposed are not supported", cure=UNFUSED)
    equation = {"equation": f"{first},{second}->...ik"}
    inputs = [form.input(0), form.input(1)]
    if alpha == 1.0:
        form.output("Einsum", inputs, equation)
        return
    factor = form.node("Constant", [], {"value_float": float(alpha)}, "alpha")
    form.output("Mul", [form.node("Einsum", inputs, equation), factor])


def _gelu(approximate: str) -> Callable[[Expansion], None]:
    """Gelu of a tensor plus a bias, which may be absent."""

    def build(form: Expansion) -> None:
        biased = _sum(form, form.input(0), form.input(1), "biased")
        form.output("Gelu", [biased], {"approximate": approximate})

    return build


def _quick_gelu(form: Expansion) -> None:
    """X * sigmoid(alpha * x)."""
    form.output("Swish", [form.input(0)], {"alpha": _number(form, "alpha", 1.702)})


def _skip_norm(form: Expansion) -> None:
    """The sum of two tensors and a bias, normalised; the fourth output is that sum."""
    both = form.node("Add", [form.input(0), form.input(1)], name="skipped")
    simplified = form.of.kind.startswith("SkipSimplified")
    both = _sum(form, both, form.input(3 if simplified else 4), "sum")
    form.output("Identity", [both], index=3)
    epsilon = {"epsilon": _number(form, "epsilon", _EPSILON), "axis": -1}
    if simplified:
        form.output("RMSNormalization", [both, form.input(2)], epsilon)
        return
    form.output("LayerNormalization", [both, *filter(None, map(form.input, (2, 3)))], epsilon)


def _simplified_norm(form: Expansion) -> None:
    """A tensor over its root mean square."""
    form.output("RMSNormalization", [form.input(0), form.input(1)], form.of.attributes)


def _grid_sample(form: Expansion) -> None:
    """As in the standard since version 16."""
    form.output("GridSample", [form.input(0), form.input(1)], form.of.attributes, version=16)


def _attention(form: Expansion) -> None:
    """Queries, keys and values by one product, then attention without a mask."""
    if any(form.input(k) for k in range(3, len(form.of.inputs))):
        raise UnsupportedError("a mask or a past is not supported", cure=UNFUSED)
    product = form.node("MatMul", [form.input(0), form.input(1)])
    joint = _sum(form, product, form.input(2), "biased")
    axis = {"axis": -1}
    rows = form.parts("Split", [joint], 3, _SPLIT, axis)
    heads = form.of.attributes.get("num_heads")
    if not isinstance(heads, int) or heads < 1:
        raise ModelError("needs a number of heads")
    given = {"q_num_heads": heads, "kv_num_heads": heads}
    causal = {"is_causal": int(bool(_number(form, "unidirectional", 0)))}
    scale = _number(form, "scale", 0.0)
    more = {"scale": scale} if scale else {}
    form.output("Attention", rows, {**given, **causal, **more}, version=_ATTENTION)


_ACTIVATION = "activation activation_alpha activation_beta activation_gamma"

#: By operator: how many inputs it needs at least, its form, and the attributes that it may have.
FUSED: Mapping[str, tuple[int, Callable[[Expansion], None], str]] = {
    "FusedConv": (2, _conv, "activation activation_params auto_pad dilations group kernel_shape "
                  "pads strides"),
    "FusedGemm": (2, _gemm, f"{_ACTIVATION} alpha beta transA transB"),
    "FusedMatMul": (2, _matmul, "alpha transA transB transBatchA transBatchB"),
    "TransposeMatMul": (2, _matmul, "alpha transA transB"),
    "Gelu": (1, _gelu("none"), ""),
    "BiasGelu": (2, _gelu("none"), ""),
    "FastGelu": (1, _gelu("tanh"), ""),
    "QuickGelu": (1, _quick_gelu, "alpha"),
    "GridSample": (2, _grid_sample, "align_corners mode padding_mode"),
    "SkipLayerNormalization": (3, _skip_norm, "epsilon"),
    "SkipSimplifiedLayerNormalization": (3, _skip_norm, "epsilon"),
    "SimplifiedLayerNormalization": (2, _simplified_norm, "axis epsilon stash_type"),
    "Attention": (2, _attention, "num_heads unidirectional scale mask_filter_value"),
}  # fmt: skip
