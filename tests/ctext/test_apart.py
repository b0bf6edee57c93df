"""Long functions are cut where blocks follow each other, and compute what they did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.cli import invoke
from cannery.ctext.apart import pull_apart
from cannery.ctext.functions import longest_function
from cannery.ctext.tidy import tidy
from cannery.emit.source import Source
from cannery.ir.graph import GraphBuilder
from cannery.ops.conv.op import Conv
from cannery.options import MAX_LINES, make_options
from cannery.passes import run_passes
from cannery.pipeline import compile_graph
from frontends.keras_files import LayerSpec, Model, image, write_h5
from needs import need_program, need_toolchain

#: Sums of four inputs each, in a loop; `%s` stands in its last block.
LOOP = """\
static void net_sum(const float *CANNERY_RESTRICT x, float *CANNERY_RESTRICT y, int y0, int y1)
{
    for (int r = y0; r < y1; ++r) {
        const float *xp = x + r * 4;
        int k = 1;
        f32x1 a = f32x1_zero();
        f32x1 b = f32x1_zero();
        for (int n = 0; n < 1; ++n) {
            /* the first two */
            {
                const f32x1 v = f32x1_load(xp);
                a = f32x1_add(a, v);
            }
            {
                const f32x1 v = f32x1_load(xp + k);
                a = f32x1_add(a, v);
            }
            /* the others, { with a brace */
            {
                const f32x1 v = f32x1_load(xp + 2);
                b = f32x1_add(b, v);
            }
            {
                const f32x1 v = f32x1_load(xp + 3);
                b = f32x1_add(b, v);
                %s
            }
        }
        f32x1_store(y + r, f32x1_add(a, b));
    }
}
"""

CUT = """\
/* Part of net_sum. */
CANNERY_APART void net_sum_part0(int k, const float *xp, f32x1 *sums)
{
    f32x1 a = sums[0];
    f32x1 b = sums[1];
    {
        const f32x1 v = f32x1_load(xp);
        a = f32x1_add(a, v);
    }
    {
        const f32x1 v = f32x1_load(xp + k);
        a = f32x1_add(a, v);
    }
    sums[0] = a;
    sums[1] = b;
}
"""

PLACE = """\
        for (int n = 0; n < 1; ++n) {
            /* the first two */
            {
                f32x1 sums[2];
                sums[0] = a;
                sums[1] = b;
                net_sum_part0(k, xp, sums);
                net_sum_part1(k, xp, sums);
                a = sums[0];
                b = sums[1];
            }
        }
"""


def test_blocks_become_functions() -> None:
    code = tidy(LOOP % "")
    found = pull_apart(code, "net_sum", 18)
    assert found.startswith(CUT)
    assert PLACE in found
    assert found.count("CANNERY_APART") == 2
    assert longest_function(found) == 21, "what is left of the function itself"
    assert pull_apart(code, "net_sum", longest_function(code)) == code


@pytest.mark.parametrize(
    "line",
    [
        "xp += 1;",
        "k = 2;",
        "++k;",
        "b = f32x1_add(b, v); return;",
        "if (k) break;",
        "CANNERY_OPAQUE_PTR(xp);",
        "b = f32x1_add(b, elsewhere);",
        "f32x1 r = v; b = f32x1_add(b, r);",
        "use(&a);",
    ],
)
def test_what_does_more_than_sums_stays(line: str) -> None:
    """Pointers and counters that change, jumps, names from nowhere or twice, addresses."""
    code = tidy(LOOP % line)
    assert pull_apart(code, "net_sum", 18) == code


def test_constants_and_functions_of_the_kernel_may_be_used() -> None:
    code = tidy(LOOP % "b = f32x1_add(b, net_sum_more(net_sum_w + 1, 1.5e-3f));")
    assert "net_sum_part1(" in pull_apart(code, "net_sum", 18)


def strided(lines: int, isa: str = "generic") -> Source:
    """A convolution with stride 2, which is unrolled on the portable target, and its parts."""
    b = GraphBuilder("net")
    x = b.input("x", (1, 12, 12, 32))
    w = b.constant("w", np.random.default_rng(0).standard_normal((3, 3, 32, 64)) / 17)
    b.output(b.node(Conv((2, 2), ((1, 1), (1, 1)), (1, 1)), [x, w], name="conv"))
    raw = {"name": "net", "isa": isa, "max_lines": str(lines)}
    return compile_graph(run_passes(b.build()), make_options(Path("net.h5"), raw)).source


def code_of(source: Source) -> str:
    return "\n".join(call.kernel.code for call in source.calls)


def test_networks_have_functions_of_so_many_lines() -> None:
    whole = code_of(strided(10**6))
    assert longest_function(whole) > MAX_LINES
    assert "CANNERY_APART" not in whole
    assert longest_function(code_of(strided(MAX_LINES))) <= MAX_LINES
    assert longest_function(code_of(strided(800))) <= 800
    assert code_of(strided(longest_function(whole))) == whole
    assert code_of(strided(MAX_LINES, "avx2")) == code_of(strided(10**6, "avx2"))


def test_parts_compute_what_the_whole_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_program("ninja", "ninja-build")
    need_toolchain("generic")
    kernel = np.random.default_rng(0).standard_normal((3, 3, 8, 16)).astype(np.float32)
    config = {"filters": 16, "kernel_size": [3, 3], "strides": [2, 2], "padding": "same",
              "use_bias": False}  # fmt: skip
    layer = LayerSpec("Conv2D", "conv", ["x"], config, {"kernel": kernel})
    model = Model("net", [image("x", 6, 6, 8), layer], ["x"], ["conv"])
    path = write_h5(tmp_path / "net", model, "2.15.0")
    words = [str(path), "--isa", "generic", "--max-lines", "100"]
    assert invoke(["verify", *words]) == 0, capsys.readouterr().err
    assert invoke(["compile", *words, "-o", str(tmp_path)]) == 0
    assert (tmp_path / "net.c").read_text().count("CANNERY_APART void") > 5


def test_the_limit_is_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["compile", str(tmp_path / "net.h5"), "-o", ".", "--max-lines", "none"]) == 2
    assert "--max-lines: 'none' is not a whole number from 1" in capsys.readouterr().err
