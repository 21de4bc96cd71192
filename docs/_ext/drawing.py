"""Pictures of the packages, drawn from the import contract in pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT = Path(__file__).parents[2] / "pyproject.toml"

WIDTH = 720
BOX_HEIGHT = 34
GAP = 10
ARROW = 16
MARGIN = 12


@frozen
class Layers:
    """One contract of type layers: the package that it is about, and its parts, the uppermost first.

    Parts of one layer do not import each other; every part may import those below it.
    """

    container: str
    layers: tuple[tuple[str, ...], ...]


def contracts(project: Path = PROJECT) -> list[Layers]:
    """Read the contracts of type layers."""
    tools: dict[str, Any] = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]
    return [
        Layers(container, tuple(_parts(layer) for layer in contract["layers"]))
        for contract in tools["importlinter"]["contracts"]
        if contract["type"] == "layers"
        for container in contract["containers"]
    ]


def _parts(layer: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in layer.replace(":", "|").split("|"))


def picture(drawn: Layers, below: Sequence[str] = ()) -> str:
    """Return an SVG picture of layers, uppermost first; `below` names packages that all of them import."""
    rows = [*drawn.layers, *((name,) for name in below)]
    height = 2 * MARGIN + len(rows) * BOX_HEIGHT + (len(rows) - 1) * ARROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="Packages of {escape(drawn.container)}: each imports only packages below it">',
        "<style>rect{fill:#eef3fb;stroke:#4a6fa5}.base{fill:#f3eefb;stroke:#7a5aa5}"
        "text{font:14px sans-serif;fill:#16202e;text-anchor:middle;dominant-baseline:central}"
        "path{stroke:#4a6fa5;fill:none}</style>",
    ]
    top = MARGIN
    for number, row in enumerate(rows):
        if number:
            parts.append(_arrow(top - ARROW, top))
        parts += _row(row, top, "base" if number >= len(drawn.layers) else "")
        top += BOX_HEIGHT + ARROW
    return "\n".join([*parts, "</svg>", ""])


def _row(names: Sequence[str], top: int, style: str) -> list[str]:
    width = (WIDTH - 2 * MARGIN - (len(names) - 1) * GAP) / len(names)
    found = []
    for number, name in enumerate(names):
        left = MARGIN + number * (width + GAP)
        found.append(
            f'<rect class="{style}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{BOX_HEIGHT}" rx="5"/>'
            f'<text x="{left + width / 2:.1f}" y="{top + BOX_HEIGHT / 2:.1f}">{escape(name)}</text>'
        )
    return found


def _arrow(top: int, bottom: int) -> str:
    middle = WIDTH / 2
    return f'<path d="M{middle} {top + 1}V{bottom - 2}m-4 -5l4 5l4 -5"/>'


def pictures() -> dict[str, str]:
    """Return the pictures by file name: one for each contract of type layers."""
    return {
        f"{each.container.removeprefix('controlplane.')}.svg": picture(
            each, ("actors",) if each.container == "controlplane" else ()
        )
        for each in contracts()
    }
