"""Builds and runs a program with the package."""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout


class BallNetTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def layout(self):
        basic_layout(self)  # what is built stays out of the sources

    def requirements(self):
        self.requires(self.tested_reference_str)

    def generate(self):
        PkgConfigDeps(self).generate()

    def build(self):
        info = self.dependencies["ball-net"].cpp_info.aggregated_components()
        source = Path(self.source_folder) / "main.c"
        include, lib = info.includedirs[0], info.libdirs[0]
        self.run(f'cc "{source}" -I"{include}" -L"{lib}" -lball -o ball_test')

    def test(self):
        if can_run(self):
            self.run(str(Path(self.build_folder) / "ball_test"))
