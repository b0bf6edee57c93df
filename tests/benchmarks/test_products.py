"""Products of small matrices, part of one zero: Cannery's code, oneDNN's program, their table."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from needs import need_program, need_toolchain
from rivals import products
from rivals.contest import Settings
from rivals.products import Product, as_products, compare_products
from rivals.results import Contest, Result

#: A library with the functions of oneDNN that the program calls. Its packed matrix is transposed,
#: and its product of packed matrices reads it so: who packs wrongly, or not, gets wrong numbers.
_FAKE = r"""
#include <stdint.h>
#include <stdlib.h>
typedef struct { int64_t sizes[2]; int order; } desc;
typedef struct { desc *d; float *place; } memory;
typedef struct { int reorder; desc *wanted; } operation;
typedef struct { int which; memory *memory; } argument;
static void product(int64_t m, int64_t n, int64_t k, const float *a, const float *b, int64_t row,
                    int64_t column, float *c)
{
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            c[i * n + j] = 0;
            for (int64_t l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * row + j * column];
        }
}
int dnnl_sgemm(char s, char t, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
               int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    if (s != 'N' || t != 'N' || alpha != 1 || beta != 0) return 1;
    if (lda != k || ldb != n || ldc != n) return 1;
    product(m, n, k, a, b, n, 1, c);
    return 0;
}
int dnnl_engine_create(void **out, int kind, size_t k) { *out = out; return kind != 1 || k; }
int dnnl_stream_create(void **out, void *e, unsigned flags) { *out = e; return flags != 1; }
int dnnl_stream_wait(void *s) { return !s; }
int dnnl_memory_desc_create_with_tag(desc **out, int n, const int64_t *sizes, int type, int order)
{
    *out = malloc(sizeof **out);
    **out = (desc){{sizes[0], sizes[1]}, order};
    return n != 2 || type != 3;
}
size_t dnnl_memory_desc_get_size(const desc *d) { return 4 * d->sizes[0] * d->sizes[1]; }
int dnnl_memory_create(memory **out, desc *d, void *e, void *place)
{
    *out = malloc(sizeof **out);
    **out = (memory){d, place};
    return !e;
}
static int operation_create(operation **out, int reorder, desc *wanted)
{
    *out = malloc(sizeof **out);
    **out = (operation){reorder, wanted};
    return 0;
}
int dnnl_matmul_primitive_desc_create(operation **out, void *e, desc *a, desc *b, void *bias,
                                      desc *c, void *more)
{
    return !e || bias || more || b->order != 1 || a->order != 3 || c->order != 3
        || operation_create(out, 0, b);
}
int dnnl_reorder_primitive_desc_create(operation **out, desc *from, void *e, desc *to, void *f,
                                       void *more)
{
    return !e || !f || more || from->order != 3 || operation_create(out, 1, to);
}
desc *dnnl_primitive_desc_query_md(operation *o, int what, int which)
{
    return what == 131 && !which ? o->wanted : NULL;
}
int dnnl_primitive_create(operation **out, operation *o) { *out = o; return 0; }
static memory *find(const argument *all, int count, int which)
{
    for (int i = 0; i < count; ++i) if (all[i].which == which) return all[i].memory;
    abort();
}
int dnnl_primitive_execute(operation *o, void *s, int count, const argument *all)
{
    const memory *a = find(all, count, 1), *c = find(all, count, 17);
    const int64_t *size = c->d->sizes;
    if (o->reorder) {
        for (int64_t i = 0; i < size[0]; ++i)
            for (int64_t j = 0; j < size[1]; ++j)
                c->place[j * size[0] + i] = a->place[i * size[1] + j];
        return 0;
    }
    const memory *b = find(all, count, 33);
    if (b->d != o->wanted) return 1;
    product(size[0], size[1], a->d->sizes[1], a->place, b->place, 1, b->d->sizes[0], c->place);
    return !s;
}
"""


def test_the_matrices_have_as_many_zeros_as_said() -> None:
    for zeros in (0.0, 0.5, 0.95):
        left, right = Product(8, zeros).matrices()
        assert np.count_nonzero(right == 0) == round(zeros * 64)
        assert np.count_nonzero(left) == 64


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """The program that calls oneDNN."""
    if not sys.platform.startswith("linux"):
        pytest.skip("opens an ELF library by its path")
    need_toolchain("native")
    need_program("ninja", "ninja-build")
    return products._build_driver(tmp_path / "driver")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """What stands for oneDNN's library."""
    compiler = shutil.which("gcc") or shutil.which("clang") or pytest.skip("needs gcc or clang")
    source, built = tmp_path / "fake.c", tmp_path / "libfake.so"
    source.write_text(_FAKE)
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", built], check=True)
    return built


