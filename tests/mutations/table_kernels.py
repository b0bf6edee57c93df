"""Changes of operators, their references, schedules and templates, and of the runtime headers.

Kernels are judged by `test_kernels.py`, of which only the changed schedule runs.
"""

from __future__ import annotations

from mutations.change import Change, kernels, rows

_OPS = "generator/cannery/ops"
_RUNTIME = "runtime/include/cannery"
_REFERENCE = ("tests/ops/test_reference.py", "tests/ops/test_infer.py")

_softmax = rows(f"{_OPS}/softmax/row.c.j2", kernels("softmax.row", "generic", "avx2"))
_across = rows(f"{_OPS}/softmax/across.c.j2", kernels("softmax.across", "generic", "avx2"))
_direct_oc = rows(f"{_OPS}/conv/direct_oc.c.j2", kernels("conv.direct_oc", "generic", "avx2"))
_gemm = rows(f"{_OPS}/conv/gemm.c.j2", kernels("conv.gemm", "generic", "avx2"))
_pool_c = rows(f"{_OPS}/shared/pool_c.c.j2",
               kernels("max_pool.direct_c", "generic", "avx2"),
               kernels("average_pool.direct_c", "generic", "avx2"))  # fmt: skip
_gates = rows(f"{_OPS}/recurrent/gates.c.j2", kernels("recurrent.gates", "generic", "avx2"))
_finish = rows(f"{_OPS}/quantized/finish.py",
               kernels("quantized.matmul_n", "generic", "ssse3", "avx2", "avx512"))  # fmt: skip
_table = rows(f"{_OPS}/quantized/table.py", "tests/quantization/test_table.py")
_lanes = rows(f"{_OPS}/shared/lanes.py", "tests/ops/test_cover.py",
              kernels("softmax.row", "avx2"))  # fmt: skip
_cover = rows(f"{_OPS}/shared/cover.py", "tests/ops/test_cover.py")
_geometry = rows(f"{_OPS}/conv/geometry.py", kernels("conv.direct_oc", "generic", "avx2"))
_view = rows(f"{_OPS}/concat/view.py", "tests/lowering/test_programs.py",
             "tests/passes/test_passes.py")  # fmt: skip
_stacked = rows(f"{_OPS}/movement/view.c.j2", "tests/emit/test_view.py")
_math = rows(f"{_RUNTIME}/vec_math_body.h", "tests/runtime/test_vec_math.py")
_avx = rows(f"{_RUNTIME}/vec_x86_256.h", "tests/runtime/test_vec.py")
_ctc = rows(f"{_RUNTIME}/ctc.h", "tests/runtime/test_ctc.py")
_parallel = rows(f"{_RUNTIME}/parallel.h", "tests/emit/test_parallel.py")
_pool = rows(f"{_RUNTIME}/pthread_pool.h", "tests/emit/test_parallel.py",
             "tests/nets/test_parallel.py")  # fmt: skip
_scalar = rows(f"{_RUNTIME}/scalar_math.h", "tests/ops/test_elementwise_c.py",
               kernels("scalar.nest", "generic", "ssse3", "avx2", "avx512"))  # fmt: skip

