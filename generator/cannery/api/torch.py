"""PyTorch modules as networks, through ONNX."""

from __future__ import annotations

import inspect
import io
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cannery.api.load import load
from cannery.api.net import Net
from cannery.api.torch_check import Run, difference
from cannery.errors import ModelError, OptionError, ToolchainError
from cannery.frontends.torch_program import quiet
from cannery.ir.registry import RefArray
from cannery.names import make_identifier

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cannery.api.options import ModelOptions


def from_torch(
    module: Any, example: Any = None, *, threads: int = 1, **options: Unpack[ModelOptions]
) -> Net:
    """The network of a PyTorch module, compiled for this machine and ready to be called.

        net = cannery.from_torch(module, torch.zeros(1, 3, 64, 64))

    `example` is an input, or a tuple of inputs, in the shape for which the network is made; with
    one sample in it, calls take any number. The module is exported in prediction mode (`eval`), and
    stays unchanged. It may be TorchScript, or what `torch.export` returns, which needs no example.
    Options are those of `load`. Raises CanneryError.
    """
    data = export_torch(module, example)
    own = getattr(module, "original_name", type(module).__name__)
    options.setdefault("name", make_identifier(own).lower())
    return load(data, threads=threads, **options)


def export_torch(module: Any, example: Any = None) -> bytes:
    """A PyTorch module as the content of an ONNX file, which `compile`, `tune` and all others take.

        cannery.compile(cannery.export_torch(module, torch.zeros(1, 3, 64, 64)), "out", name="net")

    See `from_torch`. Raises CanneryError.
    """
    try:
        import torch
    except ImportError as error:
        raise ToolchainError(
            f"PyTorch cannot be imported: {error}", where="from_torch", cure="pip install torch"
        ) from None
    if isinstance(module, torch.export.ExportedProgram):
        return _exported_program(torch, module)
    if not isinstance(module, torch.nn.Module):
        raise OptionError(
            f"{type(module).__name__} is not a torch.nn.Module", where="from_torch",
            cure=_way_to_module(module),
        )  # fmt: skip
    if example is None:
        raise OptionError(
            "no example of the input, which has its shape and type", where="from_torch",
            cure="give one, such as torch.zeros(1, 3, 64, 64), or a tuple of inputs",
        )  # fmt: skip
    given = example if isinstance(example, tuple) else (example,)
    examples = tuple(_tensor(torch, x).clone() for x in given)  # or two are taken for one input
    with torch.no_grad(), _predicting(module):
        return _exported(torch, module, examples)


def _way_to_module(given: Any) -> str:
    """What to do with something that is no module."""
    if isinstance(given, Mapping):
        return "make the module, then module.load_state_dict(...) of these weights, and give it"
    if isinstance(given, str | os.PathLike):
        return "cannery.load reads files, and says what to do with those that it cannot read"
    return "load the model in PyTorch first, and give the module"


def _exported_program(torch: Any, program: Any) -> bytes:
    """A program of torch.export as the content of an ONNX file. Raises CanneryError."""
    try:
        with quiet():
            found = torch.onnx.export(program, (), dynamo=True, verbose=False)
    except ImportError as error:
        raise ToolchainError(
            f"PyTorch's exporter lacks a package: {error}", where="from_torch",
            cure="pip install onnx onnxscript",
        ) from error  # fmt: skip
    except Exception as error:
        raise ModelError(
            f"PyTorch cannot export it: {error}", where="ExportedProgram",
            cure="try torch.onnx.export, and load the file that it writes",
        ) from error  # fmt: skip
    data: bytes = found.model_proto.SerializeToString()
    given, named = program.example_inputs or ((), {})
    if given and not named and all(isinstance(x, torch.Tensor) for x in given):
        with torch.no_grad():
            wrong = difference(data, *_judge(torch, program.module(), given))
        if wrong is not None:
            raise _differs(wrong, "ExportedProgram")
    return data


def _differs(wrong: str, where: str, first: str = "") -> ModelError:
    return ModelError(
        f"PyTorch exports it wrongly: output {wrong}", where=where,
        cure=f"{first}look for operators that compute this in another way, or export it with "
        "torch.onnx.export, and load the file",
    )  # fmt: skip


def _judge(torch: Any, module: Any, examples: Sequence[Any]) -> tuple[Run, list[RefArray]]:
    """What computes a module, arrays in and out, and its examples as arrays."""

    def run(arrays: Sequence[RefArray]) -> list[RefArray]:
        pairs = zip(arrays, examples, strict=True)
        own = [torch.as_tensor(array).to(x.device, x.dtype) for array, x in pairs]
        leaves = torch.utils._pytree.tree_leaves(module(*own))
        return [_array(x) for x in leaves if isinstance(x, torch.Tensor)]

    return run, [_array(x) for x in examples]


