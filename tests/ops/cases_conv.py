"""Convolutions: sizes around the tiles, strides, dilations, pads, epilogues, residuals, batches."""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, LeakyRelu, Mul, Relu, Sigmoid
from ops.cases import Net, case

ONE = (1, 1)
SAME3 = ((1, 1), (1, 1))
NONE = ((0, 0), (0, 0))


@case
def conv_3x3_same_relu() -> Graph:
    net = Net()
    x = net.input("x", (1, 9, 13, 3))
    y = net.node(Conv(ONE, SAME3, ONE), [x, net.weight(3, 3, 3, 8), net.weight(8)])
    return net.graph(net.node(Relu(), [y]))


@case
def conv_3x3_odd_channels() -> Graph:
    net = Net()
    x = net.input("x", (1, 6, 7, 5))
    return net.graph(net.node(Conv(ONE, SAME3, ONE), [x, net.weight(3, 3, 5, 7), net.weight(7)]))


@case
def conv_3x3_wide() -> Graph:
    net = Net()
    x = net.input("x", (1, 5, 6, 18))
    return net.graph(net.node(Conv(ONE, SAME3, ONE), [x, net.weight(3, 3, 18, 36), net.weight(36)]))


@case(far=True)
def conv_3x3_far() -> Graph:
    net = Net()
    x = net.input("x", (1, 9, 14, 20))
    r = net.input("r", (1, 9, 14, 37))
    y = net.node(Conv(ONE, SAME3, ONE), [x, net.weight(3, 3, 20, 37), net.weight(37)])
    return net.graph(net.node(Relu(), [net.node(Add(), [y, r])]))


@case(far=True)
def conv_3x3_pruned() -> Graph:
    """Three of four weights are zero: parts of some output channels each."""
    net = Net()
    x = net.input("x", (1, 7, 19, 8))
    r = net.input("r", (1, 7, 19, 24))
    weights = net.rng.standard_normal((3, 3, 8, 24)).astype(np.float32)
    weights[net.rng.random(weights.shape) < 0.75] = 0.0
    y = net.node(Conv(ONE, SAME3, ONE), [x, net.constant("w", weights), net.weight(24)])
    return net.graph(net.node(Relu(), [net.node(Add(), [y, r])]))


@case
def conv_5x5_stride() -> Graph:
    net = Net()
    x = net.input("x", (1, 16, 16, 1))
    conv = Conv((2, 2), ((1, 2), (1, 2)), ONE)
    y = net.node(conv, [x, net.weight(5, 5, 1, 8), net.weight(8)])
    return net.graph(net.node(LeakyRelu(0.1), [y]))


@case
def conv_3x3_fewer_rows() -> Graph:
    net = Net()
    x = net.input("x", (2, 15, 9, 8))
    y = net.node(Conv((2, 1), SAME3, ONE), [x, net.weight(3, 3, 8, 12), net.weight(12)])
    r = net.input("r", (2, 8, 9, 12))
    return net.graph(net.node(Relu(), [net.node(Add(), [y, r])]))


@case
def conv_5x4_stride() -> Graph:
    net = Net()
    x = net.input("x", (1, 14, 17, 6))
    conv = Conv((2, 3), ((2, 1), (0, 2)), ONE)
    return net.graph(net.node(conv, [x, net.weight(5, 4, 6, 9), net.weight(9)]))


@case
def conv_asymmetric() -> Graph:
    net = Net()
    x = net.input("x", (1, 11, 8, 4))
    conv = Conv((3, 1), ((0, 2), (3, 1)), (1, 2))
    return net.graph(net.node(conv, [x, net.weight(2, 4, 4, 6), net.weight(6)]))


@case
def conv_1x1() -> Graph:
    net = Net()
    x = net.input("x", (1, 4, 9, 12))
    return net.graph(net.node(Conv(ONE, NONE, ONE), [x, net.weight(1, 1, 12, 17), net.weight(17)]))


