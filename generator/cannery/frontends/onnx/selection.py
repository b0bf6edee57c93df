"""What of an ONNX model is read: its version, its outputs, and the nodes that these need."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import ModelError, OptionError, UnsupportedError, closest
from cannery.frontends.onnx.model import OnnxModel, OnnxNode
from cannery.frontends.onnx.old import FIRST
from cannery.frontends.onnx.order import outer_reads
from cannery.frontends.options import ImportOptions

#: Versions of the standard operators that are read.
OPSETS = range(1, 29)


def check_opset(model: OnnxModel) -> None:
    """Raises UnsupportedError for operators of unsupported versions."""
    versions = [f.version for f in model.functions.values()]
    newest = OPSETS[-1]
    for first, version in ((OPSETS[0], model.opset("")), *((FIRST, v) for v in versions)):
        if version and not first <= version <= newest:
            what = f"its operators have version {version}; {first} to {newest} are supported"
            raise UnsupportedError(what, cure="export it again, for one of these versions")


def chosen_outputs(model: OnnxModel, options: ImportOptions) -> tuple[str, ...]:
    """The names of the tensors to return."""
    computed = [o for node in model.nodes for o in node.outputs if o]
    for name in options.outputs:
        if name not in computed:
            near = closest(name, computed)
            raise OptionError(
                f"no tensor of the model is called {name!r}",
                where="--outputs",
                cure=f"did you mean {near!r}?" if near else "name one that a node computes",
            )
    if not options.outputs and not model.outputs:
        raise ModelError("the model has no outputs")
    return options.outputs or model.outputs


def needed_nodes(nodes: Sequence[OnnxNode], outputs: Sequence[str]) -> list[OnnxNode]:
    """The nodes on which outputs depend, in order."""
    wanted, found = set(outputs), []
    for node in reversed(nodes):
        if wanted & {o for o in node.outputs if o}:
            found.append(node)
            wanted.update(outer_reads(node))
    return found[::-1]
