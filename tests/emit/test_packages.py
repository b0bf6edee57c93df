"""Output folders as packages of embedded frameworks: what they name exists, and compiles."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cannery.cli import invoke
from cannery.cli.compile import FRAMEWORKS
from cannery.emit.packages import PACKAGES, package_files
from cannery.errors import OptionError
from cannery.output_files import check_replaceable
from cannery.resources import ball_example_dir
from cannery.target.compiler import private_flags
from cannery.target.isa import isa
from cannery.target.toolchain import Toolchain
from needs import need_program, need_toolchain

BALL = ball_example_dir() / "ball.h5"
TARGET = "cortex-m4"
TOOLCHAIN = Path(__file__).parents[2] / "toolchains" / f"{TARGET}.cmake"

#: What the frameworks' build systems define, as far as packages use it.
STAND_INS = {
    "zephyr": """
        set(CONFIG_CANNERY_BALL y)
        set(ZEPHYR_INCLUDES "")
        macro(zephyr_library_named name)
          set(ZEPHYR_LIBRARY ${name})
          add_library(${name} STATIC)
        endmacro()
        function(zephyr_library_sources)
          target_sources(${ZEPHYR_LIBRARY} PRIVATE ${ARGN})
        endfunction()
        function(zephyr_library_compile_options)
          target_compile_options(${ZEPHYR_LIBRARY} PRIVATE ${ARGN})
        endfunction()
        function(zephyr_include_directories)
          target_include_directories(${ZEPHYR_LIBRARY} PUBLIC ${ARGN})
        endfunction()
        add_subdirectory(net/zephyr)
    """,
    "esp-idf": """
        function(idf_component_register)
          cmake_parse_arguments(A "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
          add_library(ball STATIC ${A_SRCS})
          target_include_directories(ball PUBLIC ${A_INCLUDE_DIRS})
          set(COMPONENT_LIB ball PARENT_SCOPE)
        endfunction()
        add_subdirectory(net)
    """,
}


def folder(path: Path, kind: str, *options: str) -> Path:
    """The output folder of the ball classifier as a package."""
    words = ["compile", str(BALL), "-o", str(path / "net"), "--target", TARGET, "--emit", kind]
    assert invoke([*words, *options]) == 0
    return path / "net"


def sources(net: Path) -> list[str]:
    return sorted(path.name for path in net.glob("*.c"))


def test_the_command_line_offers_all() -> None:
    assert tuple(PACKAGES) == FRAMEWORKS


@pytest.mark.parametrize("kind", STAND_INS)
def test_cmake_compiles_it(kind: str, tmp_path: Path) -> None:
    """By the package's own CMake code, with the flags that the code needs."""
    need_toolchain(TARGET)
    need_program("cmake")
    net = folder(tmp_path, kind)
    head = "cmake_minimum_required(VERSION 3.20)\nproject(firmware C)\n"
    (tmp_path / "CMakeLists.txt").write_text(head + STAND_INS[kind])
    words = ["-B", "b", f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}", "-DCMAKE_C_FLAGS_INIT=-DUSED"]
    more = ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-G", "Unix Makefiles"]
    subprocess.run(["cmake", *words, *more], cwd=tmp_path, check=True, capture_output=True)
    commands = json.loads((tmp_path / "b" / "compile_commands.json").read_text())
    assert sorted(Path(each["file"]).name for each in commands) == sources(net)
    assert all("-ffp-contract=off" in each["command"] for each in commands)
    subprocess.run(["cmake", "--build", "b"], cwd=tmp_path, check=True, capture_output=True)
    assert list((tmp_path / "b").glob("**/libball.a"))


def test_the_zephyr_module_can_be_left_out(tmp_path: Path) -> None:
    net = folder(tmp_path, "zephyr")
    module = (net / "zephyr" / "module.yml").read_text()
    assert "cmake: zephyr\n" in module and "kconfig: zephyr/Kconfig\n" in module
    assert "config CANNERY_BALL\n\tbool " in (net / "zephyr" / "Kconfig").read_text()
    lists = (net / "zephyr" / "CMakeLists.txt").read_text()
    assert "if(NOT CONFIG_CANNERY_BALL)\n  return()" in lists


def compiled(net: Path, toolchain: Toolchain, flags: list[str]) -> str:
    """The machine code of all sources, compiled as a framework does that has flags of its own."""
    text = ""
    for name in sources(net):
        target = [*toolchain.target.flags, *flags]
        toolchain.compiler.compile(net / name, net / f"{name}.o", target, [net])
        objdump = ["arm-none-eabi-objdump", "-d", f"{name}.o"]
        text += subprocess.run(objdump, cwd=net, check=True, capture_output=True, text=True).stdout
    return text


def test_platformio_compiles_what_its_manifest_says(tmp_path: Path) -> None:
    toolchain = need_toolchain(TARGET)
    net = folder(tmp_path, "platformio")
    build = json.loads((net / "library.json").read_text())["build"]
    named = [word[2:-1] for word in build["srcFilter"] if word.startswith("+<")]
    assert sorted(named) == sources(net)
    assert compiled(net, toolchain, build["flags"]) == compiled(
        folder(tmp_path / "make", "make"), toolchain, list(private_flags("gcc", isa("thumbdsp")))
    )


@pytest.mark.parametrize("kind", ["arduino", "cmsis-pack"])
def test_sources_round_as_they_must_without_flags(kind: str, tmp_path: Path) -> None:
    """Compilers join products and sums unless the sources say that they must not."""
    toolchain = need_toolchain(TARGET)
    net = folder(tmp_path, kind)
    probe = "\nfloat probe(float a, float b, float c);\nfloat probe(float a, float b, float c)\n"
    (net / "ball.c").write_text((net / "ball.c").read_text() + probe + "{ return a * b + c; }\n")
    alone = compiled(net, toolchain, ["-O2"]).count("vfma")
    for name in sources(net):
        text = (net / name).read_text()
        assert text.count("#pragma GCC optimize") <= 1
        (net / name).write_text(re.sub(r"#pragma GCC.*\n", "", text))
    assert compiled(net, toolchain, ["-O2", "-ffp-contract=off"]).count("vfma") == alone
    assert compiled(net, toolchain, ["-O2"]).count("vfma") == alone + 1


def test_arduino_finds_the_header(tmp_path: Path) -> None:
    net = folder(tmp_path, "arduino")
    lines = (net / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    assert properties["includes"] == "ball.h" and (net / "ball.h").exists()
    assert properties["name"] == "ball" and re.fullmatch(r"\d+\.\d+\.\d+", properties["version"])
    assert not (net / "src").exists(), "with this folder, Arduino would not compile the others"


def test_the_pack_lists_every_file(tmp_path: Path) -> None:
    net = folder(tmp_path, "cmsis-pack")
    root = ElementTree.parse(net / "Cannery.ball.pdsc").getroot()
    found = {file.get("name"): file.get("category") for file in root.iter("file")}
    there = {str(path.relative_to(net)) for path in net.rglob("*.[ch]*") if path.is_file()}
    assert set(found) == there | {"./"}
    assert sorted(name for name, what in found.items() if what == "sourceC" and name) == sources(
        net
    )
    (component,) = root.iter("component")
    assert (component.get("Cclass"), component.get("Csub")) == ("Machine Learning", "ball")


def test_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", str(BALL), "-o", str(tmp_path / "net"), "--emit", "zephyr"]
    assert invoke([*words, "--isa", "generic", "--isa", "sse2"]) == 2
    assert "flags for each file (give one --isa" in capsys.readouterr().err
    assert invoke([*words, "--isa", "generic", "--shared"]) == 2
    assert "leave out --shared" in capsys.readouterr().err
    assert not (tmp_path / "net").exists()


def test_files_of_others_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Projects have files of these names, too; those that Cannery wrote are replaced."""
    kinds = ("make", "meson", *FRAMEWORKS)
    more = [word for kind in kinds for word in ("--emit", kind)]
    net = folder(tmp_path, "make", *more)
    sources = ("ball.c", "ball_selftest.c", "ball_static.c", "ball_weights.c", "ball.json")
    paths = [str(path.relative_to(net)) for path in net.rglob("*") if path.is_file()]
    added = [each for each in paths if not each.endswith((".h", ".hpp")) and each not in sources]
    assert len(added) == len(kinds) + 3, "Zephyr's are three, ESP-IDF's two"
    check_replaceable(net, added, "--emit")
    for path in added:
        (net / path).write_text("mine")
        with pytest.raises(OptionError, match=f"{path} was not written by Cannery"):
            check_replaceable(net, [path], "--emit")
    words = ["compile", str(BALL), "-o", str(net), "--target", TARGET, *more, "--batch", "2"]
    before = (net / "ball.c").read_bytes()
    assert invoke(words) == 2
    assert "--emit make: " in capsys.readouterr().err
    assert (net / "ball.c").read_bytes() == before, "nothing is written"


def test_large_weights(tmp_path: Path) -> None:
    """Only a build system that runs code can say where their file is."""
    net = folder(tmp_path, "zephyr")
    files = {str(path.relative_to(net)): path.read_bytes() for path in net.rglob("*.*")}
    files["ball_weights.bin"] = b""
    for kind in ("platformio", "arduino", "cmsis-pack"):
        with pytest.raises(OptionError, match="the weights are in a file of their own"):
            package_files(kind, "ball", files)
    for kind, path in (("zephyr", "zephyr/CMakeLists.txt"), ("esp-idf", "CMakeLists.txt")):
        text = package_files(kind, "ball", files)[path][:].decode()
        assert re.search(r'BALL_WEIGHTS_FILE=\\"\$\{\w+\}/ball_weights.bin\\""', text)