@case
def conv_one_output_channel() -> Graph:
    net = Net()
    x = net.input("x", (1, 5, 8, 6))
    y = net.node(Conv(ONE, NONE, ONE), [x, net.weight(3, 3, 6, 1), net.weight(1)])
    return net.graph(net.node(Sigmoid(), [y]))


@case
def conv_batch_without_bias() -> Graph:
    net = Net()
    x = net.input("x", (3, 4, 5, 3))
    return net.graph(net.node(Conv(ONE, SAME3, ONE), [x, net.weight(3, 3, 3, 4)]))


@case
def conv_scale_residual() -> Graph:
    net = Net()
    x = net.input("x", (1, 6, 10, 4))
    r = net.input("r", (1, 6, 10, 10))
    y = net.node(Conv(ONE, SAME3, ONE), [x, net.weight(3, 3, 4, 10), net.weight(10)])
    y = net.node(Mul(), [y, net.weight(10)])
    y = net.node(Add(), [y, r])
    return net.graph(net.node(Relu(), [y]))


@case
def conv_window_covers_image() -> Graph:
    net = Net()
    x = net.input("x", (1, 2, 2, 3))
    return net.graph(
        net.node(Conv(ONE, ((2, 2), (2, 2)), ONE), [x, net.weight(5, 5, 3, 5), net.weight(5)])
    )


@case
def conv_long_window() -> Graph:
    net = Net()
    x = net.input("x", (1, 3, 37, 4))
    conv = Conv((1, 2), ((0, 0), (4, 4)), ONE)
    return net.graph(net.node(conv, [x, net.weight(1, 11, 4, 6), net.weight(6)]))


@case
def conv_3x3_tile_multiples() -> Graph:
    net = Net()
    x = net.input("x", (1, 12, 20, 4))
    y = net.node(Conv(ONE, SAME3, ONE), [x, net.weight(3, 3, 4, 9), net.weight(9)])
    return net.graph(net.node(Relu(), [y]))


@case
def conv_3x3_small_image() -> Graph:
    net = Net()
    x = net.input("x", (1, 4, 4, 10))
    r = net.input("r", (1, 4, 4, 9))
    y = net.node(Conv(ONE, SAME3, ONE), [x, net.weight(3, 3, 10, 9), net.weight(9)])
    return net.graph(net.node(Relu(), [net.node(Add(), [y, r])]))


@case
def conv_small_image_dilated_strides() -> Graph:
    net = Net()
    x = net.input("x", (1, 9, 10, 3))
    conv = Conv((1, 2), ((2, 1), (1, 3)), (2, 3))
    return net.graph(net.node(conv, [x, net.weight(3, 3, 3, 5), net.weight(5)]))


@case
def conv_3x3_valid_deep() -> Graph:
    net = Net()
    x = net.input("x", (1, 7, 9, 13))
    y = net.node(Conv(ONE, NONE, ONE), [x, net.weight(3, 3, 13, 11), net.weight(11)])
    return net.graph(net.node(LeakyRelu(0.2), [y]))


@case
def conv_line_of_three() -> Graph:
    net = Net()
    x = net.input("x", (1, 1, 37, 6))
    conv = Conv(ONE, ((0, 0), (1, 1)), ONE)
    y = net.node(conv, [x, net.weight(1, 3, 6, 9), net.weight(9)])
    return net.graph(net.node(Relu(), [y]))


@case
def conv_column_of_three_residual() -> Graph:
    net = Net()
    x = net.input("x", (2, 10, 5, 4))
    r = net.input("r", (2, 10, 5, 8))
    y = net.node(Conv(ONE, ((2, 0), (0, 0)), ONE), [x, net.weight(3, 1, 4, 8), net.weight(8)])
    return net.graph(net.node(Relu(), [net.node(Add(), [y, r])]))


