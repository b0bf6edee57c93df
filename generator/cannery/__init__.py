"""Cannery: trained neural networks as C static libraries, each for one network and processor.

    import cannery

    net = cannery.load("ball.h5")           # a network that Python can call
    scores = net(image)

    cannery.tune("ball.h5", budget=60)      # measure what is fastest on this machine
    cannery.verify("ball.h5").passed        # compare with the reference
    cannery.evaluate("ball.h5", x, y)       # how accurate it is with floats and with integers
    cannery.compile("ball.h5", "out")       # C files for a project
    cannery.report("ball.h5", "ball.html")  # what was chosen, and how fast it is, as a page

Models are paths, or the content of a file as bytes. Whatever a user can cause is a `CanneryError`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cannery.api.compile import CompileResult, compile  # noqa: A004
    from cannery.api.evaluate import EvaluateResult, evaluate
    from cannery.api.interface import Port
    from cannery.api.load import load
    from cannery.api.net import Net
    from cannery.api.report import report
    from cannery.api.torch import export_torch, from_torch
    from cannery.api.tune import TuneResult, tune
    from cannery.api.verify import VerifyResult, verify
    from cannery.errors import CanneryError, CanneryWarning

__version__ = "0.2.0"

#: Where each name is; imported on first use, because most commands need none.
_PLACES = {
    "CanneryError": "errors",
    "CanneryWarning": "errors",
    "CompileResult": "api.compile",
    "EvaluateResult": "api.evaluate",
    "Net": "api.net",
    "Port": "api.interface",
    "TuneResult": "api.tune",
    "VerifyResult": "api.verify",
    "compile": "api.compile",
    "evaluate": "api.evaluate",
    "export_torch": "api.torch",
    "from_torch": "api.torch",
    "load": "api.load",
    "report": "api.report",
    "tune": "api.tune",
    "verify": "api.verify",
}

__all__ = [
    "CanneryError",
    "CanneryWarning",
    "CompileResult",
    "EvaluateResult",
    "Net",
    "Port",
    "TuneResult",
    "VerifyResult",
    "__version__",
    "compile",
    "evaluate",
    "export_torch",
    "from_torch",
    "load",
    "report",
    "tune",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Everything in `_PLACES`, and the module `onnx_backend`."""
    if name in _PLACES:
        from importlib import import_module

        found = globals()[name] = getattr(import_module(f"cannery.{_PLACES[name]}"), name)
        return found
    if name == "onnx_backend":
        from importlib import import_module

        return import_module("cannery.onnx_backend")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
