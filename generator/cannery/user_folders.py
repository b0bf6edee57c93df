"""The folders of a user, by the rules of the XDG base directories; on macOS by its own.

Only paths as text: this is asked in every process that loads a network, before anything else.
"""

from __future__ import annotations

import os
import sys


def user_cache() -> str:
    """The folder of everything that Cannery may forget; one that cannot be where there is no home.

    That is so for a user whom the system does not know, without HOME, as in many containers.
    """
    found = _folder("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches")
    return found or os.path.join(os.devnull, "cannery")


def user_config() -> str | None:
    """The folder of what a user tells Cannery; None where there is no home."""
    return _folder("XDG_CONFIG_HOME", "~/.config", "~/Library/Application Support")


def _folder(variable: str, usual: str, on_macos: str) -> str | None:
    """Relative paths count as missing, as XDG's rules say."""
    found = os.environ.get(variable, "")
    if not os.path.isabs(found):
        found = os.path.expanduser(on_macos if sys.platform == "darwin" else usual)
    return os.path.join(found, "cannery") if os.path.isabs(found) else None
