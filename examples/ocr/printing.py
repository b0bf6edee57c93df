"""Lines of text as images of 25 rows: printed with a font, then aged and scanned.

The image that a network gets has a byte per pixel, 255 is white.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from fonts import TRAINING, Face, find
from text import text_line

#: Rows of a line's image, pixels of a column.
ROWS = 25

#: Lines are printed this much larger, then reduced.
_FINE = 2
_UMLAUTS = dict(zip("äöüÄÖÜ", "aouAOU", strict=True))
#: Spans the height of all letters; dots above capitals may reach beyond.
_TALLEST = "bdfhklſgpqyQJ"

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@lru_cache(maxsize=256)
def _font(face: Face, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(find(face)), size)


@lru_cache(maxsize=256)
def _extent(face: Face, size: int) -> tuple[int, int]:
    """How far the letters of a face reach above and below the baseline."""
    boxes = [_font(face, size).getbbox(face.glyph(c), anchor="ls") for c in _TALLEST]
    return int(-min(box[1] for box in boxes)), int(max(box[3] for box in boxes))


@lru_cache(maxsize=65536)
def _advance(face: Face, size: int, glyph: str) -> float:
    return float(_font(face, size).getlength(glyph))


@lru_cache(maxsize=256)
def _size_for(face: Face, height: int) -> int:
    """The size at which a face's letters are `height` pixels tall altogether."""
    above, below = _extent(face, 200)
    return max(8, 200 * height // (above + below))


class _Line:
    """A line that is being set: black on white, at fine resolution."""

    def __init__(self, face: Face, height: int, small_e: bool, width: int) -> None:
        self.face, self.small_e, self.size = face, small_e, _size_for(face, height)
        self.font = _font(face, self.size)
        above, below = _extent(face, self.size)
        self.baseline = above + 2
        self.image = Image.new("L", (width, above + below + 4), 255)
        self.draw = ImageDraw.Draw(self.image)
        self.x = 0.0

    def put(self, letter: str) -> None:
        """Print one character and go on."""
        base = _UMLAUTS.get(letter, letter) if self.face.fraktur else letter
        glyph = self.face.glyph(base)
        self.draw.text((self.x, self.baseline), glyph, fill=0, font=self.font, anchor="ls")
        advance = self.advance(letter)
        if base != letter:
            self._umlaut(glyph, advance)
        self.x += advance

    def advance(self, letter: str) -> float:
        """How wide a character is."""
        base = _UMLAUTS.get(letter, letter) if self.face.fraktur else letter
        return _advance(self.face, self.size, self.face.glyph(base))

    def _umlaut(self, glyph: str, advance: float) -> None:
        """Two dots, or an e of half the size, above the letter just printed."""
        top = self.baseline + self.font.getbbox(glyph, anchor="ls")[1]
        mark, size = ("e", 0.55) if self.small_e else ("¨", 1.0)
        font = _font(self.face, max(8, int(self.size * size)))
        box = font.getbbox(self.face.glyph(mark), anchor="ls")
        at = self.x + advance / 2 - (box[0] + box[2]) / 2
        bottom = max(top - 1, box[3] - box[1])
        self.draw.text((at, bottom - box[3]), self.face.glyph(mark), fill=0, font=font, anchor="ls")


def _smooth(rng: np.random.Generator, width: int, low: float, high: float) -> Floats:
    """Values between `low` and `high` that change slowly over an image."""
    coarse = rng.uniform(low, high, (2, max(2, width // 24))).astype(np.float32)
    fine = Image.fromarray(coarse).resize((width, ROWS), Image.Resampling.BICUBIC)
    return np.asarray(fine)


def _set_type(
    rng: np.random.Generator, text: str, face: Face, width: int
) -> tuple[Image.Image, str]:
    """As much of the text as fits between margins, whole words, and that text."""
    stretch, spacing = rng.uniform(0.92, 1.1), rng.uniform(-0.2, 0.6) * _FINE
    room = int(width * _FINE / stretch) + 1
    line = _Line(face, int(rng.integers(20, 24)) * _FINE, rng.random() < 0.3, room)
    line.x = rng.uniform(1, 8) * _FINE
    end, shown = (width - 3) * _FINE / stretch, ""
    for word in text.split(" "):
        needed = sum(line.advance(c) + spacing for c in f" {word}")
        if line.x + needed > end:
            break
        for letter in f" {word}" if shown else word:
            line.put(letter)
            line.x += spacing
        shown = f"{shown} {word}" if shown else word
    return _deform(rng, line.image, width * _FINE, stretch), shown


def _deform(
    rng: np.random.Generator, image: Image.Image, width: int, stretch: float
) -> Image.Image:
    """The printed line, slanted and tilted a little, reduced to 25 rows."""
    height = ROWS * _FINE
    slant, tilt = rng.uniform(-0.08, 0.08), rng.uniform(-0.5, 0.5) * _FINE / width
    room = height - image.size[1]
    down = rng.uniform(min(0, room), max(0, room)) - tilt * width / 2
    # Maps pixels of the result to those of the source.
    moved = image.transform(
        (width, height), Image.Transform.AFFINE,
        (1 / stretch, slant, -slant * height / 2, -tilt, 1, -down),
        Image.Resampling.BILINEAR, fillcolor=255,
    )  # fmt: skip
    ink = rng.random()
    if ink < 0.1:
        moved = moved.filter(ImageFilter.MinFilter(3))
    elif ink < 0.15:
        moved = moved.filter(ImageFilter.MaxFilter(3))
    return moved.resize((width // _FINE, ROWS), Image.Resampling.BOX)


def _age(rng: np.random.Generator, image: Image.Image) -> Bytes:
    """Paper and ink of uneven brightness, blurred, with specks and noise."""
    blurred = image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.6)))
    width = image.size[0]
    paper = _smooth(rng, width, rng.uniform(170, 235), 250)
    ink = _smooth(rng, width, 0, rng.uniform(10, 90))
    cover = 1 - np.asarray(blurred, np.float32) / 255
    grey = paper + (ink - paper) * cover
    specks = rng.random(grey.shape)
    rate = rng.uniform(0, 0.006)
    grey = np.where(specks < rate, ink, np.where(specks > 1 - rate, paper, grey))
    grey = grey + rng.normal(0, rng.uniform(2, 10), grey.shape)
    return np.asarray(np.clip(np.rint(grey), 0, 255), np.uint8)


def printed_line(
    rng: np.random.Generator, faces: tuple[Face, ...], width: int, *, test: bool
) -> tuple[Bytes, str]:
    """An image (25, width) of words of the training or the test set, and its text."""
    chosen = faces[rng.integers(len(faces))]
    while True:
        image, text = _set_type(rng, text_line(rng, width // 4, test=test), chosen, width)
        if text:
            return _age(rng, image), text


def cropped(image: Bytes, margin: int = 6) -> Bytes:
    """The image without empty columns at its end except for a margin: lines differ in length."""
    ink = np.nonzero((image < 0.6 * np.median(image)).sum(axis=0) > 1)[0]
    return image[:, : min(image.shape[1], int(ink[-1]) + 1 + margin)] if len(ink) else image


def batch(rng: np.random.Generator, lines: int, width: int) -> tuple[Bytes, list[str]]:
    """Images (lines, 25, width) for training, and their texts."""
    pairs = [printed_line(rng, TRAINING, width, test=False) for _ in range(lines)]
    return np.stack([image for image, _ in pairs]), [text for _, text in pairs]
