"""Run by CMake with a candidate Python: exit code 0 if it can run the Cannery beside this file.

Must itself run on any Python 3.
"""

import os
import sys

NEEDED = ("click", "filelock", "h5py", "jinja2", "msgspec", "numpy", "platformdirs", "rich")


def main():
    if sys.version_info < (3, 10):
        sys.exit("Python %d.%d is too old, 3.10 is needed" % sys.version_info[:2])
    from importlib.util import find_spec

    own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    packages = (own, os.path.join(own, "generator", "cannery"))
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


main()
