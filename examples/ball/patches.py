"""Draws what a robot's ball detector is shown: grey patches of a football and of its likes.

Everything is drawn at four times the resolution and averaged down, so edges are as soft as in a
camera image. Lengths are in pixels of the finished patch, y points down, brightness runs from 0
(black) to 1 (white).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.float64]
Rng = np.random.Generator

SIZE = 16
_OVERSAMPLING = 4
_N = SIZE * _OVERSAMPLING

#: Coordinates of the fine grid, in pixels from the middle of the patch.
_AXIS: Image = (np.arange(_N) + 0.5) / _OVERSAMPLING - SIZE / 2
_Y, _X = np.meshgrid(_AXIS, _AXIS, indexing="ij")

#: The twelve corners of an icosahedron, where a football has its black pentagons.
_GOLDEN = (1 + 5**0.5) / 2
_PENTAGONS = np.array(
    [np.roll((0.0, a, b * _GOLDEN), k) for a in (-1, 1) for b in (-1, 1) for k in range(3)]
) / np.hypot(1, _GOLDEN)

#: Angle between the middle and the edge of a pentagon, in radians.
_PENTAGON_RADIUS = 0.35


def _waves(rng: Rng, longest: float, shortest: float) -> Image:
    """A smooth random texture between about -1 and 1."""
    texture: Image = np.zeros((_N, _N))
    for _ in range(6):
        angle, phase = rng.uniform(0, 2 * np.pi, 2)
        length = rng.uniform(shortest, longest)
        along = _X * np.cos(angle) + _Y * np.sin(angle)
        texture += np.sin(2 * np.pi * along / length + phase) / 6
    return texture


def _field(rng: Rng) -> Image:
    """Grass: dark to middle grey, with texture, unevenly lit."""
    slope = rng.normal(0, 0.006, 2)
    light: Image = 1 + slope[0] * _X + slope[1] * _Y
    grass: Image = rng.uniform(0.12, 0.55) + rng.uniform(0, 0.08) * _waves(rng, 8, 1.5)
    return grass * light


def _paint(image: Image, where: NDArray[np.bool_], brightness: Image | float) -> None:
    image[where] = np.broadcast_to(brightness, image.shape)[where]


def _line(image: Image, rng: Rng, angle: float, through: NDArray[np.float64], white: float) -> None:
    """A field line of 2 to 6 pixels width that continues to both sides."""
    distance = (_X - through[0]) * np.sin(angle) - (_Y - through[1]) * np.cos(angle)
    _paint(image, np.abs(distance) < rng.uniform(1, 3), white)


def _rotation(rng: Rng) -> NDArray[np.float64]:
    """A rotation matrix, all directions alike: orthonormalised Gaussian vectors."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    turned: NDArray[np.float64] = q * np.sign(np.diag(r))
    return turned


def _shading(rng: Rng, nx: Image, ny: Image, nz: Image) -> Image:
    """Brightness factor of a round surface: ambient light and a lamp above."""
    lamp = np.array([rng.normal(0, 0.5), -1.0, rng.uniform(0.2, 1.2)])
    lamp /= np.linalg.norm(lamp)
    ambient = rng.uniform(0.35, 0.75)
    facing: Image = np.clip(lamp[0] * nx + lamp[1] * ny + lamp[2] * nz, 0, 1)
    return ambient + (1 - ambient) * facing


