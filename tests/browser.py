"""What a page becomes in Chromium, if that is installed: no package of the tests needs it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")

#: What Chromium logs of a page: errors of scripts, and what a page's policy forbids.
_CONSOLE = re.compile(r"CONSOLE[^\]]*\] (.*)")


@dataclass(frozen=True)
class Seen:
    """The page after its scripts have run, and what they said on the console."""

    html: str
    console: list[str]


def open_page(path: Path) -> Seen:
    """Open a page without any network. Skips the test where there is no browser."""
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(_NAMES)} is installed")
    words = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={path.parent / 'browser'}", "--virtual-time-budget=10000",
        "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    found = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    return Seen(found.stdout, _CONSOLE.findall(found.stderr))
