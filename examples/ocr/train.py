"""Trains the reader of old print: LSTM of 100 cells in each direction with peepholes, CTC.

    pip install -r requirements.txt        # and the fonts that fonts.py lists
    python train.py

writes ocr.onnx, symbols.h, calibration.npz (typical lines, for QUANTIZE), and into lines/ five
lines of the test set with their texts. It took 21 minutes on one core that was not
free. Lines are printed as they are needed (printing.py); no two are the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from blstm import Reader, write_onnx
from fonts import TEST, TRAINING
from printing import ROWS, Bytes, batch, cropped, printed_line
from scoring import accuracy
from text import ALPHABET

FOLDER = Path(__file__).parent
CELLS = 100
LINES = 32
STEPS = 4000
RATE = 3e-3
#: A byte b means (PAPER - b) / CONTRAST; CMakeLists.txt has the same as SCALE and OFFSET.
PAPER, CONTRAST = 192.0, 64.0
#: Columns of the longest line, as in CMakeLists.txt.
LONGEST = 732
#: Columns of the test lines that are stored; the network takes any number.
WIDTH = 360


def columns_of(images: Sequence[Bytes]) -> Tensor:
    """Images of one width as the network takes them, [T, B, 25]."""
    ink = (PAPER - torch.from_numpy(np.stack(images)).float()) / CONTRAST
    return ink.permute(2, 0, 1).contiguous()


def targets_of(texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """All texts as symbols, one after the other, and their lengths."""
    symbols = [1 + ALPHABET.index(letter) for text in texts for letter in text]
    return torch.tensor(symbols), torch.tensor([len(text) for text in texts])


def best_path(logits: Tensor) -> list[str]:
    """Texts of lines by the best symbol of each column."""
    texts = []
    for line in logits.argmax(dim=2).T.tolist():
        changed = [a for a, b in zip(line, [0, *line], strict=False) if a != b]
        texts.append("".join(ALPHABET[symbol - 1] for symbol in changed if symbol))
    return texts


def width_at(rng: np.random.Generator, progress: float) -> int:
    """Columns of the lines at this part of the training: short ones first, where CTC finds its
    alignments soonest.
    """
    longest = 120 + int(200 * min(1.0, 2 * progress))
    return int(rng.integers(90, longest))


def fit(reader: Reader, steps: int) -> None:
    """Train with Adam, a learning rate that rises quickly and falls to nothing."""
    rng = np.random.default_rng(1)
    loss_of = nn.CTCLoss(zero_infinity=True)
    optimizer = torch.optim.Adam(reader.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=steps, pct_start=0.1
    )
    start, mean = time.monotonic(), 0.0
    for step in range(steps):
        images, texts = batch(rng, LINES, width_at(rng, step / steps))
        logits = reader(columns_of(list(images)))
        symbols, lengths = targets_of(texts)
        widths = torch.full((LINES,), images.shape[2])
        loss = loss_of(logits.log_softmax(dim=2), symbols, widths, lengths)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        mean += (loss.detach().item() - mean) / min(step + 1, 50)
        if step % 50 == 49:
            read, _, _ = accuracy(best_path(logits), texts, draws=1)
            seconds = time.monotonic() - start
            print(
                f"{step + 1:5} {seconds:6.0f} s  loss {mean:.4f}  accuracy {read:.4f}", flush=True
            )


def report(reader: Reader, lines: int = 20) -> None:
    """Print the accuracy on new lines, font by font."""
    rng = np.random.default_rng(2)
    for face in (*TRAINING, *TEST):
        pairs = [printed_line(rng, (face,), WIDTH, test=True) for _ in range(lines)]
        with torch.no_grad():
            read = best_path(reader(columns_of([image for image, _ in pairs])))
        right, _, _ = accuracy(read, [text for _, text in pairs], draws=1)
        print(f"  {face.name:40} {'new' if face in TEST else 'known':5} {right:.4f}")


def write_symbols(file: Path) -> None:
    """Write the characters as a table in C, UTF-8; symbol 0, the blank, prints nothing."""
    letters = ["", *ALPHABET]
    escaped = ["".join(f"\\{byte:03o}" if byte > 126 else chr(byte) for byte in c.encode())
               for c in letters]  # fmt: skip
    rows = [", ".join(f'"{c}"' for c in escaped[k : k + 10]) for k in range(0, len(escaped), 10)]
    file.write_text(
        "/* The characters that the network reads, by symbol. Written by train.py. */\n"
        f"enum {{ SYMBOLS = {len(letters)}, BLANK = 0 }};\n"
        "static const char *const characters[SYMBOLS] = {\n    " + ",\n    ".join(rows) + ",\n};\n"
    )


def write_lines(folder: Path) -> None:
    """Write a line of each face of the test set as PGM, and texts.txt: file and text by line."""
    rng = np.random.default_rng(4)
    folder.mkdir(exist_ok=True)
    texts = []
    for number, face in enumerate(TEST, 1):
        image, text = printed_line(rng, (face,), WIDTH, test=True)
        image = cropped(image)
        name = f"{number}.pgm"
        (folder / name).write_bytes(b"P5\n%d %d\n255\n" % (image.shape[1], ROWS) + image.tobytes())
        texts.append(f"{name} {text}\n")
    (folder / "texts.txt").write_text("".join(texts))


def write_calibration(file: Path, lines: int = 4) -> None:
    """Write long lines of the training set, one after the other, as the library takes them."""
    rng = np.random.default_rng(5)
    images = [printed_line(rng, TRAINING, LONGEST, test=False)[0] for _ in range(lines)]
    np.savez_compressed(file, columns=np.concatenate([image.T for image in images]))


def main() -> None:
    """Train, report, write."""
    parser = argparse.ArgumentParser(description="Trains the reader.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    reader = Reader(ROWS, CELLS, 1 + len(ALPHABET))
    with torch.no_grad():
        reader.output.bias[0] = 4  # most columns are blank; CTC takes long to find that out
    fit(reader, given.steps)
    report(reader)
    write_onnx(reader, given.output / "ocr.onnx")
    write_symbols(given.output / "symbols.h")
    write_calibration(given.output / "calibration.npz")
    write_lines(given.output / "lines")


if __name__ == "__main__":
    main()
