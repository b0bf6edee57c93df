"""Run by CMake with a Python: the command line of the Cannery that this file belongs to.

    run_cannery.py --probe      exit code 0, and the version, if this Python can run it
    run_cannery.py --closest WORD KNOWN...  prints the known word that is probably meant, if any
    run_cannery.py WORDS...     as `cannery --no-project WORDS...`: add_nn_model has all options

`PYTHONPATH` would not do: an editable installation of another checkout goes before it. The probe
must itself run on any Python 3.
"""

import os
import sys

NEEDED = ("click", "filelock", "h5py", "jinja2", "msgspec", "numpy", "rich")

OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def prefer_own():
    """In a checkout, import Cannery from there, whatever is installed."""
    from importlib.machinery import PathFinder

    generator = os.path.join(OWN, "generator")
    if os.path.isdir(generator):
        sys.path[0] = generator
        sys.meta_path.insert(0, PathFinder)


def probe():
    if sys.version_info < (3, 10):
        sys.exit("Python %d.%d is too old, 3.10 is needed" % sys.version_info[:2])
    from importlib.util import find_spec

    packages = (OWN, os.path.join(OWN, "generator", "cannery"))
    spec = find_spec("cannery")
    if spec is None or spec.origin is None:
        sys.exit("Cannery is not installed there")
    found = os.path.dirname(os.path.realpath(spec.origin))
    if found not in packages:
        sys.exit("has another Cannery, in " + found)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.exit(
            "lacks %s: %s -m pip install %s"
            % (" ".join(missing), sys.executable, " ".join(missing))
        )
    import cannery

    print(cannery.__version__)


def main():
    if sys.version_info >= (3, 10):
        prefer_own()
    if sys.argv[1:] == ["--probe"]:
        probe()
    elif sys.argv[1:2] == ["--closest"]:
        from cannery.errors import closest

        print(closest(sys.argv[2], sys.argv[3:]))
    else:
        from cannery.cli import main as cannery

        sys.argv.insert(1, "--no-project")
        cannery()


main()
