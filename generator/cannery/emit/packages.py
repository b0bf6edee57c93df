"""What makes an output folder a package of an embedded framework: Zephyr, ESP-IDF and others.

The framework compiles the sources for its processor, so packages say only what the code needs
besides: the order in which it rounds. Where a package cannot name flags, the sources do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cannery import __version__
from cannery.contents import Content
from cannery.ctext.environment import render
from cannery.emit.build_files import Weights, large_weights
from cannery.errors import OptionError
from cannery.target.compiler import private_flags
from cannery.target.targets import parse_isa

#: At the top of sources whose flags a package cannot name.
_PRAGMA = """#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2", "no-fast-math", "fp-contract=off")
#elif defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
"""


@dataclass(frozen=True)
class Package:
    """What the templates read: the network's name, its C files, the flags that gcc needs, the files
    of large weights, and how many multiply-accumulates a run takes.
    """

    name: str
    sources: tuple[str, ...]
    flags: tuple[str, ...]
    weights: tuple[Weights, ...]
    macs: int
    version: str = __version__

    @property
    def title(self) -> str:
        """One line for people."""
        return f"Neural network {self.name}, {self.macs} multiply-accumulates"

    def rendered(self, template: str, **more: object) -> bytes:
        """What a template in this folder makes of it."""
        return render(f"emit/{template}.j2", p=self, **more).encode()


def package_files(kind: str, name: str, files: Mapping[str, Content]) -> dict[str, Content]:
    """The files that package the generated `files` of a network, new and changed ones.

    Raises OptionError for networks that this kind of package cannot hold.
    """
    manifest = json.loads(files[f"{name}.json"][:])
    if "sources" not in manifest:
        what = "a library for several instruction sets needs flags for each file"
        raise OptionError(what, where=f"--emit {kind}", cure="give one --isa, or a --target")
    flags = private_flags("gcc", parse_isa(manifest["isa"]))
    sources = tuple(manifest["sources"])
    macs = sum(step["macs"] for step in manifest["steps"])
    package = Package(name, sources, flags, tuple(large_weights(sources, files)), macs)
    if package.weights and kind not in ("zephyr", "esp-idf"):
        raise OptionError(
            "the weights are in a file of their own, which this kind of package cannot name",
            where=f"--emit {kind}", cure="take --emit zephyr, esp-idf or make",
        )  # fmt: skip
    return dict(PACKAGES[kind](package, files))


def _zephyr(package: Package, _: Mapping[str, Content]) -> dict[str, bytes]:
    return {
        "zephyr/module.yml": package.rendered("zephyr.yml"),
        "zephyr/CMakeLists.txt": package.rendered("zephyr.cmake"),
        "zephyr/Kconfig": package.rendered("zephyr.kconfig"),
    }


def _esp_idf(package: Package, _: Mapping[str, Content]) -> dict[str, bytes]:
    return {
        "CMakeLists.txt": package.rendered("esp_idf.cmake"),
        "idf_component.yml": package.rendered("esp_idf.yml"),
    }


def _platformio(package: Package, _: Mapping[str, Content]) -> dict[str, bytes]:
    found: dict[str, Any] = {
        "$schema": "https://raw.githubusercontent.com/platformio/platformio-core/develop/"
        "platformio/assets/schema/library.json",
        "name": package.name, "version": package.version, "description": package.title,
        "keywords": ["neural network"], "frameworks": "*", "platforms": "*",
        "headers": f"{package.name}.h",
        "build": {
            "flags": list(package.flags), "srcDir": ".", "includeDir": ".", "libArchive": True,
            "srcFilter": ["-<*>", *(f"+<{source}>" for source in package.sources)],
        },
    }  # fmt: skip
    return {"library.json": (json.dumps(found, indent=2) + "\n").encode()}


def _arduino(package: Package, files: Mapping[str, Content]) -> dict[str, bytes]:
    properties = package.rendered("arduino.properties")
    return {"library.properties": properties, **_with_pragma(package, files)}


def _cmsis_pack(package: Package, files: Mapping[str, Content]) -> dict[str, bytes]:
    headers = sorted(path for path in files if path.endswith((".h", ".hpp")))
    text = package.rendered("cmsis_pack.pdsc", headers=headers)
    return {f"Cannery.{package.name}.pdsc": text, **_with_pragma(package, files)}


def _with_pragma(package: Package, files: Mapping[str, Content]) -> dict[str, bytes]:
    """The sources with what they need in place of flags."""
    found = {}
    for path in package.sources:
        before, include, after = files[path][:].decode().partition("#include")
        found[path] = f"{before}{_PRAGMA if include else ''}{include}{after}".encode()
    return found


#: What can be written, and how.
PACKAGES: dict[str, Callable[[Package, Mapping[str, Content]], Mapping[str, Content]]] = {
    "zephyr": _zephyr, "esp-idf": _esp_idf, "platformio": _platformio, "arduino": _arduino,
    "cmsis-pack": _cmsis_pack,
}  # fmt: skip
