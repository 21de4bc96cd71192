"""Manual pages, one for each command: the sources from which Sphinx's builder `man` makes them.

    python -m docs._ext.manual FOLDER

writes them, with their configuration; `dev.py docs` builds docs/_build/man.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docs._ext.command_line import PROGRAM, commands

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPECIAL = re.compile(r"([\\*`|_])")
_CODE = re.compile(r"`([^`]*)`")
STATUS = (
    ("0", "all well"),
    ("1", "an invariant broke, a search found a race, a run ended badly, or two runs differ"),
    ("2", "wrong use"),
    ("3", "a defect of this program"),
    ("130", "Ctrl-C"),
    ("141", "the reader of the output has gone"),
)


def pages() -> dict[str, str]:
    """Return the page of each command as reStructuredText, by the name of the manual page."""
    return {name.replace(" ", "-"): _page(name, command, ctx) for name, command, ctx in commands()}


def summaries() -> dict[str, str]:
    """Return the line of each page that `whatis` shows."""
    return {
        name.replace(" ", "-"): command.get_short_help_str(limit=200)
        for name, command, _ctx in commands()
    }


def _page(name: str, command: click.Command, ctx: click.Context) -> str:
    page = name.replace(" ", "-")
    usage = " ".join([name, *command.collect_usage_pieces(ctx)])
    parts = [":orphan:", _title(page, "="), _title("Synopsis", "-"), _text(usage)]
    parts += [_title("Description", "-"), *_description(command)]
    records = [
        param.get_help_record(ctx)
        for param in command.get_params(ctx)
        if isinstance(param, click.Option)
    ]
    parts += [_title("Options", "-"), *(_entry(*record) for record in filter(None, records))]
    if isinstance(command, click.Group):
        below = [f"{page}-{each}" for each in command.list_commands(ctx)]
        parts += [_title("Commands", "-"), *(f"**{each}** (1)" for each in below)]
    parts += [_title("Exit status", "-"), *(_entry(*each) for each in STATUS)]
    parent = page.rpartition("-")[0]
    if parent:
        parts += [_title("See also", "-"), f"**{parent}** (1)"]
    return "\n\n".join(parts) + "\n"


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}"


def _entry(head: str, text: str) -> str:
    return f"**{_text(head)}**\n    {_text(text) or '(no description)'}"


def _description(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            lines = paragraph.removeprefix("\b").strip("\n").split("\n")
            yield "::\n\n" + "\n".join(f"    {each}" for each in lines)
        elif paragraph.strip():
            yield _text(paragraph)


def _text(text: str) -> str:
    """Return a text as reStructuredText that shows it, with code in bold."""
    pieces = [_escaped(piece) for piece in _CODE.split(" ".join(text.split()))]
    return "".join(
        f"**{piece}**" if at % 2 and piece and piece.strip() == piece else piece
        for at, piece in enumerate(pieces)
    )


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"\\{found[1]}", text)


def configuration() -> str:
    """Return the configuration of the build."""
    manual = [(name, name, text.rstrip("."), "", 1) for name, text in summaries().items()]
    return (
        f"project = {PROGRAM!r}\nroot_doc = {PROGRAM!r}\nsmartquotes = False\n"
        f"today = {' '!r}\nman_pages = {manual!r}\n"
    )


def main(folder: Path) -> None:
    """Write the sources below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conf.py").write_text(configuration(), encoding="utf-8")
    for name, text in pages().items():
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
