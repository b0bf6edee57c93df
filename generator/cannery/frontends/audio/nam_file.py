"""Neural Amp Modeler's files (.nam): JSON with an architecture, its configuration and weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from cannery.errors import ModelError, UnsupportedError, one_of
from cannery.frontends.audio.nam_models import SMALL
from cannery.frontends.audio.nam_wavenet import build_wavenet, input_channels
from cannery.frontends.audio.samples import SampleNet, Weights
from cannery.frontends.json_values import OBJECT_START, Fields, mapping, read_object, shown
from cannery.frontends.metadata import make_metadata
from cannery.frontends.options import ImportOptions
from cannery.ir.graph import Graph

FORMAT = "Neural Amp Modeler (.nam)"

_WAVENET, _CONTAINER, _CHAIN = "WaveNet", "SlimmableContainer", "Sequential"
ARCHITECTURES = (_WAVENET, *SMALL, _CHAIN, _CONTAINER)

#: Versions of the format that are read.
_VERSIONS = ((0, 5), (0, 6), (0, 7))

#: Networks within networks, at most this deep.
_MOST_NESTED = 8

#: How the trainer begins, and an architecture at any place.
_BEGINNING = re.compile(
    OBJECT_START + rb'version"\s*:\s*"\d+\.\d+\.\d+"\s*,\s*"(metadata|architecture|config)"\s*:'
)
_ANYWHERE = re.compile(rb'"architecture"\s*:\s*"(%s)"' % "|".join(ARCHITECTURES).encode())


def recognises(head: bytes) -> bool:
    """Whether a file that begins with `head` is JSON of the trainer, or has an architecture."""
    named = re.match(OBJECT_START, head) and _ANYWHERE.search(head)
    return bool(_BEGINNING.match(head) or named)


def load(path: Path, options: ImportOptions) -> Graph:
    """The graph of a model; see `cannery.frontends.load_graph`."""
    model = _Model(Fields(read_object(path), ""), depth=0)
    net = SampleNet(model.architecture, options, (model.inputs(),), steps=None)
    y = model.build(net, net.x, "")
    rates = set(model.rates())
    if len(rates) > 1:
        raise ModelError(f"its networks have the sample rates {', '.join(map(str, sorted(rates)))}")
    return replace(net.finish(y, rates), metadata=model.metadata())


class _Model:
    """A network of a file: the whole, or one within it."""

    def __init__(self, fields: Fields, depth: int) -> None:
        if depth > _MOST_NESTED:
            what = f"networks within networks, more than {_MOST_NESTED} deep"
            raise ModelError(what, where=fields.where)
        self._fields, self._depth = fields, depth
        self.architecture = fields.word("architecture")
        if self.architecture not in ARCHITECTURES:
            what = f"architecture {self.architecture!r} is not supported"
            cure = one_of(self.architecture, ARCHITECTURES)
            raise UnsupportedError(what, where=fields.where, cure=cure)
        _check_version(fields)
        self.config = fields.inner("config")
        self._weights = fields.items("weights")
        self._inner = [self._nested(value, where) for value, where in self._parts()]
        fields.ignore("metadata", "sample_rate")
        fields.check_all_read()

    def _nested(self, value: object, where: str) -> _Model:
        whole = f"{self._fields.where}, {where}".removeprefix(", ")
        return _Model(Fields(mapping(value, whole), whole), self._depth + 1)

    def _parts(self) -> Iterator[tuple[object, str]]:
        """The networks of a chain; of a container, the one of full size."""
        if self.architecture == _CHAIN:
            models = self.config.items("models")
            if not models:
                raise ModelError("it has no models", where=self.config.where)
            for k, value in enumerate(models):
                yield value, f"model {k}"
        elif self.architecture == _CONTAINER:
            sizes = [mapping(v, "a submodel") for v in self.config.items("submodels")]
            if not sizes:
                raise ModelError("it has no submodels", where=self.config.where)
            best = max(range(len(sizes)), key=lambda k: _size(sizes[k], self.config.where))
            yield sizes[best].get("model"), f"submodel {best}"
        else:
            return
        if self._weights:
            what = f"a {self.architecture} has weights of its own"
            cure = "files of the trainer until 0.13.0 cannot be read: save it with a newer one"
            raise UnsupportedError(what, where=self._fields.where, cure=cure)
        self.config.check_all_read()

    def inputs(self) -> int:
        """The channels of the input."""
        if self._inner:
            return self._inner[0].inputs()
        if self.architecture == _WAVENET:
            return input_channels(self.config)
        keys = {"LSTM": "input_size", "Linear": "in_channels"}
        key = keys.get(self.architecture)
        return self.config.integer(key, 1) if key else 1

    def build(self, net: SampleNet, x: str, prefix: str) -> str:
        """Add the network; the value of its output."""
        if self.architecture == _CONTAINER:
            return self._inner[0].build(net, x, prefix)
        if self.architecture == _CHAIN:
            for k, model in enumerate(self._inner):
                x = model.build(net, x, f"{prefix}model{k}/")
            return x
        where = f"{self._fields.where}, weights".removeprefix(", ")
        weights = Weights(self._weights, where)
        if self.architecture == _WAVENET:

            def nested(value: object, x: str, prefix: str) -> str:
                self._inner.append(self._nested(value, "condition_dsp"))
                return self._inner[-1].build(net, x, prefix)

            y = build_wavenet(net, x, self.config, weights, prefix, nested)
        else:
            y = SMALL[self.architecture](net, x, self.config, weights, prefix)
        self.config.check_all_read()
        weights.check_all_taken()
        return y

    def rates(self) -> Iterator[float]:
        """The sample rates of this network and of those in it, where they are told."""
        if self._fields.raw("sample_rate") is not None:
            yield self._fields.number("sample_rate")
        for model in self._inner:
            yield from model.rates()

    def metadata(self) -> Mapping[str, str]:
        """What the file says of itself: its version, and texts and numbers of `metadata`."""
        told = self._fields.raw("metadata")
        own = told.items() if isinstance(told, dict) else ()
        return make_metadata([
            ("format", "Neural Amp Modeler"), ("nam.version", self._fields.word("version")),
            ("nam.architecture", self.architecture),
            *((f"nam.{key}", value) for key, value in own if isinstance(value, str | float | int)),
        ])  # fmt: skip


def _size(submodel: Mapping[str, object], where: str) -> float:
    """Up to which share of the full size a submodel is meant."""
    fields = Fields(submodel, f"{where}, submodels")
    fields.ignore("model")
    found = fields.number("max_value")
    fields.check_all_read()
    return found


def _check_version(fields: Fields) -> None:
    """Raises UnsupportedError for a format that may mean other things by the same words."""
    version = fields.word("version")
    found = re.fullmatch(r"(\d{1,6})\.(\d{1,6})(\.\d{1,6})?", version, re.ASCII)
    if not found or (int(found[1]), int(found[2])) not in _VERSIONS:
        known = ", ".join(f"{a}.{b}" for a, b in _VERSIONS)
        what = f"version {shown(version)} of the format"
        raise UnsupportedError(what, where=fields.where, cure=f"versions that are read: {known}")