def ball(rng: Rng) -> Image:
    """A football, sometimes before a line, sometimes partly hidden."""
    image = _field(rng)
    radius = rng.uniform(4.5, 7.5)
    cx, cy = rng.normal(0, 0.8, 2)
    if rng.random() < 0.3:
        _line(image, rng, rng.uniform(0, np.pi), rng.uniform(-8, 8, 2), rng.uniform(0.6, 1))
    shadow = ((_X - cx) / radius) ** 2 + ((_Y - cy - 0.8 * radius) / (0.4 * radius)) ** 2 < 1
    _paint(image, shadow, image * rng.uniform(0.5, 1))
    x, y = (_X - cx) / radius, (_Y - cy) / radius
    z = np.sqrt(np.clip(1 - x**2 - y**2, 0, None))
    directions = np.stack([x, y, z], axis=-1) @ _rotation(rng)
    black = (directions @ _PENTAGONS.T).max(axis=-1) > np.cos(_PENTAGON_RADIUS)
    white = rng.uniform(0.65, 1.0)
    surface = np.where(black, rng.uniform(0.02, 0.2), white) * _shading(rng, x, y, z)
    _paint(image, x**2 + y**2 < 1, surface)
    if rng.random() < 0.25:
        angle = rng.uniform(0, 2 * np.pi)
        limit = rng.uniform(0.3, 1) * radius
        along = (_X - cx) * np.cos(angle) + (_Y - cy) * np.sin(angle)
        _paint(image, along > limit, rng.uniform(0.05, 0.9) + 0.05 * _waves(rng, 12, 4))
    return image


def grass(rng: Rng) -> Image:
    """Nothing but field, at times with coarse blotches."""
    return _field(rng) + rng.uniform(0, 0.25) * _waves(rng, 16, 3)


def line(rng: Rng) -> Image:
    """One field line."""
    image = _field(rng)
    _line(image, rng, rng.uniform(0, np.pi), rng.normal(0, 3, 2), rng.uniform(0.55, 1))
    return image


def crossing(rng: Rng) -> Image:
    """Two lines that meet: X, or L and T where one ends."""
    image = _field(rng)
    plain = image.copy()
    angle = rng.uniform(0, np.pi)
    middle, white = rng.normal(0, 2.5, 2), rng.uniform(0.55, 1)
    across = angle + rng.uniform(0.8, 2.3)
    _line(image, rng, across, middle, white)
    if rng.random() < 0.6:
        side = (_X - middle[0]) * np.sin(angle) - (_Y - middle[1]) * np.cos(angle)
        _paint(image, side > rng.uniform(0, 2), plain)
    _line(image, rng, angle, middle, white)
    return image


def penalty_mark(rng: Rng) -> Image:
    """A flat white spot or cross."""
    image = _field(rng)
    cx, cy = rng.normal(0, 1, 2)
    white, radius, flat = rng.uniform(0.6, 1), rng.uniform(2.5, 6.5), rng.uniform(0.4, 0.9)
    x, y = _X - cx, (_Y - cy) / flat
    if rng.random() < 0.5:
        _paint(image, x**2 + y**2 < radius**2, white)
    else:
        angle, half = rng.uniform(0, np.pi / 2), rng.uniform(0.6, 1.4)
        u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
        bar = (np.abs(u) < half) & (np.abs(v) < radius) | (np.abs(v) < half) & (np.abs(u) < radius)
        _paint(image, bar, white)
    return image


def foot(rng: Rng) -> Image:
    """A robot's foot or two: rounded, white, shaded, with joints and dark gaps."""
    image = _field(rng)
    for _ in range(rng.integers(1, 3)):
        cx, cy = rng.normal(0, 3, 2)
        rx, ry = rng.uniform(4, 9), rng.uniform(3, 6.5)
        x, y = (_X - cx) / rx, (_Y - cy) / ry
        inside = np.abs(x) ** 3 + np.abs(y) ** 3 < 1
        z = np.sqrt(np.clip(1 - x**2 - y**2, 0, None))
        _paint(image, inside, rng.uniform(0.6, 1) * _shading(rng, x, y, z))
        for _ in range(rng.integers(0, 3)):
            height, tilt, half = rng.uniform(-0.6, 0.6), rng.normal(0, 0.2), rng.uniform(0.05, 0.2)
            gap = np.abs(y - height - tilt * x) < half
            _paint(image, inside & gap, rng.uniform(0.03, 0.45))
    if rng.random() < 0.5:
        leg = np.abs(_X - rng.normal(0, 2)) < rng.uniform(2, 5)
        end = rng.uniform(-5, -1)
        _paint(image, leg & (end > _Y), rng.uniform(0.1, 0.9))
    return image


