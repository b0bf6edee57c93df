"""What --device names: addresses, and the rows of devices.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from cannery.devices import Place, devices_target, find_places
from cannery.errors import OptionError
from cannery.options import make_options

ROWS = """
[nao1]
address = "ssh:nao@10.0.0.5"
target = "silvermont"
cores = [3]

[nao2]
address = "ssh:nao@10.0.0.6:2222"
target = "silvermont"
environment = { OMP_NUM_THREADS = "1" }

[pi]
command = "./on-pi -v"
target = "aarch64-a72"

[naos]
devices = ["nao1", "nao2"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, whose configuration folders and working directory are its own, too."""
    (tmp_path / "project/models").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/cannery").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "project"


def write_own(folder: Path, text: str) -> None:
    """The user's own file."""
    (folder.parent / "config/cannery/devices.toml").write_text(text)


def model(folder: Path) -> Path:
    return folder / "models/ball.h5"


@pytest.mark.parametrize(
    ("text", "login", "port"),
    [
        ("ssh:nao", "nao", 0),
        ("ssh:nao@10.0.0.5", "nao@10.0.0.5", 0),
        ("ssh:nao@nao-1.local:2222", "nao@nao-1.local", 2222),
        ("ssh:nao@[fe80::1%eth0]:22", "nao@fe80::1%eth0", 22),
    ],
)
def test_addresses(text: str, login: str, port: int, folder: Path) -> None:
    (place,) = find_places([text], model(folder))
    assert (place.name, place.login, place.port) == (text, login, port)


@pytest.mark.parametrize(
    "text",
    ["ssh:", "ssh:-oProxyCommand=sh", "ssh:-G", "ssh:-G@nao", "adb:", "adb:-s", "ssh:a b",
     "ssh:nao@", "ssh:nao:0", "ssh:nao:99999", "ssh:nao@-h", "ssh:nao:22:22", "ssh:nao\n",
     "http:nao", ":"],
)  # fmt: skip
def test_what_is_no_address(text: str, folder: Path) -> None:
    with pytest.raises(OptionError, match="is not an address"):
        find_places([text], model(folder))


def test_names_are_found_beside_the_model_then_above_then_in_the_configuration(
    folder: Path,
) -> None:
    def port() -> int:
        (place,) = find_places(["nao"], model(folder))
        return place.port

    def write(path: Path, number: int) -> None:
        path.write_text(f'[nao]\naddress = "ssh:nao:{number}"\n')

    with pytest.raises(OptionError, match="or name it in a file"):
        port()
    for number, place in enumerate(
        ("config/cannery", "elsewhere", "project", "project/models"), start=1
    ):
        write(folder.parent / place / "devices.toml", number)
        assert port() == number
    with pytest.raises(OptionError, match="did you mean 'nao'"):
        find_places(["nao1"], model(folder))


def test_a_row_is_what_it_says(folder: Path) -> None:
    write_own(folder, ROWS)
    one, other = find_places(["naos"], model(folder))
    assert (one.name, one.login, one.row.cores) == ("nao1", "nao@10.0.0.5", (3,))
    assert (other.port, dict(other.row.environment)) == (2222, {"OMP_NUM_THREADS": "1"})
    (pi,) = find_places(["pi"], model(folder))
    assert pi == Place("pi", pi.row)
    assert find_places(["nao1", "nao2"], model(folder)) == (one, other)
    assert devices_target(["naos"], model(folder)) == "silvermont"
    assert devices_target(["ssh:nao"], model(folder)) == ""
    with pytest.raises(OptionError, match="nao1 is silvermont, pi is aarch64-a72"):
        devices_target(["nao1", "pi"], model(folder))
    with pytest.raises(OptionError, match="'nao1' is given twice"):
        find_places(["naos", "nao1"], model(folder))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[nao", "devices.toml: "),
        ('[nao]\nadress = "ssh:nao"', "devices.toml:2: nao: unknown key 'adress' (did you mean"),
        ('[pi]\ncore = 1\n[nao]\naddress = "ssh:nao"\ncore = 1', ":2: pi: unknown key 'core' ("),
        ('[nao]\nwhere = "x"', "keys: address, command, devices, target, cores, environment"),
        ('pi.address = "ssh:pi"\nnao.core = 2', ":2: nao: unknown key 'core'"),
        ('[nao]\naddress = "core = 1"\n# core = 1\n"core" = 2', ":4: nao: unknown key 'core'"),
        ('[nao]\naddress = "a@b"', "--device nao: 'a@b' is not an address"),
        ('[nao]\ncores = ["a"]\naddress = "ssh:nao"', ":2: nao: cores: Expected `int`, got `str`"),
        ('[nao]\ncores = "2"', "nao: cores: Expected `array`, got `str` (cores = [2, 3])"),
        ('[nao]\naddress = "ssh:nao"\nenvironment = { "A B" = "c" }', ":3: nao: environment: "),
        ('[nao]\naddress = "ssh:nao"\nenvironment = { A = 3 }', "nao: environment: Expected"),
        ('[nao]\naddress = ""', "nao: address: Expected `str` of length >= 1"),
        ("[nao]", "has no address"),
        ('[nao]\naddress = "ssh:nao"\ncommand = "x"', "has address and command"),
        ('[nao]\ndevices = ["pi"]', "'pi' is not known"),
        ('[nao]\ndevices = ["nao"]', "has a group in it"),
        ("nao = 3", "'nao' is not a table (a table for each device: [nao], address ="),
    ],
)
def test_damaged_files(text: str, what: str, folder: Path) -> None:
    write_own(folder, text)
    with pytest.raises(OptionError) as caught:
        find_places(["nao"], model(folder))
    assert what in str(caught.value)


@pytest.mark.parametrize("line", ['command = "touch x"', 'ssh = ["-oProxyCommand=touch x"]'])
def test_only_the_users_own_file_says_what_is_run_here(line: str, folder: Path) -> None:
    address = "" if line.startswith("command") else 'address = "ssh:nao"\n'
    (folder / "devices.toml").write_text(f"[nao]\n{address}{line}\n[pi]\naddress = 'ssh:pi'\n")
    with pytest.raises(OptionError, match="is refused, because its text would run on this machine"):
        find_places(["nao"], model(folder))
    find_places(["pi", "adb:0A1B"], model(folder))
    (folder / "devices.toml").unlink()
    write_own(folder, f"[nao]\n{address}{line}\n")
    find_places(["nao"], model(folder))


def test_a_device_names_the_target_unless_another_option_does(folder: Path) -> None:
    write_own(folder, ROWS)
    assert make_options(model(folder), {"device": "naos"}).target == "silvermont"
    given = {"device": "nao1", "target": "sse42"}
    assert make_options(model(folder), given).target == "sse42"
    assert make_options(model(folder), {"device": "nao1", "isa": "avx2"}).target == "native"
    with pytest.raises(OptionError, match="--device cannot be combined with it"):
        make_options(model(folder), {"device": "nao1", "runner": "./on-nao"})
    with pytest.raises(OptionError, match="--device: the name is empty"):
        make_options(model(folder), {"device": ""})
