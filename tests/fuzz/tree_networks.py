"""Random ensembles of trees as ONNX files."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from frontends.tree_models import MODES, grow, tree_model, weigh

_POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def random_forest(random: Random) -> Any:
    """A regressor or classifier."""
    rng = np.random.default_rng(random.randrange(2**32))
    features, targets = random.randint(1, 6), random.randint(1, 4)
    modes = random.choice([MODES, MODES[:1], MODES[1:2], MODES[2:5]])
    missing = random.random() < 0.5
    nodes = grow(rng, random.randint(1, 12), random.randint(0, 6), features, modes, missing)
    post: dict[str, Any] = {"post_transform": random.choice(_POST)}
    if random.random() < 0.5:
        more: dict[str, Any] = {"base_values": [0.5] * targets}
    else:
        more = {}
    samples = random.choice([1, 1, 3])
    if random.random() < 0.5:
        given = {**nodes, **weigh(rng, nodes, targets), **post, **more, "n_targets": targets}
        given["aggregate_function"] = random.choice(["SUM", "AVERAGE", "MIN", "MAX"])
        return tree_model("TreeEnsembleRegressor", features, ["y"], samples, **given)
    labels: dict[str, Any] = {"classlabels_int64s": list(range(targets))}
    if random.random() < 0.5:
        labels = {"classlabels_strings": [f"class {k}" for k in range(targets)]}
    given = {**nodes, **weigh(rng, nodes, targets, "class"), **post, **more, **labels}
    return tree_model("TreeEnsembleClassifier", features, ["label", "scores"], samples, **given)
