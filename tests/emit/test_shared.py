"""Shared libraries: what they export, and that only the right one is loaded."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cannery.emit.library import public_functions
from cannery.emit.source import Source
from cannery.errors import ToolchainError
from cannery.execution.shared_library import build_library, exported_library
from cannery.ir.tensor import DType
from cannery.options import Options, make_options
from cannery.passes import run_passes
from cannery.pipeline import compile_model
from cannery.target.isa import isa
from emit.c_programs import LANGUAGES, WARNINGS, Files, network, write_all
from emit.test_interface import symbols
from emit.test_split import files_of
from frontends.keras_files import chain, image, layer, write_h5
from needs import need_program, need_runner, need_toolchain
from nets.net_bench import make_net_source
from tiny_models import write_tiny_model

#: Prints the code and, if there is one, the error; with the library it runs the network.
MAIN = """
#include "net_loader.h"
int main(int argc, char **argv)
{
    static float image[NET_IMAGE_LEN], scores[NET_SCORES_LEN];
    static unsigned char memory[NET_WORKSPACE_BYTES] __attribute__((aligned(64)));
    char error[400] = "";
    net_library net;
    const int code = net_library_open(&net, argv[argc - 1], error, sizeof(error));
    if (code != CANNERY_LOADED) {
        printf("%d %s", code, error);
        return net.handle || net.run || net_library_open(&net, argv[1], NULL, 0) != code;
    }
    net.run(image, scores);
    printf("0 selftest %d", net.selftest(memory));
    net_library_close(&net);
    return net.run != NULL;
}
"""


def shared_source(seed: int = 1) -> Source:
    source = make_net_source(run_passes(network(seed)), isa("generic"), "net")
    return replace(source, shared=True)


def library(folder: Path, files: Files, target: str = "native") -> Path:
    """The library of files of `net`, as `compile --shared` makes it."""
    toolchain = need_toolchain(target)
    plain = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    units = {name: toolchain for name in plain if name.endswith(".c")}
    flags = ["-fvisibility=hidden", "-DNET_EXPORTS"]
    folder.mkdir(exist_ok=True)
    built = folder / "libnet.so"
    built.write_bytes(build_library("net", plain, units, flags=flags, link_flags=["-shared"]))
    return built


def loader(folder: Path, files: Files, language: str = "c99 gcc", main: str = MAIN) -> Path:
    """A program that loads the library which it is given."""
    compiler, *words = LANGUAGES[language]
    folder.mkdir(exist_ok=True)
    write_all(folder, {**files, "main.c": main})
    command = [need_program(compiler), *words, *WARNINGS, "-I.", "main.c", "-o", "main", "-ldl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "main"


def say(program: Path, path: Path | str, *before: str) -> str:
    """What a program says about a file; it ends normally, whatever the file is."""
    done = subprocess.run(
        [*before, str(program), str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("language", LANGUAGES)
def test_programs_load_a_library(tmp_path: Path, language: str) -> None:
    files = files_of(shared_source())
    program = loader(tmp_path / "program", files, language)
    assert say(program, library(tmp_path / "library", files)) == "0 selftest 0"
    retrained = library(tmp_path / "retrained", files_of(shared_source(seed=2)))
    assert say(program, retrained) == "0 selftest 0"


def test_what_is_no_library(tmp_path: Path) -> None:
    files = files_of(shared_source())
    program = loader(tmp_path / "program", files)
    (tmp_path / "empty.so").write_bytes(b"")
    (tmp_path / "text.so").write_text("a library, says its name\n")
    whole = library(tmp_path / "library", files).read_bytes()
    (tmp_path / "head.so").write_bytes(whole[:100])
    for name in ("empty.so", "text.so", "head.so", "nothing.so", "library"):
        path = tmp_path / name
        text = say(program, path)
        assert re.fullmatch(
            rf"1 {re.escape(str(path))}: cannot be opened \(.+\); give a lib.*", text
        ), text


def test_a_library_of_another_processor(tmp_path: Path) -> None:
    files = files_of(shared_source())
    program = loader(tmp_path / "program", files)
    text = say(program, library(tmp_path / "arm", files, "neon64"))
    assert text.startswith("1 ")
    assert "for this system and processor" in text


def other(kind: str) -> Files:
    """The files of a library that does not serve, and is one."""
    source = shared_source()
    files = files_of(source)
    if kind == "shape":
        bytes_ = run_passes(network(dtype=DType.UINT8))
        files = files_of(replace(make_net_source(bytes_, isa("generic"), "net"), shared=True))
    elif kind == "workspace":
        workspace = replace(source.workspace, bytes=source.workspace.bytes + 64)
        files = files_of(replace(source, workspace=workspace))
    elif kind == "foreign":
        files = {k: v.replace(b"net_about", b"net_else") if k.endswith((".c", ".h")) else v
                 for k, v in files.items() if isinstance(v, bytes)}  # fmt: skip
    elif kind == "version":
        about = bytes(files["cannery/library.h"])
        files["cannery/library.h"] = about.replace(b"VERSION 1u", b"VERSION 2u")
    elif kind == "interface version":
        header = bytes(files["cannery/cannery.h"])
        files["cannery/cannery.h"] = header.replace(b"ABI_VERSION 1u", b"ABI_VERSION 2u")
    elif kind == "processor":
        static = bytes(files["net_static.c"])
        files["net_static.c"] = static.replace(b'    "";', b'    "warp-drive ";')
    elif kind == "function":
        del files["net_selftest.c"]
    return files


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("shape", '5 {}: input "image" has another name, type, shape or scale than "image"'),
        ("workspace", "5 {}: the workspace takes"),
        ("foreign", "2 {}: this library does not hold a network called net; give one"),
        ("version", "3 {}: made by Cannery"),
        ("interface version", "3 {}: made by Cannery"),
        ("processor", "4 {}: it needs warp-drive, which this processor does not have"),
        ("function", "5 {}: the function net_selftest is missing"),
    ],
)
def test_libraries_that_do_not_serve(tmp_path: Path, kind: str, says: str) -> None:
    program = loader(tmp_path / "program", files_of(shared_source()))
    path = library(tmp_path / "library", other(kind))
    text = say(program, path)
    assert text.startswith(says.format(path)), text
    assert "\n" not in text


def test_other_options_are_another_interface(tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "net.h5")
    plain, several = (compiled(tmp_path, parallel=on) for on in (False, True))
    program = loader(tmp_path / "program", dict(plain[1]))
    path = tmp_path / "libnet.so"
    path.write_bytes(exported_library(*several)[1])
    assert "other options" in say(program, path)


def test_instructions_that_the_processor_lacks(tmp_path: Path) -> None:
    toolchain = need_toolchain("sse2")
    emulator = need_runner(toolchain)
    if "qemu-x86_64" not in " ".join(emulator.command):
        emulator = toolchain.emulator()
    write_tiny_model(tmp_path / "net.h5")
    options, files = compiled(tmp_path, isa=["avx2", "sse2"])
    (tmp_path / "both.so").write_bytes(exported_library(options, files)[1])
    program = loader(tmp_path / "program", dict(files))
    assert say(program, tmp_path / "both.so", *emulator.command) == "0 selftest 0"
    richer = dict(compiled(tmp_path, isa="avx2")[1])
    path = library(tmp_path / "richer", richer, "avx2")
    text = say(loader(tmp_path / "same", richer), path, *emulator.command)
    assert text.startswith("4 ")
    assert "which this processor does not have" in text


def compiled(folder: Path, **given: object) -> tuple[Options, dict[str, bytes]]:
    """Options of `net.h5` with `shared`, and its files."""
    options = make_options(folder / "net.h5", {"isa": "sse2", "shared": True, **given})
    return options, dict(compile_model(options).files)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"split": "3"},
        {"parallel": True, "openmp": True},
        {"isa": ["sse2", "avx2"], "split": "2"},
        {"isa": "sse2-32"},
        {"isa": "neon64"},
    ],
    ids=str,
)
def test_only_the_functions_of_the_header_are_exported(
    tmp_path: Path, given: dict[str, object]
) -> None:
    if str(given.get("isa", "sse2")) in ("sse2-32", "neon64"):
        need_toolchain(str(given["isa"]))
    write_tiny_model(tmp_path / "net.h5")
    options, files = compiled(tmp_path, **given)
    name, content = exported_library(options, files)
    assert name == "libnet.so"
    path = tmp_path / name
    path.write_bytes(content)
    header = files["net.h"].decode()
    expected = {f.name for f in public_functions(compile_model(options).source, header)}
    data = {"net_model", "net_about", *(["net_parallel_model"] if options.parallel else [])}
    assert symbols(path, "-D", "--defined-only") == expected | data
    dynamic = subprocess.run(
        [need_program("readelf"), "-d", str(path)], capture_output=True, text=True, check=True
    )
    assert "Library soname: [libnet.so]" in dynamic.stdout


def test_the_loader_has_every_function_of_the_header(tmp_path: Path) -> None:
    write_h5(tmp_path / "net.h5", chain(image("image", 6, 6, 2), layer("ReLU", "scores")))
    _, files = compiled(tmp_path, parallel=True, openmp=True)
    declared = set(re.findall(r"\bnet_(\w+)\(", files["net.h"].decode().split('extern "C"')[1]))
    members = set(re.findall(r"\(\*(\w+)\)\(", files["net_loader.h"].decode()))
    assert members == declared
    assert {"run", "run_in", "run_many", "run_parallel", "openmp", "selftest"} <= members


def test_boards_have_no_shared_libraries(tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "net.h5")
    need_toolchain("cortex-m7")
    options = make_options(tmp_path / "net.h5", {"target": "cortex-m7", "shared": True})
    with pytest.raises(ToolchainError, match="no shared libraries"):
        exported_library(options, compile_model(options).files)


def test_without_shared_nothing_is_marked() -> None:
    source = replace(shared_source(), shared=False)
    files = files_of(source)
    assert not any("loader" in name for name in files)
    assert b"_API" not in bytes(files["net.h"])
