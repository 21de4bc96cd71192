"""The output of commands: tables for people, JSON for programs, progress on standard error."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

from controlplane.cli.columns import GAP, stacked, widths, wrapped
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

UNBROKEN = 20_000
"""Wider than any line."""
NARROWEST = 20
RULE = 120
"""Lines below this width are not broken, so the rule below the header ends here."""


LINES_EVERY_S = 30.0
"""The seconds between two lines of progress where standard error is no terminal."""


class Outcome:
    """The exit status of the command, once known, even if the reader of its output is gone."""

    status = 0


def echo(text: str = "") -> None:
    """One line to standard output. Raises UsageError when it takes no more, as a full disk does."""
    with _taken():
        click.echo(text)


def tell(text: str) -> None:
    """A sentence to standard output, in lines as wide as the terminal, or as COLUMNS says."""
    echo("\n".join(wrapped(line, _width()) for line in text.split("\n")))


def shortened(line: str) -> str:
    """Return a line cut to the width of the terminal, or of COLUMNS, with an ellipsis."""
    width = _width()
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


def write(text: str) -> None:
    """Text to standard output as it is. Raises UsageError when it takes no more."""
    with _taken():
        click.echo(text, nl=False)


def to_file(path: Path, pieces: Iterable[str]) -> None:
    """Write a file for its owner alone, whole or not at all. Raises UsageError."""
    from controlplane.scenarios.engine.execution import written

    with written(path) as draft, draft.open("w", encoding="utf-8") as file:
        for piece in pieces:
            file.write(piece)


def complain(text: str) -> None:
    """A line to standard error."""
    click.echo(text, err=True)


def emit_json(value: Any) -> None:
    """One JSON document to standard output."""
    echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    numbers: Sequence[str] = (),
) -> None:
    """Print a table; the columns named in `numbers` are aligned right."""
    from io import StringIO

    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = _width()
    cells = [[str(cell) for cell in row] for row in rows]
    natural = [[name, *(row[at] for row in cells)] for at, name in enumerate(columns)]
    below = stacked(natural, width)
    if below:
        _stacked_table(title, columns, cells, numbers, below, width)
        return
    text = StringIO()
    colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    console = Console(
        file=text, width=width, highlight=False, soft_wrap=False, force_terminal=colours
    )
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    if title:
        console.print(Text(wrapped(title, width), style="bold"))
    sizes = widths(natural, width)
    for name, size in zip(columns, sizes, strict=True):
        right = name in numbers
        justify: Literal["right", "left"] = "right" if right else "left"
        made.add_column(name, justify=justify, overflow="fold", width=size)
    for row in cells:
        made.add_row(*(Text(wrapped(cell, size)) for cell, size in zip(row, sizes, strict=True)))
    console.print(made)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    if width == UNBROKEN:
        lines = [line[:RULE] if line.strip("─ ") == "" else line for line in lines]
    with _taken():
        click.echo("\n".join(lines), color=colours or None)


def _stacked_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[str],
    below: Sequence[int],
    width: int,
) -> None:
    """Print a table of which some columns stand below their rows, each with its name and indented."""
    kept = [at for at in range(len(columns)) if at not in below]
    sizes = widths([[columns[at], *(row[at] for row in rows)] for at in kept], width)

    def line(cells: Sequence[str]) -> list[str]:
        parts = [wrapped(cells[at], size).split("\n") for at, size in zip(kept, sizes, strict=True)]
        made = []
        for number in range(max(map(len, parts))):
            texts = [part[number] if number < len(part) else "" for part in parts]
            padded = [
                each.rjust(size) if columns[at] in numbers else each.ljust(size)
                for at, size, each in zip(kept, sizes, texts, strict=True)
            ]
            made.append((" " + (" " * GAP).join(padded)).rstrip())
        return made

    lines = [wrapped(title, width)] if title else []
    lines += ["", *line(columns)]
    lines.append(" " + "─" * min(width - 1, sum(sizes) + GAP * (len(sizes) - 1)))
    for row in rows:
        lines += line(row)
        for at in below:
            if row[at].strip():
                told = f"{columns[at]}: {' '.join(row[at].split())}"
                lines += wrapped(f"{' ' * (GAP + 1)}{told}", width).split("\n")
    with _taken():
        click.echo("\n".join([*lines, ""]))


def on_terminal() -> bool:
    """Return whether people look at standard output."""
    return sys.stdout.isatty()


def _width() -> int:
    """As wide as the terminal, or as COLUMNS says; else lines are as long as they are, for programs."""
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdecimal() and int(said[:6]) >= NARROWEST:
        return int(said[:6])
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBROKEN


@contextmanager
def _taken() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # the reader closed the pipe
        raise
    except OSError as error:
        raise UsageError(f"standard output: cannot be written: {error.strerror}") from error


class Progress:
    """The progress of long work on standard error.

    On a terminal one line that is written over; in a pipe or a file a line each half minute, the first after
    half a minute, so that short work stays silent there.
    """

    def __init__(self, *, interval_s: float = 0.2, lines_s: float = LINES_EVERY_S) -> None:
        self._on = sys.stderr.isatty()
        self._interval = interval_s if self._on else lines_s
        self._next = 0.0 if self._on else time.monotonic() + lines_s
        self._shown = 0

    def show(self, text: str) -> None:
        """Say how far the work is; cheap to call often."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._interval
        if not self._on:
            complain(text)
            return
        sys.stderr.write("\r" + text.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._on and self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0
