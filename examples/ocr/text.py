"""Words that look German, and lines of them: what the example's network learns to read.

Words are put together from syllables, so no text has an author. A word belongs to the training set
or to the test set by its checksum: none is in both.
"""

from __future__ import annotations

import zlib

import numpy as np

#: What a line may consist of; the network's symbol k + 1 is character k, symbol 0 is CTC's blank.
ALPHABET = " abcdefghijklmnopqrstuvwxyzäöüßſABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜ0123456789.,;:!?-()'"

_ONSETS = (
    "b d f g h j k l m n p r s t v w z b d g h l m n r s w "
    "bl br dr fl fr gl gr kl kn kr pf pl qu sch sch schl schm schn schr schw sp spr st "
    "str tr zw c y"
).split()
_NUCLEI = "a a a e e e e i i i o o u u ä ö ü au ei ei eu ie ie äu ee y".split()
_CODAS = (
    "b ch ck f g k l ll m mm n nn n ng nd nt r r rt s s ss ß st t tz x ft cht lz rb rk mpf pp"
).split()
_PREFIXES = "ge be ver er an auf un zer".split()
_ENDINGS = "e en er es et ung heit lich keit los end te ten".split()

#: One word in this many belongs to the test set.
_TEST_SHARE = 5


def is_test_word(word: str) -> bool:
    """Whether the word, however it is written, belongs to the test set."""
    plain = word.lower().replace("ſ", "s")
    return zlib.crc32(plain.encode()) % _TEST_SHARE == 0


def _pick(rng: np.random.Generator, parts: list[str]) -> str:
    return parts[rng.integers(len(parts))]


def _syllables(rng: np.random.Generator) -> str:
    word = _pick(rng, _PREFIXES) if rng.random() < 0.2 else ""
    for _ in range(rng.integers(1, 3)):
        word += _pick(rng, _ONSETS) + _pick(rng, _NUCLEI)
        word += _pick(rng, _CODAS) if rng.random() < 0.6 else ""
    return word + (_pick(rng, _ENDINGS) if rng.random() < 0.5 else "")


def _long_s(word: str) -> str:
    """The word as it was printed until 1941: a round s stands at the end only."""
    return word[:-1].replace("s", "ſ") + word[-1:]


def _word(rng: np.random.Generator, test: bool) -> str:
    """A word of the set, in small letters, with a capital, or all in capitals."""
    while True:
        word = _syllables(rng)
        if is_test_word(word) == test:
            break
    form = rng.random()
    if form < 0.05:
        return word.upper()  # the capital of ß is SS
    if form < 0.45:
        return _long_s(word[0].upper() + word[1:])
    return _long_s(word)


def _token(rng: np.random.Generator, test: bool) -> str:
    kind = rng.random()
    if kind < 0.08:
        return str(rng.integers(10 ** int(rng.integers(1, 5))))
    if kind < 0.12:  # initials; they make rare letters less rare
        return "".join(_pick(rng, list(ALPHABET[32:61])) + "." for _ in range(rng.integers(1, 3)))
    word = _word(rng, test)
    if kind < 0.15:
        return f"({word})"
    if kind < 0.18:
        return f"{word}-{_word(rng, test)}"
    if kind < 0.20:
        return f"{word}'s"
    return word


def text_line(rng: np.random.Generator, characters: int, *, test: bool) -> str:
    """Words of the training or the test set with punctuation, of about this length."""
    line = ""
    while len(line) < characters:
        line += _token(rng, test)
        line += _pick(rng, list(".,,,;:!?")) if rng.random() < 0.25 else ""
        line += " "
    return line.strip()
