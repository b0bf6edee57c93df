"""Networks of Keras 3 that use layers and operations in many ways; needs Keras only when made.

    KERAS_BACKEND=torch python tests/frontends/keras_networks.py

writes them to tests/frontends/keras/, each with inputs and what Keras computes from them.
`test_keras_networks.py` compares these files, and, where Keras is installed, new ones.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "keras"

Arrays = dict[str, NDArray[Any]]
Make = Callable[[Any], Any]

#: Networks by name: from the module `keras` to a model.
NETWORKS: dict[str, Make] = {}


def network(make: Make) -> Make:
    """Register a network under the name of its function."""
    NETWORKS[make.__name__] = make
    return make


@network
def attention(keras: Any) -> Any:
    """Heads with other sizes, causal, over two axes, shared keys, a window; one without heads."""
    lib = keras.layers
    x, y = keras.Input((6, 8), name="x"), keras.Input((5, 7), name="y")
    image = keras.Input((2, 3, 4), name="image")
    seen = keras.Input((6, 5), name="seen", dtype="bool")
    a = lib.MultiHeadAttention(2, 3, value_dim=5)(x, y, attention_mask=seen)
    b = lib.MultiHeadAttention(2, 4, use_bias=False)(a, a, use_causal_mask=True)
    c = lib.GroupQueryAttention(3, 4, 2)(x, x)
    d = lib.MultiHeadAttention(2, 3, output_shape=5, attention_axes=(2,))(image, image)
    e = lib.MultiHeadAttention(2, 3)(image, image)
    f = lib.Attention(use_scale=True)([x, b])
    g = lib.Attention(score_mode="concat", use_scale=True)([x, b, a], use_causal_mask=True)
    h = lib.AdditiveAttention()([x, b])
    scores = lib.Attention()([x, x], return_attention_scores=True)
    return keras.Model([x, y, image, seen], [a, b, c, d, e, f, g, h, *scores])


@network
def gated_attention(keras: Any) -> Any:
    """What Keras has since 3.11: gates and windows."""
    lib = keras.layers
    x = keras.Input((6, 8), name="x")
    a = lib.MultiHeadAttention(2, 3, use_gate=True, sliding_window=2)(x, x)
    b = lib.GroupQueryAttention(3, 4, 2, use_gate=True, sliding_window=3)(
        x, a, use_causal_mask=True
    )
    return keras.Model(x, [a, b])


@network
def text_classifier(keras: Any) -> Any:
    """Words, of which 0 is padding, through everything that reads masks."""
    lib = keras.layers
    x = keras.Input((7,), dtype="int32", name="x")
    e = lib.Dropout(0.1)(lib.Embedding(9, 6, mask_zero=True)(x))
    a = lib.LSTM(4, return_sequences=True)(e)
    b = lib.Bidirectional(lib.GRU(3, return_sequences=True))(a)
    c = lib.SimpleRNN(3, go_backwards=True, zero_output_for_mask=True, return_sequences=True)(b)
    d = lib.Bidirectional(lib.LSTM(3, return_state=True))(b)
    own = lib.Activation("tanh")(e)  # this layer takes the mask of its inputs away, for all others
    m = lib.MultiHeadAttention(2, 3)(own, own)
    f = lib.Attention()([e, e])
    g = lib.AdditiveAttention()([m, e])
    s = lib.Softmax()(lib.Flatten()(lib.Dense(1)(lib.LayerNormalization()(m))))
    means = [lib.GlobalAveragePooling1D()(v) for v in (e, m, f, g)]
    stack = lib.RNN([lib.GRUCell(3), lib.LSTMCell(2)])(e)
    return keras.Model(x, [c, *d, s, *means, stack, lib.Dense(2)(lib.GRU(4)(e))])


@network
def masked_steps(keras: Any) -> Any:
    """Steps that are all 2, which Masking leaves out."""
    lib = keras.layers
    x, h = keras.Input((6, 3), name="x"), keras.Input((4,), name="h")
    m = lib.Masking(2.0)(x)
    y = lib.LSTM(4, return_state=True)(m, initial_state=[h, h])
    z = lib.GRU(3, return_sequences=True, reset_after=False)(lib.Activation("tanh")(m))
    return keras.Model([x, h], [m, *y, lib.GlobalAveragePooling1D()(z)])


@network
def volumes(keras: Any) -> Any:
    """Three spatial axes."""
    lib = keras.layers
    x = keras.Input((5, 6, 7, 4), name="x")
    a = lib.Conv3D(3, (2, 3, 1), strides=(2, 1, 2), padding="same", activation="relu")(x)
    b = lib.Conv3D(4, 2, dilation_rate=(1, 2, 1), groups=2, use_bias=False)(x)
    c = lib.Conv3DTranspose(3, (3, 2, 3), strides=(2, 1, 2), padding="same")(b)
    d = lib.Conv3DTranspose(2, (2, 3, 2), strides=(1, 2, 3), activation="tanh")(a)
    e = lib.MaxPooling3D((2, 3, 2), padding="same")(x)
    f = lib.AveragePooling3D(2, strides=(1, 2, 2), padding="same")(x)
    g = lib.UpSampling3D((2, 1, 3))(e)
    h = lib.Cropping3D(((1, 0), (1, 2), (0, 1)))(lib.ZeroPadding3D(((0, 1), (2, 1), (1, 0)))(x))
    i = lib.GlobalAveragePooling3D()(x), lib.GlobalMaxPooling3D(keepdims=True)(x)
    j = lib.SpatialDropout3D(0.2)(lib.AveragePooling3D(2)(x))
    return keras.Model(x, [a, b, c, d, e, f, g, h, *i, j])


@network
def conv_lstms(keras: Any) -> Any:
    """Steps of lines, images and volumes."""
    lib = keras.layers
    line, image = keras.Input((4, 6, 2), name="line"), keras.Input((3, 5, 6, 2), name="image")
    volume = keras.Input((2, 3, 4, 3, 2), name="volume")
    a = lib.ConvLSTM1D(3, 3, padding="same", return_sequences=True, go_backwards=True)(line)
    b = lib.ConvLSTM2D(3, (2, 3), strides=(2, 1), return_state=True, activation="relu")(image)
    c = lib.ConvLSTM3D(2, 2, use_bias=False, recurrent_activation="hard_sigmoid")(volume)
    d = lib.ConvLSTM2D(2, 3, dilation_rate=2, padding="same", return_sequences=True)(image)
    return keras.Model([line, image, volume], [a, *b, c, d])


@network
def both_conv_lstms(keras: Any) -> Any:
    """Bidirectional over ConvLSTM, with all merges, states, and a layer of its own backwards."""
    lib = keras.layers
    line, image = keras.Input((4, 5, 2), name="line"), keras.Input((3, 4, 5, 2), name="image")
    volume, h = keras.Input((2, 3, 4, 3, 2), name="volume"), keras.Input((4, 5, 2), name="h")
    merged = [
        lib.Bidirectional(lib.ConvLSTM1D(2, 2, return_sequences=steps), merge_mode=mode)(line)
        for steps, mode in ((True, "concat"), (True, "sum"), (False, "ave"), (True, "mul"))
    ]
    apart = lib.Bidirectional(lib.ConvLSTM1D(2, 3, return_sequences=True), merge_mode=None)(line)
    same = lib.ConvLSTM2D(2, 3, padding="same", return_sequences=True, return_state=True)
    states = lib.Bidirectional(same)(image, initial_state=[h, h + 1.0, h * 2.0, h * 3.0])
    back = lib.ConvLSTM3D(2, 2, go_backwards=True, activation="relu")
    other = lib.Bidirectional(lib.ConvLSTM3D(2, 2, use_bias=False), backward_layer=back)(volume)
    ends = [
        lib.ConvLSTM1D(2, 2, return_sequences=True, go_backwards=side) for side in (True, False)
    ]
    turned = lib.Bidirectional(ends[0], backward_layer=ends[1])(line)
    return keras.Model([line, image, volume, h], [*merged, *apart, *states, other, turned])


@network
def sparse_shares(keras: Any) -> Any:
    """The function sparsemax, by name and along another axis."""
    x = keras.Input((5, 7), name="x")
    return keras.Model(
        x, [keras.layers.Dense(6, activation="sparsemax")(x), keras.ops.sparsemax(x, axis=1)]
    )


@network
def tables(keras: Any) -> Any:
    """Columns of a table: bins, categories, words, and what normalises them."""
    lib = keras.layers
    x, c = keras.Input((4,), name="x"), keras.Input((3,), dtype="int32", name="c")
    one = keras.Input((1,), dtype="int32", name="one")
    edges = [-1.0, 0.0, 0.25, 1.5]
    bins = lib.Discretization(edges)(x)
    codes = [lib.Discretization(edges, output_mode=m)(x) for m in ("one_hot", "multi_hot", "count")]
    kinds = [lib.CategoryEncoding(5, output_mode=m)(c) for m in ("one_hot", "multi_hot", "count")]
    words = lib.Embedding(5, 4)(c)
    norms = [
        lib.UnitNormalization()(x),
        lib.RMSNormalization()(words),
        lib.UnitNormalization(axis=(1, 2))(words),
    ]
    single = lib.CategoryEncoding(5, output_mode="one_hot")(one)
    return keras.Model(
        [x, c, one],
        [
            bins,
            *codes,
            *kinds,
            *norms,
            single,
            lib.EinsumDense("abc,bd->adc", (3, 4), bias_axes="dc")(words),
        ],
    )


@network
def einsum_dense(keras: Any) -> Any:
    """Equations of all forms, and an embedding in both directions."""
    lib = keras.layers
    x, c = keras.Input((3, 4, 5), name="x"), keras.Input((3,), dtype="int32", name="c")
    a = lib.EinsumDense("abcd,de->abce", (None, None, 6), bias_axes="e", activation="relu")(x)
    b = lib.EinsumDense("...x,xy->...y", 7, bias_axes="y")(x)
    d = lib.EinsumDense("abcd,cdef->abef", (3, 2, 3), bias_axes="ef")(x)
    e = lib.EinsumDense("ab...,bc->ac...", 6)(x)
    table = lib.ReversibleEmbedding(9, 4, logit_soft_cap=2.0)
    free = lib.ReversibleEmbedding(9, 4, tie_weights=False)
    f = table(table(c), reverse=True)
    return keras.Model([x, c], [a, b, d, e, f, free(free(c), reverse=True)])


@network
def images(keras: Any) -> Any:
    """Images of other sizes, and pools to a size."""
    lib = keras.layers
    x, line = keras.Input((6, 9, 3), name="x"), keras.Input((10, 3), name="line")
    volume = keras.Input((4, 5, 3, 2), name="volume")
    made = [
        lib.Resizing(9, 5)(x), lib.Resizing(11, 7, interpolation="nearest")(x),
        lib.Resizing(4, 4, crop_to_aspect_ratio=True)(x),
        lib.Resizing(8, 8, pad_to_aspect_ratio=True, fill_value=0.5)(x),
        lib.CenterCrop(4, 4)(x), lib.AutoContrast((-1, 2))(x), lib.AutoContrast()(x),
        lib.AdaptiveAveragePooling2D((4, 3))(x), lib.AdaptiveMaxPooling2D((3, 3))(x),
        lib.AdaptiveAveragePooling1D(4)(line), lib.AdaptiveMaxPooling1D(5)(line),
        lib.AdaptiveAveragePooling3D((2, 3, 1))(volume), lib.AdaptiveMaxPooling3D(2)(volume),
    ]  # fmt: skip
    return keras.Model([x, line, volume], made)


@network
def arithmetic(keras: Any) -> Any:
    """Operations on each element."""
    o = keras.ops
    x, y = keras.Input((3, 4), name="x"), keras.Input((1, 4), name="y")
    k = keras.Input((3, 4), dtype="int32", name="k")
    p = o.abs(x) + 0.5
    found = [
        x + y, 2 - x, x * 3, x / (o.square(y) + 1), -x, p**1.5, p % 0.75, p // 0.5, k * 2 + 1,
        k / 3, k + y, o.maximum(x, y), o.minimum(x, 0.25), o.clip(x, -0.5, 0.5), o.clip(k, 1, 2),
        o.exp(x), o.expm1(x), o.log(p), o.log1p(p), o.log2(p), o.log10(p), o.sqrt(p), o.rsqrt(p),
        o.reciprocal(p), o.sign(x), o.floor(x), o.ceil(x), o.round(x), o.round(x, 2), o.trunc(x),
        o.sin(x), o.cos(x), o.tan(x), o.tanh(x), o.arctan(x), o.sinh(x), o.erf(x),
        o.relu(x), o.relu6(x * 9), o.sigmoid(x), o.softplus(x), o.silu(x), o.selu(x), o.elu(x, 0.5),
        o.leaky_relu(x, 0.3), o.gelu(x), o.gelu(x, approximate=False), o.celu(x), o.hard_sigmoid(x),
        o.hard_silu(x), o.hard_tanh(x), o.log_sigmoid(x), o.softsign(x), o.soft_shrink(x),
        o.hard_shrink(x), o.tanh_shrink(x), o.squareplus(x), o.sparse_sigmoid(x), o.glu(x),
        o.softmax(x), o.softmax(x, axis=1), o.log_softmax(x), o.cast(x > y, "float32"),
        o.where(x > 0, x, y), o.where(x <= y, 1.0, x), o.not_equal(k, 1), o.equal(k, 2),
        o.logical_and(x > 0, x < 1), o.logical_or(x < -1, x >= 1), o.logical_not(x > 0),
        o.isnan(x), o.isfinite(x), o.divide_no_nan(x, o.relu(x)), o.cast(p * 9, "int32"),
        o.ones_like(x) + o.zeros_like(y), o.full_like(x, 2.5) * x, o.deg2rad(x), o.exp2(x),
        x + np.arange(4, dtype="float32"), o.threshold(x, 0.25, 0.0),
    ]  # fmt: skip
    return keras.Model([x, y, k], found)


@network
def reductions(keras: Any) -> Any:
    """Operations along axes."""
    o = keras.ops
    x, k = keras.Input((3, 4), name="x"), keras.Input((5,), dtype="int32", name="k")
    top, places = o.top_k(x, 2)
    found = [
        o.sum(x, axis=1), o.mean(x, axis=(1, 2), keepdims=True), o.max(x, axis=-1),
        o.min(x, axis=1, keepdims=True), o.prod(x, axis=2), o.var(x, axis=-1), o.std(x, axis=1),
        o.any(x > 1, axis=1), o.all(x > -1, axis=2), o.argmax(x, axis=-1), o.argmin(x, axis=1),
        o.logsumexp(x, axis=2), o.sum(k, axis=1), o.mean(k, axis=1), o.norm(x, axis=-1),
        o.norm(x, ord=1, axis=1), o.cumsum(x, axis=1), o.cumprod(x, axis=2), o.sort(x, axis=-1),
        o.argsort(x, axis=1), top, places,
        o.normalize(x, axis=1), o.diff(x, axis=1), o.layer_normalization(x),
        o.average(x, axis=1), o.digitize(x, np.asarray([-0.5, 0.5])), o.max(k, axis=1),
    ]  # fmt: skip
    return keras.Model([x, k], found)


@network
def moves(keras: Any) -> Any:
    """Operations that move elements, and products."""
    o = keras.ops
    x, y = keras.Input((3, 4), name="x"), keras.Input((4, 5), name="y")
    k = keras.Input((2,), dtype="int32", name="k")
    found = [
        o.reshape(x, (-1, 2, 6)), o.ravel(x), o.transpose(x, (0, 2, 1)), o.swapaxes(y, 1, 2),
        o.moveaxis(x, 2, 1), o.expand_dims(x, 2), o.squeeze(o.expand_dims(x, (1, 4))),
        o.concatenate([x, x * 2], axis=1), o.stack([x, x + 1], axis=-1), *o.split(x, 2, axis=2),
        *o.split(y, [1, 3], axis=1), *o.unstack(x, axis=1), o.flip(x, axis=1), o.roll(x, 1, axis=2),
        o.repeat(x, 2, axis=1), o.tile(x, (1, 2, 1)), o.pad(x, ((0, 0), (1, 2), (0, 1))),
        o.pad(x, ((0, 0), (1, 1), (0, 0)), mode="reflect"), o.tril(x), o.triu(x, 1),
        x[:, 1], x[:, ::2, 1:3], x[..., 0], x[:, None, 2:, -1], o.take(x, [2, 0], axis=1),
        o.one_hot(k, 4),
        o.take_along_axis(x, o.argsort(x, axis=1), axis=1), o.multi_hot(k, 5),
        o.matmul(x, y), x @ o.ones((4, 2)), o.tensordot(x, np.ones((4, 3), "float32"), axes=1),
        o.einsum("abc,acd->abd", x, y), o.dot(x, np.ones((4, 2), "float32")),
        o.broadcast_to(o.expand_dims(x, 1), (2, 3, 3, 4)), o.hstack([x, x]),
    ]  # fmt: skip
    return keras.Model([x, y, k], found)


@network
def narrow(keras: Any) -> Any:
    """Sums and products of small integers get wider, running ones wrap around; codes of -1."""
    o = keras.ops
    k = keras.Input((5,), dtype="int32", name="k")
    byte, signed = o.cast(k * 80 + 5, "uint8"), o.cast(k * 40 + 3, "int8")
    found = [
        o.sum(byte, axis=1), o.prod(byte, axis=1), o.sum(signed, axis=1), o.prod(signed, axis=1),
        o.cumsum(byte, axis=1), o.cumsum(signed, axis=1), o.one_hot(k - 1, 4),
        o.multi_hot(k - 1, 4),
    ]  # fmt: skip
    return keras.Model(k, found)


@network
def words(keras: Any) -> Any:
    """Integers: quotients, rows of a constant table, words with a mask that each step keeps."""
    lib, ops = keras.layers, keras.ops
    c = keras.Input((5,), dtype="int32", name="c")
    table = np.arange(12, dtype=np.float32).reshape(4, 3) / 8 - 1
    each = lib.TimeDistributed(lib.Dense(4, activation="tanh"))(
        lib.Embedding(4, 3, mask_zero=True)(c)
    )
    twice = lib.TimeDistributed(lib.TimeDistributed(lib.Dense(2)))(lib.Reshape((5, 2, 2))(each))
    quotients = [(c - 2) // 3, (c - 2) // -2, c // (c - 5)]
    rows = [ops.take(table, c, axis=0), ops.take(table, c % 3, axis=-1)]
    return keras.Model(c, [lib.LSTM(3)(each), twice, *quotients, *rows])


@network
def rare(keras: Any) -> Any:
    """Rare operations on each element."""
    o = keras.ops
    x, y = keras.Input((3, 4), name="x"), keras.Input((3, 4), name="y")
    k = keras.Input((4,), dtype="int32", name="k")
    j = k * 3 + 2
    holes = x + 0 * o.log(0.5 - x)  # NaN beyond 0.5
    ends = o.where(x > 0.5, float("inf"), o.where(x < -0.5, -float("inf"), holes))
    found = [
        o.arctan2(x, y), o.fmod(x, 0.75), o.cbrt(x), o.hypot(x, y), o.logaddexp(x, y),
        o.logaddexp2(x, y), o.fmax(holes, y), o.fmin(y, holes), o.heaviside(o.round(x), y),
        o.sinc(x), o.sinc(o.round(x)), o.sparse_plus(2 * x), o.isclose(x, o.round(x, 1), 0.02),
        o.nan_to_num(ends, nan=2.0, posinf=7.0, neginf=-9.0), o.isposinf(ends), o.isneginf(ends),
        o.bitwise_and(k, j), o.bitwise_or(k, j), o.bitwise_xor(k, j), o.bitwise_not(k),
        o.left_shift(k, j), o.right_shift(j, k), o.bitwise_xor(k > 1, j > 1),
        o.select([x > 1, y > 0], [x, 2 * y], -3.0),
        o.nansum(holes, axis=1), o.nanprod(holes, axis=2), o.nanmax(holes, axis=1),
        o.nanmin(holes, axis=(1, 2)), o.nanmean(holes, axis=1), o.nanvar(holes, axis=(1, 2)),
        o.nanstd(holes, axis=(1, 2), keepdims=True), o.nancumsum(holes, axis=1),
        o.nancumprod(holes, axis=2), o.ptp(x, axis=1), o.median(x, axis=2),
        o.median(x, axis=1, keepdims=True), o.quantile(x, 0.3, axis=(1, 2)),
        o.quantile(x, [0.1, 0.8], axis=2), o.percentile(x, 40.0, axis=2, method="lower"),
        o.percentile(x, 45.0, axis=2, method="midpoint"), *o.moments(x, axes=[1]),
        o.batch_normalization(x, o.ones((4,)) * 0.3, o.ones((4,)) * 2.0, axis=-1),
        o.rms_normalization(x, o.ones((4,)) * 3.0), o.trapezoid(x, dx=0.5, axis=1),
        o.diagonal(x, axis1=1, axis2=2), o.diagonal(x, offset=1, axis1=1, axis2=2),
        o.trace(x, axis1=1, axis2=2), *o.hsplit(x, 3), *o.dsplit(x, [1, 3]), o.dstack([x, y]),
        o.fliplr(x), o.flipud(x), o.rot90(x, axes=(1, 2)), o.rot90(x, k=2, axes=(1, 2)),
        o.rot90(x, k=3, axes=(1, 2)), o.inner(x, o.ones((2, 4))), o.vdot(o.ravel(x), o.ravel(y)),
        o.cross(x[:, 1:, :3], y[:, 1:, 1:]),
    ]  # fmt: skip
    return keras.Model([x, y, k], found)


@network
def pictures(keras: Any) -> Any:
    """Operations on images, with their own kernels."""
    o, rng = keras.ops, np.random.default_rng(8)
    x = keras.Input((6, 8, 3), name="x")

    def kernel(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    found = [
        o.conv(x, kernel(3, 2, 3, 4), 2, "same"), o.conv(x, kernel(2, 2, 3, 4), dilation_rate=2),
        o.depthwise_conv(x, kernel(3, 3, 3, 2), padding="same"),
        o.max_pool(x, 2), o.average_pool(x, (2, 3), 1), o.adaptive_max_pool(x, (3, 4)),
        o.adaptive_average_pool(x, (2, 2)), o.image.resize(x, (9, 5)),
        o.image.resize(x, (3, 4), interpolation="nearest"), o.image.rgb_to_grayscale(x),
        o.image.crop_images(x, top_cropping=1, target_height=4, left_cropping=2, target_width=5),
        o.image.pad_images(x, top_padding=1, target_height=9, left_padding=0, target_width=9),
        o.slice(x, (0, 1, 2, 0), (2, 3, 4, 3)),
        o.slice_update(x, (0, 1, 2, 0), o.slice(2 * x, (0, 1, 2, 0), (2, 3, 4, 3))),
        o.depth_to_space(o.concatenate([x, x, x, x], -1), 2), o.space_to_depth(x, 2),
        o.scatter_update(x, np.array([[0, 1], [1, 3]]), kernel(2, 8, 3)),
    ]  # fmt: skip
    return keras.Model(x, found)


@network
def spectra(keras: Any) -> Any:
    """Spectrograms, and attention that returns its shares."""
    lib = keras.layers
    x, line = keras.Input((40, 2), name="x"), keras.Input((300,), name="line")
    steps = keras.Input((5, 6), name="steps")
    frames: dict[str, Any] = {"frame_length": 8, "frame_step": 3}
    found = [
        lib.STFTSpectrogram(mode, **frames)(x)
        for mode in ("log", "magnitude", "psd", "real", "imag", "angle", "stft")
    ]
    found += [
        lib.STFTSpectrogram("magnitude", padding="same", expand_dims=True, **frames)(x),
        lib.STFTSpectrogram("psd", frame_length=6, data_format="channels_first")(
            keras.ops.transpose(x, (0, 2, 1))
        ),
        lib.MelSpectrogram(64, 20, num_mel_bins=12)(line),
        lib.MelSpectrogram(64, 16, 48, "hamming", num_mel_bins=8, power_to_db=False, mag_exp=1.0,
                           min_freq=100.0, max_freq=6000.0)(line),
        *lib.MultiHeadAttention(2, 3)(steps, steps, return_attention_scores=True),
        *lib.MultiHeadAttention(2, 3)(steps, steps, use_causal_mask=True,
                                      return_attention_scores=True),
        *lib.GroupQueryAttention(4, 4, 2)(steps, steps, return_attention_scores=True),
    ]  # fmt: skip
    return keras.Model([x, line, steps], found)


def randomize(keras: Any, model: Any, seed: int) -> None:
    """Random weights, the same whoever makes them."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        if str(weight.dtype) != "float32" or "seed" in weight.path:
            continue
        weight.assign(rng.standard_normal(tuple(weight.shape)).astype(np.float32) * 0.5)


