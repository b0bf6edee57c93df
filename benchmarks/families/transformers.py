"""Transformers: of images, of sound, of text."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.onnx_builder import OnnxBuilder


def _heads(b: OnnxBuilder, q: str, k: str, v: str) -> str:
    """Attention: q and v are heads x tokens x size, k is transposed; the heads are joined."""
    _, heads, tokens, size = b.shapes[q]
    scores = b.node("MatMul", (1, heads, tokens, tokens), q, k)
    shares = b.plain("Softmax", scores, axis=-1)
    mixed = b.node("MatMul", (1, heads, tokens, size), shares, v)
    return b.reshape(b.transpose(mixed, 0, 2, 1, 3), 1, tokens, heads * size)


def _joint_attention(b: OnnxBuilder, x: str, heads: int) -> str:
    """One product gives queries, keys and values, as in vision transformers."""
    _, tokens, width = b.shapes[x]
    size = width // heads
    both = b.reshape(b.linear(x, 3 * width), 1, tokens, 3, heads, size)
    both = b.transpose(both, 2, 0, 3, 1, 4)
    q, k, v = (b.take(both, number, 0) for number in range(3))
    q = b.plain("Mul", q, b.scalar(size**-0.5))
    return b.linear(_heads(b, q, b.transpose(k, 0, 1, 3, 2), v), width)


def _three_products(b: OnnxBuilder, x: str, heads: int) -> str:
    """A product each for queries, keys and values, as in BERT."""
    _, tokens, width = b.shapes[x]
    size = width // heads
    q, k, v = (b.reshape(b.linear(x, width), 1, tokens, heads, size) for _ in range(3))
    q = b.transpose(q, 0, 2, 1, 3)
    q = b.plain("Div", q, b.scalar(size**0.5))
    return b.linear(_heads(b, q, b.transpose(k, 0, 2, 3, 1), b.transpose(v, 0, 2, 1, 3)), width)


def _wide(b: OnnxBuilder, x: str, times: int = 4) -> str:
    """Two dense layers with GELU between them."""
    width = b.shapes[x][-1]
    return b.linear(b.gelu(b.linear(x, times * width)), width)


def _with_class(b: OnnxBuilder, x: str) -> str:
    """A token for the class before all others; then positions are added."""
    width = b.shapes[x][-1]
    x = b.concat([b.normal(1, 1, width, scale=0.1), x])
    return b.add(x, b.normal(*b.shapes[x], scale=0.1))


def deit_tiny() -> Any:
    """Touvron et al., "Data-Efficient Image Transformers", 2021; 224x224x3, 12 x 192, 1.3 GMAC."""
    b = OnnxBuilder("deit_tiny", 71)
    x = b.conv(b.input("image", 1, 3, 224, 224), 192, 16, 16, pad=0)
    x = _with_class(b, b.transpose(b.reshape(x, 1, 192, 196), 0, 2, 1))
    for _ in range(12):
        x = b.add(x, _joint_attention(b, b.layer_norm(x), 3))
        x = b.add(x, _wide(b, b.layer_norm(x)))
    return b.model(scores=b.linear(b.take(b.layer_norm(x), 0, 1), 1000))


def keyword_transformer() -> Any:
    """Berg et al., "Keyword Transformer", 2021; KWT-1: 98 x 40 coefficients, 12 x 64, 74 MMAC."""
    b = OnnxBuilder("keyword_transformer", 72)
    x = _with_class(b, b.linear(b.input("spectrum", 1, 98, 40), 64))
    for _ in range(12):
        x = b.layer_norm(b.add(_joint_attention(b, x, 1), x))
        x = b.layer_norm(b.add(_wide(b, x), x))
    return b.model(scores=b.linear(b.take(x, 0, 1), 35))


def text_transformer() -> Any:
    """Turc et al., "Well-Read Students" (BERT mini), 2019; 64 tokens, 4 x 256, 210 MMAC."""
    b = OnnxBuilder("text_transformer", 73)
    tokens = b.input("tokens", 1, 64, integer=True)
    words = b.constant(b.rng.standard_normal((4096, 256), np.float32))
    x = b.node("Gather", (1, 64, 256), words, tokens, axis=0)
    x = b.layer_norm(b.add(x, b.normal(1, 64, 256, scale=0.1)), spelled=True)
    for _ in range(4):
        x = b.layer_norm(b.add(_three_products(b, x, 4), x), spelled=True)
        x = b.layer_norm(b.add(_wide(b, x), x), spelled=True)
    pooled = b.plain("Tanh", b.linear(b.take(x, 0, 1), 256))
    return b.model(scores=b.linear(pooled, 2))
