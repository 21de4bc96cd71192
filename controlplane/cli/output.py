"""How commands print: tables for people, JSON for programs, progress only on a terminal."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PIPE_WIDTH = 160


class Outcome:
    """What the command came to, once it is known: its exit status even if nobody reads what it prints."""

    status = 0


def echo(text: str = "") -> None:
    """One line to standard output. Raises UsageError when it takes no more, as a full disk does."""
    with _taken():
        click.echo(text)


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
    from rich import box
    from rich.console import Console
    from rich.table import Table

    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else PIPE_WIDTH, highlight=False, soft_wrap=False)
    made = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for name in columns:
        right = name in numbers
        made.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    with _taken():
        console.print(made)


@contextmanager
def _taken() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # whoever read it has read enough
        raise
    except OSError as error:
        raise UsageError(f"standard output: cannot be written: {error.strerror}") from error


class Progress:
    """One line on standard error that is written over while work goes on; nothing at all in a pipe."""

    def __init__(self, *, interval_s: float = 0.2) -> None:
        self._on = sys.stderr.isatty()
        self._interval = interval_s
        self._next = 0.0
        self._shown = 0

    @property
    def on(self) -> bool:
        """Whether anybody can see it."""
        return self._on

    def show(self, text: str) -> None:
        """Say how far the work is; cheap to call often."""
        if not self._on:
            return
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._interval
        sys.stderr.write("\r" + text.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._on and self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0
