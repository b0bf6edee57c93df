"""The live display of autotune: a bar, the current activity, and the latest results."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cannery.measure.cache import Measurement
from cannery.tuning.contests import Contest
from cannery.tuning.search import Progress, Quiet

if TYPE_CHECKING:
    from rich.console import RenderableType

#: How many contests stay on the screen.
_SHOWN = 8


@contextmanager
def live_progress() -> Iterator[Progress]:
    """A display on stderr while the block runs; nothing if it is not a terminal."""
    if not sys.stderr.isatty():
        yield Quiet()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR")))
    display = _Display()
    with Live(get_renderable=display.render, console=console, transient=True, refresh_per_second=8):
        yield display


class _Display:
    """What is on the screen."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self.bar = Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(),
        )  # fmt: skip
        self.task = self.bar.add_task("starting", total=None)
        self.lines: deque[str] = deque(maxlen=_SHOWN)

    def total(self, contests: int) -> None:
        """Called with the number of contests to decide."""
        self.bar.update(self.task, total=contests)

    def stage(self, text: str) -> None:
        """Called with what begins now."""
        self.bar.update(self.task, description=text)

    def decided(self, contest: Contest, found: Mapping[str, Measurement]) -> None:
        """Called when a contest is over."""
        self.bar.advance(self.task)
        estimated = {label: m.estimated_us for label, m in found.items()}
        times = {label: estimated[label] or m.us for label, m in found.items()}
        timed = {label: us for label, us in times.items() if us is not None}
        if contest.steps and timed:
            best = min(timed, key=lambda label: timed[label])
            self.lines.append(f"{contest.name}: {timed[best]:.2f} us  {best}")

    def render(self) -> RenderableType:
        """The bar above the last contests."""
        from rich.console import Group
        from rich.text import Text

        return Group(self.bar, *(Text(line, style="dim", no_wrap=True) for line in self.lines))
