"""Recurrent layers: the product of all inputs with their weights, then the recurrent part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.values import Constant, Value, identity
from cannery.ir.graph import Array
from cannery.ir.numeric import F64, f64
from cannery.ops.elementwise import (
    Affine,
    Elu,
    HardSigmoid,
    LeakyRelu,
    Relu,
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu,
)
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape
from cannery.ops.recurrent.base import SEQUENCE, Activation, Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn

_REVERSE = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}

#: Activations without parameters, and with: how many, and the defaults of alpha and beta.
_SIMPLE: Mapping[str, Activation] = {
    "relu": (Relu(),), "tanh": (Tanh(),), "sigmoid": (Sigmoid(),), "softsign": (Softsign(),),
    "softplus": (Softplus(),),
}  # fmt: skip
_WITH_ALPHA: Mapping[str, tuple[float, Callable[[float], Activation]]] = {
    "leakyrelu": (0.01, lambda a: (LeakyRelu(a),)),
    "thresholdedrelu": (1.0, lambda a: (ThresholdedRelu(a),)),
    "elu": (1.0, lambda a: (Elu(a),)),
}
_WITH_BOTH: Mapping[str, tuple[float | None, float | None, Callable[[float, float], Activation]]]
_WITH_BOTH = {
    "hardsigmoid": (0.2, 0.5, lambda a, b: (HardSigmoid(a, b),)),
    "affine": (None, None, lambda a, b: (Affine(a, b),)),
    "scaledtanh": (None, None, lambda a, b: (Affine(b), Tanh(), Affine(a))),
}


@operator("LSTM")
def lstm(scope: Scope) -> Sequence[Value]:
    """With peepholes, clipping, and input and forget gates coupled."""
    coupled = bool(scope.integer("input_forget", 0))
    layer = _Layer(scope, Lstm, ("Sigmoid", "Tanh", "Tanh"))
    peepholes = scope.known_floats(7, "peepholes", (layer.d, 3 * layer.h))
    return layer.build(layer.common(coupled=coupled), layer.bias(), peepholes)


@operator("GRU")
def gru(scope: Scope) -> Sequence[Value]:
    """With the reset gate before the product or after it."""
    after = bool(scope.integer("linear_before_reset", 0))
    layer = _Layer(scope, Gru, ("Sigmoid", "Tanh"))
    if not after:
        return layer.build(layer.common(linear_before_reset=False), layer.bias(), None)
    return layer.build(layer.common(linear_before_reset=True), *layer.split_bias())


@operator("RNN")
def rnn(scope: Scope) -> Sequence[Value]:
    """The plain one."""
    layer = _Layer(scope, Rnn, ("Tanh",))
    return layer.build(layer.common(), layer.bias(), None)


class _Layer:
    """What the three operators share; axes as in the operator: D directions, H cells, G gates."""

    def __init__(self, scope: Scope, kind: type[Recurrent], usual: tuple[str, ...]) -> None:
        self.scope = scope
        self.kind = kind
        self.reverse = _REVERSE[scope.text("direction", "forward", tuple(_REVERSE))]
        self.d = len(self.reverse)
        self.batch_first = bool(scope.integer("layout", 0))
        self.x = scope.input(0)
        if len(self.x.shape) != 3:
            raise ModelError(f"its input has shape {self.x.shape}, expected steps, batch, features")
        self.n, self.steps = self.x.shape[1 - self.batch_first], self.x.shape[self.batch_first]
        recurrent = scope.known(2, "recurrent weights")
        if recurrent is None or recurrent.ndim != 3:
            raise ModelError("has no recurrent weights")
        self.h = scope.integer("hidden_size", recurrent.shape[2])
        self.activations = _activations(scope, usual * self.d)

    def common(self, **own: bool) -> Recurrent:
        """The operator; `own` are the attributes of only this kind."""
        scope = self.scope
        lengths = scope.known_integers(4, "sequence lengths")
        if lengths is not None and (len(lengths) != self.n or not self._fit(lengths)):
            raise ModelError(f"sequence lengths {lengths} do not fit {self.n} x {self.steps} steps")
        clip = scope.number("clip", 0.0)
        if clip < 0:
            raise ModelError(f"clip {clip} is negative")
        return self.kind(
            self.h, self.activations, self.reverse, clip,
            lengths if lengths and set(lengths) != {self.steps} else (),
            self.kind.results[: max(scope.outputs, 1)], **own,
        )  # fmt: skip

    def _fit(self, lengths: Sequence[int]) -> bool:
        return all(0 <= length <= self.steps for length in lengths)

    def bias(self) -> F64 | None:
        """Both biases added up, [D, G*H]; None if there are none."""
        both = self._biases()
        return None if both is None else both[0] + both[1]

    def split_bias(self) -> tuple[F64 | None, F64 | None]:
        """The same without the recurrent bias of the last gate, and that bias."""
        both = self._biases()
        if both is None:
            return None, None
        input_, recurrent = both
        last = recurrent[:, -self.h :].copy()
        recurrent[:, -self.h :] = 0
        return input_ + recurrent, last

    def _biases(self) -> tuple[F64, F64] | None:
        width = self.kind.gates * self.h
        stored = self.scope.known_floats(3, "biases", (self.d, 2 * width))
        if stored is None:
            return None
        wide = f64(stored)
        return wide[:, :width].copy(), wide[:, width:].copy()

    def build(self, op: Recurrent, bias: Array | None, other: Array | None) -> Sequence[Value]:
        """The nodes; `other` is the last input of the operator."""
        scope, width = self.scope, self.kind.gates * self.h
        features = self.x.shape[2]
        w = scope.known_floats(1, "weights", (self.d, width, features))
        r = scope.known_floats(2, "recurrent weights", (self.d, width, self.h))
        if w is None or r is None:
            raise ModelError("has no weights")
        x = scope.place(self.x, (0, 1, 2) if self.batch_first else (1, 0, 2))
        flat = np.ascontiguousarray(w.reshape(self.d * width, features).T)
        product = [x, scope.constant("w", flat)]
        product += [] if bias is None else [scope.constant("b", bias.reshape(-1))]
        inputs = [scope.node(MatMul(), product, "projected")]
        inputs.append(scope.constant("r", np.ascontiguousarray(r.transpose(0, 2, 1))))
        inputs += [self._state(5 + k, "hc"[k]) for k in range(op.states)]
        inputs += [scope.constant("q", other)] if other is not None else []
        return self._results(op, scope.nodes(op, inputs))

    def _state(self, index: int, label: str) -> str:
        """An initial state as [N, D*H]; empty if it is zero."""
        value = self.scope.optional(index)
        if value is None:
            return ""
        is_zero = isinstance(value, Constant) and not np.any(value.array)
        n = self.n
        if is_zero and len(value.shape) == 3:  # zeros serve any number of samples
            n = value.shape[1 - self.batch_first]
        lies = (n, self.d, self.h) if self.batch_first else (self.d, n, self.h)
        if value.shape != lies:
            raise ModelError(
                f"initial state {label} has shape {value.shape}, expected {lies}",
                cure="PyTorch exports an LSTM with proj_size in this way, which ONNX does not "
                "have: spell it out, or leave proj_size away",
            )
        if is_zero:
            return ""
        if isinstance(value, Constant):
            array = value.array if self.batch_first else value.array.transpose(1, 0, 2)
            return self.scope.constant(label, array.reshape(self.n, self.d * self.h))
        placed = self.scope.place(value, (0, 1, 2) if self.batch_first else (1, 0, 2))
        return self.scope.node(Reshape((self.n, self.d * self.h)), [placed], f"initial_{label}")

    def _results(self, op: Recurrent, values: Sequence[str]) -> list[Value]:
        """The outputs with their directions as an axis."""
        found: list[Value] = []
        for what, value in zip(op.returns, values, strict=True):
            middle = (self.steps,) if what == SEQUENCE else ()
            node = self.scope.node(Reshape((self.n, *middle, self.d, self.h)), [value], what)
            lies = (2, 0, 1, 3) if middle else (1, 0, 2)
            perm = identity(len(lies)) if self.batch_first else lies
            found.append(self.scope.result(node, perm))
        return found


def _activations(scope: Scope, usual: tuple[str, ...]) -> tuple[Activation, ...]:
    """Functions with their parameters; each takes its number of them from the lists."""
    names = scope.texts("activations", usual)
    if len(names) != len(usual):
        raise ModelError(f"has {len(names)} activations, expected {len(usual)}")
    alphas, betas = (iter(scope.numbers(f"activation_{k}")) for k in ("alpha", "beta"))
    return tuple(_activation(name, alphas, betas) for name in names)


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    known = name.lower()
    if known in _SIMPLE:
        return _SIMPLE[known]
    if known in _WITH_ALPHA:
        usual, make = _WITH_ALPHA[known]
        return make(next(alphas, usual))
    if known in _WITH_BOTH:
        alpha, beta, make_both = _WITH_BOTH[known]
        first, second = next(alphas, alpha), next(betas, beta)
        if first is None or second is None:
            raise ModelError(f"activation {name!r} needs activation_alpha and activation_beta")
        return make_both(first, second)
    listed = ", ".join([*_SIMPLE, *_WITH_ALPHA, *_WITH_BOTH])
    raise UnsupportedError(f"activation {name!r} is not one of those supported: {listed}")
