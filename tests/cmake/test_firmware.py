"""The example firmware project, for this machine and with every toolchain file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cannery.measure.elf import function_places, symbol_sections
from cmake_project import Project, everywhere, need_tools
from tiny_models import write_tiny_classifier

EXAMPLES = Path(__file__).parents[2] / "examples"
PGM = b"P5\n16 16\n255\n" + bytes(range(256))


@pytest.fixture
def firmware(tmp_path: Path) -> Project:
    """A copy of the example, with a small model that takes the same images."""
    shutil.copytree(EXAMPLES / "firmware", tmp_path / "firmware")
    write_tiny_classifier(tmp_path / "ball.h5")
    return Project(tmp_path / "firmware")


@everywhere
def test_first_boot(firmware: Project, toolchain: str, target: str) -> None:
    need_tools(target)
    firmware.configure(
        "-DBALL_MODEL=../ball.h5", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", toolchain=toolchain
    )
    firmware.build()
    told = firmware.test()
    assert '{"self_test": true}' in told
    assert '{"image": "drawn", "ball": ' in told


@pytest.mark.parametrize("core", ["m0plus", "m3", "m4", "m33", "m55"])
def test_first_boot_of_other_cores(firmware: Project, core: str) -> None:
    test_first_boot(firmware, f"cortex-{core}", f"cortex-{core}")


@pytest.mark.parametrize("core", ["riscv32imc", "riscv32imafc"])
def test_first_boot_of_small_risc_v(firmware: Project, core: str) -> None:
    test_first_boot(firmware, core, core)


def test_code_runs_from_a_copy_in_itcm(firmware: Project) -> None:
    """It is stored in the flash, and the weights elsewhere; without the copy, nothing runs."""
    need_tools("cortex-m7")
    given = ["-DBALL_MODEL=../ball.h5", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", "-DROBOT_TCM=ON"]
    firmware.configure(*given, toolchain="arm-none-eabi")
    firmware.build()
    assert '{"self_test": true}' in firmware.test()
    robot = firmware.tree / "robot"
    places, sections = function_places(robot), symbol_sections(robot)
    assert places["ball_run_in"].address in range(0x400, 0x10000)
    assert places["main"].address >= 0x100000
    assert sections["ball_run_in"] == ".itcm"
    weights = {name for name, section in sections.items() if section == ".ext_flash"}
    assert weights and all("ball_L" in name for name in weights)
    assert any("detector" in n and s == ".psram" for n, s in sections.items()), "slow memory"
    assert b"BALL_FAST_BYTES" in (firmware.tree / "cannery" / "ball" / "ball.h").read_bytes()
    main = firmware.folder / "src" / "main.cpp"
    main.write_text(main.read_text().replace("    load_tcm();\n", ""))
    firmware.build()
    tests = ("ctest", "--test-dir", firmware.tree, "--verbose", "--timeout", "20")
    assert '{"self_test": true}' not in firmware.run(*tests, ok=False)


def test_files_and_latency(firmware: Project) -> None:
    firmware.configure("-DBALL_MODEL=../ball.h5", "-DCANNERY_TARGET=native")
    firmware.build()
    (firmware.folder / "ramp.pgm").write_bytes(PGM)
    told = firmware.run(firmware.tree / "robot", "ramp.pgm")
    assert '{"image": "ramp.pgm", "ball": ' in told
    assert '{"latency_us": ' in told
    (firmware.folder / "ramp.pgm").write_bytes(PGM[:-1])
    assert "not a 16x16 PGM file" in firmware.run(firmware.tree / "robot", "ramp.pgm", ok=False)


def test_another_model_fails_at_compile_time(firmware: Project) -> None:
    write_tiny_classifier(firmware.folder.parent / "ball.h5", inputs=16 * 20)
    firmware.configure("-DBALL_MODEL=../ball.h5")
    assert "the model takes other images" in firmware.build(ok=False)
