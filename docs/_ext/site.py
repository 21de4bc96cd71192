"""The Sphinx extension of this site: makes the pages that follow from the code, before any page is read."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs._ext import catalogue, command_line, drawing, points, vocabulary, yaml_words
from docs._ext.docstrings import as_rst

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = "_generated"
LATE = ("controlplane.scenarios", "controlplane.scheduler.framework", "controlplane.controllers")
"""Packages that import what they give when it is first asked for."""


def made() -> dict[str, str]:
    """Return everything that is made, by file name."""
    return {
        "command-line.md": command_line.page(),
        "races.md": catalogue.races(),
        "gates.md": catalogue.gates(),
        "scenarios.md": catalogue.scenarios(),
        "events.md": vocabulary.page(),
        "points-scheduler.md": points.page(),
        "yaml-scenarios.md": yaml_words.page(),
        **drawing.pictures(),
    }


def write(source: Path) -> None:
    """Write what is made below the source folder; a file that would stay the same is left alone."""
    folder = source / FOLDER
    folder.mkdir(exist_ok=True)
    texts = made()
    for name, text in texts.items():
        place = folder / name
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")
    for place in folder.iterdir():
        if place.name not in texts:
            place.unlink()


def _late_names(_app: Sphinx) -> None:
    """Import what modules give only when asked, so that autodoc finds it among their members."""
    for name in LATE:
        module = importlib.import_module(name)
        for public in module.__all__:
            setattr(module, public, getattr(module, public))


def _docstring(
    _app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = as_rst(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir)))
    app.connect("builder-inited", _late_names)
    app.connect("autodoc-process-docstring", _docstring, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
