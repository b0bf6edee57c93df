"""The scoreboard has every class of an installed Keras, and says what is true."""

from __future__ import annotations

import inspect
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cannery.errors import UnsupportedError
from cannery.frontends.keras.layers.base import layer_names
from cannery.frontends.keras.layers.refused import REFUSED
from cannery.frontends.keras.layers.scoreboard import scoreboard
from frontends.keras_cases import CASES
from frontends.keras_files import LayerSpec
from frontends.keras_networks import FOLDER
from frontends.keras_single import imported

#: Other names of classes.
ALIASES = re.compile(r"Convolution|SeparableConvolution|(Global)?(Avg|Max)Pool\dD")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_classes_say_why(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        imported(tmp_path, LayerSpec(name, "n"), (4,), version="3.15.0")
    assert REFUSED[name].reason in str(caught.value)
    assert REFUSED[name].cure in str(caught.value)


def test_no_class_is_both_read_and_refused() -> None:
    assert not set(REFUSED) & set(layer_names())
    assert len(scoreboard()) > 150


def test_every_class_of_an_installed_keras() -> None:
    keras = _keras()
    classes = {n for n in dir(keras.layers) if inspect.isclass(getattr(keras.layers, n))}
    assert classes <= set(scoreboard()), "a new class: read it, or say in refused.py why not"


def test_every_class_that_is_read_is_compared_with_keras() -> None:
    """It occurs in a stored network, or among the cases of `compare_with_keras.py`."""
    files = ("keras_networks.py", "compare_with_keras.py")
    text = "".join((FOLDER.parent / name).read_text() for name in files)
    words = set(re.findall(r"\w+", text))
    words |= {case.layer for case in CASES}
    exact = [name for name, state in scoreboard().items() if state.startswith("exact")]
    assert {name for name in exact if not ALIASES.match(name)} <= words


def _keras() -> Any:
    if "KERAS_BACKEND" not in os.environ and find_spec("torch"):
        os.environ["KERAS_BACKEND"] = "torch"
    return pytest.importorskip("keras")