CHANGES: tuple[Change, ...] = (
    _softmax(
        "softmax.row subtracts no maximum where it keeps values",
        "_sub(v{{ loop.index0 }}, top);",
        "_add(v{{ loop.index0 }}, {{ t }}_zero());",
    ),
    _softmax(
        "softmax.row subtracts no maximum in its loop",
        "_load(xr + i{{ offset(c * lanes) }}), top);\n        const {{ t }} e{{ c }}",
        "_load(xr + i{{ offset(c * lanes) }}), {{ t }}_zero());\n        const {{ t }} e{{ c }}",
    ),
    _softmax(
        "softmax.row leaves out rests of the sum",
        "s{{ loop.index0 % chains }} = {{ t }}_add(s{{ loop.index0 % chains }}, e);",
        "(void)e;",
    ),
    _direct_oc(
        "conv.direct_oc takes the stride for the dilation",
        "xp + kh * {{ s.dh * x.row }};",
        "xp + kh * {{ s.sh * x.row }};",
    ),
    _gemm(
        "conv.gemm wraps rows too late", "if (++gx == {{ s.ow }}) {", "if (gx++ == {{ s.ow }}) {"
    ),
    _pool_c(
        "pools divide by windows that are whole",
        "(float)((k1 - k0) * (j1 - j0))",
        "(float)((k1 - k0) * ({{ s.cols.taps }} - j0))",
    ),
    _gates(
        "the LSTM adds its input before the forget gate",
        "next{{ j }} = {{ v.t }}_fma(f{{ j }}, last{{ j }}, {{ v.t }}_mul(i{{ j }}, g{{ j }}));",
        "next{{ j }} = {{ v.t }}_mul(f{{ j }}, {{ v.t }}_fma(i{{ j }}, g{{ j }}, last{{ j }}));",
    ),
    _finish(
        "clipping does not look at the sign of a gain",
        "return above and (self.gain is None or self.gain > 0.0)",
        "return above",
    ),
    _finish(
        "clips from below zero count as positive", "last.minimum >= 0.0)", "last.maximum >= 0.0)"
    ),
    _finish(
        "sums that begin with something count as small",
        "np.abs(first) + largest_sums(w, largest_of(x))",
        "largest_sums(w, largest_of(x))",
    ),
    _table(
        "tables end before functions are flat", "if r >= reach), 0.0)", "if 2 * r >= reach), 0.0)"
    ),
    _table(
        "tables saturate one step late", "np.float32(self.middle - 1)", "np.float32(self.middle)"
    ),
    _cover("covers leave a rest", "full, left = full + 1, 0", "left = 0"),
    _geometry(
        "what steps over pixels is pointwise",
        " and (self.sh, self.sw) == (1, 1)",
        "",
        equivalent="an axis that keeps its length under a stride has one element",
    ),
    Change(
        "a depthwise reference repeats its channels in turns",
        f"{_OPS}/conv/op.py",
        "np.repeat(x, oc // self.group, axis=-1)",
        "np.tile(x, oc // self.group)",
        _REFERENCE,
    ),
    Change(
        "averages count padding that they should not",
        f"{_OPS}/average_pool/op.py",
        "if self.count_include_pad:\n            return (total",
        "if any(map(any, self.pads)):\n            return (total",
        _REFERENCE,
    ),
    Change(
        "taps beyond the image count as inside",
        f"{_OPS}/shared/window_axis.py",
        "(near + self.size - 1) // self.dilation + 1)",
        "(near + self.size) // self.dilation + 1)",
        (kernels("*_pool.*", "generic"), "tests/ops/test_infer.py"),
    ),
    Change(
        "panels of the rest begin at the front",
        f"{_OPS}/conv/panels.py",
        "blocks.append(PanelBlock(rest, full * c, full * self.k * self.row(c), 1))",
        "blocks.append(PanelBlock(rest, full * c, full * self.k * c, 1))",
        (kernels("conv.winograd_planar*", "neon64"), kernels("conv.direct_px", "neon64", "sse2")),
    ),
    Change(
        "Less says less or equal",
        f"{_OPS}/logic/compare.py",
        'sign: ClassVar[str] = "<"\n',
        'sign: ClassVar[str] = "<="\n',
        ("tests/ops/test_scalar.py", kernels("scalar.nest", "generic", "ssse3", "avx2", "avx512")),
    ),
    _math(
        "exp rounds to halves",
        "(-2.12194440e-4f), r);\n    *k =",
        "(-2.12194440e-5f), r);\n    *k =",
    ),
    _math(
        "GELU far below 0 forgets the lower half of a square",
        "g = CANNERY_F(fnma)(low, CANNERY_F(add)(a, high), g);\n",
        "",
    ),
    _math(
        "expm1 loses the sign of zero", "return CANNERY_F(copysign)(y, x); /* -0 */", "return y;"
    ),
    _ctc(
        "repeated labels count twice",
        "return *last == blank || *last == before ? -1 : *last;",
        "return *last == blank ? -1 : *last;",
    ),
    _ctc("labels beyond the room are written", "if (count < room) {", "if (count <= room) {"),
    _pool("pieces run twice", "        if (seen & piece) {", "        if (piece) {"),
    _scalar(
        "logarithms of large mantissas miss a half",
        "        k += 1;\n    }\n    s = (m - 1.0)",
        "    }\n    s = (m - 1.0)",
    ),
)
