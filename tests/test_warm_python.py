"""The Python that is kept ready for tests does what one that is started does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warm_python import warm_python

SCRIPT = """\
import os, sys
if sys.argv[1] == "wait":
    print(os.getpid(), flush=True)
    sys.stdin.read()
if sys.argv[1] == "die":
    os.kill(os.getpid(), int(sys.argv[2]))
print(sys.argv[1:], os.getcwd(), os.environ["A_WORD"], "HOME" in os.environ, sys.stdin.read())
print("to the errors", file=sys.stderr)
sys.exit(eval(sys.argv[2]))
"""

EACH = pytest.mark.parametrize("warm", [False, True])


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def python(*, warm: bool) -> Path:
    return warm_python() if warm else Path(sys.executable)


@EACH
@pytest.mark.parametrize(
    ("end", "code"), [("0", 0), ("3", 3), ("None", 0), ("'a reason'", 1), ("1 // 0", 1)]
)
def test_words_streams_and_end(
    warm: bool, end: str, code: int, script: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [python(warm=warm), script, "a word", end, "x\ny"], cwd=tmp_path, input="typed",
        env={"A_WORD": "x=\n1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code
    told = f"['a word', {end!r}, 'x\\ny'] {tmp_path} x=\n1 False typed\n"
    assert done.stdout == told
    assert done.stderr.startswith("to the errors\n")
    assert ("ZeroDivisionError" in done.stderr) == ("//" in end)
    assert ("a reason" in done.stderr) == ("reason" in end)


@EACH
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_signal_is_the_end_of_who_asked(warm: bool, number: int, script: Path) -> None:
    done = subprocess.run([python(warm=warm), script, "die", str(int(number))], check=False)
    assert done.returncode == -number


def test_it_ends_with_who_asked(script: Path) -> None:
    words = [warm_python(), script, "wait", "0"]
    asking = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert asking.stdin is not None
    assert asking.stdout is not None
    number = int(asking.stdout.readline())
    asking.kill()
    asking.wait()
    limit = time.monotonic() + 60
    while time.monotonic() < limit and Path(f"/proc/{number}").exists():
        time.sleep(0.01)
    assert not Path(f"/proc/{number}").exists()


def test_the_command_is_that_of_this_checkout() -> None:
    words = [warm_python(), "-m", "cannery", "cmake-dir"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == Path(__file__).parents[1] / "cmake"