def _array(tensor: Any) -> RefArray:
    held = tensor.detach().cpu()
    array: RefArray = (held.double() if held.is_floating_point() else held).numpy()
    return array


def _tensor(torch: Any, given: Any) -> Any:
    """An example of an input. Raises OptionError for what is not a tensor."""
    if isinstance(given, torch.Tensor):
        return given
    try:
        return torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise OptionError(
            f"example: {type(given).__name__} is not a tensor: {error}", where="from_torch",
            cure="give an input such as torch.zeros(1, 3, 64, 64), or a tuple of inputs",
        ) from None  # fmt: skip


@contextmanager
def _predicting(module: Any) -> Iterator[None]:
    """Puts each part of a module into prediction mode, then restores it, and its buffers."""
    training = [part for part in module.modules() if part.training]
    kept = [(buffer, buffer.clone()) for buffer in module.buffers()]
    module.eval()
    try:
        yield
    finally:
        for buffer, value in kept:
            buffer.copy_(value)
        for part in training:
            part.training = True


def _exported(torch: Any, module: Any, examples: Sequence[Any]) -> bytes:
    """The content of an ONNX file. Raises ModelError."""
    settings: dict[str, Any] = {"input_names": _names(module, len(examples))}
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        settings["dynamo"] = False  # the newer exporter needs one more package
    try:
        result = module(*examples)
    except Exception as error:
        raise ModelError(
            f"it cannot compute with this example: {error}", where=type(module).__name__,
            cure="give an input of the right shape and type, or a tuple of all inputs",
        ) from error  # fmt: skip
    settings["output_names"] = _output_names(torch, result)
    judge = _judge(torch, module, examples)
    failed: Exception | None = None
    wrong: str | None = None
    try:
        data = _exported_older(torch, module, examples, settings)
        wrong = difference(data, *judge)
        if wrong is None:
            return data
    except Exception as error:
        failed = error
    newer = _exported_newer(torch, module, examples, settings)
    if newer is not None:
        wrong = difference(newer, *judge)
        if wrong is None:
            return newer
    if wrong is not None:
        raise _differs(wrong, type(module).__name__, _other_way(torch, module, newer))
    raise ModelError(
        f"PyTorch cannot export it: {failed}", where=type(module).__name__,
        cure=f"try torch.onnx.export, and load the file that it writes{_newer_hint('; or ')}",
    ) from failed  # fmt: skip


def _other_way(torch: Any, module: Any, newer: bytes | None) -> str:
    """The beginning of a cure for what the older exporter does wrong."""
    if isinstance(module, torch.jit.ScriptModule):
        return "give the module itself in place of its TorchScript; or "
    return "" if newer is not None else _newer_hint("", "; or ")


def _newer_hint(before: str, after: str = "") -> str:
    """What would let the newer exporter try, if that is missing."""
    if find_spec("onnxscript"):
        return ""
    return f"{before}pip install onnxscript, so that the newer exporter is tried, too{after}"


def _exported_older(
    torch: Any, module: Any, examples: Sequence[Any], settings: Mapping[str, Any]
) -> bytes:
    """The content of an ONNX file by the exporter that needs no other package."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "Exporting a model to ONNX with a batch_size")
        warnings.filterwarnings("ignore", "no signature found for")  # TorchScript has none
        torch.onnx.export(module, tuple(examples), file, **settings)
    return file.getvalue()


def _exported_newer(
    torch: Any, module: Any, examples: Sequence[Any], settings: Mapping[str, Any]
) -> bytes | None:
    """The same by the newer exporter, which knows fused attention; None if it cannot."""
    if "dynamo" not in settings:
        return None
    try:
        with quiet():
            how = {**settings, "dynamo": True, "verbose": False}
            found = torch.onnx.export(module, tuple(examples), **how)
            data: bytes = found.model_proto.SerializeToString()
    except Exception:
        return None
    return data


def _names(module: Any, count: int) -> list[str]:
    """The names of `forward`'s first arguments, as far as it has names for them."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    schema = getattr(module.forward, "schema", None)  # TorchScript has no Python signature
    if schema is not None:
        names = [argument.name for argument in schema.arguments][1 : count + 1]
    else:
        found = inspect.signature(module.forward).parameters.values()
        names = [parameter.name for parameter in found if parameter.kind in kinds][:count]
    return names if len(names) == count else []


def _output_names(torch: Any, found: Any) -> list[str]:
    """Names for a module's result, if that is a tensor or several in a row."""
    if isinstance(found, torch.Tensor):
        return ["output"]
    if isinstance(found, list | tuple) and all(isinstance(y, torch.Tensor) for y in found):
        return [f"output_{k}" for k in range(len(found))]
    return []
