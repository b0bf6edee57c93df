"""The random words: Philox4x32-10 of Salmon et al. (Parallel random numbers: as easy as 1, 2, 3).

It keeps no words: each is a function of a key and of its own number, by integers alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ops.scalar.body import Body

#: Words of a block.
WORDS = 4

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_MASK = np.uint64(0xFFFFFFFF)


def philox(counter: NDArray[np.uint32], key: tuple[int, int]) -> NDArray[np.uint32]:
    """The words of blocks with these numbers: `counter` and the result are [..., 4]."""
    a, b, c, d = (counter[..., k].astype(np.uint64) for k in range(WORDS))
    for round_ in range(_ROUNDS):
        first, second = (
            np.uint64((k + round_ * step) % 2**32) for k, step in zip(key, _STEPS, strict=True)
        )
        p, q = a * np.uint64(_MULTIPLIERS[0]), c * np.uint64(_MULTIPLIERS[1])
        a, b = (q >> np.uint64(32)) ^ b ^ first, q & _MASK
        c, d = (p >> np.uint64(32)) ^ d ^ second, p & _MASK
    return np.stack([a, b, c, d], axis=-1).astype(np.uint32)


def write_philox(c: Body, counter: tuple[str, ...], key: tuple[str, ...]) -> None:
    """Statements after which `w` are the words of the block with a number."""
    c(f"uint32_t w[{WORDS}] = {{ {', '.join(counter)} }};")
    c(f"uint32_t k0 = {key[0]}, k1 = {key[1]};")
    with c.loop("round", _ROUNDS):
        c(f"const uint64_t p = (uint64_t)w[0] * 0x{_MULTIPLIERS[0]:X}u;")
        c(f"const uint64_t q = (uint64_t)w[2] * 0x{_MULTIPLIERS[1]:X}u;")
        c("w[0] = (uint32_t)(q >> 32) ^ w[1] ^ k0;")
        c("w[1] = (uint32_t)q;")
        c("w[2] = (uint32_t)(p >> 32) ^ w[3] ^ k1;")
        c("w[3] = (uint32_t)p;")
        c(f"k0 += 0x{_STEPS[0]:X}u;")
        c(f"k1 += 0x{_STEPS[1]:X}u;")
