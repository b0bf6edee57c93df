"""The documentation is a site without broken links, and without requests to other hosts."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

from needs import missing

ROOT = Path(__file__).parents[2]

#: Where pages may link to; anything that a browser would load must be local.
LOADED = re.compile(r"""<(?:script|link|img)[^>]*(?:src|href)="(https?:)?//([^"]*)""")


def test_the_site_builds(tmp_path: Path) -> None:
    if importlib.util.find_spec("material") is None:
        missing("mkdocs-material not installed: pip install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > len([*ROOT.glob("docs/**/*.md")])
    for page in pages:
        assert [m[2] for m in LOADED.finditer(page.read_text())] == [], page
