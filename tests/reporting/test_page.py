"""The page of a report: whole, without a network, and safe from the names in a model."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from browser import open_page
from cannery.errors import ToolchainError
from cannery.execution.numbers import Numbers
from cannery.ir.graph import FloatLayer
from cannery.ops.quantized.sums import SumBound
from cannery.reporting import page
from cannery.reporting.comparison import Limits, compare
from cannery.reporting.facts import Facts
from cannery.reporting.page import Side, render_page
from cannery.reporting.picture import network_picture
from cannery.reporting.plotly_bundle import plotly_text
from cannery.reporting.sheet import sheet
from reporting.examples import EVIL, certain, facts, measured, tried

_FIGURES = ("times", "roofline", "tried", "memory", "sizes")


class Reader(HTMLParser):
    """The elements of a page with their attributes, and the texts of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.within = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.within = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.within = ""

    def handle_data(self, data: str) -> None:
        if self.within == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        else:
            self.text += data


def side(letter: str, net: Facts, *, timed: bool = True) -> Side:
    """A network of a report."""
    title = EVIL[0] if net.notes else "net.h5"
    return Side(letter, title, net, measured(net, timed=timed), tried(net) if timed else {})


def both(one: Facts, other: Facts) -> str:
    """The page of two networks."""
    sides = [side("A", one), side("B", other)]
    y = [{EVIL[0]: np.ones(3, np.float32)}]
    found = compare(
        (one, other), (sides[0].measured, sides[1].measured), (y, y), Limits(0.03, 0.0, 0.1)
    )
    return render_page(sides, found)


@pytest.fixture
def no_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short script in place of plotly's."""
    monkeypatch.setattr(page, "plotly_text", lambda: "var Plotly = {};")


@pytest.mark.usefixtures("no_plotly")
def test_everything_has_its_place() -> None:
    net = facts()
    found = Reader(render_page([side("A", net)]))
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a["href"] for tag, a in found.elements if tag == "a"}
    assert links and {href.removeprefix("#") for href in links if href} <= {*ids}
    assert {f"A-{layer.number}" for layer in net.layers} <= {*ids}
    places = [a["data-figure"] for _, a in found.elements if "data-figure" in a]
    assert places == [f"figure-A-{name}" for name in _FIGURES]
    assert {*places} <= {*ids}


@pytest.mark.usefixtures("no_plotly")
def test_guarantees_are_shown_where_there_are_any() -> None:
    plain = Reader(render_page([side("A", facts())]))
    assert "A-guarantees" not in {a.get("id") for _, a in plain.elements}
    shown = replace(side("A", facts()), guarantees=certain(EVIL[0]))
    found = Reader(render_page([shown]))
    assert {"A-guarantees"} <= {a.get("id") for _, a in found.elements}
    assert "#A-guarantees" in {a["href"] for tag, a in found.elements if tag == "a"}
    for text in (
        "net_run_in",
        "12,345",
        "4,321",
        "0x20",
        EVIL[0],
        "All loops",
        "1,024",
        "no table",
    ):
        assert text in found.text
    assert "1024 bytes of stack, the bound is 96" in found.text, "what contradicts a bound"
    assert shown.as_dict()["guarantees"]["flash"] == 3000
    assert shown.as_dict()["sources"]["guarantees"] == "exact"
    assert "guarantees" not in side("A", facts()).as_dict()["sources"]


@pytest.mark.parametrize(("number", "text"), [(1, "1 layer of"), (2, "2 layers of")])
def test_layers_are_counted_in_english(number: int, text: str) -> None:
    sums = (SumBound("conv", 99),) * number
    floats = (FloatLayer("soft", "why", differs=True),) * number
    numbers = Numbers(sums, floats, (-1.0, 1.0), (), ())
    rows = sheet(replace(certain(""), numbers=numbers))[-1].rows
    assert [row[2] for row in rows] == [
        f"of 2,147,483,647, in {text} integer products", f"not those of {text} floats"
    ]  # fmt: skip


