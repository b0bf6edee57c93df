"""Networks of single vectors against a plain loop that reads their weights: how much is left?

    python benchmarks/reading.py [MODEL...] [--isa ISA]... [--seconds S]

With one row each weight is used once, so a network cannot be faster than reading its weights from
the cache or memory where they lie. Both are timed in one program, in turn: the network, and loops
that add up the same bytes with loads of 16, 32 and 64 bytes where there are such; the best counts.
Without models: a walking policy, 48 - 512 - 256 - 128 - 12. Tuning records next to a model are
used.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cannery.emit.source import Source
from cannery.options import make_options
from cannery.pipeline import compile_model
from drivers import run_driver
from isas import isa_words
from onnx_networks import write_onnx_network

_DRIVER = Path(__file__).with_suffix(".c")


@dataclass(frozen=True)
class Reading:
    """Bytes of weights, microseconds of the network, and of the reading loops by bytes per load."""

    bytes: int
    network_us: float
    loops_us: Mapping[int, float]

    @property
    def best_us(self) -> float:
        """The fastest loop."""
        return min(self.loops_us.values())

    @property
    def share(self) -> float:
        """The bandwidth that the network reaches, relative to the fastest loop."""
        return self.best_us / self.network_us


def _macros(source: Source, total: int) -> str:
    blob = len(source.blob.data)
    values = {"MODEL": f"{source.name}_model", "BLOB": source.blob.symbol, "BLOB_BYTES": blob,
              "REST_BYTES": max(total - blob, 0)}  # fmt: skip
    return "".join(f"#define READING_{key} {value}\n" for key, value in values.items())


def weight_bytes(source: Source) -> int:
    """Of all constant arrays, as they are packed."""
    small = sum(c.values.nbytes for call in source.calls for c in call.kernel.constants)
    return len(source.blob.data) + small


def measure(model: Path, isa: str, seconds: float) -> Reading:
    """Build and time; raises CanneryError."""
    options = make_options(model, {"isa": isa_words(isa), "name": "net"})
    compiled = compile_model(options)
    total = weight_bytes(compiled.source)
    times = run_driver(_DRIVER, _macros(compiled.source, total), compiled, options, seconds)
    loops = {int(key[4:]): float(us) for key, us in times.items() if key.startswith("read")}
    return Reading(total, float(times["network"]), loops)


def main() -> int:
    """Prints a line for each network and instruction set."""
    parser = argparse.ArgumentParser(description="Networks against reading their weights.")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--isa", action="append", metavar="NAME", help="default: this machine's")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S")
    given = parser.parse_args()
    print(f"{'network':20} {'isa':10} {'KB':>6} {'us':>8} {'read us':>8} {'GB/s':>6} share")
    with tempfile.TemporaryDirectory() as folder:
        models = given.models or [write_onnx_network("walking_policy", Path(folder))]
        for model in models:
            for isa in given.isa or [""]:
                r = measure(model, isa, given.seconds)
                figures = f"{r.bytes / 1e3:6.0f} {r.network_us:8.3f} {r.best_us:8.3f}"
                speed = f"{r.bytes / r.network_us / 1e3:6.1f} {r.share:.1%}"
                print(f"{model.stem:20} {isa or 'native':10} {figures} {speed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
