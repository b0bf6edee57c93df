"""The charts of a report, in plotly.js's form: data and layout in JSON.

Plotly treats some tags in its texts as markup, so names are escaped for it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from cannery.measure.intervals import Interval
from cannery.reporting.comparison import Row
from cannery.reporting.facts import Facts, Layer
from cannery.reporting.measuring import Measured
from cannery.reporting.roofline import intensity, layer_roof
from cannery.reporting.tried import TriedByLayer

#: A chart: `data` and `layout`.
Figure = dict[str, Any]

_BLUE, _ORANGE, _GREEN, _GREY = "#3b6ea8", "#d9822b", "#4c956c", "#8a8f98"
_FONT = {"family": "system-ui, sans-serif", "size": 12}
#: Most layers that are numbered on an axis.
_TICKS = 30
#: Pixels of a bar, and of the space around all of them.
_BAR, _AROUND = 24, 110
_LONGEST = 40


def _title(layer: Layer) -> str:
    return _label(layer.title)


def _label(words: str) -> str:
    """A name on an axis, cut at its end: it begins with the number of the layer."""
    short = words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
    return escape(short)


def _hover(layer: Layer, *more: str) -> str:
    words = (layer.title, layer.kind, ", ".join(layer.shapes), layer.schedule, *more)
    return "<br>".join(escape(text) for text in words if text)


def _bars(count: int, title: str, **more: Any) -> dict[str, Any]:
    """The layout of horizontal bars, the first on top."""
    return {
        "font": _FONT, "height": _AROUND + _BAR * max(count, 1), "barmode": "overlay",
        "margin": {"l": 20, "r": 20, "t": 40, "b": 50}, "hoverlabel": {"align": "left"},
        "xaxis": {"title": {"text": title}, "rangemode": "tozero", "zeroline": False},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom"}, **more,
    }  # fmt: skip


def _errors(times: Sequence[Interval]) -> dict[str, Any]:
    """Error bars from intervals."""
    return {
        "type": "data", "symmetric": False, "color": "#333", "thickness": 1, "width": 3,
        "array": [t.high - t.mid for t in times], "arrayminus": [t.mid - t.low for t in times],
    }  # fmt: skip


def time_figure(facts: Facts, measured: Measured) -> Figure | None:
    """Time by layer, and the least that it could take; None if nothing was timed."""
    rows = [(layer, measured.layer_time(layer.number)) for layer in facts.layers]
    timed = [(layer, time) for layer, time in rows if time is not None]
    if not timed:
        return None
    roofs = [layer_roof(facts, measured, layer) for layer, _ in timed]
    names = [_title(layer) for layer, _ in timed]
    bars = {
        "type": "bar", "orientation": "h", "name": "measured", "marker": {"color": _BLUE},
        "y": names, "x": [time.mid for _, time in timed], "hoverinfo": "text",
        "hovertext": [_hover(layer, f"{time} us") for layer, time in timed],
        "error_x": _errors([time for _, time in timed]),
    }  # fmt: skip
    marks = {
        "type": "scatter", "mode": "markers", "name": "roofline of the direct form",
        "y": names, "x": [roof.us if roof else None for roof in roofs], "hoverinfo": "text",
        "hovertext": [
            escape(f"{roof.us:.3g} us, limited by {roof.limit}") if roof else "" for roof in roofs
        ],
        "marker": {"symbol": "line-ns", "size": 15, "line": {"width": 3, "color": _ORANGE}},
    }  # fmt: skip
    return {"data": [bars, marks], "layout": _bars(len(timed), "microseconds")}


def roofline_figure(facts: Facts, measured: Measured) -> Figure | None:
    """Operations per second over operations per byte, under the roofs; None if none are known."""
    points = []
    for layer in facts.layers:
        time, x = measured.layer_time(layer.number), intensity(layer)
        if time and time.mid and x:
            points.append((layer, x, 2e-3 * layer.macs / time.mid, time.mid))
    if not points or not measured.bandwidths or not measured.peak_gflops:
        return None
    most = max(us for *_, us in points)
    dots = {
        "type": "scatter", "mode": "markers", "name": "layers", "hoverinfo": "text",
        "x": [x for _, x, _, _ in points], "y": [y for _, _, y, _ in points],
        "hovertext": [_hover(layer, f"{y:.3g} GFLOP/s") for layer, _, y, _ in points],
        "marker": {
            "color": _BLUE, "opacity": 0.8,
            "size": [8 + 22 * (us / most) ** 0.5 for *_, us in points],
        },
    }  # fmt: skip
    ends = min(x for _, x, _, _ in points) / 2, max(x for _, x, _, _ in points) * 2
    axis = {"type": "log", "automargin": True, "dtick": 1, "minor": {"dtick": "D1"}}
    layout = {
        "font": _FONT, "height": 480, "margin": {"l": 20, "r": 20, "t": 30, "b": 50},
        "xaxis": {**axis, "title": {"text": "operations per byte of weights and values"}},
        "yaxis": {**axis, "title": {"text": "GFLOP/s"}}, "hoverlabel": {"align": "left"},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom"},
    }  # fmt: skip
    return {"data": [*_roof_lines(measured, ends), dots], "layout": layout}


def _roof_lines(measured: Measured, ends: tuple[float, float]) -> list[dict[str, Any]]:
    """The roofs of the smallest memory, of the largest, and of one in between."""
    levels = measured.bandwidths
    shown = (levels[0], levels[len(levels) // 2], levels[-1])
    steps = [ends[0] * (ends[1] / ends[0]) ** (k / 40) for k in range(41)]
    return [
        {
            "type": "scatter", "mode": "lines", "hoverinfo": "name", "line": {"width": width},
            "name": f"{byte_text(level.bytes)}: {level.gb_per_s:.3g} GB/s", "x": steps,
            "y": [min(measured.peak_gflops, x * level.gb_per_s) for x in steps],
        }
        for level, width in zip(shown, (2, 1.5, 1), strict=True)
    ]  # fmt: skip


def byte_text(count: int) -> str:
    """A number of bytes for people."""
    for unit, power in (("MB", 20), ("KB", 10)):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count} B"


def tried_figure(facts: Facts, tried: TriedByLayer) -> Figure | None:
    """The times of candidates by layer; None if there are none."""
    groups: dict[bool, list[tuple[Layer, float, str]]] = {False: [], True: []}
    for layer in facts.layers:
        for one in tried.get(layer.number, ()):
            if one.us is not None:
                told = f"{one.us:.3g} us" + (", estimated" if one.estimated else "")
                error = "" if one.error is None else f"error {one.error:.2g}"
                words = "<br>".join(
                    escape(text) for text in (one.schedule, told, error, one.fault) if text
                )
                groups[one.chosen].append((layer, one.us, words))
    if not any(groups.values()):
        return None
    looks = {
        False: ("tried", {"color": _GREY, "size": 8, "opacity": 0.7}),
        True: ("chosen", {"color": _ORANGE, "size": 12, "symbol": "diamond"}),
    }
    data = [
        {
            "type": "scatter", "mode": "markers", "name": looks[chosen][0], "hoverinfo": "text",
            "y": [_title(layer) for layer, _, _ in group], "x": [us for _, us, _ in group],
            "hovertext": [words for *_, words in group], "marker": looks[chosen][1],
        }
        for chosen, group in groups.items() if group
    ]  # fmt: skip
    count = sum(1 for layer in facts.layers if tried.get(layer.number))
    layout = _bars(count, "microseconds, each candidate alone")
    shown = {_title(layer) for group in groups.values() for layer, _, _ in group}
    layout["yaxis"] |= {
        "categoryorder": "array",
        "categoryarray": [_title(layer) for layer in facts.layers if _title(layer) in shown],
    }
    return {"data": data, "layout": layout}


def memory_figure(facts: Facts) -> Figure | None:
    """The contents of the workspace while the layers run; None if it is empty."""
    if not facts.blocks:
        return None
    kinds = (
        ("values", _BLUE, [b for b in facts.blocks if not (b.pinned or b.scratch)]),
        ("values whose border stays zero", _GREEN, [b for b in facts.blocks if b.pinned]),
        ("scratch", _ORANGE, [b for b in facts.blocks if b.scratch]),
    )
    data: list[dict[str, Any]] = [
        {
            "type": "bar", "name": name, "hoverinfo": "text",
            "x": [(b.first + b.last) / 2 for b in blocks],
            "width": [b.last - b.first + 0.96 for b in blocks],
            "base": [b.offset for b in blocks], "y": [b.bytes for b in blocks],
            "hovertext": [
                "<br>".join(map(escape, (
                    b.name, f"{byte_text(b.bytes)} at {b.offset}",
                    f"in use from layer {b.first} to {b.last}",
                )))
                for b in blocks
            ],
            "marker": {"color": colour, "opacity": 0.75, "line": {"color": "white", "width": 1}},
        }
        for name, colour, blocks in kinds if blocks
    ]  # fmt: skip
    steps = [layer.number for layer in facts.layers]
    data.append({
        "type": "scatter", "mode": "lines", "name": "in use", "x": steps, "y": facts.alive,
        "line": {"shape": "hvh", "color": "#222", "width": 1.5}, "hoverinfo": "y+name",
    })  # fmt: skip
    layout = {
        "font": _FONT, "height": 460, "barmode": "overlay", "hovermode": "closest",
        "margin": {"l": 20, "r": 20, "t": 40, "b": 50}, "hoverlabel": {"align": "left"},
        "xaxis": {
            "title": {"text": "layer"}, "range": [-0.6, len(steps) - 0.4], "tick0": 0,
            "dtick": -(-len(steps) // _TICKS),
        },
        "yaxis": {"title": {"text": "bytes of the workspace"}, "automargin": True},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom"},
        "shapes": [{
            "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": facts.lower_bound,
            "y1": facts.lower_bound, "line": {"dash": "dash", "color": "#a33", "width": 1.5},
        }],
        "annotations": [{
            "xref": "paper", "x": 1, "y": facts.lower_bound, "yanchor": "bottom",
            "xanchor": "right", "showarrow": False, "font": {"color": "#a33"},
            "text": f"lower bound: {byte_text(facts.lower_bound)}",
        }],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def size_figure(facts: Facts, measured: Measured) -> Figure | None:
    """Bytes of weights and of code by layer; None if there are no layers with code."""
    layers = [layer for layer in facts.layers if layer.computes]
    if not layers:
        return None
    names = [_title(layer) for layer in layers]
    kinds = (
        ("weights", _BLUE, [layer.weight_bytes for layer in layers]),
        ("code", _ORANGE, [measured.code_bytes[layer.number] or 0 for layer in layers]),
    )
    data = [
        {
            "type": "bar", "orientation": "h", "name": name, "y": names, "x": sizes,
            "marker": {"color": colour}, "hoverinfo": "text",
            "hovertext": [
                _hover(layer, f"{size:,} bytes of {name}")
                for layer, size in zip(layers, sizes, strict=True)
            ],
        }
        for name, colour, sizes in kinds
    ]  # fmt: skip
    return {"data": data, "layout": {**_bars(len(layers), "bytes"), "barmode": "stack"}}


def comparison_figure(rows: Sequence[Row], names: tuple[str, str]) -> Figure | None:
    """The times of two networks, layer by layer; None if nothing was timed."""
    shown = [row for row in rows if row.times[0] or row.times[1]]
    if not shown:
        return None
    labels = [_label(f"{k}: {row.title}") for k, row in enumerate(shown)]
    data = []
    for side, (name, colour) in enumerate(zip(names, (_BLUE, _ORANGE), strict=True)):
        pairs = [(y, row.times[side]) for y, row in zip(labels, shown, strict=True)]
        timed = [(y, time) for y, time in pairs if time is not None]
        data.append({
            "type": "bar", "orientation": "h", "name": escape(name), "marker": {"color": colour},
            "y": [y for y, _ in timed], "x": [time.mid for _, time in timed],
            "error_x": _errors([time for _, time in timed]), "hoverinfo": "text",
            "hovertext": [escape(f"{time} us") for _, time in timed],
        })  # fmt: skip
    layout = {**_bars(2 * len(shown), "microseconds"), "barmode": "group"}
    layout["yaxis"] |= {"categoryorder": "array", "categoryarray": labels}
    return {"data": data, "layout": layout}
