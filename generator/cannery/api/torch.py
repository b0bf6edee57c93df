"""PyTorch modules as networks, through ONNX."""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cannery.api.load import load
from cannery.api.net import Net
from cannery.errors import ModelError, OptionError, ToolchainError
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
            cure="load the model in PyTorch first, and give the module",
        )  # fmt: skip
    given = example if isinstance(example, tuple) else (example,)
    examples = tuple(_tensor(torch, x) for x in given)
    with _predicting(module), torch.no_grad():
        return _exported(torch, module, examples)


def _exported_program(torch: Any, program: Any) -> bytes:
    """A program of torch.export as the content of an ONNX file. Raises CanneryError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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
    return data


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
    """Puts each part of a module into prediction mode, then restores it."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _exported(torch: Any, module: Any, examples: Sequence[Any]) -> bytes:
    """The content of an ONNX file. Raises ModelError."""
    file = io.BytesIO()
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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", "Exporting a model to ONNX with a batch_size")
            torch.onnx.export(module, tuple(examples), file, **settings)
    except Exception as error:
        newer = _exported_newer(torch, module, examples, settings)
        if newer is not None:
            return newer
        raise ModelError(
            f"PyTorch cannot export it: {error}", where=type(module).__name__,
            cure="try torch.onnx.export, and load the file that it writes; or pip install "
            "onnxscript, so that the newer exporter is tried, too",
        ) from error  # fmt: skip
    return file.getvalue()


def _exported_newer(
    torch: Any, module: Any, examples: Sequence[Any], settings: Mapping[str, Any]
) -> bytes | None:
    """The same by the newer exporter, which knows fused attention; None if it cannot."""
    if "dynamo" not in settings:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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
