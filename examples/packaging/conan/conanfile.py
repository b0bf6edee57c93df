"""The network of examples/ball as a Conan package: `conan create examples/packaging/conan`."""

from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy

#: The instruction set for each of Conan's architectures.
ISAS = {"x86_64": "sse42", "x86": "sse2-32", "armv7hf": "neon32", "armv8": "neon64"}


class BallNet(ConanFile):
    name = "ball-net"
    version = "1.0.0"
    license = "MIT-0"
    description = "A classifier of image patches as a C static library"
    settings = "os", "arch", "compiler", "build_type"
    package_type = "static-library"

    def validate(self):
        if str(self.settings.arch) not in ISAS:
            raise ConanInvalidConfiguration(f"no instruction set for {self.settings.arch}")

    def export_sources(self):
        model = Path(self.recipe_folder).parents[1] / "ball"
        copy(self, "ball.h5", str(model), self.export_sources_folder)

    def build(self):
        model = Path(self.source_folder) / "ball.h5"
        isa = ISAS[str(self.settings.arch)]
        self.run(f'cannery compile "{model}" -o net --isa {isa} --emit make')
        self.run("make -C net")

    def package(self):
        self.run(f'make -C net install PREFIX="{self.package_folder}"')

    def package_info(self):
        self.cpp_info.libs = ["ball"]
