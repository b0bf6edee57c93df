"""Generated networks compile without a warning everywhere, and need next to nothing to link."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from cannery.target.targets import find_target
from nets.compilation import LANGUAGES, MAY_NEED, Setting, compile_all, models, needed
from nets.net_bench import DEPTH_FIRST
from ops.kernel_bench import TARGETS

#: Every target with one language or two; what is large, with two targets only. The whole product
#: takes an hour.
PAIRS = (
    Setting("generic", "c99 clang"),
    Setting("sse2", "c++11 clang"),
    Setting("ssse3", "c99 gcc"),
    Setting("sse42", "c++17 g++"),
    Setting("avx2", "c99 clang"),
    Setting("avx512", "c++11 g++"),
    Setting("atom32", "c99 gcc"),
    Setting("neon32", "c++17 g++"),
    Setting("neon64", "c99 gcc"),
    Setting("cortex-m7", "c99 gcc"),
    Setting("cortex-m55", "c++17 g++"),
    Setting("riscv64v128", "c99 clang"),
    Setting("riscv64v256", "c++11 clang"),
)
LARGE = {
    "robot_detector": Setting("avx512", "c99 gcc"),
    "field_boundary": Setting("avx2", "c99 gcc"),
}
RANDOM = [f"random_{seed}" for seed in range(3)]


def label(setting: Setting) -> str:
    """Names a test."""
    return f"{setting.target} {setting.language}"


def check(folder: Path, names: Sequence[str], setting: Setting) -> None:
    """Compile networks; they may need nothing but what is listed above."""
    assert needed(compile_all(folder, names, setting)) <= MAY_NEED


@pytest.mark.parametrize("setting", PAIRS, ids=label)
def test_silent_and_self_contained(setting: Setting, tmp_path: Path) -> None:
    check(tmp_path, [*(name for name in models() if name not in LARGE), *RANDOM], setting)


@pytest.mark.parametrize("setting", [PAIRS[k] for k in (0, 3, 5, 9, 11)], ids=label)
def test_depth_first_is_silent(setting: Setting, tmp_path: Path) -> None:
    check(tmp_path, [DEPTH_FIRST], setting)


@pytest.mark.parametrize("name", LARGE)
def test_large_ones_are_silent(name: str, tmp_path: Path) -> None:
    if name not in models():
        pytest.skip(f"{name} is not here")
    check(tmp_path, [name], LARGE[name])


@pytest.mark.parametrize("target", TARGETS)
def test_self_contained_without_optimisation(target: str, tmp_path: Path) -> None:
    language = "c99 clang" if find_target(target).clang else "c99 gcc"
    check(tmp_path, ["ball", RANDOM[0]], Setting(target, language, "-O0"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", [Setting(*both) for both in product((*TARGETS, "cortex-m7"), LANGUAGES)], ids=label
)
def test_every_pair(setting: Setting, tmp_path: Path) -> None:
    if find_target(setting.target).clang and "clang" not in setting.language:
        pytest.skip("the target needs clang")
    check(tmp_path, [*models(), *(f"random_{seed}" for seed in range(20))], setting)
