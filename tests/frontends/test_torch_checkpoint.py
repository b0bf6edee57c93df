"""Checkpoints of PyTorch: what is in them is said from their names, and nothing is executed."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cannery.errors import CanneryError
from cannery.frontends import load_graph
from cannery.frontends.torch_checkpoint import Contents, contents

#: Pickles as torch.save writes them, in parts: an ordered dictionary with one tensor, of which the
#: class and a number stand for the arguments; a module.
TENSOR = b"X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\nq\x02K\x07\x85R"
WEIGHTS = b"ccollections\nOrderedDict\nq\x01)R(" + TENSOR + b"u"
MODULE = b"cnets\nDet\n)\x81}(X\x08\x00\x00\x00_modulesccollections\nOrderedDict\n)Rub"


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + len(data).to_bytes(4, "little") + data


def dictionary(**members: bytes) -> bytes:
    pairs = b"".join(text(key) + value for key, value in members.items())
    return b"}q\x09(" + pairs + b"u"


def written(path: Path, value: bytes, old: bool = False) -> Path:
    """A checkpoint of a value, as an archive or in the form until PyTorch 1.6."""
    pickled = b"\x80\x02" + value + b"."
    if old:
        start = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\0."
        path.write_bytes(start + pickled)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("net/data.pkl", pickled)
            archive.writestr("net/data/0", bytes(64))
    return path


CASES = {
    "a state dict": (WEIGHTS, Contents()),
    "at a key": (dictionary(epoch=b"K\x03", model_dict=WEIGHTS), Contents(key="model_dict")),
    "the class again": (
        dictionary(_metadata=WEIGHTS, ema=b"h\x01)R(" + TENSOR + b"u"), Contents(key="ema")
    ),
    "with other classes": (
        dictionary(args=b"cargparse\nNamespace\n)\x81", model=WEIGHTS),
        Contents(key="model", plain=False),
    ),
    "a plain dictionary": (b"}q\x09(" + TENSOR + b"u", Contents()),
    "a module": (MODULE, Contents("nets.Det", plain=False)),
    "a module at a key": (dictionary(model=MODULE), Contents("nets.Det", "model", plain=False)),
    "a number": (b"K\x07", None),
    "another object": (b"cnets\nDet\n)\x81", None),
    "a key that is code": (dictionary(**{'"]); evil("': WEIGHTS}), None),
    "a class that is code": (MODULE.replace(b"nets\n", b"n(1)\n"), None),
    "not a pickle": (b"\xff\xff", None),
}  # fmt: skip


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_is_in_a_checkpoint(case: str, old: bool, tmp_path: Path) -> None:
    value, expected = CASES[case]
    assert contents(written(tmp_path / "net.pth", value, old)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (WEIGHTS, 'then model.load_state_dict(torch.load("FILE", weights_only=True)), '),
        (dictionary(net=WEIGHTS), 'torch.load("FILE", weights_only=True)["net"]), model.eval()'),
        (MODULE, 'if you trust .* model = torch.load("FILE", weights_only=False), model.eval'),
        (b"K\x07", 'torch.load("FILE", weights_only=True)'),
    ],
)  # fmt: skip
def test_the_error_has_the_line(value: bytes, expected: str, tmp_path: Path) -> None:
    path = written(tmp_path / "net.pth", value)
    with pytest.raises(CanneryError, match=r"a PyTorch checkpoint .*never executed") as caught:
        load_graph(path)
    found = caught.value.cure.replace(str(path), "FILE")
    assert re.search(re.escape(expected).replace(r"\.\*", ".*"), found), found


def test_as_torch_saves_them(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "net.pth"
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(net.parameters(), momentum=0.9)
    net(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    both = {"optimizer": optimizer.state_dict(), "net": net.state_dict()}
    name = "torch.nn.modules.container.Sequential"
    rows: list[tuple[Any, Contents]] = [
        (net.state_dict(), Contents()),
        (both, Contents(key="net")),
        (net, Contents(name, plain=False)),
        ({"net": net}, Contents(name, "net", plain=False)),
    ]
    for value, expected in rows:
        for new in (True, False):
            torch.save(value, path, _use_new_zipfile_serialization=new)
            assert contents(path) == expected


@pytest.mark.parametrize("damage", [lambda data: data[:90], lambda data: data[:40] + b"\xff" * 50])
def test_damaged_checkpoints(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = written(tmp_path / "net.pth", WEIGHTS, old=True)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CanneryError, match="a PyTorch checkpoint"):
        load_graph(path)


def test_the_parts_are_pickles() -> None:
    """What the cases are made of can be read by Python, too."""
    values = pickle.loads(
        b"\x80\x02" + dictionary(a=b"K\x03", b=b"ccollections\nOrderedDict\n)R") + b"."
    )
    assert values == {"a": 3, "b": {}}
