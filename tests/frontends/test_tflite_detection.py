"""Detectors in TensorFlow Lite: suppression of boxes, and what follows networks of the SSD kind."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from numpy.typing import NDArray

import cannery
from cannery.errors import UnsupportedError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from frontends.tflite_files import Graph, by_litert, tflite_file
from needs import need_program

F32 = NDArray[np.float32]

N, CLASSES, MOST = 40, 3, 10
OPTIONS: dict[str, Any] = {
    "max_detections": MOST, "max_classes_per_detection": 1, "detections_per_class": 100,
    "use_regular_nms": False, "nms_score_threshold": 0.45, "nms_iou_threshold": 0.5,
    "num_classes": CLASSES, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip


def anchors() -> F32:
    """Centers and sizes (y, x, height, width), many of which overlap."""
    random = np.random.default_rng(4)
    return np.concatenate([random.random((N, 2)), 0.2 + 0.3 * random.random((N, 2))], 1).astype(
        np.float32
    )


def detector(background: int = 1, **options: Any) -> bytes:
    """The last operator of an SSD network alone."""

    def fill(g: Graph) -> Sequence[int]:
        boxes, scores = g.input((1, N, 4)), g.input((1, N, CLASSES + background))
        shapes = (1, MOST, 4), (1, MOST), (1, MOST), (1,)
        outputs = [g.tensor(shape) for shape in shapes]
        custom = bytes(flexbuffers.Dumps({**OPTIONS, **options}))
        inputs = [boxes, scores, g.constant(anchors())]
        g.add("TFLite_Detection_PostProcess", inputs, *outputs, custom=custom)
        return outputs

    return tflite_file(fill)


def inputs(seed: int, background: int = 1) -> dict[str, F32]:
    """Encoded boxes, and scores of which about half count."""
    random = np.random.default_rng(seed)
    boxes = random.standard_normal((1, N, 4), np.float32)
    return {"x0": boxes, "x1": random.random((1, N, CLASSES + background), np.float32)}


def expected(boxes: F32, scores: F32) -> list[F32]:
    """Written from the definition, one box after the other."""
    a, x = anchors(), boxes[0]
    middle = x[:, :2] / np.float32(10) * a[:, 2:] + a[:, :2]
    half = np.float32(0.5) * np.exp(x[:, 2:] / np.float32(5)) * a[:, 2:]
    corners = np.concatenate([middle - half, middle + half], 1)
    objects = scores[0][:, -CLASSES:]
    best, kept = objects.max(1), list[int]()
    for k in np.argsort(-best, kind="stable"):
        if best[k] >= np.float32(0.45) and all(iou(corners[k], corners[j]) <= 0.5 for j in kept):
            kept.append(int(k))
    kept = kept[:MOST]
    found = [np.zeros(s, np.float32) for s in ((1, MOST, 4), (1, MOST), (1, MOST))]
    for row, k in enumerate(kept):
        found[0][0, row], found[1][0, row] = corners[k], objects[k].argmax()
        found[2][0, row] = best[k]
    return [*found, np.array([len(kept)], np.float32)]


def iou(a: F32, b: F32) -> float:
    """Intersection by union."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    both = float(np.prod(np.maximum(sides, 0)))
    return both / (float(np.prod(a[2:] - a[:2])) + float(np.prod(b[2:] - b[:2])) - both)