def goal(rng: Rng) -> Image:
    """A post, or a net's meshes before something dark."""
    image = _field(rng)
    if rng.random() < 0.5:
        x = (_X - rng.normal(0, 3)) / rng.uniform(2, 5)
        z = np.sqrt(np.clip(1 - x**2, 0, None))
        _paint(image, np.abs(x) < 1, rng.uniform(0.6, 1) * _shading(rng, x, 0 * x, z))
        return image
    angle, pitch, width = rng.uniform(0, np.pi), rng.uniform(3, 7), rng.uniform(0.4, 1.2)
    for turn in (angle, angle + rng.uniform(1.2, 1.9)):
        along = _X * np.cos(turn) + _Y * np.sin(turn)
        _paint(image, np.mod(along, pitch) < width, rng.uniform(0.5, 1))
    return image


def clutter(rng: Rng) -> Image:
    """The world beyond the field: noise and blotches of every contrast, without meaning."""
    coarse = rng.uniform(0, 0.8) * _waves(rng, 14, 2.5) + rng.uniform(0, 0.8) * _waves(rng, 6, 2)
    image = rng.uniform(0.2, 0.8) + coarse
    if rng.random() < 0.5:
        image = np.where(image > np.median(image), rng.uniform(0.5, 1), rng.uniform(0, 0.4))
    return image


#: What is not a ball, by name.
NEGATIVES: dict[str, Callable[[Rng], Image]] = {
    draw.__name__: draw for draw in (grass, line, crossing, penalty_mark, foot, goal, clutter)
}


def _blur(image: Image, rng: Rng) -> Image:
    """Motion and defocus: a box along a random direction, and a small round one."""
    steps = rng.integers(1, 8)
    angle, length = rng.uniform(0, np.pi), rng.uniform(0, 2.0) * _OVERSAMPLING
    total = np.zeros_like(image)
    for t in np.linspace(-0.5, 0.5, steps):
        shift = np.rint(length * t * np.array([np.sin(angle), np.cos(angle)])).astype(int)
        total += np.roll(image, shift, axis=(0, 1))
    image = total / steps
    defocus = int(rng.integers(0, 4))
    for axis in (0, 1):
        shifts = [np.roll(image, k, axis) for k in range(-defocus, defocus + 1)]
        image = np.mean(shifts, axis=0)
    return image


def photograph(drawing: Image, rng: Rng) -> NDArray[np.uint8]:
    """The 16x16 patch that a camera makes of a drawing: blur, exposure, noise, eight bits."""
    blurred = _blur(drawing, rng)
    coarse = blurred.reshape(SIZE, _OVERSAMPLING, SIZE, _OVERSAMPLING).mean(axis=(1, 3))
    exposed = coarse * rng.uniform(0.45, 1.15) + rng.uniform(-0.03, 0.08)
    noisy = exposed + rng.normal(0, rng.uniform(0.005, 0.05), exposed.shape)
    image: NDArray[np.uint8] = np.rint(255 * np.clip(noisy, 0, 1)).astype(np.uint8)
    return image


def draw_set(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Patches (count, 16, 16, 1), labels (1 is a ball, every second one) and names of the kinds."""
    rng = np.random.default_rng(seed)
    names = list(NEGATIVES)
    kinds = ["ball" if k % 2 else names[k // 2 % len(names)] for k in range(count)]
    draws = [ball if kind == "ball" else NEGATIVES[kind] for kind in kinds]
    patches = np.stack([photograph(draw(rng), rng) for draw in draws])
    return patches[..., None], np.array([kind == "ball" for kind in kinds], np.int64), kinds
