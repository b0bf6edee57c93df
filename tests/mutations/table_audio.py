"""Changes of the readers of audio networks."""

from __future__ import annotations

from mutations.change import Change, rows

_F = "generator/cannery/frontends"
_NAM, _RTNEURAL = "tests/frontends/test_nam.py", "tests/frontends/test_rtneural.py"

_samples = rows(f"{_F}/audio/samples.py", _NAM)
_layer = rows(f"{_F}/audio/nam_layer.py", _NAM)
_wavenet = rows(f"{_F}/audio/nam_wavenet.py", _NAM)
_models = rows(f"{_F}/audio/nam_models.py", _NAM)
_file = rows(f"{_F}/audio/nam_file.py", _NAM)
_activations = rows(f"{_F}/audio/nam_activations.py", _NAM)
_rtneural = rows(f"{_F}/audio/rtneural_layers.py", _RTNEURAL)
_players = rows(f"{_F}/audio/rtneural_file.py", _RTNEURAL)
_guitarml = rows(f"{_F}/audio/guitarml_file.py", "tests/frontends/test_guitarml.py")

CHANGES: tuple[Change, ...] = (
    _samples(
        "convolutions look back by a tap too many",
        "before = (weight.shape[0] - 1) * dilation",
        "before = weight.shape[0] * dilation",
    ),
    _samples(
        "weights that are left over do not matter",
        "if self._at != self._numbers.size:",
        "if self._at > self._numbers.size:",
    ),
    _samples(
        "lists of lists are taken for weights",
        "if self._numbers.ndim != 1:",
        "if self._numbers.ndim > 9:",
    ),
    _layer(
        "FiLM shifts by its scale",
        "shift = net.part(both, size, 2 * size",
        "shift = net.part(both, 0, size",
    ),
    _layer(
        "the residual is left out",
        "return net.node(Add(), [x, own], name), to_head",
        "return own, to_head",
    ),
    _layer(
        "a blend does not begin at its input",
        "change = net.node(Sub(), [f, u]",
        "change = net.node(Sub(), [u, f]",
    ),
    _wavenet(
        "the scale of the configuration counts",
        "<= _SAME_SCALE:",
        "<= 1:",
    ),
    _wavenet(
        "the head begins anew in each array",
        "x, head = _array(net, array, weights, (x, condition, head)",
        'x, head = _array(net, array, weights, (x, condition, "")',
    ),
    _models(
        "impulse responses are backwards",
        "kernel = responses.T[::-1]",
        "kernel = responses.T",
    ),
    _models(
        "an LSTM begins with its cell as its output",
        "initial = [weights.take(cells), weights.take(cells)]",
        "initial = [weights.take(cells), weights.take(cells)][::-1]",
    ),
    _file(
        "the smallest network of a container is taken",
        "best = max(range(len(sizes))",
        "best = min(range(len(sizes))",
    ),
    _activations(
        "a leaky hard tanh has one slope",
        'beyond(net, x, f"{name}/above", Max(), high, above)',
        'beyond(net, x, f"{name}/above", Max(), high, below)',
    ),
    _rtneural(
        "the recurrent bias of a GRU is added twice",
        "both = inner[0] + np.concatenate([inner[1, : 2 * cells], np.zeros(cells)])",
        "both = inner[0] + inner[1]",
    ),
    _rtneural(
        "convolutions of features are dilated along features",
        "op = Conv((1, stride), ((before, 0), along), (dilation, 1))",
        "op = Conv((1, stride), ((before, 0), along), (1, dilation))",
    ),
    _rtneural(
        "the last number of a list counts",
        "any(v != value[0] for v in value)",
        "False",
    ),
    _rtneural(
        "batchnorm normalises filters",
        "return _normalised(net, _flat(net, x, name), fields, name)",
        "return _normalised(net, x, fields, name)",
    ),
    _players(
        "a gain of 0 dB is silence",
        "if decibels > _SILENT else 0.0",
        "if decibels > 0 else 0.0",
    ),
    _guitarml(
        "gates in PyTorch's order",
        '"LSTM": (0, 3, 1, 2)',
        '"LSTM": (0, 1, 2, 3)',
    ),
)
