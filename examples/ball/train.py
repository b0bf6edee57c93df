"""Trains the example's ball classifier, the network of NNCG's paper: 16x16 pixels, 16,352 MACs.

    pip install keras jax && KERAS_BACKEND=jax python train.py

writes ball.h5, and into images/ the first twelve patches of the test set with their labels. The
network takes brightness between 0 and 1; it returns the probabilities of "no ball" and "ball".

Balls and all else are drawn (patches.py), not photographed: this is an example for Cannery, not a
detector for a robot. On 20,000 drawn patches that it has never seen, half of them balls, it is
right in 99.4%: balls 99.4%, grass 99.8%, lines 99.8%, crossings 99.7%, penalty marks 99.6%, feet
99.0%, goals 99.7%, clutter 98.5%.
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
from keras import layers
from numpy.typing import NDArray

from patches import NEGATIVES, draw_set

FOLDER = Path(__file__).parent
LABELS = ("no_ball", "ball")
TRAINING, VALIDATION, TEST = 80_000, 8_000, 20_000
EPOCHS = 40


def build() -> keras.Model:
    """The network, not trained yet."""
    return keras.Sequential(
        [
            keras.Input((16, 16, 1), name="image"),
            layers.Conv2D(8, 5, strides=2, padding="same", activation="relu", name="conv_1"),
            layers.MaxPooling2D(2, name="pool_1"),
            layers.Conv2D(12, 3, activation="relu", name="conv_2"),
            layers.Conv2D(2, 2, activation="softmax", name="conv_3"),
            layers.Flatten(name="scores"),
        ],
        name="ball",
    )


def as_input(patches: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes as the network takes them."""
    scaled: NDArray[np.float32] = patches / np.float32(255)
    return scaled


def fit(model: keras.Model) -> None:
    """Train with a learning rate that falls to nothing along a cosine."""
    patches, labels, _ = draw_set(TRAINING, seed=1)
    checked, expected, _ = draw_set(VALIDATION, seed=2)
    rate = keras.optimizers.schedules.CosineDecay(3e-3, EPOCHS * TRAINING // 128)
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(
        as_input(patches), labels, batch_size=128, epochs=EPOCHS, verbose=2,
        validation_data=(as_input(checked), expected),
    )  # fmt: skip


def report(model: keras.Model) -> None:
    """Print how often the network is right on patches that it has never seen, by kind."""
    patches, labels, kinds = draw_set(TEST, seed=3)
    scores = model.predict(as_input(patches), batch_size=1000, verbose=0)
    right = scores.argmax(axis=1) == labels
    print(f"accuracy {right.mean():.4f}")
    for kind in ("ball", *NEGATIVES):
        chosen = np.array([name == kind for name in kinds])
        print(f"  {kind:13} {right[chosen].mean():.4f} of {chosen.sum()}")


def write_pgm(path: Path, image: NDArray[np.uint8]) -> None:
    """Write a grey image (height, width) as binary PGM."""
    height, width = image.shape
    path.write_bytes(b"P5\n%d %d\n255\n" % (width, height) + image.tobytes())


def write_images(folder: Path) -> None:
    """Write the example images, and labels.txt: a file's name and its label on each line."""
    patches, labels, kinds = draw_set(12, seed=3)
    folder.mkdir(exist_ok=True)
    lines = []
    for number, (patch, label, kind) in enumerate(zip(patches, labels, kinds, strict=True), 1):
        name = f"{number:02d}_{kind}.pgm"
        write_pgm(folder / name, patch[..., 0])
        lines.append(f"{name} {LABELS[label]}\n")
    (folder / "labels.txt").write_text("".join(lines))


def main() -> None:
    """Train, report, save."""
    keras.utils.set_random_seed(1)
    model = build()
    fit(model)
    report(model)
    model.save(FOLDER / "ball.h5", include_optimizer=False)
    write_images(FOLDER / "images")


if __name__ == "__main__":
    main()
