"""How much code each step becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cannery.analysis.kernels import compile_apart
from cannery.emit.files import output_files
from cannery.execution import sizes
from cannery.execution.sizes import code_bytes
from cannery.measure.elf import function_places
from needs import need_toolchain
from reporting.examples import source


def test_all_code_is_some_steps(tmp_path: Path) -> None:
    toolchain, net = need_toolchain("generic"), source()
    files = output_files(net, "test")
    found = code_bytes(net, files, toolchain)
    assert len(found) == len(net.calls)
    places = function_places(compile_apart(tmp_path, net, files, toolchain))
    kernels = sum(place.size for name, place in places.items() if "_L0" in name)
    assert sum(size or 0 for size in found) == kernels > 0
    for call, size in zip(net.calls, found, strict=True):
        assert bool(size) == bool(call.kernel.code.strip())


def test_where_the_object_file_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain, net = need_toolchain("generic"), source()
    monkeypatch.setattr(sizes, "function_places", lambda path: {})
    assert code_bytes(net, output_files(net, "test"), toolchain) == (None,) * len(net.calls)