def inputs_of(model: Any, seed: int) -> Arrays:
    """Two samples for each input: integers from 0 on, some steps of other values all 2."""
    rng = np.random.default_rng(seed)
    found: Arrays = {}
    for tensor in model.inputs:
        shape, dtype = (2, *tensor.shape[1:]), str(tensor.dtype)
        if dtype == "float32":
            value = rng.standard_normal(shape).astype(np.float32)
            if len(shape) == 3 and shape[1] > 3:
                value[0, -2:] = value[1, 2] = 2.0
        elif dtype == "bool":
            value = rng.random(shape) < 0.7
            value[..., 0] = True
        else:
            value = rng.integers(0, 4, shape).astype(dtype)
            value[:, -1:] = 0
        found[tensor.name] = value
    return found


def computed(model: Any, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """What Keras computes."""
    results = model(list(inputs.values()) if len(inputs) > 1 else next(iter(inputs.values())))
    flat = results if isinstance(results, list | tuple) else [results]
    return [np.asarray(y.detach() if hasattr(y, "detach") else y) for y in flat]


def made(keras: Any, name: str) -> tuple[Any, Arrays, list[NDArray[Any]]]:
    """A network with its inputs and outputs."""
    keras.utils.clear_session()
    seed = crc32(name.encode())
    model = NETWORKS[name](keras)
    randomize(keras, model, seed)
    inputs = inputs_of(model, seed)
    return model, inputs, computed(model, inputs)


def compress(path: Path) -> None:
    """Store the members of an archive compressed, with a fixed date."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def main() -> None:
    """Write all networks."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NETWORKS:
        model, inputs, outputs = made(keras, name)
        model.save(FOLDER / f"{name}.keras")
        compress(FOLDER / f"{name}.keras")
        arrays = {f"in_{k}": v for k, v in inputs.items()}
        arrays |= {f"out_{k}": v for k, v in enumerate(outputs)}
        np.savez_compressed(FOLDER / f"{name}.npz", **arrays)


if __name__ == "__main__":
    main()
