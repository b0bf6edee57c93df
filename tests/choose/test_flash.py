"""MAX_FLASH: code and constants stay below a bound, as far as they can be estimated."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cannery.choose.defaults import Defaults, estimated_options
from cannery.choose.flash import FlashBound, code_bytes
from cannery.choose.plan import Plan, make_segments
from cannery.cli import invoke
from cannery.errors import CanneryWarning, OptionError, RecordError
from cannery.execution.sizes import library_sections
from cannery.ir.graph import Graph
from cannery.layouts import nhwc
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Relu
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.resources import ball_example_dir
from cannery.target.isa import Isa
from cannery.target.targets import find_target
from emit.test_sharing import repeating
from needs import need_toolchain
from ops.cases import Net
from quantization.networks import integers, write

BALL = ball_example_dir() / "ball.h5"
SAME = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
M4 = find_target("cortex-m4").isa

#: Sizes of kernels that any test has found, by the registers of the core.
SIZES: dict[int, dict[tuple[str, str], tuple[int, float]]] = {}


def two_kinds() -> Graph:
    """Two layers, neither like the other."""
    net = Net()
    x = net.input("x", (1, 9, 9, 3))
    x = net.node(Relu(), [net.node(SAME, [x, net.weight(3, 3, 3, 4), net.weight(4)])])
    return net.graph(net.node(SAME, [x, net.weight(3, 3, 4, 3), net.weight(3)]))


def defaults(graph: Graph, isa: Isa, **more: int | float | bool) -> Defaults:
    found = Defaults(graph, make_segments(graph), isa, nhwc.ORDER, 1e-4)
    known = SIZES.setdefault(isa.integer_registers, {})
    return replace(found, known_sizes=known, **more)  # type: ignore[arg-type]


def size(graph: Graph, isa: Isa, found: Plan) -> float:
    known = SIZES.setdefault(isa.integer_registers, {})
    return FlashBound(graph, make_segments(graph), isa, 1.0, known).flash(found)


def least(graph: Graph, isa: Isa) -> int:
    """What the error says."""
    with pytest.raises(OptionError, match="code and constants take at least") as caught:
        defaults(graph, isa, max_flash=1).plan()
    return int(re.findall(r"give (\d+)", str(caught.value))[0])


@pytest.mark.parametrize("target", ["cortex-m4", "riscv32imc"])
def test_the_bound_is_kept_and_the_least_is_enough(target: str) -> None:
    graph, isa = two_kinds(), find_target(target).isa
    free, bound = defaults(graph, isa).plan(), least(graph, isa)
    small = defaults(graph, isa, max_flash=bound).plan()
    assert size(graph, isa, small) <= bound < size(graph, isa, free)
    assert small.cost > free.cost
    between = round((bound + size(graph, isa, free)) / 2)
    middle = defaults(graph, isa, max_flash=between).plan()
    assert size(graph, isa, middle) <= between and free.cost <= middle.cost <= small.cost
    with pytest.raises(OptionError):
        defaults(graph, isa, max_flash=bound - 2).plan()


def test_a_wide_bound_changes_nothing_and_others_hold_too() -> None:
    graph = two_kinds()
    free = defaults(graph, M4).plan()
    assert defaults(graph, M4, max_flash=10**6).plan() == free
    both = defaults(graph, M4, max_flash=10**6, max_size=1.2).plan()
    assert both == defaults(graph, M4, max_size=1.2).plan()
    bound = least(graph, M4)
    assert defaults(graph, M4, max_flash=bound, max_ram=10**6).plan().cost > free.cost


def test_measured_choices_that_are_too_large_give_way() -> None:
    graph = two_kinds()
    known = dict(defaults(graph, M4).plan().picks)
    bound = least(graph, M4)
    with pytest.warns(
        CanneryWarning, match=f"what was tuned takes more than {bound} bytes of code"
    ):
        small = defaults(graph, M4, max_flash=bound).plan(known)
    assert size(graph, M4, small) <= bound
    with pytest.raises(RecordError, match="leave out --locked"):
        defaults(graph, M4, max_flash=bound, locked=True).plan(known)
    assert dict(defaults(graph, M4, max_flash=10**6).plan(known).picks) == known


def test_code_of_layers_of_one_kind_counts_once() -> None:
    """Of four such layers, three more take little beside their weights."""
    taken = []
    for count in (1, 4):
        net = Net()
        x = net.input("x", (1, 9, 9, 4))
        for _ in range(count):
            x = net.node(Relu(), [net.node(SAME, [x, net.weight(3, 3, 4, 4), net.weight(4)])])
        graph = net.graph(x)
        bound = FlashBound(graph, make_segments(graph), M4, 1.0)
        steps = make_segments(graph)[:count]
        choice = min(
            estimated_options(graph, steps[0].step, M4, inexact=False), key=lambda o: o.cost
        ).choice
        taken.append(bound.flash(Plan(0.0, tuple((k, choice) for k in range(count)))))
    constants = 4 * (9 * 4 * 4 + 4)
    assert taken[1] - taken[0] == pytest.approx(3 * (constants + 30), rel=0.15)


def test_more_text_is_more_code() -> None:
    one, two = "a += b * c;", "a += b * c;\nv = cannery_product_high(a, f[k]) + 1;"
    assert code_bytes(one, M4) < code_bytes(two, M4)
    assert code_bytes(f"/* {two} */ {one}", M4) == code_bytes(one, M4)
    soft = find_target("cortex-m0plus").isa
    assert code_bytes("v = f32x1_mul(a, b);", soft) > code_bytes("v = f32x1_mul(a, b);", M4)


def test_what_a_compiler_makes_of_it(tmp_path: Path) -> None:
    """Less than estimated, and less than without a bound."""
    toolchain = need_toolchain("cortex-m0plus")
    model, samples = write(tmp_path, repeating())
    raw = {"target": "cortex-m0plus", "name": "net", **integers(samples, "int8")}
    found = []
    with pytest.raises(OptionError) as caught:
        compile_model(make_options(model, {**raw, "max_flash": "1"}))
    bound = re.findall(r"give (\d+)", str(caught.value))[0]
    for k, options in enumerate((raw, {**raw, "max_flash": bound})):
        made = compile_model(make_options(model, options))
        (tmp_path / str(k)).mkdir()
        sections, _ = library_sections(tmp_path / str(k), made.source, made.files, toolchain)
        found.append(sections.code + sections.constants)
    assert found[1] < int(bound) < 2 * found[1] and found[1] < found[0]


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", str(BALL), "-o", str(tmp_path / "out"), "--max-flash"]
    assert invoke([*words, "9K", "--target", "sse2"]) == 2
    assert "it is of microcontrollers (take --max-size" in capsys.readouterr().err
    assert invoke([*words, "9", "--target", "cortex-m4"]) == 2
    assert "bytes, by estimate (give " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_size_says_whether_the_bound_holds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    need_toolchain("cortex-m4")
    words = ["size", str(BALL), "--target", "cortex-m4", "--max-flash"]
    assert invoke([*words, "60K"]) == 0
    monkeypatch.setattr("cannery.choose.flash.code_bytes", lambda *_: 0.0)
    monkeypatch.setattr("cannery.choose.flash._REST", 0)
    assert invoke([*words, "7K"]) == 1
    assert re.search(r"the flash is [\d,]+ bytes more than --max-flash", capsys.readouterr().err)