@case
def conv_5x5_same() -> Graph:
    net = Net()
    x = net.input("x", (1, 9, 7, 5))
    y = net.node(Conv(ONE, ((2, 2), (2, 2)), ONE), [x, net.weight(5, 5, 5, 6), net.weight(6)])
    return net.graph(net.node(Relu(), [y]))


@case
def conv_2x4() -> Graph:
    net = Net()
    x = net.input("x", (1, 8, 9, 4))
    conv = Conv(ONE, ((0, 1), (2, 1)), ONE)
    return net.graph(net.node(conv, [x, net.weight(2, 4, 4, 12), net.weight(12)]))


@case
def conv_plane_4x4() -> Graph:
    """As many outputs as a vector has lanes, read again with a halo."""
    net = Net()
    x = net.input("x", (1, 4, 4, 3))
    y = net.node(Conv(ONE, SAME3, ONE), [x, net.weight(3, 3, 3, 20), net.weight(20)])
    y = net.node(LeakyRelu(0.1), [net.node(Mul(), [y, net.weight(20)])])
    return net.graph(net.node(Conv(ONE, SAME3, ONE), [y, net.weight(3, 3, 20, 5), net.weight(5)]))


@case
def conv_plane_2x2() -> Graph:
    """Four outputs: positions x channels in the lanes, the last vector not full."""
    net = Net()
    x = net.input("x", (2, 4, 5, 6))
    y = net.node(Conv((1, 2), NONE, (1, 1)), [x, net.weight(3, 2, 6, 110), net.weight(110)])
    return net.graph(net.node(Relu(), [y]))


@case
def conv_plane_dilated() -> Graph:
    net = Net()
    x = net.input("x", (1, 11, 9, 2))
    conv = Conv((3, 2), ((2, 3), (1, 0)), (3, 2))
    return net.graph(net.node(conv, [x, net.weight(2, 3, 2, 9)]))


@case
def conv_single_dilated() -> Graph:
    """One window of a past, as in a network that runs step by step."""
    net = Net()
    x = net.input("x", (1, 1, 9, 16))
    r = net.input("r", (1, 1, 1, 20))
    y = net.node(Conv(ONE, NONE, (1, 4)), [x, net.weight(1, 3, 16, 20), net.weight(20)])
    return net.graph(net.node(Relu(), [net.node(Add(), [y, r])]))


@case
def conv_single_square() -> Graph:
    """Two images; the sums are long, and inputs are no multiple of any vector."""
    net = Net()
    x = net.input("x", (2, 5, 4, 45))
    y = net.node(Conv(ONE, NONE, (2, 3)), [x, net.weight(3, 2, 45, 7), net.weight(7)])
    return net.graph(net.node(Sigmoid(), [y]))


@case
def conv_single_deep() -> Graph:
    """Each tap is a long sum."""
    net = Net()
    x = net.input("x", (1, 5, 1, 270))
    return net.graph(net.node(Conv(ONE, NONE, (4, 1)), [x, net.weight(2, 1, 270, 33)]))


@case
def conv_line_dilated_residual() -> Graph:
    """Four interleaved rows of tiles, of which the last ones are cut off."""
    net = Net()
    x = net.input("x", (1, 1, 32, 10))
    r = net.input("r", (1, 1, 24, 12))
    y = net.node(Conv(ONE, NONE, (1, 4)), [x, net.weight(1, 3, 10, 12), net.weight(12)])
    return net.graph(net.node(Relu(), [net.node(Add(), [y, r])]))


@case
def conv_dilated_padded() -> Graph:
    """Windows with gaps along rows that read a halo, of two images."""
    net = Net()
    x = net.input("x", (2, 5, 12, 6))
    y = net.node(Conv(ONE, ((1, 1), (3, 3)), (1, 3)), [x, net.weight(3, 3, 6, 9), net.weight(9)])
    return net.graph(net.node(Sigmoid(), [y]))
