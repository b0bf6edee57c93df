"""A measured network, as far as tests of reports need one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cannery.analysis.control import Condition, Depends
from cannery.emit.source import Source
from cannery.execution.flow import Flow, LoopCount
from cannery.execution.guarantees import Calls, Guarantees, Memory, StackBound
from cannery.execution.layers import LayerCheck
from cannery.execution.numbers import Numbers
from cannery.execution.program import Bandwidth
from cannery.measure.elf import SectionSizes
from cannery.passes import run_passes
from cannery.reporting.facts import Facts, network_facts
from cannery.reporting.measuring import ROUNDS, Measured
from cannery.reporting.tried import Tried, TriedByLayer
from cannery.target.isa import isa
from emit.c_programs import network
from nets.net_bench import make_net_source

#: What layers of a model file may be called: none of it may become a part of a page.
EVIL = (
    '</script><script>document.title="evil"</script>',
    "<img src=x onerror='document.title=\"evil\"'>",
    '<a href="javascript:alert(1)">"\'&amp;',
    "]]>--><svg onload=alert(1)>",
)


def source() -> Source:
    """A convolution, a pooling, a dense layer, as plain C."""
    return make_net_source(run_passes(network()), isa("generic"), "net")


def facts(*, evil: bool = False) -> Facts:
    """What its source says; `evil`: with names that nobody should trust."""
    found = network_facts(source())
    if not evil:
        return found
    names = [EVIL[k % len(EVIL)] for k in range(len(found.layers))]
    layers = tuple(
        replace(layer, name=name, nodes=(name, *layer.nodes[1:]), shapes=(name,))
        for layer, name in zip(found.layers, names, strict=True)
    )
    blocks = tuple(replace(block, name=EVIL[0]) for block in found.blocks)
    return replace(
        found, layers=layers, blocks=blocks, inputs=(f"{EVIL[0]}: float32[1]",), notes=EVIL
    )


def measured(net: Facts, scale: float = 1.0, *, timed: bool = True) -> Measured:
    """Layer k takes k + 1 us times `scale`, more by thousandths in each round."""
    count = len(net.layers)
    rounds = [scale * (1 + r / 1000) for r in range(ROUNDS)] if timed else []
    layers = [tuple((k + 1) * r for r in rounds) for k in range(count)]
    checks = {k: LayerCheck(x.name, x.schedule, 1e-7, "") for k, x in enumerate(net.layers)}
    return Measured(
        "device" if timed else "emulated", {"cpu": "Test </script> 1", "features": ["a", "b"]},
        "gcc 12", "-O2", "warm", tuple(sum(column) for column in zip(*layers, strict=True)),
        tuple(layers) if timed else (), 10.0 if timed else 0.0,
        (Bandwidth(8192, 100.0), Bandwidth(2**20, 50.0), Bandwidth(2**27, 5.0)) if timed else (),
        (100,) * count, {"scores": 1e-7}, 1e-4, checks,
    )  # fmt: skip


def tried(net: Facts, schedules: Sequence[str] = EVIL) -> TriedByLayer:
    """The choice of the first layer, and others."""
    others = (Tried(text, 2.0 + k, 1e-6, False, k == 0, text) for k, text in enumerate(schedules))
    return {0: (Tried(net.layers[0].schedule, 1.0, 0.0, True), *others)}


def certain(condition: str) -> Guarantees:
    """A sheet with a condition on data of this text, whose bound of the stack does not hold."""
    flow = Flow(
        {"data": 1}, (Condition("net_L00", "?", condition, Depends.DATA),), (12_345, 12_345), (),
        (LoopCount("net_L00", 0x20, 4321),), 12_400, (), None,
    )  # fmt: skip
    return Guarantees(
        (StackBound("net_run_in", 96, ("net_run_in", "net_L00"), 0, 1024),),
        Calls((), (), (), (), (), ()), Memory(SectionSizes(1000, 2000, 0, 0), 512, 0, 512, 0), flow,
        Numbers((), (), (-1.0, 1.0), (), ()),
    )  # fmt: skip