@pytest.mark.parametrize("form", ["sgemm", "matmul"])
def test_the_rival_multiplies_what_it_is_given(
    form: str, driver: Path, library: Path, tmp_path: Path
) -> None:
    """Sizes that differ, so that no two of them can be exchanged."""
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((3, 5), np.float32), rng.standard_normal((5, 4), np.float32)
    (tmp_path / "in").write_bytes(left.tobytes() + right.tobytes())
    words = [driver, library, form, "3", "4", "5", tmp_path / "in", tmp_path / "out"]
    done = subprocess.run(words, input="3\n", capture_output=True, text=True, check=True)
    about, seconds = done.stdout.splitlines()
    assert about == '{"remark": "", "outputs": []}'
    assert float(seconds) > 0
    found = np.fromfile(tmp_path / "out", np.float32).reshape(3, 4)
    np.testing.assert_allclose(found, left @ right, rtol=1e-5, atol=1e-6)


def test_a_library_that_lacks_a_function(driver: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(8))
    words = [driver, "libm.so.6", "sgemm", "1", "1", "1", tmp_path / "in", tmp_path / "out"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "dnnl_sgemm" in done.stderr


def test_products_beside_a_rival(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx")
    need_toolchain("native")
    need_program("ninja", "ninja-build")
    monkeypatch.setattr(products, "_library", lambda: library)
    monkeypatch.setattr(products, "_version", lambda: "3")
    settings = Settings(rounds=5)
    (contest,) = compare_products(settings, tmp_path / "work", sizes=(5,), zeros=(0.5,))
    assert contest.network == "5x5x5, 50% zeros"
    assert contest.macs == 125
    assert [r.name for r in contest.results] == ["Cannery", "oneDNN sgemm", "oneDNN matmul"]
    assert all(r.error < 1e-6 and r.us > 0 for r in contest.results)
    assert 100 < contest.results[0].library < 20_000


def test_products_without_the_rival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    need_toolchain("native")
    need_program("ninja", "ninja-build")
    monkeypatch.setattr(products, "_library", lambda: None)
    (contest,) = compare_products(Settings(rounds=5), tmp_path, sizes=(4,), zeros=(0.0,))
    assert contest.absent == {"oneDNN": "not installed"}
    assert [r.name for r in contest.results] == ["Cannery"]


@pytest.mark.parametrize("words", [["ball"], ["--limit", "sse"], ["--threads", "2"]])
def test_what_has_no_meaning_for_products(words: list[str], tmp_path: Path) -> None:
    script = Path(products.__file__).parents[1] / "compare.py"
    command = [sys.executable, script, "--seed", "marlin", *words, "-o", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "has its own networks" in done.stderr
    assert not (tmp_path / "out").exists()


def test_table() -> None:
    ours = Result("Cannery", "1", "untuned", 1, 2.0, 0.0, 0.0, 500, 0, "avx2", 9.0)
    sgemm = Result("oneDNN sgemm", "1", "", 1, 8.0, 0.0, 0.0, 0, 0, rival="oneDNN")
    wrong = replace(sgemm, name="oneDNN matmul", us=1.0, error=0.5)
    both = [
        Contest("4x4x4, 0% zeros", 64, (ours, sgemm, wrong), {}),
        Contest("8x8x8, 0% zeros", 512, (ours, replace(sgemm, us=18.0)), {}),
        Contest("8x8x8, 50% zeros", 512, (ours,), {}),
    ]
    lines = as_products(both).splitlines()
    assert lines[2] == "| 4x4x4, 0% zeros | 2 (avx2; untuned) | 500 | 8 | - | 4.00 |"
    assert lines[4] == "| 8x8x8, 50% zeros | 2 (avx2; untuned) | 500 | - | - | - |"
    assert "geometric means: 0% zeros 6.00." in lines[6]