def _near(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert len(found) == len(wanted)
    for y, e in zip(found, wanted, strict=True):
        assert np.shape(y) == np.shape(e)
        assert np.allclose(y, e, rtol=0, atol=1e-5)


@pytest.mark.parametrize("background", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_detections(seed: int, background: int, tmp_path: Path) -> None:
    file = tmp_path / "ssd.tflite"
    file.write_bytes(detector(background))
    given = inputs(seed, background)
    wanted = expected(*given.values())
    assert 2 < wanted[3][0] <= MOST
    _near(list(evaluate(load_graph(file), given).values()), wanted)


@pytest.mark.parametrize("most_of_them", [0.45, 0.985])
def test_detections_are_those_of_litert(most_of_them: float) -> None:
    """Also where there are fewer than there is room for."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        pytest.skip("ai_edge_litert is not installed")
    given = inputs(1)
    data = detector(nms_score_threshold=most_of_them)
    count = int(by_litert(data, given)[3][0])
    wanted = expected(*given.values())
    wanted = [w[:, :count] for w in wanted[:3]]
    _near([y[:, :count] for y in by_litert(data, given)[:3]], wanted)


def test_detections_in_c(tmp_path: Path) -> None:
    need_program("gcc")
    file = tmp_path / "ssd.tflite"
    file.write_bytes(detector())
    given = inputs(2)
    found = cannery.load(file)(*given.values())
    _near([np.asarray(y) for y in found], expected(*given.values()))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"use_regular_nms": True}, "within each class"), ({"max_classes_per_detection": 2}, "2 cla")],
)
def test_what_is_not_read(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "ssd.tflite"
    file.write_bytes(detector(**options))
    with pytest.raises(UnsupportedError, match=message):
        load_graph(file)


def test_options_that_are_damaged(tmp_path: Path) -> None:
    """Each byte of them changed: an error of Cannery, or a network."""
    good = bytes(flexbuffers.Dumps(OPTIONS))
    data, file = detector(), tmp_path / "ssd.tflite"
    at = data.index(good)
    for k in range(0, len(good), 3):
        file.write_bytes(data[: at + k] + bytes([data[at + k] ^ 0x55]) + data[at + k + 1 :])
        try:
            load_graph(file)
        except cannery.CanneryError:
            continue


def suppression(kind: str, most: int, *, batched: bool = False, sigma: float = 0.0) -> bytes:
    """One operator; `batched` declares places[1,most], as converters do before a Reshape."""

    def fill(g: Graph) -> Sequence[int]:
        boxes, scores = g.input((N, 4)), g.input((N,))
        constants = [np.int32(most), np.float32(0.4), np.float32(0.3)]
        constants += [np.float32(sigma)] if kind.endswith("5") else []
        given = [boxes, scores, *(g.constant(np.asarray(c)) for c in constants)]
        outputs = [g.tensor((most,), "INT32"), g.tensor((), "INT32")]
        if kind.endswith("5"):
            outputs.insert(1, g.tensor((most,)))
        flat = outputs[0]
        if batched:
            outputs[0] = g.tensor((1, most), "INT32")
        g.add(kind, given, *outputs, options=f"NonMaxSuppressionV{kind[-1]}Options")
        if batched:
            g.add("RESHAPE", [outputs[0], g.constant(np.array([most], np.int32))], flat)
            outputs[0] = flat
        return outputs

    return tflite_file(fill)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("most", [3, 60])
@pytest.mark.parametrize("kind", ["NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"])
def test_suppression(kind: str, most: int, batched: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(most)
    first = random.random((N, 2), np.float32)
    boxes = np.concatenate([first, first + np.float32(0.2) + random.random((N, 2), np.float32)], 1)
    scores = random.random(N, np.float32)
    kept = list[int]()
    for k in np.argsort(-scores):
        if scores[k] > 0.3 and all(iou(boxes[k], boxes[j]) <= 0.4 for j in kept):
            kept.append(int(k))
    kept = kept[:most]
    places = np.array(kept + [0] * (most - len(kept)), np.int32)
    of_kept = np.where(np.arange(most) < len(kept), scores[places], np.float32(0))
    wanted = [places, *([of_kept] if kind.endswith("5") else []), np.int32(len(kept))]
    file, given = tmp_path / "nms.tflite", {"x0": boxes, "x1": scores}
    file.write_bytes(suppression(kind, most, batched=batched))
    _near(list(evaluate(load_graph(file), given).values()), wanted)
    if importlib.util.find_spec("ai_edge_litert") is not None:
        _near(by_litert(file.read_bytes(), given), wanted)


def test_sinking_scores_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "nms.tflite"
    file.write_bytes(suppression("NON_MAX_SUPPRESSION_V5", 3, sigma=0.5))
    with pytest.raises(UnsupportedError, match="sink with the overlap"):
        load_graph(file)
