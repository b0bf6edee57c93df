"""Templates are parsed once, and a cache that is stale or damaged changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import pytest

from cannery.ctext.environment import environment
from cannery.ctext.template_cache import TemplateCache

NAME = "a.j2"


class Place:
    """A folder of templates and of what Jinja makes of them; `parsed` counts how often it did."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.module = folder / "module.py"
        self.module.write_text("")
        self.template = folder / NAME
        self.template.write_text("{{ x }} pears")
        self.parsed = 0

    def render(self) -> str:
        """The text of the template, by an environment that has not seen it."""
        place = self

        class Counting(jinja2.Environment):
            def compile(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
                place.parsed += 1
                return super().compile(*arguments, **named)  # type: ignore[call-overload]

        env = Counting(
            loader=jinja2.FileSystemLoader(str(self.template.parent)),
            bytecode_cache=TemplateCache(self.cache, [self.module]),
        )
        return env.get_template(NAME).render(x=3)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return Place(tmp_path)


def test_templates_are_parsed_once(place: Place) -> None:
    assert [place.render(), place.render()] == ["3 pears"] * 2
    assert place.parsed == 1
    assert len(list(place.cache.iterdir())) == 1, "no temporary file stays"


def test_a_changed_template_is_parsed_again(place: Place) -> None:
    place.render()
    place.template.write_text("{{ x }} plums")
    assert place.render() == "3 plums"


def test_so_is_one_whose_functions_changed(place: Place) -> None:
    place.render()
    place.module.write_text("# another\n")
    place.render()
    assert place.parsed == 2


@pytest.mark.parametrize("length", [0, 10, 40, -1])
def test_a_damaged_file_counts_as_none(place: Place, length: int) -> None:
    place.render()
    (file,) = place.cache.iterdir()
    file.write_bytes(file.read_bytes()[:length])
    assert [place.render(), place.render()] == ["3 pears"] * 2
    assert place.parsed == 2, "and the next writes a whole one"


def test_a_folder_that_cannot_be_there_is_no_error(place: Place) -> None:
    place.cache.write_text("a file")
    assert place.render() == "3 pears"


def test_nothing_is_written_where_python_writes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert place.render() == "3 pears"
    assert not place.cache.exists()


def test_cannery_has_one() -> None:
    assert isinstance(environment().bytecode_cache, TemplateCache)
