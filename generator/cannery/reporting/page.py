"""The report: one self-contained HTML file, which loads nothing from the network.

Names come from untrusted files. They are escaped as HTML, as JSON within HTML, and as plotly's
markup. In addition, the page has a policy that makes browsers run only its own two scripts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from cannery import __version__
from cannery.choose.ram import Curve
from cannery.execution.guarantees import Guarantees
from cannery.reporting.comparison import Comparison, change, plain_time
from cannery.reporting.facts import Facts, Layer
from cannery.reporting.figures import (
    Figure,
    byte_text,
    comparison_figure,
    memory_figure,
    roofline_figure,
    size_figure,
    time_figure,
    tried_figure,
)
from cannery.reporting.measuring import Measured
from cannery.reporting.picture import network_picture
from cannery.reporting.plotly_bundle import plotly_text
from cannery.reporting.ram_curve import curve_json, curve_table
from cannery.reporting.roofline import Roof, layer_roof
from cannery.reporting.sheet import loops, sheet, sheet_json
from cannery.reporting.sources import CURVE, GUARANTEES, Told, told
from cannery.reporting.tables import Table
from cannery.reporting.tried import TriedByLayer

#: The script that draws the charts when the page opens, and zooms into the networks.
_SCRIPT = """
for (const place of document.querySelectorAll(".figure")) {
  const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
  const config = { displaylogo: false, responsive: true, showLink: false };
  Plotly.newPlot(place, figure.data, figure.layout, config);
}
for (const slider of document.querySelectorAll(".zoom input")) {
  const picture = document.getElementById(slider.dataset.picture).querySelector("svg");
  const [width, height] = [picture.viewBox.baseVal.width, picture.viewBox.baseVal.height];
  slider.addEventListener("input", () => {
    picture.setAttribute("width", width * slider.value);
    picture.setAttribute("height", height * slider.value);
  });
}
"""


@dataclass(frozen=True)
class Side:
    """One network of a report: its letter, a name for people, and everything known about it.

    `guarantees` are None where the code is not that of a microcontroller, or nothing emulates it;
    `curve` is memory against estimated time, for microcontrollers.
    """

    letter: str
    title: str
    facts: Facts
    measured: Measured
    tried: TriedByLayer
    guarantees: Guarantees | None = None
    curve: Curve | None = None

    @property
    def ram(self) -> Table | None:
        """What less memory costs."""
        return curve_table(self.curve) if self.curve else None

    @property
    def sheet(self) -> tuple[Table, ...]:
        """The sheet of guarantees; empty if there is none."""
        return sheet(self.guarantees) if self.guarantees else ()

    @property
    def loops(self) -> Table:
        """How often loops run."""
        return loops(self.guarantees) if self.guarantees else Table((), ())

    @property
    def picture(self) -> Markup:
        """The network as SVG, with its text escaped."""
        return Markup(network_picture(self.facts, self.measured, self.letter))

    @property
    def told(self) -> Sequence[Told]:
        """Which figures are measured and which are estimated."""
        certain = () if self.guarantees is None else (GUARANTEES,)
        curve = () if self.curve is None else (CURVE,)
        return (*told(self.facts, self.measured, self.tried), *certain, *curve)

    def roof(self, layer: Layer) -> Roof | None:
        """The least time of a layer."""
        return layer_roof(self.facts, self.measured, layer)

    @property
    def figures(self) -> Mapping[str, Figure]:
        """The available charts, by name."""
        found = {
            "times": time_figure(self.facts, self.measured),
            "roofline": roofline_figure(self.facts, self.measured),
            "tried": tried_figure(self.facts, self.tried),
            "memory": memory_figure(self.facts),
            "sizes": size_figure(self.facts, self.measured),
        }
        return {name: figure for name, figure in found.items() if figure is not None}

    def as_dict(self) -> dict[str, Any]:
        """The figures for JSON."""
        facts, measured = self.facts, self.measured
        return {
            "model": self.title, "target": facts.target, "isa": facts.isa,
            "origin": measured.origin, "device": dict(measured.device) or None,
            "compiler": measured.compiler, "context": measured.context,
            "time_us": plain_time(measured.time), "peak_gflops": measured.peak_gflops,
            "bandwidths": [vars(level) for level in measured.bandwidths],
            "errors": dict(measured.errors), "max_error": measured.max_error,
            "macs": facts.macs, "weight_bytes": facts.weight_bytes, "code_bytes": measured.code,
            "workspace_bytes": facts.workspace_bytes, "workspace_lower_bound": facts.lower_bound,
            "sources": {row.what: row.how for row in self.told},
            "guarantees": sheet_json(self.guarantees) if self.guarantees else None,
            "ram_curve": curve_json(self.curve) if self.curve else None,
            "layers": [self._layer(layer) for layer in facts.layers],
        }  # fmt: skip

    def _layer(self, layer: Layer) -> dict[str, Any]:
        measured, roof = self.measured, self.roof(layer)
        check = measured.layer_checks.get(layer.number)
        return {
            "name": layer.name, "op": layer.kind, "nodes": list(layer.nodes),
            "shapes": list(layer.shapes), "schedule": layer.schedule, "origin": layer.origin,
            "reads": list(layer.reads), "writes": list(layer.writes), "macs": layer.macs,
            "time_us": plain_time(measured.layer_time(layer.number)),
            "roofline_us": roof.us if roof else None, "limited_by": roof.limit if roof else None,
            "error": check.error if check else None, "fault": check.fault if check else "",
            "weight_bytes": layer.weight_bytes, "code_bytes": measured.code_bytes[layer.number],
            "candidates": [vars(one) for one in self.tried.get(layer.number, ())],
        }  # fmt: skip


def render_page(sides: Sequence[Side], comparison: Comparison | None = None) -> str:
    """The page for one network, or for two with their differences."""
    figures: dict[str, Figure] = {
        f"{side.letter}-{name}": figure for side in sides for name, figure in side.figures.items()
    }
    if comparison is not None:
        titles = (f"A: {sides[0].title}", f"B: {sides[1].title}")
        both = comparison_figure(comparison.rows, titles)
        figures |= {"comparison": both} if both is not None else {}
    plotly = plotly_text()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
        f"script-src {_hash(plotly)} {_hash(_SCRIPT)}; base-uri 'none'; form-action 'none'"
    )
    return _environment().get_template("reporting/page.html.j2").render(
        sides=sides, comparison=comparison, version=__version__, policy=policy,
        figures={name: _data(figure) for name, figure in figures.items()},
        plotly=Markup(plotly), script=Markup(_SCRIPT),
    )  # fmt: skip


def _hash(script: str) -> str:
    """How a policy names a script that may run."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _data(figure: Figure) -> Markup:
    """JSON for use within a script element: nothing in it ends the element."""
    text = json.dumps(figure, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def _environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(Path(__file__).resolve().parent.parent)),
        undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    env.filters["bytes"] = byte_text
    env.filters["percent"] = _percent
    env.filters["number"] = _number
    env.globals["change"] = change
    return env


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:+.1%}"


def _number(value: Any) -> str:
    """Three digits, or more for whole numbers, or nothing."""
    if value is None:
        return ""
    return f"{value:,.0f}" if 1000 <= value < 1e12 else f"{value:.3g}"
