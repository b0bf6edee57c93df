"""The network as a picture: SVG text, each layer a box with its choice and its time.

All text goes through `escape`: names come from an untrusted file.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cannery.reporting.facts import Facts, Layer
from cannery.reporting.measuring import Measured
from cannery.reporting.placing import Placed, place

_COLUMN, _ROW = 250, 96
_BOX_WIDTH, _BOX_HEIGHT = 226, 66
_MARGIN = 20
#: Characters that fit into a box.
_CHARACTERS = 31


def network_picture(facts: Facts, measured: Measured, side: str) -> str:
    """The SVG of a network; its boxes are links to the rows `side`-0, `side`-1 ... of a table."""
    count = len(facts.layers)
    nodes, links = _nodes(facts)
    placed = place(len(nodes), links)
    shares = _shares(facts, measured)
    parts = [_route(placed, link) for link in placed.routes]
    for number, words in enumerate(nodes):
        x, y = _corner(placed, number)
        if number < count:
            box = _layer_box(facts.layers[number], measured, shares[number])
            parts.append(f'<a href="#{side}-{number}" transform="translate({x},{y})">{box}</a>')
        else:
            parts.append(f'<g transform="translate({x},{y})">{_port_box(words)}</g>')
    wide = max((column for column, _ in placed.points.values()), default=0.0)
    deep = max((row for _, row in placed.points.values()), default=0)
    width = round(wide * _COLUMN) + _BOX_WIDTH + 2 * _MARGIN
    height = deep * _ROW + _BOX_HEIGHT + 2 * _MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg class="network" xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _nodes(facts: Facts) -> tuple[list[str], list[tuple[int, int]]]:
    """The text of each node, layers first, then inputs and outputs; and the links."""
    count, inputs = len(facts.layers), len(facts.inputs)
    nodes = [*(layer.title for layer in facts.layers), *facts.inputs, *facts.outputs]
    links = []
    for edge in facts.edges:
        source = edge.source if edge.source is not None else count + edge.port
        target = edge.target if edge.target is not None else count + inputs + edge.port
        links.append((source, target))
    return nodes, links


def _shares(facts: Facts, measured: Measured) -> list[float]:
    """The fraction of the time that each layer takes; zero if unknown."""
    times = [measured.layer_time(layer.number) for layer in facts.layers]
    total = sum(t.mid for t in times if t) or 1.0
    return [t.mid / total if t else 0.0 for t in times]


def _corner(placed: Placed, node: int) -> tuple[int, int]:
    column, row = placed.points[node]
    return _MARGIN + round(column * _COLUMN), _MARGIN + row * _ROW


def _route(placed: Placed, link: tuple[int, int]) -> str:
    """An edge: it leaves a box at the bottom, passes rows vertically, and enters the next from
    above.
    """
    points = placed.routes[link]
    middle = _MARGIN + _BOX_WIDTH / 2
    path = ""
    for k, (column, row) in enumerate(points):
        x, top = middle + column * _COLUMN, _MARGIN + row * _ROW
        bend = (_ROW - _BOX_HEIGHT) * 0.6
        if k:
            before = middle + points[k - 1][0] * _COLUMN
            from_y = top - _ROW + _BOX_HEIGHT
            path += f"C{before:.0f} {from_y + bend:.0f} {x:.0f} {top - bend:.0f} {x:.0f} {top} "
        if k < len(points) - 1:
            path += f"{'M' if not k else 'L'}{x:.0f} {top + _BOX_HEIGHT} "
    return f'<path class="edge" d="{path.strip()}"/>'


def _layer_box(layer: Layer, measured: Measured, share: float) -> str:
    time = measured.layer_time(layer.number)
    took = f"{time.mid:.3g} us, {share:.0%}" if time else ("" if layer.computes else "no code")
    shape = layer.shapes[0] if layer.shapes else ""
    order = layer.writes[0].split()[0] if layer.writes else ""
    lines = [
        ("name", layer.title),
        ("plain", f"{layer.kind}  {shape} {order}"),
        ("plain", layer.schedule.split("{")[0]),
        ("time", took),
    ]
    return _box(lines, _tip(layer, took), _colour(share))


def _tip(layer: Layer, took: str) -> str:
    """Everything for which a box has no room."""
    rows = [
        layer.title, f"computes {', '.join(layer.nodes)}", f"as {', '.join(layer.shapes)}",
        f"by {layer.schedule} ({layer.origin})",
        *(f"reads {text}" for text in layer.reads), *(f"writes {text}" for text in layer.writes),
        f"{layer.macs:,} MACs, {layer.weight_bytes:,} bytes of weights", took,
    ]  # fmt: skip
    return "\n".join(rows)


def _port_box(words: str) -> str:
    name, _, type_ = words.rpartition(": ")
    return _box([("name", name), ("plain", type_)], words, "#dfe8f5", round_=True)


def _box(lines: Sequence[tuple[str, str]], tip: str, colour: str, *, round_: bool = False) -> str:
    corner = 20 if round_ else 5
    shape = f'<rect width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="{corner}" fill="{colour}"/>'
    texts = "".join(
        f'<text class="{kind}" x="8" y="{15 + 15 * k}">{escape(_short(words))}</text>'
        for k, (kind, words) in enumerate(lines)
    )
    return f"<title>{escape(tip)}</title>{shape}{texts}"


def _short(words: str) -> str:
    """The words, cut in the middle if they do not fit."""
    if len(words) <= _CHARACTERS:
        return words
    half = (_CHARACTERS - 1) // 2
    return f"{words[:half]}…{words[-half:]}"


def _colour(share: float) -> str:
    """From white to orange, by the fraction of the time."""
    heat = min(share, 0.5) * 2
    return f"rgb(255,{round(250 - 100 * heat)},{round(245 - 200 * heat)})"
