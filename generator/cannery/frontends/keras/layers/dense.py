"""Fully connected layers."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import ModelError
from cannery.frontends.einsum import einsum
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer
from cannery.frontends.keras.layers.functions import apply_activation, children_of, read_activation
from cannery.ops.elementwise.binary import Add
from cannery.ops.matmul.op import MatMul


@layer("EinsumDense")
def einsum_dense(config: LayerConfig) -> LayerPlan:
    """An Einstein sum of the input and a kernel, plus a bias along some axes."""
    equation = config.word("equation").replace(" ", "")
    given = config.raw("output_shape")
    sizes = given if isinstance(given, list) else [given]
    axes, activation = config.raw("bias_axes"), read_activation(config)
    config.ignore("lora_alpha", "gptq_unpacked_column_size", "quantization_config")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        shapes = _einsum_shapes(equation, scope.shape(x), sizes, axes)
        y = einsum(scope, equation, [x, scope.stored("kernel", shapes[0])])
        if axes:
            y = scope.node(Add(), [y, scope.stored("bias", shapes[1])])
        return apply_activation(scope, y, activation)

    weights = ("kernel", "bias") if axes else ("kernel",)
    return LayerPlan(build, weights, children=children_of(activation))


def _einsum_shapes(
    equation: str, shape: tuple[int, ...], sizes: Sequence[object], bias_axes: object
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of kernel and bias; `sizes` are those of the output's last axes, None if open."""
    left, _, output = equation.partition("->")
    x, _, kernel = left.partition(",")
    terms = [term.replace("...", "") for term in (x, kernel, output)]
    if not all(term.isalpha() or not term for term in terms) or not terms[1]:
        raise ModelError(f"equation {equation!r:.60} is malformed")
    right = x.endswith("...")
    pairs = zip(terms[2][1:], sizes) if right else zip(terms[2][::-1], sizes[::-1])  # noqa: B905
    known, spare = dict(pairs), len(shape) - len(terms[0]) if right else 0
    before = x.find("...") if "..." in x else len(x)
    if "..." not in x and len(x) != len(shape):
        raise ModelError(f"equation {equation!r:.60} does not fit its input {shape}")
    given: dict[str, object] = dict(zip(x[:before], shape, strict=False))
    given |= dict(zip(reversed(x[before:].replace("...", "")), reversed(shape), strict=False))
    found = {c: given.get(c) or known.get(c) for c in "".join(terms)}

    def resolved(labels: str) -> tuple[int, ...]:
        dims = [found.get(c) for c in labels]
        if not all(isinstance(d, int) for d in dims):
            raise ModelError(f"output_shape {list(sizes)} does not fit {equation!r:.60}")
        return tuple(d for d in dims if isinstance(d, int))

    if not isinstance(bias_axes, str) or not bias_axes:
        return resolved(terms[1]), ()
    first = min(terms[2].find(c) for c in bias_axes)
    if first < 0:
        raise ModelError(f"bias_axes {bias_axes!r:.60} are not in {equation!r:.60}")
    bias = (resolved(c)[0] if c in bias_axes else 1 for c in terms[2][first:])
    return resolved(terms[1]), (*bias, *(1,) * spare)


@layer("Dense")
def dense(config: LayerConfig) -> LayerPlan:
    """x[N,...,K] @ kernel[K,units] + bias, for inputs of any rank from 2."""
    units, bias = config.integer("units"), config.flag("use_bias", True)
    activation = read_activation(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        if scope.rank(x) < 2:
            raise ModelError(f"its input has shape {scope.shape(x)}, expected features")
        operands = [x, scope.stored("kernel", (scope.shape(x)[-1], units))]
        operands += [scope.stored("bias", (units,))] if bias else []
        return apply_activation(scope, scope.node(MatMul(), operands), activation)

    weights = ("kernel", "bias") if bias else ("kernel",)
    return LayerPlan(build, weights, children=children_of(activation))
