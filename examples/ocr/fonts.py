r"""The fonts that lines are printed in; all come with Debian.

    apt install fonts-adf-baskervald fonts-cardo fonts-ebgaramond fonts-essays1743 fonts-fanwood \
        fonts-freefont-otf fonts-gfs-didot fonts-goudybookletter fonts-lindenhill \
        fonts-linuxlibertine fonts-lmodern fonts-oldstandard fonts-stix fonts-texgyre-math \
        fonts-vollkorn

Fraktur is taken from fonts for mathematics, which have it as a separate alphabet, in two weights.
What that alphabet lacks (ſ, ß, digits, punctuation) are the font's ordinary characters; umlauts are
put together as printers did, with two dots or a small e.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: Where fonts are looked for; the environment variable CANNERY_OCR_FONTS names another folder.
FOLDER = "/usr/share/fonts"

#: First letters of the alphabets of Fraktur in Unicode, capital and small, by weight.
_ALPHABETS = {"regular": (0x1D504, 0x1D51E), "bold": (0x1D56C, 0x1D586)}
#: Capitals that Unicode has elsewhere.
_ELSEWHERE = {"C": "\u212d", "H": "\u210c", "I": "\u2111", "R": "\u211c", "Z": "\u2128"}


@dataclass(frozen=True)
class Face:
    """A font's file, and the weight of the Fraktur in it that is meant ("": its usual letters)."""

    file: str
    fraktur: str = ""

    @property
    def name(self) -> str:
        """For tables."""
        return Path(self.file).stem + (f" (Fraktur, {self.fraktur})" if self.fraktur else "")

    def glyph(self, letter: str) -> str:
        """The character that stands for a letter in this face."""
        if not self.fraktur or not ("a" <= letter <= "z" or "A" <= letter <= "Z"):
            return letter
        if self.fraktur == "regular" and letter in _ELSEWHERE:
            return _ELSEWHERE[letter]
        capital, small = _ALPHABETS[self.fraktur]
        return chr(
            small + ord(letter) - ord("a") if letter >= "a" else capital + ord(letter) - ord("A")
        )


def _fraktur(*files: str) -> tuple[Face, ...]:
    return tuple(Face(file, weight) for file in files for weight in _ALPHABETS)


TRAINING = (
    *_fraktur("FreeSerif.otf", "latinmodern-math.otf", "texgyretermes-math.otf",
              "texgyreschola-math.otf", "texgyrepagella-math.otf"),
    *map(Face, ("EBGaramond12-Regular.otf", "Fanwood.otf", "GFSDidot.otf",
                "GoudyBookletter1911.otf", "LinLibertine_R.otf", "OldStandard-Regular.ttf",
                "BaskervaldADFStd.otf", "Vollkorn-Regular.ttf", "lmroman10-regular.otf")),
)  # fmt: skip
TEST = (
    *_fraktur("STIX-Regular.otf"),
    *map(Face, ("Cardo104s.ttf", "Essays1743.ttf", "LindenHill.otf")),
)


def find(face: Face) -> Path:
    """The file of a face.

    Raises FileNotFoundError with the cure if the font is not installed.
    """
    folder = Path(os.environ.get("CANNERY_OCR_FONTS", FOLDER))
    for path in sorted(folder.rglob(face.file)):
        return path
    raise FileNotFoundError(
        f"{face.file} is not in {folder}: install the fonts that {__file__} lists"
    )
