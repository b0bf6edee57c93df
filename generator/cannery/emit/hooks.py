"""What a library does besides its steps, if asked to: count their time, show their values."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from cannery.ctext.environment import render
from cannery.emit.interface import LAST
from cannery.emit.values import RUN, dump_header, seen_values

if TYPE_CHECKING:
    from cannery.emit.source import Source


class Hooks:
    """The statements around the steps of a run function; none where nothing was asked for.

    `lap` is a C function that is called with each step's number.
    """

    def __init__(self, source: Source, lap: str = "", *, dump: bool = True) -> None:
        self._source = source
        self._lap = lap
        self._dump = source.dump and dump

    @cached_property
    def _seen(self) -> dict[int, list[str]]:
        """The statements that show what is complete after each step."""
        found: dict[int, list[str]] = {}
        if self._dump:
            symbol = f"{self._source.name}_show"
            for number, seen in enumerate(seen_values(self._source)):
                line = f"{symbol}({number}, {seen.memory}, {seen.bytes}u);"
                found.setdefault(seen.step, []).append(line)
        return found

    @property
    def begin(self) -> list[str]:
        """Before the first step."""
        lines = [f"{self._source.name}_show({RUN}, 0, 0u);"] if self._dump else []
        lines += self._seen.get(-1, [])
        if self._source.trace:
            lines.append(f"cannery_trace_time {LAST} = cannery_trace_now();")
        return lines

    def after(self, step: int, runs: int = 1) -> list[str]:
        """After a step of this many runs."""
        lines = [f"{self._lap}({step});"] if self._lap else []
        if self._source.trace:
            lines.append(f"{LAST} = {self._source.name}_count({step}, {runs}u, {LAST});")
        shown = self._seen.get(step, [])
        again = [f"{LAST} = cannery_trace_now();"] if shown and self._source.trace else []
        return lines + shown + again


def hooks_text(source: Source) -> str:
    """The functions of `<name>.c` that hooks call, and those by which users learn something."""
    seen = seen_values(source) if source.dump else ()
    text = render("emit/hooks.c.j2", s=source, header=dump_header(source, seen))
    return text if source.part else text + render("emit/texts.c.j2", s=source)
