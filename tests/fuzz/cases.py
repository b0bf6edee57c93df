"""A case of the fuzzer: a folder of files, one of which is the model, and options as texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cannery.options import Options, make_options

#: Options that name files of the case.
_PATHS = ("tuning", "calibration", "peepholes")


@dataclass(frozen=True)
class Case:
    """`origin` says how it was made: the kind, the seed and the changes."""

    model: str
    files: Mapping[str, bytes]
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""

    def write(self, folder: Path) -> None:
        """Put the files into a folder, and `case.json`, from which `read_case` makes the same."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        facts = {"model": self.model, "options": self.options, "origin": self.origin}
        (folder / "case.json").write_text(json.dumps(facts, indent=1) + "\n")

    def raw_in(self, folder: Path) -> dict[str, Any]:
        """The options with the paths of files in `folder`."""
        return {
            key: str(folder / value) if key in _PATHS else value
            for key, value in self.options.items()
        }

    def options_in(self, folder: Path) -> Options:
        """The parsed options. Raises OptionError."""
        return make_options(folder / self.model, self.raw_in(folder))


def read_case(folder: Path) -> Case:
    """A case that was written; lists of options become tuples, as the command line gives them."""
    facts = json.loads((folder / "case.json").read_text())
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in facts["options"].items()}
    skipped = ("case.json", "report.txt")
    files = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.name not in skipped
    }
    return Case(facts["model"], files, options, facts["origin"])
