"""The inputs of a contest, and how far what a contestant computes is from the references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from cannery.errors import ToolchainError
from cannery.execution.samples import reference_outputs, relative_error
from cannery.ir.orders import to_model
from cannery.ir.registry import RefArray
from cannery.options import make_options
from cannery.pipeline import load_model
from rivals.convert import Prepared
from rivals.exchange import exchange_graph
from rivals.inputs import contest_inputs
from rivals.ours import Ours

#: How many samples calibrate integer networks.
SAMPLES = 8


class Judge:
    """One network: `graph` is its form for rivals, `inputs` are the same for all contestants.

    `samples` are others of the same kind, by which networks are quantised.
    """

    def __init__(self, model: Path) -> None:
        of = load_model(make_options(model, {}))
        self.inputs = contest_inputs(of)
        self.samples = [contest_inputs(of, 1 + number) for number in range(SAMPLES)]
        self.expected = reference_outputs(of, [self.inputs])[0]
        self.graph = exchange_graph(model)

    def inputs_of(self, made: Prepared) -> dict[str, RefArray]:
        """The inputs by the names of a rival's file, in its order of axes."""
        return self._named(made, self.inputs)

    def samples_of(self, made: Prepared) -> list[dict[str, RefArray]]:
        """The samples, likewise."""
        return [self._named(made, sample) for sample in self.samples]

    def calibration(self, file: Path) -> Path:
        """Writes the samples for Cannery, in the model's order of axes."""
        found = [to_model(self.graph, sample) for sample in self.samples]
        arrays = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **arrays)  # type: ignore[arg-type]
        return file

    def _named(self, made: Prepared, inputs: Mapping[str, RefArray]) -> dict[str, RefArray]:
        return dict(zip(made.inputs, self._images(made.order, inputs).values(), strict=True))

    def _images(self, order: str, inputs: Mapping[str, RefArray]) -> dict[str, RefArray]:
        if order == "model":
            return dict(to_model(self.graph, inputs))
        first = order == "nchw"
        return {
            name: np.moveaxis(array, -1, 1) if first and array.ndim == 4 else array
            for name, array in inputs.items()
        }

    def our_error(self, ours: Ours, folder: Path) -> float:
        """Of Cannery's first call."""
        return self._largest(dict(zip(self.graph.outputs, ours.outputs(folder), strict=True)))

    def error(self, name: str, called: Sequence[str], made: Prepared, folder: Path) -> float:
        """Of the first call of the rival `name`, which calls its outputs so.

        By their names in the graph; by their order if a rival uses its own names. Raises
        ToolchainError if there are more or fewer.
        """
        with np.load(folder / "outputs.npz") as file:
            arrays = [file[key] for key in file.files]
        if len(arrays) != len(made.outputs):
            what = f"gives {len(arrays)} outputs, the network has {len(made.outputs)}"
            raise ToolchainError(what, where=name, cure="leave this rival out")
        names = called if set(called) == set(made.outputs) else made.outputs
        found = dict(zip(names, arrays, strict=True))
        values = zip(self.graph.outputs, made.outputs, strict=True)
        return self._largest({value: found[name] for value, name in values})

    def _largest(self, outputs: Mapping[str, RefArray]) -> float:
        """The largest error of all outputs, which may be in the order of any file; other sizes:
        inf.
        """
        return max(self._error_of(name, array) for name, array in outputs.items())

    def _error_of(self, name: str, array: RefArray) -> float:
        expected = self.expected[name]
        if array.size != expected.size:
            return float("inf")
        forms = [expected]
        if expected.ndim == 4:
            forms.append(np.moveaxis(expected, -1, 1))
        return min(relative_error(array.reshape(form.shape), form) for form in forms)