@pytest.mark.usefixtures("no_plotly")
def test_charts_show_the_figures() -> None:
    net = facts()
    scripts = Reader(render_page([side("A", net)])).scripts
    charts = {a["id"]: json.loads(text) for a, text in scripts if a.get("id")}
    times, marks = charts["figure-A-times"]["data"]
    assert times["x"] == [measured(net).layer_time(k).mid for k in range(len(net.layers))]  # type: ignore[union-attr]
    assert len(marks["x"]) == len(times["x"]) == len(times["error_x"]["array"])
    sizes = {data["name"]: sum(data["x"]) for data in charts["figure-A-sizes"]["data"]}
    assert sizes == {"weights": net.weight_bytes, "code": 100 * len(net.layers)}
    memory = [data for data in charts["figure-A-memory"]["data"] if data["type"] == "bar"]
    tops = [b + y for data in memory for b, y in zip(data["base"], data["y"], strict=True)]
    assert sum(map(len, (data["y"] for data in memory))) == len(net.blocks)
    assert max(tops) <= net.workspace_bytes


def test_every_edge_leads_from_box_to_box() -> None:
    """Down from the middle of what is above to the middle of what is below, in one line."""
    net = facts()
    elements = Reader(network_picture(net, measured(net), "A")).elements
    moved = [a["transform"] for _, a in elements if "transform" in a]
    corners = {tuple(map(int, re.findall(r"\d+", str(each)))) for each in moved}
    (box, *_) = (a for tag, a in elements if tag == "rect")
    wide, high = int(box["width"] or 0), int(box["height"] or 0)
    paths = [str(a["d"]) for _, a in elements if a.get("class") == "edge"]
    assert len(paths) == len(net.edges) > 0
    for path in paths:
        assert re.fullmatch(r"M\S+ \S+ (C\S+ \S+ \S+ \S+ \S+ \S+ (L\S+ \S+ )?)*", f"{path} ")
        numbers = [float(n) for n in re.findall(r"[-\d.]+", path)]
        assert (numbers[0] - wide / 2, numbers[1] - high) in corners
        assert (numbers[-2] - wide / 2, numbers[-1]) in corners
        assert numbers[1] < numbers[-1]


@pytest.mark.usefixtures("no_plotly")
def test_an_emulator_has_no_times() -> None:
    found = Reader(render_page([side("A", facts(), timed=False)]))
    places = [a["data-figure"] for _, a in found.elements if "data-figure" in a]
    assert places == ["figure-A-memory", "figure-A-sizes"]
    assert "its times mean nothing" in found.text


@pytest.mark.usefixtures("no_plotly")
def test_only_its_own_scripts_may_run() -> None:
    found = Reader(render_page([side("A", facts())]))
    (policy,) = [a["content"] for tag, a in found.elements if "http-equiv" in a]
    assert policy and "default-src 'none'" in policy
    running = [text for a, text in found.scripts if "type" not in a]
    hashes = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in running]
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes and len(hashes) == 2
    assert "unsafe" not in policy.partition("script-src")[2].partition(";")[0]


@pytest.mark.usefixtures("no_plotly")
@pytest.mark.parametrize("two", [False, True])
def test_names_become_nothing_but_text(two: bool) -> None:
    plain, evil = facts(), facts(evil=True)
    pages = [both(net, net) if two else render_page([side("A", net)]) for net in (plain, evil)]
    good, bad = map(Reader, pages)
    # The same elements, except for the notes; none has an attribute that runs something.
    kinds = [[tag for tag, _ in found.elements if tag not in ("p", "br")] for found in (good, bad)]
    assert kinds[0] == kinds[1]
    assert not [name for _, a in bad.elements for name in a if name.startswith("on")]
    hrefs = [a.get("href") or "#" for _, a in bad.elements]
    assert all(href.startswith("#") for href in hrefs)
    for text in EVIL:
        assert text not in pages[1] and text in bad.text
    charts = [json.loads(text) for a, text in bad.scripts if "type" in a]
    assert charts and not re.search(r"<(?!br>)", json.dumps(charts))


def test_without_plotly_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ToolchainError, match=r"pip install 'cannery\[report\]'"):
        plotly_text()


@pytest.mark.parametrize("evil", [False, True])
def test_in_a_browser(tmp_path: Path, evil: bool) -> None:
    pytest.importorskip("plotly")
    path = tmp_path / "report.html"
    net = facts(evil=evil)
    path.write_text(both(net, net), encoding="utf-8")
    seen = open_page(path)
    assert seen.console == []
    drawn = re.findall(r'<div class="figure[^"]*js-plotly-plot"', seen.html)
    assert len(drawn) == 2 * len(_FIGURES) + 1
    assert re.search(r"<title>(.*?)</title>", seen.html, re.DOTALL)[1] != "evil"  # type: ignore[index]
    assert seen.html.count('class="barlayer mlayer"') > len(_FIGURES)
